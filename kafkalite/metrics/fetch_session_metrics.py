"""Fetch sessions: how many, of how many partitions, and how many had to give way to others.

Answers to: the metrics of ``kafka.server.FetchSessionCache``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from kafkalite.metrics.definitions import MetricDefinition, MetricKind, MetricSample


class FetchSessions(Protocol):
    """:class:`kafkalite.apis.fetch_sessions.FetchSessionCache`, as far as it is asked here."""

    def __len__(self) -> int: ...
    @property
    def partitions(self) -> int: ...
    @property
    def evictions(self) -> int: ...


def _metric(bean: str, kind: MetricKind, meaning: str, remedy: str = "") -> MetricDefinition:
    return MetricDefinition(
        f"kafka_server_fetchsessioncache_{bean.lower().removesuffix('persec')}",
        kind,
        meaning,
        bean=f"kafka.server:type=FetchSessionCache,name={bean}",
        remedy=remedy,
    )


SESSIONS: Final = _metric("NumIncrementalFetchSessions", MetricKind.GAUGE, "Fetch sessions of clients and followers.")
PARTITIONS: Final = _metric("NumIncrementalFetchPartitionsCached", MetricKind.GAUGE, "Partitions in fetch sessions.")
EVICTIONS: Final = _metric(
    "IncrementalFetchSessionEvictionsPerSec",
    MetricKind.COUNTER,
    "Fetch sessions that gave their places to others.",
    "Clients without a session name all partitions in each fetch: raise max.incremental.fetch.session.cache.slots.",
)


class FetchSessionMetricsCollector:
    """Reads the cache of fetch sessions."""

    DEFINITIONS = (SESSIONS, PARTITIONS, EVICTIONS)

    def __init__(self, sessions: FetchSessions) -> None:
        self._sessions = sessions

    def collect(self) -> Iterator[list[MetricSample]]:
        """See :class:`kafkalite.metrics.definitions.Collector`."""
        yield [
            MetricSample(SESSIONS, (), len(self._sessions)),
            MetricSample(PARTITIONS, (), self._sessions.partitions),
            MetricSample(EVICTIONS, (), self._sessions.evictions),
        ]
