"""Cells that consume assigned partitions: by plain Fetch requests, by librdkafka, and while a producer runs."""

from __future__ import annotations

from typing import Any

from integration.bench.cell import ClusterCell, Metric, fresh_topic
from integration.bench.clients import run_clients
from integration.bench.produce import rate_metrics
from integration.bench.side import Side

CONSUME = "Consume"


class ConsumeCell(ClusterCell):
    """``count`` messages of ``size`` bytes from one partition, which each side produces once."""

    warm = True

    def __init__(self, name: str, title: str, *, client: str, size: int, count: int) -> None:
        self.name, self.title, self.group = name, title, CONSUME
        self.client, self.size, self.count = client, size, count
        self.metrics = rate_metrics(1.0, 1.0) if client == "fetch" else rate_metrics()

    def run(self, side: Side) -> dict[str, float]:
        """Consume all messages from the beginning."""
        topic = side.filled_topic(self.size, self.count)
        order: dict[str, Any] = {"topic": topic, "count": self.count}
        if self.client == "fetch":
            order["leaders"] = [(*side.leader(topic, 0), 0)]
        else:
            order.update(bootstrap=side.bootstrap, partitions=1, settings={"check.crcs": False})
        results, cpu = run_clients(side, [(self.client, order)])
        if results[0]["count"] < self.count:
            raise RuntimeError(f"{self.name}: only {results[0]['count']} messages came from {side.name}")
        return {"rate": results[0]["count"] / results[0]["seconds"], "cpu": cpu / (self.count * self.size / 1e9)}


class BothCell(ClusterCell):
    """A producer and a consumer at once, on one partition."""

    name, title, group = "both-1k", "1 KB, acks=1, producer and consumer at once", CONSUME
    metrics = (
        Metric("produced", "msg/s"),
        Metric("consumed", "msg/s"),
        Metric("cpu", "CPU s/GB"),
    )
    warm = True
    count, size = 400_000, 1000

    def run(self, side: Side) -> dict[str, float]:
        """Run both clients to their end."""
        topic = fresh_topic(self.name)
        side.create_topic(topic)
        common = {"bootstrap": side.bootstrap, "topic": topic, "partitions": 1, "count": self.count}
        try:
            (produced, consumed), cpu = run_clients(
                side,
                [
                    ("produce", {**common, "size": self.size, "settings": {"acks": "1"}}),
                    ("consume", {**common, "settings": {"check.crcs": False}}),
                ],
            )
        finally:
            side.delete_topic(topic)
        return {
            "produced": produced["count"] / produced["seconds"],
            "consumed": consumed["count"] / consumed["seconds"],
            "cpu": cpu / (self.count * self.size / 1e9),
        }


CONSUME_CELLS: list[ClusterCell] = [
    ConsumeCell("consume-1k", "1 KB, plain Fetch requests", client="fetch", size=1000, count=1_000_000),
    ConsumeCell("consume-100", "100 B, plain Fetch requests", client="fetch", size=100, count=5_000_000),
    ConsumeCell("consume-1k-librdkafka", "1 KB, librdkafka", client="consume", size=1000, count=1_000_000),
    ConsumeCell("consume-100-librdkafka", "100 B, librdkafka", client="consume", size=100, count=5_000_000),
    BothCell(),
]
