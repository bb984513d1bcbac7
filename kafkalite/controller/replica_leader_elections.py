"""Elections on request, and elections that restore the balance of leaderships.

Answers to: ``KafkaController.{onReplicaElection,processReplicaLeaderElection,processZkPreferredReplicaLeaderElection,
checkAndTriggerAutoLeaderRebalance}``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import NO_LEADER, TopicPartition
from kafkalite.controller import elections
from kafkalite.controller.active_controller import ActiveController
from kafkalite.controller.controller_context import ControllerContext
from kafkalite.controller.events import PreferredReplicaElection
from kafkalite.controller.partition_state_machine import PartitionStateMachine
from kafkalite.zk.zk_client import Delete
from kafkalite.zk.znodes.admin import PREFERRED_REPLICA_ELECTION
from kafkalite.zk.znodes.codec import MalformedZnodeError

log = logging.getLogger(__name__)
ElectionType = Literal["preferred", "unclean"]
Answer = tuple[ErrorCode, str]


def imbalanced(context: ControllerContext, percentage: int) -> list[TopicPartition]:
    """Partitions whose preferred replica could lead but does not, of the brokers that lead too few of theirs.

    ``percentage`` (``leader.imbalance.per.broker.percentage``) of a broker's preferred leaderships may be with others.
    Pure; replicas that are not online and topics that are being deleted do not count.
    """
    preferred: dict[int, list[TopicPartition]] = {}
    for tp, state in context.states.items():
        if state.replicas and not context.is_deleting(tp):
            preferred.setdefault(state.replicas[0], []).append(tp)
    wanted: list[TopicPartition] = []
    for broker_id, partitions in sorted(preferred.items()):
        elsewhere = [tp for tp in partitions if context.states[tp].leader != broker_id]
        ratio = len(elsewhere) / len(partitions)
        if ratio * 100 > percentage:
            log.info("broker %d leads too few of its partitions: %.1f %% are elsewhere", broker_id, ratio * 100)
            wanted += [
                tp for tp in elsewhere if broker_id in context.states[tp].isr and context.is_online(broker_id, tp)
            ]
    return wanted


class ReplicaLeaderElections:
    """Preferred and unclean elections."""

    def __init__(self, active: ActiveController, machine: PartitionStateMachine) -> None:
        self._active = active
        self._machine = machine

    async def elect(
        self, election: ElectionType, partitions: Sequence[TopicPartition] | None
    ) -> dict[TopicPartition, Answer]:
        """Elect on behalf of an API. With ``None``, every partition that needs it; the others are not in the answer."""
        context = self._active.context
        answers: dict[TopicPartition, Answer] = {}
        electable = []
        for tp in context.states if partitions is None else partitions:
            state = context.states.get(tp)
            if context.is_deleting(tp):
                answers[tp] = ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted"
            elif state is None:
                answers[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
            elif self._needs_election(election, tp):
                electable.append(tp)
            elif partitions is not None:
                answers[tp] = (ErrorCode.ELECTION_NOT_NEEDED, f"Leader election not needed for partition {tp}.")
        answers.update(await self._run(election, electable, "asked for"))
        return answers

    def _needs_election(self, election: ElectionType, tp: TopicPartition) -> bool:
        context = self._active.context
        state = context.states[tp]
        if election == "preferred":
            return state.leader != state.replicas[0]
        return state.leader == NO_LEADER or not context.is_online(state.leader, tp)

    async def _run(
        self, election: ElectionType, partitions: Collection[TopicPartition], reason: str
    ) -> Mapping[TopicPartition, Answer]:
        context = self._active.context
        if election == "preferred":
            plan = elections.elect_preferred(context, self._active.epoch)
            outcome = await self._machine.change(partitions, plan, f"preferred leader election, {reason}")
            failed = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        else:
            why = f"unclean leader election, {reason}"
            outcome = await self._machine.elect_offline(partitions, why, unclean=True)
            failed = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        answers: dict[TopicPartition, Answer] = dict.fromkeys(partitions, (ErrorCode.NONE, ""))
        for tp, refused in outcome.refused.items():
            log.warning("%s: %s election, %s: %s", tp, election, reason, refused.why)
            answers[tp] = failed, f"Failed to elect leader for partition {tp}: {refused.why}"
        return answers

    async def from_znode(self) -> None:
        """Carry out the request in ``/admin/preferred_replica_election`` and remove it."""
        active = self._active
        try:
            wanted = await active.stores.admin.preferred_replica_election(active.watch(PreferredReplicaElection()))
        except MalformedZnodeError as error:
            log.warning("%s; it is removed", error)
            wanted = []
        active.check()
        if wanted is None:
            return
        await self._run("preferred", list(self._valid(wanted)), "asked for by znode")
        # Its removal tells the tool that the election is done, and causes the event that sets the next watch.
        await active.commit_each([Delete(PREFERRED_REPLICA_ELECTION)])

    def _valid(self, wanted: Iterable[TopicPartition]) -> Iterable[TopicPartition]:
        context = self._active.context
        for tp in wanted:
            if tp not in context.states or context.is_deleting(tp):
                log.warning("%s: no election, there is no such partition or it is being deleted", tp)
            else:
                yield tp

    async def rebalance(self) -> None:
        """Give leaderships back to preferred replicas, unless a reassignment is in progress."""
        context = self._active.context
        wanted = imbalanced(context, self._active.config.leader_imbalance_per_broker_percentage)
        if wanted and not context.reassigning:
            await self._run("preferred", wanted, "leaders are out of balance")
