"""The partition state machine: first leaders for new partitions, new leaders for partitions that lost theirs.

Answers to: ``kafka.controller.{PartitionStateMachine,ReplicaStateMachine}`` (their acting part). Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.tasks import gather
from kafkalite.common.types import NO_LEADER, TopicPartition
from kafkalite.controller import elections
from kafkalite.controller.active_controller import ActiveController
from kafkalite.controller.elections import Refused
from kafkalite.controller.state_writer import StateWriter, StateWriteResult
from kafkalite.controller.states import PartitionState
from kafkalite.zk.znodes.codec import MalformedZnodeError

log = logging.getLogger(__name__)
UNCLEAN = "unclean.leader.election.enable"


class PartitionStateMachine:
    """Elects for partitions without a leader. Each method plans once for all its partitions."""

    def __init__(self, active: ActiveController, writer: StateWriter) -> None:
        self._active = active
        self._writer = writer

    async def create(self, partitions: Iterable[TopicPartition], reason: str) -> None:
        """Elect the first leaders of partitions that have assignments but no states yet."""
        context = self._active.context
        states: list[LeaderAndIsr] = []
        tried = []
        for tp in partitions:
            assignment = context.assignment(tp)
            if assignment is None or context.is_deleting(tp):
                continue
            if tp not in context.partition_states:
                context.move_partition(tp, PartitionState.NEW)
            context.update_replica_states(tp)
            first = elections.first_state(tp, assignment, context, self._active.epoch, context.topic_id(tp.topic))
            if isinstance(first, Refused):
                log.warning("%s: no first leader (%s): %s", tp, reason, first.why)
            else:
                states.append(first)
                tried.append(tp)
        if not states:
            return
        created = await self._writer.create(states, reason)
        for state in created.values():
            context.update_partition_state(state.topic_partition)
            self._active.batch.add_partition(state)
        found = [tp for tp in tried if tp not in created and tp in context.states]
        if found:
            # A former controller created them, and may have resigned before it sent them to the brokers.
            await self.bring_online(found, reason)

    async def bring_online(self, partitions: Iterable[TopicPartition], reason: str) -> None:
        """:meth:`drop_offline`, then send the state of every partition, changed or not, to its replicas."""
        partitions = list(partitions)
        await self.drop_offline(partitions, reason)
        states = self._active.context.states
        for tp in partitions:
            if tp in states:
                self._active.batch.add_partition(states[tp])

    async def drop_offline(
        self, partitions: Iterable[TopicPartition], reason: str, registered_anew: Collection[int] = ()
    ) -> StateWriteResult:
        """Elect leaders and shrink ISRs where replicas are gone or may lack records.

        An unclean election follows where the topic allows it and no other leader can be elected. ``registered_anew``
        are brokers that have just registered in a new session.
        """
        context = self._active.context
        partitions = [tp for tp in partitions if tp in context.states and not context.is_deleting(tp)]
        plan = elections.drop_replicas(context, self._active.epoch, registered_anew)
        outcome = await self._writer.change(partitions, plan, reason)
        for state in outcome.changed.values():
            self._active.batch.add_partition(state)
        for tp in partitions:
            if tp in context.states:
                # Also of unchanged partitions: a replica may be gone, or back, without a change of leader and ISR.
                context.update_partition_state(tp)
                context.update_replica_states(tp)
                self._warn_where_it_waits(tp)
        await self._unclean([tp for tp in partitions if tp in context.leaderless], reason)
        return outcome

    async def elect_leaderless(self, reason: str) -> None:
        """Try again every partition that has no leader."""
        context = self._active.context
        leaderless = sorted(tp for tp in context.leaderless if not context.is_deleting(tp))
        await self.create([tp for tp in leaderless if tp not in context.states], reason)
        await self.elect_offline([tp for tp in leaderless if tp in context.states], reason)

    async def elect_offline(
        self, partitions: Iterable[TopicPartition], reason: str, unclean: bool = False
    ) -> StateWriteResult:
        """Elect leaders if the leader is gone; ``unclean`` allows any online replica, although records may be lost."""
        context = self._active.context
        plan = elections.elect_offline(context, self._active.epoch, unclean)
        outcome = await self._writer.change(partitions, plan, reason)
        self._announce(outcome)
        if not unclean:
            await self._unclean(list(outcome.refused), reason)
        return outcome

    async def change(
        self, partitions: Iterable[TopicPartition], plan: elections.Planner, reason: str
    ) -> StateWriteResult:
        """Carry out any other plan, and send the changed states to the brokers."""
        outcome = await self._writer.change(partitions, plan, reason)
        self._announce(outcome)
        return outcome

    def _announce(self, outcome: StateWriteResult) -> None:
        for tp, state in outcome.changed.items():
            self._active.context.update_partition_state(tp)
            self._active.batch.add_partition(state)

    def _warn_where_it_waits(self, tp: TopicPartition) -> None:
        """Warn of a partition without a leader that waits for an absent member of its ISR, which has all records."""
        context = self._active.context
        state = context.states[tp]
        gone = [replica for replica in state.isr if not context.is_reachable(replica, tp)]
        if state.leader == NO_LEADER and gone and len(gone) < len(state.isr):
            log.warning(
                "%s: waits for broker %s, because the others of its ISR %s started uncleanly and may lack records; "
                "start that broker, or elect with kafka-leader-election --election-type unclean and accept the loss",
                tp,
                " or ".join(map(str, gone)),
                list(state.isr),
            )

    async def _unclean(self, partitions: list[TopicPartition], reason: str) -> None:
        """Unclean elections for partitions that have an online replica, and whose topic allows it."""
        context = self._active.context
        candidates = [tp for tp in partitions if any(context.is_online(r, tp) for r in context.states[tp].replicas)]
        topics = sorted({tp.topic for tp in candidates})
        allowed = dict(zip(topics, await gather(self._allows_unclean(topic) for topic in topics), strict=True))
        allowing = [tp for tp in candidates if allowed[tp.topic]]
        if allowing:
            outcome = await self.elect_offline(allowing, f"{reason}, unclean", unclean=True)
            for tp in outcome.changed:
                log.warning("%s: unclean leader election, records may be lost", tp)

    async def _allows_unclean(self, topic: str) -> bool:
        try:
            text = (await self._active.stores.config.topic(topic)).get(UNCLEAN)
        except MalformedZnodeError as error:
            log.warning("unclean elections of topic %s as configured in the broker: %s", topic, error)
            text = None
        return self._active.config.unclean_leader_election if text is None else text.strip().lower() == "true"
