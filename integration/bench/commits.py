"""Cells of offset commits: commits a second, and the latency of a commit.

While kafkalite is measured, every broker gets requests for all offsets in a loop, so that all brokers set watches on
them. Kafka's brokers get no such requests, because they set no watches and would read ZooKeeper for each request.
"""

from __future__ import annotations

from integration.bench.cell import ClusterCell, Metric, fresh_topic
from integration.bench.clients import run_clients
from integration.bench.side import KAFKALITE, Side

COMMITS = "Offset commits"
PARTITIONS = 50
TARGET_RATE = 5000
TARGET_P99_MS = 20.0


class CommitRateCell(ClusterCell):
    """``groups`` that commit without pauses, each with one outstanding request of ``size`` partitions."""

    group = COMMITS
    warm = True
    metrics = (
        Metric("rate", "partition commits/s", floor=TARGET_RATE),
        Metric("p99", "ms a request, p99"),
        Metric("cpu", "CPU ms of all brokers per 1,000"),
    )

    def __init__(self, name: str, title: str, *, groups: int, size: int, floor: float | None = None) -> None:
        self.name, self.title = name, title
        self.groups, self.size = groups, size
        self.metrics = (Metric("rate", "partition commits/s", floor=floor), *self.metrics[1:])

    def run(self, side: Side) -> dict[str, float]:
        """Commit for some seconds."""
        topic = fresh_topic(self.name)
        side.create_topic(topic, PARTITIONS)
        order = {
            "addresses": [side.cluster.address(broker_id) for broker_id in side.cluster.broker_ids],
            "topic": topic,
            "groups": [f"{topic}-{number}" for number in range(self.groups)],
            "size": self.size,
            "partitions": PARTITIONS,
            "seconds": 5.0,
            "watched": side.name == KAFKALITE.name,
        }
        try:
            (result,), cpu = run_clients(side, [("commits", order)])
        finally:
            side.delete_topic(topic)
        return {
            "rate": result["count"] / result["seconds"],
            "p99": result["p99"],
            "cpu": cpu * 1e6 / result["count"],
        }


class CommitLatencyCell(ClusterCell):
    """One group commits one partition, twenty times a second, on an otherwise idle cluster."""

    name, title, group = "commit-one", "one partition, 20 a second, idle cluster", COMMITS
    warm = True
    metrics = (Metric("p50", "ms, p50"), Metric("p99", "ms, p99", limit=TARGET_P99_MS))

    def run(self, side: Side) -> dict[str, float]:
        """Percentiles in milliseconds."""
        topic = fresh_topic(self.name)
        side.create_topic(topic, 1)
        order = {
            "addresses": [side.cluster.address(broker_id) for broker_id in side.cluster.broker_ids],
            "topic": topic,
            "groups": [topic],
            "size": 1,
            "partitions": 1,
            "seconds": 15.0,
            "rate": 20,
            "watched": side.name == KAFKALITE.name,
        }
        try:
            (result,), _ = run_clients(side, [("commits", order)])
        finally:
            side.delete_topic(topic)
        return {"p50": result["p50"], "p99": result["p99"]}


COMMIT_CELLS: list[ClusterCell] = [
    CommitRateCell("commit-50", "10 groups, 50 partitions a request", groups=10, size=50, floor=TARGET_RATE),
    CommitRateCell("commit-10", "10 groups, 10 partitions a request", groups=10, size=10),
    CommitRateCell("commit-1", "50 groups, one partition a request", groups=50, size=1),
    CommitLatencyCell(),
]
