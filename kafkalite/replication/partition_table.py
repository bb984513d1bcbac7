"""The table of hosted partitions and of the fetch sessions that watch them.

Answers to: ``ReplicaManager.allPartitions`` and the watcher lists of its purgatories. Deterministic.
"""

from __future__ import annotations

import uuid

from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.log.log import Log
from kafkalite.replication.broker_topic_stats import BrokerTopicStats, IsrStats
from kafkalite.replication.delayed_operations import FetchWatch
from kafkalite.replication.partition import Partition, Role

_MAX_RETIRED = 10_000


def differs(one: uuid.UUID | None, other: uuid.UUID | None) -> bool:
    """Whether two topic ids are both known and not the same."""
    return one is not None and other is not None and one != other and one.int != 0 and other.int != 0


class PartitionTable:
    """``partitions`` may be read freely. A watch may be set before the partition comes, and stays when it goes."""

    def __init__(self, broker_id: int, metadata: MetadataCache) -> None:
        self.broker_id = broker_id
        self.metadata = metadata
        self.partitions: dict[TopicPartition, Partition] = {}
        self.topic_stats = BrokerTopicStats()
        self.isr_stats = IsrStats()
        self._retired: dict[uuid.UUID, None] = {}
        # Of partitions that are not hosted.
        self._watches: dict[TopicPartition, list[FetchWatch]] = {}

    def host(self, state: LeaderAndIsr, log: Log) -> Partition:
        """Host the partition of ``state``, whose log is ``log``."""
        tp = state.topic_partition
        if tp in self.partitions:
            self.topic_stats.leave(tp.topic)
        metrics = self.topic_stats.enter(tp.topic)
        partition = Partition(state, self.broker_id, log, self.metadata.alive, metrics, self._watches.pop(tp, []))
        self.partitions[tp] = partition
        return partition

    def drop(self, tp: TopicPartition) -> None:
        """Host ``tp`` no longer."""
        partition = self.partitions.pop(tp, None)
        if partition is None:
            return
        self.topic_stats.leave(tp.topic)
        if partition.watches:
            self._watches[tp] = partition.watches

    def retire(self, topic_id: uuid.UUID | None) -> None:
        """The topic of that id was deleted or replaced: its id never comes back, and what names it is out of date."""
        if topic_id is not None and topic_id != ZERO_UUID:
            self._retired[topic_id] = None
            if len(self._retired) > _MAX_RETIRED:
                del self._retired[next(iter(self._retired))]

    def is_retired(self, topic_id: uuid.UUID) -> bool:
        """Whether :meth:`retire` was called with that id."""
        return topic_id in self._retired

    def absence(self, tp: TopicPartition) -> ErrorCode:
        """The error for a request for ``tp``, which is not hosted here; ``ReplicaManager.getPartitionOrError``.

        NOT_LEADER_OR_FOLLOWER sends the client to the replicas that the partition has on other brokers.
        """
        if self.metadata.state(tp) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def leaders(self) -> list[Partition]:
        """The partitions that this broker leads."""
        return [partition for partition in self.partitions.values() if partition.role is Role.LEADER]

    def watch(self, watch: FetchWatch, tp: TopicPartition) -> None:
        """``tp`` entered the fetch session of ``watch``: it learns of news of ``tp`` from now on."""
        partition = self.partitions.get(tp)
        watches = self._watches.setdefault(tp, []) if partition is None else partition.watches
        if watch not in watches:
            watches.append(watch)

    def unwatch(self, watch: FetchWatch, tp: TopicPartition) -> None:
        """``tp`` left the session of ``watch``."""
        partition = self.partitions.get(tp)
        watches = self._watches.get(tp, []) if partition is None else partition.watches
        if watch in watches:
            watches.remove(watch)
            if not watches:
                self._watches.pop(tp, None)
        watch.dirty.pop(tp, None)

    def unwatch_all(self, watch: FetchWatch) -> None:
        """The session of ``watch`` is over; a fetch that waits in it is answered."""
        if watch.waiting is not None:
            watch.waiting.complete()
        for tp in list(watch.partitions):
            self.unwatch(watch, tp)
