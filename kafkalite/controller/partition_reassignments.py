"""KIP-455 reassignments of replicas, requested by API or by znode.

Answers to: ``KafkaController.{onPartitionReassignment,processZkPartitionReassignment,
processApiPartitionReassignment,updateCurrentReassignment}``. Reactor shell.

Steps: (1) the assignment with its adding and removing replicas is written, (2) the leader epoch is raised and every
replica, old and new, is told; (3) once the whole target is in the ISR, the leader is elected in the target and the
others leave the ISR, in one write; (4) the removed replicas are told to delete their logs; (5) the final assignment is
written. After a crash the assignment says that the reassignment runs, and it goes on with step 2 or 3.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from kafkalite.cluster.model import PartitionAssignment
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.controller import elections
from kafkalite.controller.active_controller import ActiveController
from kafkalite.controller.controller_context import ControllerContext
from kafkalite.controller.elections import Refused
from kafkalite.controller.events import PartitionReassignment
from kafkalite.controller.partition_state_machine import PartitionStateMachine
from kafkalite.controller.state_writer import StateWriter
from kafkalite.controller.states import ReplicaState
from kafkalite.controller.topic_deletion import REASSIGNED, TopicDeletion
from kafkalite.controller.topic_events import TopicEvents
from kafkalite.zk.zk_client import Delete, Op, SetData
from kafkalite.zk.znodes.admin import REASSIGN_PARTITIONS, encode_reassignment
from kafkalite.zk.znodes.codec import MalformedZnodeError

log = logging.getLogger(__name__)
_OK = (ErrorCode.NONE, "")
_NOT_IN_PROGRESS = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
_REMOVAL = (
    ReplicaState.OFFLINE,
    ReplicaState.DELETION_STARTED,
    ReplicaState.DELETION_SUCCESSFUL,
    ReplicaState.NON_EXISTENT,
)
Answer = tuple[ErrorCode, str]


def reassign_to(current: PartitionAssignment, target: Sequence[int]) -> PartitionAssignment:
    """The assignment while ``current`` is reassigned to ``target``: target replicas first, then those to be removed."""
    origin = current.origin
    replicas = tuple(dict.fromkeys((*target, *origin)))
    return PartitionAssignment(
        replicas,
        tuple(replica for replica in replicas if replica not in origin),
        tuple(replica for replica in replicas if replica not in target),
    )


def invalid_target(context: ControllerContext, current: PartitionAssignment, target: Sequence[int]) -> str:
    """Why ``target`` is invalid, empty if it is valid."""
    if not target:
        return "Empty replica list specified in partition reassignment."
    if len(set(target)) < len(target):
        return f"Duplicate replica ids in partition reassignment replica list: {list(target)}"
    if any(replica < 0 for replica in target):
        return f"Invalid broker id in replica list: {list(target)}"
    offline = [r for r in target if r not in current.replicas and r not in context.brokers]
    if offline:
        alive = sorted(context.brokers)
        return f"Replica assignment has brokers that are not alive. Replica list: {offline}, live broker list: {alive}"
    return ""


class PartitionReassignments:
    """Begins, watches, completes and cancels reassignments, many partitions at once."""

    def __init__(
        self,
        active: ActiveController,
        machine: PartitionStateMachine,
        writer: StateWriter,
        topics: TopicEvents,
        deletion: TopicDeletion,
    ) -> None:
        self._active = active
        self._machine = machine
        self._writer = writer
        self._topics = topics
        self._deletion = deletion

    async def alter(self, wanted: Mapping[TopicPartition, Sequence[int] | None]) -> dict[TopicPartition, Answer]:
        """Begin or change (a target) or cancel (``None``)."""
        context = self._active.context
        answers: dict[TopicPartition, Answer] = {}
        plans: dict[TopicPartition, PartitionAssignment] = {}
        for tp, target in wanted.items():
            current = context.assignment(tp)
            if target is None and (current is None or not current.is_being_reassigned):
                answers[tp] = _NOT_IN_PROGRESS
            elif current is None or tp not in context.states:
                answers[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
            elif context.is_deleting(tp):
                answers[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic is being deleted."
            else:
                new = current.origin if target is None else tuple(target)
                wrong = invalid_target(context, current, new) if target is not None else ""
                if wrong:
                    answers[tp] = ErrorCode.INVALID_REPLICA_ASSIGNMENT, wrong
                else:
                    plans[tp] = reassign_to(current, new)
        answers.update(await self._begin(plans))
        await self.update_znode()
        return answers

    async def from_znode(self) -> None:
        """Carry out the requests in ``/admin/reassign_partitions``."""
        active = self._active
        try:
            wanted = await active.stores.admin.reassign_partitions(active.watch(PartitionReassignment()))
        except MalformedZnodeError as error:
            log.warning("%s; it is removed", error)
            await active.commit_each([Delete(REASSIGN_PARTITIONS)])
            return
        active.check()
        context = active.context
        if not wanted:
            return
        new = {}
        for tp, target in wanted.items():
            current = context.assignment(tp)
            if current is None or not (current.is_being_reassigned and current.target == target):
                new[tp] = target
        for tp, (code, message) in (await self.alter(new)).items():
            if code is not ErrorCode.NONE:
                log.warning("reassignment of %s to %s: %s %s", tp, new[tp], code.name, message)

    async def resume(self) -> None:
        """Go on with reassignments that a former controller began; then read the znode."""
        context = self._active.context
        under_way = sorted(tp for tp in context.reassigning if tp in context.states)
        if under_way:
            log.info("running reassignments: %s", ", ".join(map(str, under_way)))
        self._deletion.block({tp.topic for tp in under_way}, REASSIGNED)
        await self._step(under_way)
        await self.from_znode()

    async def progress(self, partitions: Iterable[TopicPartition]) -> None:
        """The states of these partitions may have changed: complete the reassignments that can be."""
        reassigning = self._active.context.reassigning
        watched = [tp for tp in partitions if tp in reassigning]
        if watched:
            await self._complete_where_possible(watched)

    async def _begin(self, plans: Mapping[TopicPartition, PartitionAssignment]) -> dict[TopicPartition, Answer]:
        active = self._active
        context = active.context
        answers: dict[TopicPartition, Answer] = dict.fromkeys(plans, _OK)
        unneeded: dict[TopicPartition, list[int]] = {}
        before: dict[TopicPartition, PartitionAssignment] = {}
        changes: dict[str, dict[int, PartitionAssignment]] = {}
        await self._writer.refresh(plans)
        for tp, new in plans.items():
            current = context.assignment(tp)
            state = context.states.get(tp)
            if current is None or state is None:
                answers[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
                continue
            wrong = elections.loses_records(state, new, context)
            if wrong:
                answers[tp] = ErrorCode.INVALID_REPLICA_ASSIGNMENT, wrong
                continue
            unneeded[tp] = [r for r in current.replicas if r not in new.replicas]
            if current != new:
                before[tp] = current
                changes.setdefault(tp.topic, {})[tp.partition] = new
                log.info("%s: reassignment from %s to %s", tp, list(current.replicas), list(new.target))
        gone = await self._topics.write_assignments(changes)
        for tp in [tp for tp in unneeded if tp.topic in gone]:
            answers[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic is gone."
            del unneeded[tp]
        refused = await self._step(list(unneeded))
        # The leader has changed the ISR since it was read: the replicas that were to go keep their logs.
        back: dict[str, dict[int, PartitionAssignment]] = {}
        for tp, refusal in refused.items():
            answers[tp] = refusal.code, refusal.why
            del unneeded[tp]
            if tp in before:
                back.setdefault(tp.topic, {})[tp.partition] = before[tp]
        if back:
            await self._topics.write_assignments(back)
            # Under a new leader epoch, because the replicas may have read the refused assignment in ZooKeeper.
            await self._step([tp for tp in refused if tp in before])
        for tp, replicas in unneeded.items():
            self._stop(tp, replicas)
        return answers

    async def _step(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Refused]:
        """Complete the reassignments that can be; send the others to their replicas under a new leader epoch.

        Returns those that were refused.
        """
        active = self._active
        open_ = await self._complete_where_possible(partitions)
        for tp in open_:
            active.context.update_replica_states(tp)
        plan = elections.reassign(active.context, active.epoch)
        refused = (await self._machine.change(open_, plan, "reassignment")).refused
        for tp, refusal in refused.items():
            log.warning("%s: reassignment refused: %s", tp, refusal.why)
        return refused

    async def _complete_where_possible(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Returns the partitions that have to wait for their target to be in sync."""
        context = self._active.context
        await self._writer.refresh(partitions, self._active.on_state)
        ready: list[TopicPartition] = []
        waiting: list[TopicPartition] = []
        for tp in partitions:
            state = context.states.get(tp)
            if state is None:
                continue
            done = not state.assignment.is_being_reassigned or elections.is_in_sync(state.assignment.target, state)
            (ready if done else waiting).append(tp)
        return waiting + await self._complete(ready) if ready else waiting

    async def _complete(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Steps 3 to 5; returns those whose target has no leader or left the ISR meanwhile."""
        active = self._active
        context = active.context
        before: dict[TopicPartition, PartitionAssignment] = {}
        for tp in partitions:
            current = context.assignment(tp)
            assert current is not None
            before[tp] = current
            self._set(tp, PartitionAssignment(current.target))
        reassigned = {tp for tp, old in before.items() if old.is_being_reassigned}
        plan = elections.elect_for_reassignment(context, active.epoch, reassigned)
        outcome = await self._machine.change(partitions, plan, "reassignment completed")
        refused: dict[TopicPartition, Refused] = outcome.refused
        changes: dict[str, dict[int, PartitionAssignment]] = {}
        for tp, old in before.items():
            if tp in refused:
                log.warning("%s: reassignment waits: %s", tp, refused[tp].why)
                self._set(tp, old)
                continue
            self._stop(tp, old.removing)
            context.update_replica_states(tp)
            if old.is_being_reassigned:
                changes.setdefault(tp.topic, {})[tp.partition] = PartitionAssignment(old.target)
                log.info("%s: reassignment to %s completed", tp, list(old.target))
        # Removed replicas get StopReplica before the assignment is written, because a crash in between would otherwise
        # leave their logs behind for ever.
        active.flush()
        await self._topics.write_assignments(changes)
        await self.update_znode()
        self._deletion.unblock(
            name
            for name in dict.fromkeys(tp.topic for tp in before)
            if not any(tp.topic == name for tp in context.reassigning)
        )
        return list(refused)

    def _set(self, tp: TopicPartition, assignment: PartitionAssignment) -> None:
        context = self._active.context
        topic = context.topics[tp.topic]
        value = topic.value()
        context.put_topic(topic.name, type(value)(value.topic_id, {tp.partition: assignment}), topic.version)

    def _stop(self, tp: TopicPartition, replicas: Iterable[int]) -> None:
        """Tell removed replicas to delete their logs, without waiting for the answer."""
        context = self._active.context
        leader_and_isr = context.states.get(tp)
        for broker_id in replicas:
            if context.replica_state(tp, broker_id) is not ReplicaState.NON_EXISTENT:
                for state in _REMOVAL:
                    context.move_replica(tp, broker_id, state)
            epoch = -1 if leader_and_isr is None else leader_and_isr.leader_epoch
            self._active.batch.add_stop_replica(broker_id, tp, epoch, delete=True)

    async def update_znode(self) -> None:
        """Remove reassignments that are done, refused or overridden from ``/admin/reassign_partitions``."""
        active = self._active
        try:
            wanted = await active.stores.admin.reassign_partitions()
        except MalformedZnodeError:
            return
        if not wanted:
            return
        context = active.context
        left = {}
        for tp, target in wanted.items():
            current = context.assignment(tp)
            if current is not None and tp in context.reassigning and current.target == target:
                left[tp] = target
        if left != wanted:
            data = encode_reassignment(left)
            write: Op = SetData(REASSIGN_PARTITIONS, data) if left else Delete(REASSIGN_PARTITIONS)
            await active.commit_each([write])
