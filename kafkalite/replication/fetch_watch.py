"""Who wants to know when a partition has news: the fetch sessions, and the fetches that wait without one.

Answers to: the watch keys of ``kafka.server.DelayedFetch`` and the scan of ``kafka.server.FetchSession.partitionMap``,
which costs Kafka O(partitions of the session) for every request; here a fetch costs O(partitions with news).
Deterministic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.common.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.replication.delayed_operations import DelayedFetch


class FetchWatch:
    """What changed since a fetch session last looked.

    ``partitions`` is the session's own mapping (``TopicPartition`` to its current ``FetchPartition``); the manager only
    looks partitions up in it. ``dirty`` holds partitions with news: an append, a new high watermark or log start, a
    new role. A fetch with this watch looks at the partitions that it names and at the dirty ones, and takes those
    off; one that answers with an error stays dirty, so that the error is told every time, as Kafka does.

    The session's owner calls ``manager.watch(watch, tp)`` for each partition that enters the session,
    ``manager.unwatch(watch, tp)`` for each that leaves, ``manager.unwatch_all(watch)`` at the session's end.
    """

    __slots__ = ("dirty", "is_follower", "partitions", "waiting")

    def __init__(self, partitions: dict[TopicPartition, Any], is_follower: bool) -> None:
        self.partitions = partitions
        self.is_follower = is_follower
        self.dirty: dict[TopicPartition, None] = {}
        self.waiting: DelayedFetch | None = None


def mark_appended(watches: list[FetchWatch], tp: TopicPartition, waiting: list[DelayedFetch]) -> None:
    """The log of ``tp`` grew: news for followers. Fetches that wait for it are added to ``waiting``."""
    for watch in watches:
        if watch.is_follower:
            watch.dirty[tp] = None
            if watch.waiting is not None:
                waiting.append(watch.waiting)


def mark_high_watermark(watches: list[FetchWatch], tp: TopicPartition, waiting: list[DelayedFetch]) -> None:
    """The high watermark of ``tp`` moved: consumers can read on; followers hear of it with their next answer."""
    for watch in watches:
        watch.dirty[tp] = None
        if not watch.is_follower and watch.waiting is not None:
            waiting.append(watch.waiting)


def mark_changed(watches: list[FetchWatch], tp: TopicPartition, waiting: list[DelayedFetch]) -> None:
    """The role or the log start of ``tp`` changed: everybody must look."""
    for watch in watches:
        watch.dirty[tp] = None
        if watch.waiting is not None:
            waiting.append(watch.waiting)
