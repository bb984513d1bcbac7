"""The state znodes through the ZooKeeper stores.

Answers to: the ZooKeeper half of ``kafka.server.ZkAlterPartitionManager``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from kafkalite.cluster.model import PartitionState
from kafkalite.common.types import TopicPartition
from kafkalite.zk.stores.isr import IsrStore
from kafkalite.zk.stores.topics import TopicStore


class ZkIsr:
    """Puts the two stores behind :class:`kafkalite.replication.ports.IsrPort`."""

    def __init__(self, isr: IsrStore, topics: TopicStore) -> None:
        self._isr = isr
        self._topics = topics

    def update(self, state: PartitionState, session: int) -> Awaitable[PartitionState]:
        """See the port."""
        return self._isr.update(state, session)

    def read(self, state: PartitionState) -> Awaitable[PartitionState | None]:
        """See the port."""
        return self._topics.state(state.topic_partition, state.topic_id, state.assignment)

    def notify(self, partitions: Sequence[TopicPartition]) -> Awaitable[None]:
        """See the port."""
        return self._isr.notify(partitions)
