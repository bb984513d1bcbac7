"""Cells of latency: from the call of produce to the consumer's poll that returns the record, at a steady rate."""

from __future__ import annotations

from integration.bench.cell import ClusterCell, Metric, fresh_topic
from integration.bench.clients import run_clients
from integration.bench.side import Side

LATENCY = "End to end latency, 100 B, one partition"


class LatencyCell(ClusterCell):
    """``rate`` messages a second for some seconds, each its own request (no lingering)."""

    warm = True

    def __init__(
        self, name: str, title: str, *, rate: int, acks: str, factor: int, metrics: tuple[Metric, ...]
    ) -> None:
        self.name, self.title, self.group = name, title, LATENCY
        self.rate, self.acks, self.factor = rate, acks, factor
        self.metrics = metrics

    def run(self, side: Side) -> dict[str, float]:
        """Percentiles in milliseconds."""
        topic = fresh_topic(self.name)
        side.create_topic(topic, 1, self.factor)
        order = {"bootstrap": side.bootstrap, "topic": topic, "rate": self.rate, "seconds": 4.0, "acks": self.acks}
        try:
            results, _ = run_clients(side, [("latency", order)])
        finally:
            side.delete_topic(topic)
        return results[0]


def _metrics(p50: float | None, p99: float | None, limit: float | None = None) -> tuple[Metric, ...]:
    return Metric("p50", "ms, p50", at_most=p50, limit=limit), Metric("p99", "ms, p99", at_most=p99)


LATENCY_CELLS: list[ClusterCell] = [
    LatencyCell("latency-1-200", "acks=1, 200 msg/s", rate=200, acks="1", factor=1, metrics=_metrics(None, None)),
    LatencyCell("latency-1-1000", "acks=1, 1,000 msg/s", rate=1000, acks="1", factor=1, metrics=_metrics(1.0, 1.0)),
    LatencyCell(
        "latency-all-200", "acks=all, RF 3, 200 msg/s", rate=200, acks="all", factor=3, metrics=_metrics(0.5, 0.5)
    ),
    LatencyCell(
        "latency-all-1000",
        "acks=all, RF 3, 1,000 msg/s",
        rate=1000,
        acks="all",
        factor=3,
        metrics=_metrics(None, None, limit=2.0),
    ),
]
