"""Requests that wait for replication.

Answers to: ``kafka.server.{DelayedProduce,DelayedFetch,DelayedDeleteRecords,ActionQueue,FetchParams}``, and the scan of
``kafka.server.FetchSession.partitionMap``, which costs Kafka O(partitions of the session) for every request; here a
fetch costs O(partitions with news). Deterministic.

The purgatory only keeps their time, because the partition finds what waits for it directly: a produce stands in its
partitions' queues in the order of offsets, so that a new high watermark pops exactly those that it satisfies; a fetch
is found by its watch. A change of a partition returns what it completed (:class:`Completed`), and :func:`complete` runs
that last, because an answer must not be sent in the middle of a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

from kafkalite.common.purgatory import DelayedOperation
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.fetch import FetchPartition
from kafkalite.replication.broker_topic_stats import DelayedFetchStats
from kafkalite.replication.replication_quotas import ReplicationQuotaManager
from kafkalite.replication.results import READ_UNCOMMITTED, DeleteRecordsResult, FetchResult, ProduceResult


class DelayedProduce(DelayedOperation):
    """Waits until all in-sync replicas have what was appended. ``pending`` counts the partitions still waited for.

    Each of their results says REQUEST_TIMED_OUT until the partition is acknowledged, so that a request whose time runs
    out is answered with the results as they stand.
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
        # Free the request's memory now, because the purgatory's heap may hold this object for its whole timeout.
        done, results = self.on_done, self.results
        self.on_done, self.results = None, []
        if done is not None:
            done(results)


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

    def finish(self, tp: TopicPartition, result: DeleteRecordsResult) -> bool:
        """One partition has its result; returns whether it was the last that was waited for."""
        if self.completed:
            return False
        self.results[tp] = result
        self.pending -= 1
        return self.pending == 0

    def on_complete(self) -> None:
        done, self.on_done = self.on_done, None
        if done is not None:
            done(self.results)


class FetchWatch:
    """What changed since a fetch session last looked.

    ``partitions`` is the session's own mapping of each ``TopicPartition`` to its current ``FetchPartition``;
    replication only looks partitions up in it. ``dirty`` holds partitions with news: an append, a new high watermark or
    log start, a new role. A fetch with this watch looks at the partitions that it names and at the dirty ones, and
    takes those off; a partition with an error stays dirty, so that every response has the error, as Kafka's have.

    The session's owner calls ``watch`` for each partition that enters the session, ``unwatch`` for each that leaves,
    and ``unwatch_all`` at the session's end.
    """

    __slots__ = ("dirty", "is_follower", "partitions", "waiting")

    def __init__(self, partitions: dict[TopicPartition, FetchPartition], is_follower: bool) -> None:
        self.partitions = partitions
        self.is_follower = is_follower
        self.dirty: dict[TopicPartition, None] = {}
        self.waiting: DelayedFetch | None = None


@dataclass(slots=True, eq=False)
class FetchParams:
    """What a Fetch request says for all of its partitions.

    ``replica_id`` is -1 for a consumer. ``only_leader``: refuse to serve from a follower (requests before v11).
    ``hard_max_bytes``: not even one message above ``max_bytes`` (requests before v3). ``watch`` is the fetch
    session's; ``None`` for a request without a session.
    """

    replica_id: int = -1
    replica_epoch: int = -1
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 0x7FFFFFFF
    isolation: int = READ_UNCOMMITTED
    rack: str = ""
    _: KW_ONLY
    only_leader: bool = False
    hard_max_bytes: bool = False
    watch: FetchWatch | None = None


class DelayedFetch(DelayedOperation):
    """Waits until ``min_bytes`` can be sent, or there is an error to answer with.

    It keeps what its first look found. ``refresh`` reads again what the watch says has news, and returns whether to
    answer at once.
    """

    __slots__ = ("_is_read", "_quota", "_refresh", "_stats", "index", "on_done", "params", "results", "size", "watch")

    def __init__(
        self,
        params: FetchParams,
        results: list[FetchResult],
        watch: FetchWatch,
        refresh: Callable[[DelayedFetch], bool],
        quota: ReplicationQuotaManager,
        stats: DelayedFetchStats,
        on_done: Callable[[list[FetchResult]], object],
    ) -> None:
        super().__init__(params.max_wait_ms / 1000)
        self._stats = stats
        self.params = params
        self.results = results
        self.size = sum(result.size for result in results)
        self.index = {result.topic_partition: position for position, result in enumerate(results)}
        self.watch = watch
        self._refresh = refresh
        self._is_read = False
        """Whether all news was read just before the completion."""
        self._quota = quota
        self.on_done: Callable[[list[FetchResult]], object] | None = on_done

    @property
    def owns_watch(self) -> bool:
        """Whether the watch ends with this fetch, because the request has no session."""
        return self.params.watch is None

    def is_satisfied(self) -> bool:
        return False

    def news(self) -> None:
        """The watch is dirty: complete where this gives enough bytes or an error."""
        if self.completed:
            return
        # What is news to one reader may be behind an open transaction for readers of committed records, or held back by
        # a quota from a follower that is out of sync.
        if self.params.min_bytes > 1 or self.params.isolation or self._is_held_back():
            self._is_read = self._refresh(self) or self.size >= self.params.min_bytes
            if not self._is_read:
                return
        self.complete()

    def _is_held_back(self) -> bool:
        return self._quota.limited and any(result.throttled for result in self.results)

    def on_expiration(self) -> None:
        if self.params.replica_id >= 0:
            self._stats.follower_expired += 1
        else:
            self._stats.consumer_expired += 1

    def on_complete(self) -> None:
        if not self._is_read:
            self._refresh(self)
        self.watch.waiting = None
        done, results = self.on_done, self.results
        self.on_done, self.results = None, []
        if done is not None:
            done(results)


class Completed(NamedTuple):
    """What a change of a partition completed: ``operations`` are satisfied, the watches of ``fetches`` have news."""

    operations: list[DelayedOperation]
    fetches: list[DelayedFetch]


def complete(changes: Iterable[Completed]) -> None:
    """Complete what waited for ``changes``: first the producers, then the readers.

    Call it last, when all state is consistent, because an answer may lead to new requests at once.
    """
    changes = list(changes)
    for operations, _ in changes:
        for operation in operations:
            operation.complete()
    for _, fetches in changes:
        for fetch in fetches:
            fetch.news()
