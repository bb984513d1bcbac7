"""The controller's picture of the cluster, with indexes that keep the cost of an event at what changed.

Answers to: ``kafka.controller.ControllerContext``. Pure: it changes only in memory, after ZooKeeper has been written.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kafkalite.cluster.model import Broker, LeaderAndIsr, PartitionAssignment
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.controller.partition_states import PartitionState, check_partition_transition
from kafkalite.controller.replica_states import ReplicaState, check_replica_transition
from kafkalite.zk.znodes.topics import TopicAssignment


@dataclass(slots=True)
class Topic:
    """A topic as ``/brokers/topics/NAME`` has it; ``version`` is that znode's."""

    name: str
    topic_id: uuid.UUID
    version: int
    partitions: dict[int, PartitionAssignment]

    def value(self) -> TopicAssignment:
        """As the znode's value."""
        return TopicAssignment(None if self.topic_id == ZERO_UUID else self.topic_id, dict(self.partitions))

    def topic_partitions(self) -> list[TopicPartition]:
        """Its partitions."""
        return [TopicPartition(self.name, partition) for partition in self.partitions]


@dataclass(slots=True)
class Deletion:
    """A topic that is being deleted. ``blocked`` says why the deletion has to wait, empty where it need not."""

    blocked: str = ""


@dataclass(slots=True)
class ControllerContext:
    """The cluster as the controller knows it.

    ``brokers`` are registered, those in ``shutting_down`` (with the broker epoch in which each asked to stop) among
    them. ``offline_dirs`` are the replicas, by broker, whose log directory failed. ``leaderless`` are the
    partitions that are NEW or OFFLINE: elections are tried again when a broker comes.
    """

    brokers: dict[int, Broker] = field(default_factory=dict)
    shutting_down: dict[int, int] = field(default_factory=dict)
    offline_dirs: dict[int, set[TopicPartition]] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    states: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    partition_states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    replica_states: dict[TopicPartition, dict[int, ReplicaState]] = field(default_factory=dict)
    leaderless: set[TopicPartition] = field(default_factory=set)
    reassigning: set[TopicPartition] = field(default_factory=set)
    deleting: dict[str, Deletion] = field(default_factory=dict)
    _by_broker: dict[int, set[TopicPartition]] = field(default_factory=dict)

    # Brokers

    def is_online(self, broker_id: int, topic_partition: TopicPartition) -> bool:
        """Whether a replica can serve: broker registered and not about to stop, log directory in order."""
        return broker_id not in self.shutting_down and self.is_reachable(broker_id, topic_partition)

    def is_reachable(self, broker_id: int, topic_partition: TopicPartition) -> bool:
        """As :meth:`is_online`, with brokers that are about to stop counted in."""
        return broker_id in self.brokers and topic_partition not in self.offline_dirs.get(broker_id, ())

    def broker_epoch(self, broker_id: int) -> int:
        """The epoch of a registered broker, -1 for one that is not registered."""
        broker = self.brokers.get(broker_id)
        return -1 if broker is None else broker.epoch

    def unclean_start_epoch(self, broker_id: int) -> int:
        """``Broker.unclean_start_epoch`` of a registered broker, -1 for one that is not registered."""
        broker = self.brokers.get(broker_id)
        return -1 if broker is None else broker.unclean_start_epoch

    def partitions_on(self, broker_ids: Iterable[int]) -> list[TopicPartition]:
        """Every partition with a replica on one of the brokers, in order."""
        found: set[TopicPartition] = set()
        for broker_id in broker_ids:
            found |= self._by_broker.get(broker_id, set())
        return sorted(found)

    def remove_broker(self, broker_id: int) -> None:
        """The broker's registration is gone."""
        self.brokers.pop(broker_id, None)
        self.shutting_down.pop(broker_id, None)
        self.offline_dirs.pop(broker_id, None)

    # Topics and partitions

    def put_topic(self, name: str, assignment: TopicAssignment, version: int) -> list[TopicPartition]:
        """Put in an assignment as read or written; returns the partitions that are new."""
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = Topic(name, assignment.topic_id or ZERO_UUID, version, {})
        topic.version = version
        topic.topic_id = assignment.topic_id or topic.topic_id
        added = []
        for partition, replicas in assignment.partitions.items():
            if partition not in topic.partitions:
                added.append(TopicPartition(name, partition))
            self._assign(topic, partition, replicas)
        return added

    def _assign(self, topic: Topic, partition: int, assignment: PartitionAssignment) -> None:
        topic_partition = TopicPartition(topic.name, partition)
        before = topic.partitions.get(partition)
        topic.partitions[partition] = assignment
        if before is not None and before.replicas != assignment.replicas:
            for broker_id in before.replicas:
                self._by_broker.get(broker_id, set()).discard(topic_partition)
        if before is None or before.replicas != assignment.replicas:
            for broker_id in assignment.replicas:
                self._by_broker.setdefault(broker_id, set()).add(topic_partition)
        if assignment.is_being_reassigned:
            self.reassigning.add(topic_partition)
        else:
            self.reassigning.discard(topic_partition)
        state = self.states.get(topic_partition)
        if state is not None and (state.assignment != assignment or state.topic_id != topic.topic_id):
            self.states[topic_partition] = state.with_(assignment=assignment, topic_id=topic.topic_id)

    def assignment(self, topic_partition: TopicPartition) -> PartitionAssignment | None:
        """The partition's assignment, or ``None`` where there is no such partition."""
        topic = self.topics.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def topic_id(self, name: str) -> uuid.UUID:
        """The topic's id, zero where it has none."""
        topic = self.topics.get(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def all_partitions(self) -> Iterator[TopicPartition]:
        """Every partition of every topic."""
        for topic in self.topics.values():
            yield from topic.topic_partitions()

    def topic_values(self, partitions: Iterable[TopicPartition]) -> Mapping[str, TopicAssignment]:
        """The assignments of the topics of ``partitions``."""
        return {
            name: self.topics[name].value()
            for name in dict.fromkeys(tp.topic for tp in partitions)
            if name in self.topics
        }

    def remove_topic(self, name: str) -> None:
        """Forget everything about a topic."""
        topic = self.topics.pop(name, None)
        self.deleting.pop(name, None)
        for topic_partition in topic.topic_partitions() if topic is not None else []:
            assert topic is not None
            for broker_id in topic.partitions[topic_partition.partition].replicas:
                self._by_broker.get(broker_id, set()).discard(topic_partition)
            for offline in self.offline_dirs.values():
                offline.discard(topic_partition)
            self.states.pop(topic_partition, None)
            self.partition_states.pop(topic_partition, None)
            self.replica_states.pop(topic_partition, None)
            self.leaderless.discard(topic_partition)
            self.reassigning.discard(topic_partition)

    def is_deleting(self, topic_partition: TopicPartition) -> bool:
        """Whether its topic is queued for deletion."""
        return topic_partition.topic in self.deleting

    def set_state(self, state: LeaderAndIsr) -> LeaderAndIsr:
        """Put in a state as read or written, with topic id and assignment of the context."""
        topic_partition = state.topic_partition
        topic = self.topics[state.topic]
        assignment = topic.partitions[state.partition]
        if state.topic_id != topic.topic_id or state.assignment != assignment:
            state = state.with_(topic_id=topic.topic_id, assignment=assignment)
        self.states[topic_partition] = state
        return state

    # States of partitions and replicas

    def move_partition(self, topic_partition: TopicPartition, state: PartitionState) -> None:
        """Change a partition's state. Raises ``IllegalTransitionError``."""
        before = self.partition_states.get(topic_partition, PartitionState.NON_EXISTENT)
        check_partition_transition(topic_partition, before, state)
        if state in (PartitionState.NEW, PartitionState.OFFLINE):
            self.leaderless.add(topic_partition)
        else:
            self.leaderless.discard(topic_partition)
        if state is PartitionState.NON_EXISTENT:
            self.partition_states.pop(topic_partition, None)
        else:
            self.partition_states[topic_partition] = state

    def update_partition_state(self, topic_partition: TopicPartition) -> None:
        """Put a partition that has a state into the state that follows from it."""
        state = self.states[topic_partition]
        led = self.is_reachable(state.leader, topic_partition)
        if self.partition_states.get(topic_partition) is None:
            self.move_partition(topic_partition, PartitionState.NEW)
        self.move_partition(topic_partition, PartitionState.ONLINE if led else PartitionState.OFFLINE)

    def replica_state(self, topic_partition: TopicPartition, broker_id: int) -> ReplicaState:
        """Where a replica stands."""
        return self.replica_states.get(topic_partition, {}).get(broker_id, ReplicaState.NON_EXISTENT)

    def move_replica(self, topic_partition: TopicPartition, broker_id: int, state: ReplicaState) -> None:
        """Change a replica's state. Raises ``IllegalTransitionError``."""
        before = self.replica_state(topic_partition, broker_id)
        check_replica_transition(f"{broker_id} of {topic_partition}", before, state)
        if state is ReplicaState.NON_EXISTENT:
            self.replica_states.get(topic_partition, {}).pop(broker_id, None)
        else:
            self.replica_states.setdefault(topic_partition, {})[broker_id] = state

    def update_replica_states(self, topic_partition: TopicPartition) -> None:
        """Put every replica of a partition that is not being deleted ONLINE or OFFLINE, as its broker is."""
        assignment = self.assignment(topic_partition)
        assert assignment is not None
        for broker_id in assignment.replicas:
            online = self.is_reachable(broker_id, topic_partition)
            wanted = ReplicaState.ONLINE if online else ReplicaState.OFFLINE
            state = self.replica_state(topic_partition, broker_id)
            if state is ReplicaState.NON_EXISTENT:
                self.move_replica(topic_partition, broker_id, ReplicaState.NEW)
            if state is not wanted:
                self.move_replica(topic_partition, broker_id, wanted)
