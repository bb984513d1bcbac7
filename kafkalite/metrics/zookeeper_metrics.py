"""The ZooKeeper session: its state, what was lost of it, and how long requests take.

Answers to: the metrics of ``kafka.server.SessionExpireListener`` and ``ZooKeeperClientMetrics``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafkalite.common.recent_times import RecentTimes
from kafkalite.metrics.definitions import MetricDefinition, MetricKind, MetricSample, percentiles
from kafkalite.zk.session_stats import SessionStats
from kafkalite.zk.zk_client import SessionState

_REMEDY: Final = "See ZooKeeper's log, its disks, the network, and zookeeper.session.timeout.ms."


def _meter(bean: str, meaning: str, remedy: str = _REMEDY) -> MetricDefinition:
    return MetricDefinition(
        f"kafka_server_sessionexpirelistener_{bean.lower()}",
        MetricKind.COUNTER,
        meaning,
        bean=f"kafka.server:type=SessionExpireListener,name={bean}PerSec",
        remedy=remedy,
    )


_METERS: Final = {
    SessionState.SUSPENDED: _meter("ZooKeeperDisconnects", "Lost connections to ZooKeeper."),
    SessionState.EXPIRED: _meter("ZooKeeperExpires", "Sessions that ended."),
    SessionState.CONNECTED: _meter("ZooKeeperSyncConnects", "Connections to ZooKeeper.", ""),
}
STATE: Final = MetricDefinition(
    "kafka_server_sessionexpirelistener_sessionstate",
    MetricKind.GAUGE,
    "1 for the state of the session now, 0 for the others.",
    ("value",),
    bean="kafka.server:type=SessionExpireListener,name=SessionState",
    remedy=_REMEDY,
)
LATENCY: Final = MetricDefinition(
    "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms",
    MetricKind.SUMMARY,
    "Until ZooKeeper answered a request.",
    unit="milliseconds",
    bean="kafka.server:type=ZooKeeperClientMetrics,name=ZooKeeperRequestLatencyMs",
    remedy="ZooKeeper writes each change to its disk: give it a fast one of its own.",
)


class ZooKeeperMetricsCollector:
    """Reads the :class:`SessionStats` and the latencies of the client."""

    DEFINITIONS = (*_METERS.values(), STATE, LATENCY)

    def __init__(self, session: SessionStats, latency: RecentTimes) -> None:
        self._session = session
        self._latency = latency

    def collect(self) -> Iterator[list[MetricSample]]:
        """See :class:`kafkalite.metrics.definitions.Collector`."""
        samples = [MetricSample(metric, (), self._session.changes[state]) for state, metric in _METERS.items()]
        samples += [MetricSample(STATE, (each.name,), each is self._session.state) for each in SessionState]
        latest = sorted(1000 * each for each in self._latency.latest)
        yield samples + percentiles(LATENCY, (), self._latency.count, latest)
