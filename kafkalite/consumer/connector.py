"""The consumer itself: registration, rebalancing, fetching and commits put together, behind an iterator.

Answers to: ``kafka.consumer.ZookeeperConsumerConnector``. Reactor shell (a thread of its own).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from kafkalite.common.types import TopicPartition
from kafkalite.consumer.stream import Record
from kafkalite.consumer.subscription import Subscription


class ZooKeeperConsumer:
    """One member, with one stream, of a group that coordinates itself through ZooKeeper."""

    def __init__(self, zookeeper: str, group: str, topics: Sequence[str] | Subscription, **settings: Any) -> None:
        raise NotImplementedError

    @property
    def consumer_id(self) -> str:
        """This member's name, as it stands under ``/consumers/<group>/ids``."""
        raise NotImplementedError

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this member owns now."""
        raise NotImplementedError

    def poll(self, timeout: float | None = None) -> Record | None:
        """The next record, or ``None`` where none comes within ``timeout`` seconds."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Record]:
        raise NotImplementedError

    def commit(self) -> Mapping[TopicPartition, int]:
        """Write how far this member has read; returns what was written, once ZooKeeper has it."""
        raise NotImplementedError

    def close(self) -> None:
        """Commit, give the partitions back, leave the group."""
        raise NotImplementedError

    def __enter__(self) -> ZooKeeperConsumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
