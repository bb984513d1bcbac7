"""The table of hosted partitions and of those who watch them.

Answers to: ``ReplicaManager.allPartitions`` and the watcher lists of its purgatories. Deterministic.
"""

from __future__ import annotations

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.replication.fetch_watch import FetchWatch
from kafkalite.replication.partition import Partition, Role
from kafkalite.replication.ports import BrokerDirectory


class PartitionTable:
    """``partitions`` may be read freely. A watch may be set before the partition comes and outlives its going."""

    def __init__(self, broker_id: int, metadata: BrokerDirectory) -> None:
        self.broker_id = broker_id
        self.metadata = metadata
        self.partitions: dict[TopicPartition, Partition] = {}
        self._watches: dict[TopicPartition, list[FetchWatch]] = {}

    def host(self, state: LeaderAndIsr) -> Partition:
        """The partition of ``state``, made now where it is not hosted yet."""
        tp = state.topic_partition
        partition = self.partitions.get(tp)
        if partition is None:
            partition = Partition(state, self.broker_id, self._watches.setdefault(tp, []))
            self.partitions[tp] = partition
        return partition

    def drop(self, tp: TopicPartition) -> Partition | None:
        """Host ``tp`` no longer."""
        if not self._watches.get(tp):
            self._watches.pop(tp, None)
        return self.partitions.pop(tp, None)

    def absence(self, tp: TopicPartition) -> ErrorCode:
        """Why a request for ``tp``, which is not hosted here, is refused; ``ReplicaManager.getPartitionOrError``.

        NOT_LEADER_OR_FOLLOWER sends the client to the replicas that a partition has elsewhere.
        """
        if self.metadata.state(tp) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def leaders(self) -> list[Partition]:
        """The partitions that this broker leads."""
        return [partition for partition in self.partitions.values() if partition.role is Role.LEADER]

    def alive(self, partition: Partition) -> set[int]:
        """The live followers of a partition."""
        return {replica for replica in partition.followers if self.metadata.alive(replica)}

    def watch(self, watch: FetchWatch, tp: TopicPartition) -> None:
        """``watch`` hears of news of ``tp`` from now on."""
        watches = self._watches.get(tp)
        if watches is None:
            self._watches[tp] = [watch]
            return
        if watch not in watches:
            watches.append(watch)

    def unwatch(self, watch: FetchWatch, tp: TopicPartition) -> None:
        """And no longer."""
        watches = self._watches.get(tp)
        if watches is not None and watch in watches:
            watches.remove(watch)
            if not watches and tp not in self.partitions:
                del self._watches[tp]
        watch.dirty.pop(tp, None)
