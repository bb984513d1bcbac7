"""Topics that are created, get more partitions, or are gone; and changed ISRs.

Answers to: ``KafkaController.{processTopicChange,processPartitionModifications,processTopicIds,
processIsrChangeNotification}``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafkalite.cluster.model import PartitionAssignment
from kafkalite.common.types import ZERO_UUID, TopicPartition, random_uuid
from kafkalite.controller import elections
from kafkalite.controller.active_controller import ActiveController
from kafkalite.controller.events import IsrChange, TopicChange
from kafkalite.controller.partition_state_machine import PartitionStateMachine
from kafkalite.controller.state_writer import StateWriter
from kafkalite.zk.stores.controller import ops_set_assignment
from kafkalite.zk.zk_client import BadVersionError, Delete, NoNodeError, ZkError, ZnodeStat
from kafkalite.zk.znodes.admin import ISR_CHANGES
from kafkalite.zk.znodes.topics import TopicAssignment

log = logging.getLogger(__name__)
_ATTEMPTS = 5


class TopicEvents:
    """Handles changes of ``/brokers/topics``, and the notifications of changed ISRs."""

    def __init__(self, active: ActiveController, machine: PartitionStateMachine, writer: StateWriter) -> None:
        self._active = active
        self._machine = machine
        self._writer = writer

    async def topics_changed(self) -> None:
        """Read new topics into the context, and remove topics whose znodes are gone."""
        context = self._active.context
        names = await self._active.stores.topics.names(self._active.watch(TopicChange()))
        self._active.check()
        for name in sorted(context.topics.keys() - set(names)):
            log.info("topic %s is gone from ZooKeeper", name)
            context.remove_topic(name)
        await self.onboard([name for name in names if name not in context.topics])

    async def onboard(self, names: list[str]) -> None:
        """Read topics that are new to the context, and elect their first leaders."""
        if not names:
            return
        found = await self._active.stores.topics.assignments(names, self._active.on_topic)
        self._active.check()
        added: list[TopicPartition] = []
        for name, (assignment, version) in found.items():
            added += self._active.context.put_topic(name, assignment, version)
            log.info("new topic %s with %d partitions", name, len(assignment.partitions))
        await self.add_topic_ids(found)
        await self._machine.create(added, "topic creation")

    async def add_topic_ids(self, found: Mapping[str, tuple[TopicAssignment, int]]) -> None:
        """Give an id to topics without one, because tools before 2.8 create topics without it."""
        changes: dict[str, dict[int, PartitionAssignment]] = {}
        for name, (assignment, _) in found.items():
            if assignment.topic_id is None:
                self._active.context.topics[name].topic_id = random_uuid(self._active.rng)
                changes[name] = {}
                log.info("topic %s gets the id %s", name, self._active.context.topics[name].topic_id)
        await self.write_assignments(changes)

    async def write_assignments(self, changes: Mapping[str, Mapping[int, PartitionAssignment]]) -> set[str]:
        """Write changed assignments, and keep partitions that a tool has added; returns the topics that are gone."""
        context = self._active.context
        pending = dict(changes)
        gone: set[str] = set()
        for _ in range(_ATTEMPTS):
            names = [name for name in pending if name in context.topics]
            values = []
            for name in names:
                topic = context.topics[name]
                values.append(TopicAssignment(topic.topic_id, {**topic.partitions, **pending[name]}))
            groups = [
                ops_set_assignment(name, value, context.topics[name].version)
                for name, value in zip(names, values, strict=True)
            ]
            stale = []
            for name, value, result in zip(names, values, await self._active.commit(groups), strict=True):
                if not isinstance(result, ZkError):
                    stat = result[0]
                    assert isinstance(stat, ZnodeStat)
                    context.put_topic(name, value, stat.version)
                elif isinstance(result, BadVersionError):
                    stale.append(name)
                elif isinstance(result, NoNodeError):
                    gone.add(name)
                else:
                    raise result
            if not stale:
                return gone
            # A tool has added partitions. The next attempt writes them too, and the event that the watch has queued
            # elects their leaders.
            for name, (assignment, version) in (await self._active.stores.topics.assignments(stale)).items():
                topic = context.topics[name]
                if assignment.topic_id not in (None, topic.topic_id):
                    gone.add(name)
                    continue
                context.put_topic(name, assignment, version)
            pending = {name: pending[name] for name in stale if name not in gone}
        raise ZkError("", f"assignments of {', '.join(pending)} keep changing")

    async def partitions_modified(self, name: str) -> None:
        """Elect leaders of partitions that were added to a topic. A topic with another id replaces the one known."""
        active = self._active
        context = active.context
        found = await active.stores.topics.assignment(name, active.on_topic)
        active.check()
        topic = context.topics.get(name)
        if topic is None:
            return
        if found is None:
            # Remove it now, because the next list of topics may contain a new topic of the same name.
            log.info("topic %s is gone from ZooKeeper", name)
            context.remove_topic(name)
            return
        assignment, version = found
        if assignment.topic_id is not None and topic.topic_id not in (ZERO_UUID, assignment.topic_id):
            log.warning("topic %s was replaced in ZooKeeper by another of the same name", name)
            active.batch.add_topic_deletion(name)
            context.remove_topic(name)
            await self.onboard([name])
            return
        if name in context.deleting:
            if assignment.partitions.keys() - topic.partitions.keys():
                log.warning("topic %s is being deleted: the added partitions are taken back", name)
                topic.version = version
                await self.write_assignments({name: dict(topic.partitions)})
            return
        new = {
            TopicPartition(name, partition)
            for partition in assignment.partitions
            if TopicPartition(name, partition) not in context.partition_states
        }
        # Known partitions keep their assignment, because only the controller itself changes it, by reassignments.
        known = {
            partition: topic.partitions.get(partition, value) for partition, value in assignment.partitions.items()
        }
        context.put_topic(name, TopicAssignment(topic.topic_id, known), version)
        if assignment.topic_id is None:
            # A tool from before topic ids wrote the znode and thereby removed the id: write it again.
            await self.write_assignments({name: {}})
        if new:
            log.info("topic %s grows by %d partitions", name, len(new))
            await self._machine.create(sorted(new), "new partitions")

    async def isr_changed(self) -> list[TopicPartition]:
        """Read the states that leaders have changed, and send them to all brokers; returns their partitions."""
        active = self._active
        names, partitions = await active.stores.notifications.isr_changes(active.watch(IsrChange()))
        active.check()
        partitions = [tp for tp in partitions if tp in active.context.states]
        await self._writer.refresh(partitions)
        for tp in partitions:
            state = active.context.states.get(tp)
            if state is not None:
                if log.isEnabledFor(logging.DEBUG):
                    log.debug("%s: isr is now %s", tp, list(state.isr))
                active.batch.add_update_metadata(state)
        # Remove replicas whose broker failed or restarted uncleanly while their leader added them to the ISR.
        dead = [
            tp
            for tp, state in ((tp, active.context.states.get(tp)) for tp in partitions)
            if state is not None
            and not all(
                active.context.is_reachable(replica, tp)
                and not elections.may_lack_records(state, replica, active.context)
                for replica in state.isr
            )
        ]
        if dead:
            await self._machine.drop_offline(dead, "a dead or restarted replica in the ISR")
        await active.commit_each([Delete(f"{ISR_CHANGES}/{name}") for name in names])
        return partitions
