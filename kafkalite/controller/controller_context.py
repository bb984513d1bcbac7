"""The controller's picture of the cluster, with indexes that keep the cost of an event at what changed.

Answers to: ``kafka.controller.ControllerContext``. Pure: it changes only in memory, after ZooKeeper has been written.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kafkalite.cluster.model import Broker, LeaderAndIsr, PartitionAssignment
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.controller.states import PartitionState, ReplicaState, check_transition
from kafkalite.zk.znodes.topics import TopicAssignment


@dataclass(slots=True)
class Topic:
    """A topic as ``/brokers/topics/NAME`` has it; ``version`` is that znode's."""

    name: str
    topic_id: uuid.UUID
    version: int
    partitions: dict[int, PartitionAssignment]

    def value(self) -> TopicAssignment:
        """The content of its znode."""
        return TopicAssignment(None if self.topic_id == ZERO_UUID else self.topic_id, dict(self.partitions))

    def topic_partitions(self) -> list[TopicPartition]:
        """Its partitions."""
        return [TopicPartition(self.name, partition) for partition in self.partitions]


@dataclass(slots=True)
class ControllerContext:
    """The cluster as the controller knows it.

    ``brokers`` are registered, those in ``shutting_down`` (with the broker epoch in which each asked to stop) among
    them. ``offline_dirs`` are the replicas, by broker, whose log directory failed. ``leaderless`` are the
    partitions that are NEW or OFFLINE: elections are tried again when a broker comes. ``deleting`` are the topics that
    are being deleted, each with the reason why its deletion has to wait, empty if it need not. ``brokers_version`` is
    that of ``BrokerStore.live``.
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
    deleting: dict[str, str] = field(default_factory=dict)
    brokers_version: int = -1
    _by_broker: dict[int, set[TopicPartition]] = field(default_factory=dict)

    # Brokers

    def is_online(self, broker_id: int, tp: TopicPartition) -> bool:
        """Whether a replica can serve: broker registered and not about to stop, log directory in order."""
        return broker_id not in self.shutting_down and self.is_reachable(broker_id, tp)

    def is_reachable(self, broker_id: int, tp: TopicPartition) -> bool:
        """As :meth:`is_online`, with brokers that are about to stop counted in."""
        return broker_id in self.brokers and tp not in self.offline_dirs.get(broker_id, ())

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
        """Store an assignment that was read or written; returns the new partitions."""
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
        tp = TopicPartition(topic.name, partition)
        before = topic.partitions.get(partition)
        topic.partitions[partition] = assignment
        if before is not None and before.replicas != assignment.replicas:
            for broker_id in before.replicas:
                self._by_broker.get(broker_id, set()).discard(tp)
        if before is None or before.replicas != assignment.replicas:
            for broker_id in assignment.replicas:
                self._by_broker.setdefault(broker_id, set()).add(tp)
        if assignment.is_being_reassigned:
            self.reassigning.add(tp)
        else:
            self.reassigning.discard(tp)
        state = self.states.get(tp)
        if state is not None and (state.assignment != assignment or state.topic_id != topic.topic_id):
            self.states[tp] = state.with_(assignment=assignment, topic_id=topic.topic_id)

    def assignment(self, tp: TopicPartition) -> PartitionAssignment | None:
        """The partition's assignment, or ``None`` if the partition does not exist."""
        topic = self.topics.get(tp.topic)
        return None if topic is None else topic.partitions.get(tp.partition)

    def topic_id(self, name: str) -> uuid.UUID:
        """The topic's id, zero if it has none."""
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
        for tp in topic.topic_partitions() if topic is not None else []:
            assert topic is not None
            for broker_id in topic.partitions[tp.partition].replicas:
                self._by_broker.get(broker_id, set()).discard(tp)
            for offline in self.offline_dirs.values():
                offline.discard(tp)
            self.states.pop(tp, None)
            self.partition_states.pop(tp, None)
            self.replica_states.pop(tp, None)
            self.leaderless.discard(tp)
            self.reassigning.discard(tp)

    def is_deleting(self, tp: TopicPartition) -> bool:
        """Whether its topic is queued for deletion."""
        return tp.topic in self.deleting

    def set_state(self, state: LeaderAndIsr) -> LeaderAndIsr:
        """Store a state that was read or written, with the topic id and assignment of the context."""
        tp = state.topic_partition
        topic = self.topics[state.topic]
        assignment = topic.partitions[state.partition]
        if state.topic_id != topic.topic_id or state.assignment != assignment:
            state = state.with_(topic_id=topic.topic_id, assignment=assignment)
        self.states[tp] = state
        return state

    # States of partitions and replicas

    def move_partition(self, tp: TopicPartition, state: PartitionState) -> None:
        """Change a partition's state. Raises ``IllegalPartitionTransitionError``."""
        before = self.partition_states.get(tp, PartitionState.NON_EXISTENT)
        check_transition(f"partition {tp}", before, state)
        if state in (PartitionState.NEW, PartitionState.OFFLINE):
            self.leaderless.add(tp)
        else:
            self.leaderless.discard(tp)
        if state is PartitionState.NON_EXISTENT:
            self.partition_states.pop(tp, None)
        else:
            self.partition_states[tp] = state

    def update_partition_state(self, tp: TopicPartition) -> None:
        """Move a partition to ONLINE or OFFLINE, by its leader."""
        state = self.states[tp]
        led = self.is_reachable(state.leader, tp)
        if self.partition_states.get(tp) is None:
            self.move_partition(tp, PartitionState.NEW)
        self.move_partition(tp, PartitionState.ONLINE if led else PartitionState.OFFLINE)

    def replica_state(self, tp: TopicPartition, broker_id: int) -> ReplicaState:
        """Where a replica stands."""
        return self.replica_states.get(tp, {}).get(broker_id, ReplicaState.NON_EXISTENT)

    def move_replica(self, tp: TopicPartition, broker_id: int, state: ReplicaState) -> None:
        """Change a replica's state. Raises ``IllegalPartitionTransitionError``."""
        before = self.replica_state(tp, broker_id)
        check_transition(f"replica {broker_id} of {tp}", before, state)
        if state is ReplicaState.NON_EXISTENT:
            self.replica_states.get(tp, {}).pop(broker_id, None)
        else:
            self.replica_states.setdefault(tp, {})[broker_id] = state

    def update_replica_states(self, tp: TopicPartition) -> None:
        """Move every replica of a partition to ONLINE or OFFLINE, by its broker."""
        assignment = self.assignment(tp)
        assert assignment is not None
        for broker_id in assignment.replicas:
            online = self.is_reachable(broker_id, tp)
            wanted = ReplicaState.ONLINE if online else ReplicaState.OFFLINE
            state = self.replica_state(tp, broker_id)
            if state is ReplicaState.NON_EXISTENT:
                self.move_replica(tp, broker_id, ReplicaState.NEW)
            if state is not wanted:
                self.move_replica(tp, broker_id, wanted)
