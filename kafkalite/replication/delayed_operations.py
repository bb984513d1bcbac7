"""Requests that wait for replication.

Answers to: ``kafka.server.{DelayedProduce,DelayedFetch,DelayedDeleteRecords}``. Deterministic.

The purgatory only keeps their time. What they wait for finds them directly: a produce stands in its partitions'
queues in the order of offsets, so that a new high watermark pops exactly those that it satisfies; a fetch is found by
its watch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkalite.common.errors import ErrorCode
from kafkalite.common.purgatory import DelayedOperation
from kafkalite.common.types import TopicPartition
from kafkalite.replication.fetch_watch import FetchWatch
from kafkalite.replication.partition import Partition
from kafkalite.replication.results import DeleteRecordsResult, FetchParams, FetchResult, ProduceResult

if TYPE_CHECKING:
    from kafkalite.protocol.fetch import FetchPartition
    from kafkalite.replication.fetch_reader import FetchReader

_NONE = ErrorCode.NONE


class DelayedProduce(DelayedOperation):
    """Waits until all in-sync replicas have what was appended. ``pending`` counts the partitions still waited for.

    Those carry REQUEST_TIMED_OUT until they are acknowledged: whoever runs out of time is answered as it stands.
    """

    __slots__ = ("on_done", "pending", "results")

    def __init__(
        self, timeout: float, results: list[ProduceResult], on_done: Callable[[list[ProduceResult]], object]
    ) -> None:
        super().__init__(timeout)
        self.results = results
        self.on_done: Callable[[list[ProduceResult]], object] | None = on_done
        self.pending = 0

    def is_satisfied(self) -> bool:
        return self.pending == 0

    def on_complete(self) -> None:
        # The purgatory's heap may hold this object for its whole timeout: let the request's memory go now.
        done, results = self.on_done, self.results
        self.on_done, self.results = None, []
        if done is not None:
            done(results)


def acknowledge(partition: Partition, done: list[DelayedOperation]) -> None:
    """The high watermark moved: settle the produces that it reached; those complete are appended to ``done``."""
    waits = partition.produce_waits
    if not waits:
        return
    high_watermark = partition.log.high_watermark
    enough = len(partition.isr.maximal) >= partition.min_in_sync
    while waits and waits[0][0] <= high_watermark:
        _, operation, result = waits.popleft()
        if operation.completed:
            continue
        result.error = _NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        operation.pending -= 1
        if operation.pending == 0:
            done.append(operation)


def fail_waits(partition: Partition, error: ErrorCode, done: list[DelayedOperation]) -> None:
    """The partition is led here no longer: whoever waits in it is told ``error``."""
    while partition.produce_waits:
        _, operation, result = partition.produce_waits.popleft()
        if operation.completed:
            continue
        result.error = error
        result.base_offset = -1
        operation.pending -= 1
        if operation.pending == 0:
            done.append(operation)
    waits, partition.delete_waits = partition.delete_waits, []
    for _, deletion in waits:
        deletion.settle(partition.topic_partition, DeleteRecordsResult(-1, error), done)


class DelayedDeleteRecords(DelayedOperation):
    """Waits until the log of every live replica starts at the offset asked for, or above."""

    __slots__ = ("on_done", "pending", "results")

    def __init__(
        self,
        timeout: float,
        results: dict[TopicPartition, DeleteRecordsResult],
        on_done: Callable[[dict[TopicPartition, DeleteRecordsResult]], object],
    ) -> None:
        super().__init__(timeout)
        self.results = results
        self.on_done: Callable[[dict[TopicPartition, DeleteRecordsResult]], object] | None = on_done
        self.pending = 0

    def is_satisfied(self) -> bool:
        return self.pending == 0

    def settle(self, tp: TopicPartition, result: DeleteRecordsResult, done: list[DelayedOperation]) -> None:
        """One partition is done."""
        if self.completed:
            return
        self.results[tp] = result
        self.pending -= 1
        if self.pending == 0:
            done.append(self)

    def on_complete(self) -> None:
        done, self.on_done = self.on_done, None
        if done is not None:
            done(self.results)


def settle_deletions(partition: Partition, alive: set[int], done: list[DelayedOperation]) -> None:
    """A replica's log start moved, or a broker died: settle the deletions that this satisfies."""
    if not partition.delete_waits:
        return
    low = partition.low_watermark(alive)
    waiting = []
    for wait in partition.delete_waits:
        offset, operation = wait
        if offset <= low:
            operation.settle(partition.topic_partition, DeleteRecordsResult(low, _NONE), done)
        elif not operation.completed:
            waiting.append(wait)
    partition.delete_waits = waiting


class DelayedFetch(DelayedOperation):
    """Waits until ``min_bytes`` can be sent, or something else must be said.

    It keeps what its first look found, and reads again only what its watch says has news.
    """

    __slots__ = ("_reader", "index", "on_done", "owns_watch", "params", "requests", "results", "size", "watch")

    def __init__(
        self,
        reader: FetchReader,
        params: FetchParams,
        requests: list[FetchPartition],
        results: list[FetchResult],
        watch: FetchWatch,
        on_done: Callable[[list[FetchResult]], object],
    ) -> None:
        super().__init__(params.max_wait_ms / 1000)
        self._reader = reader
        self.params = params
        self.requests = requests
        self.results = results
        self.size = sum(result.size for result in results)
        self.index = {result.topic_partition: position for position, result in enumerate(results)}
        self.watch = watch
        self.owns_watch = params.watch is None
        self.on_done: Callable[[list[FetchResult]], object] | None = on_done

    def is_satisfied(self) -> bool:
        return False

    def news(self) -> None:
        """The watch is dirty: complete where this gives enough bytes or an error."""
        if self.completed:
            return
        # What has news for some is behind an open transaction for readers of committed records, or held back by a
        # quota from a follower that is out of sync.
        if self.params.min_bytes > 1 or self.params.isolation or self._reader.holds_back(self.results):
            if self._reader.refresh(self) or self.size >= self.params.min_bytes:
                self.complete()
            return
        self.complete()

    def on_complete(self) -> None:
        self._reader.refresh(self)
        self.watch.waiting = None
        if self.owns_watch:
            self._reader.release(self.watch)
        done, results = self.on_done, self.results
        self.on_done, self.results, self.requests = None, [], []
        if done is not None:
            self._reader.sent(self.params, results)
            done(results)
