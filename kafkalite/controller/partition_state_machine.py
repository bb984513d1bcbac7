"""The partition machine: first leaders for new partitions, new leaders for those that lost theirs.

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
from kafkalite.controller.partition_states import PartitionState
from kafkalite.controller.state_writer import StateWriter, StateWriteResult
from kafkalite.zk.znodes.codec import MalformedZnodeError

log = logging.getLogger(__name__)
UNCLEAN = "unclean.leader.election.enable"


class PartitionStateMachine:
    """Everything that gives a partition a leader because it has none. Each method plans once for all partitions."""

    def __init__(self, active: ActiveController, writer: StateWriter) -> None:
        self._active = active
        self._writer = writer

    async def create(self, partitions: Iterable[TopicPartition], reason: str) -> None:
        """Elect the first leaders of partitions that have assignments but no states yet."""
        context = self._active.context
        states: list[LeaderAndIsr] = []
        tried = []
        for topic_partition in partitions:
            assignment = context.assignment(topic_partition)
            if assignment is None or context.is_deleting(topic_partition):
                continue
            if topic_partition not in context.phases:
                context.move_partition(topic_partition, PartitionState.NEW)
            context.settle_replicas(topic_partition)
            first = elections.first_state(
                topic_partition,
                assignment,
                context,
                self._active.epoch,
                context.topic_id(topic_partition.topic),
            )
            if isinstance(first, Refused):
                log.warning("%s: no first leader (%s): %s", topic_partition, reason, first.why)
            else:
                states.append(first)
                tried.append(topic_partition)
        if not states:
            return
        created = await self._writer.create(states, reason)
        for state in created.values():
            context.settle(state.topic_partition)
            self._active.batch.state(state)
        found = [tp for tp in tried if tp not in created and tp in context.states]
        if found:
            # Somebody created them before us: a predecessor that did not get to tell anybody.
            await self.settle(found, reason)

    async def settle(self, partitions: Iterable[TopicPartition], reason: str) -> None:
        """Drop from leadership and ISR whoever is gone, and tell the replicas of each partition where it stands."""
        partitions = list(partitions)
        await self.drop_offline(partitions, reason)
        context = self._active.context
        for topic_partition in partitions:
            if topic_partition in context.states:
                context.settle(topic_partition)
                self._active.batch.state(context.states[topic_partition])

    async def drop_offline(
        self, partitions: Iterable[TopicPartition], reason: str, registered_anew: Collection[int] = ()
    ) -> StateWriteResult:
        """Elect and shrink where replicas went or may lack records; unclean where the topic allows it and no other can.

        ``registered_anew`` are brokers that have just registered in a new session.
        """
        context = self._active.context
        partitions = [tp for tp in partitions if tp in context.states and not context.is_deleting(tp)]
        plan = elections.drop_replicas(context, self._active.epoch, registered_anew)
        outcome = await self._writer.change(partitions, plan, reason)
        self._announce(outcome)
        for topic_partition in partitions:
            if topic_partition in context.states:
                context.settle(topic_partition)
                context.settle_replicas(topic_partition)
                self._warn_of_waiting(topic_partition)
        await self._unclean([tp for tp in partitions if tp in context.unled], reason)
        return outcome

    async def elect_unled(self, reason: str) -> None:
        """Try again every partition that has no leader."""
        context = self._active.context
        unled = sorted(tp for tp in context.unled if not context.is_deleting(tp))
        await self.create([tp for tp in unled if tp not in context.states], reason)
        await self.elect_offline([tp for tp in unled if tp in context.states], reason)

    async def elect_offline(
        self, partitions: Iterable[TopicPartition], reason: str, unclean: bool = False
    ) -> StateWriteResult:
        """Elect leaders where the leader is gone; ``unclean`` allows it to whoever is online, whatever is lost."""
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
        """Any other plan; what it changed is told to the brokers."""
        outcome = await self._writer.change(partitions, plan, reason)
        self._announce(outcome)
        return outcome

    def _announce(self, outcome: StateWriteResult) -> None:
        for topic_partition, state in outcome.changed.items():
            self._active.context.settle(topic_partition)
            self._active.batch.state(state)

    def _warn_of_waiting(self, topic_partition: TopicPartition) -> None:
        context = self._active.context
        state = context.states[topic_partition]
        gone = [replica for replica in state.isr if not context.is_reachable(replica, topic_partition)]
        if state.leader == NO_LEADER and gone and len(gone) < len(state.isr):
            log.warning(
                "%s: waits for broker %s, because the others of its ISR %s started uncleanly and may lack records; "
                "start that broker, or elect with kafka-leader-election --election-type unclean and accept the loss",
                topic_partition,
                " or ".join(map(str, gone)),
                list(state.isr),
            )

    async def _unclean(self, partitions: list[TopicPartition], reason: str) -> None:
        """Unclean elections for those without a leader that have an online replica and a topic that allows it."""
        context = self._active.context
        candidates = [tp for tp in partitions if any(context.is_online(r, tp) for r in context.states[tp].replicas)]
        topics = sorted({tp.topic for tp in candidates})
        allowed = dict(zip(topics, await gather(self._allows_unclean(topic) for topic in topics), strict=True))
        allowing = [tp for tp in candidates if allowed[tp.topic]]
        if allowing:
            outcome = await self.elect_offline(allowing, f"{reason}, unclean", unclean=True)
            for topic_partition in outcome.changed:
                log.warning("%s: unclean leader election, records may be lost", topic_partition)

    async def _allows_unclean(self, topic: str) -> bool:
        try:
            text = (await self._active.stores.config.topic(topic)).get(UNCLEAN)
        except MalformedZnodeError as error:
            log.warning("unclean elections of topic %s as configured in the broker: %s", topic, error)
            text = None
        return self._active.config.unclean_leader_election if text is None else text.strip().lower() == "true"
