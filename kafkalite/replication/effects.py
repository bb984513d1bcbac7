"""What is to be completed once all state is consistent.

Answers to: ``kafka.server.ActionQueue``. Deterministic.

A completed wait never runs inside the loop that completed it: loops only gather, :meth:`Effects.run` comes last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.common.errors import ErrorCode
from kafkalite.replication.delayed_operations import acknowledge, fail_waits
from kafkalite.replication.fetch_watch import mark_appended, mark_changed, mark_high_watermark

if TYPE_CHECKING:
    from kafkalite.common.purgatory import DelayedOperation
    from kafkalite.replication.delayed_operations import DelayedFetch
    from kafkalite.replication.partition import Partition


class Effects:
    """Gathers what a change of partitions completes."""

    __slots__ = ("done", "waiting")

    def __init__(self) -> None:
        self.done: list[DelayedOperation] = []
        self.waiting: list[DelayedFetch] = []

    def appended(self, partition: Partition) -> None:
        """The partition's log grew."""
        mark_appended(partition.watches, partition.topic_partition, self.waiting)

    def high_watermark(self, partition: Partition) -> None:
        """The partition's high watermark moved."""
        acknowledge(partition, self.done)
        mark_high_watermark(partition.watches, partition.topic_partition, self.waiting)

    def changed(self, partition: Partition) -> None:
        """The partition's role or log start changed."""
        mark_changed(partition.watches, partition.topic_partition, self.waiting)

    def left(self, partition: Partition, error: ErrorCode) -> None:
        """The partition is not led here any more: whoever waits is told ``error``."""
        fail_waits(partition, error, self.done)
        self.changed(partition)

    def run(self) -> None:
        """Complete it all: first the producers, then the readers."""
        done, self.done = self.done, []
        for operation in done:
            operation.complete()
        waiting, self.waiting = self.waiting, []
        for fetch in waiting:
            fetch.news()
