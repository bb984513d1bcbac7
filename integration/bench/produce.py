"""Cells that produce, with several sizes, acks, partitions and producers, and Kafka's own ProducerPerformance."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from typing import Any

from integration.bench.cell import ClusterCell, Metric, fresh_topic
from integration.bench.clients import Order, run_clients
from integration.bench.side import Side
from integration.harness.peers import KAFKA_3_9, classpath, java

SUMMARY = re.compile(r"([\d.]+) records/sec")


def rate_metrics(at_least: float | None = None, cpu_at_most: float | None = None) -> tuple[Metric, Metric]:
    """Metrics: messages a second, and the brokers' CPU seconds for a GB of payload."""
    return Metric("rate", "msg/s", at_least=at_least), Metric("cpu", "CPU s/GB", at_most=cpu_at_most)


class ProduceCell(ClusterCell):
    """``count`` messages of ``size`` bytes by librdkafka, from ``producers`` processes."""

    warm = True

    def __init__(
        self,
        name: str,
        title: str,
        group: str,
        *,
        size: int,
        count: int,
        acks: str = "1",
        factor: int = 1,
        partitions: int = 1,
        producers: int = 1,
        settings: dict[str, Any] | None = None,
        metrics: Sequence[Metric] | None = None,
    ) -> None:
        self.name, self.title, self.group = name, title, group
        self.size, self.count, self.acks = size, count, acks
        self.factor, self.partitions, self.producers = factor, partitions, producers
        self.settings = settings or {}
        self.metrics = metrics or rate_metrics()

    def run(self, side: Side) -> dict[str, float]:
        """Produce; the rate is that of the slowest client times their number."""
        topic = fresh_topic(self.name)
        side.create_topic(topic, self.partitions, self.factor)
        try:
            results, cpu = run_clients(side, [self.order(side, topic)] * self.producers)
        finally:
            side.delete_topic(topic)
        sent = sum(result["count"] for result in results)
        if any(result["lost"] for result in results):
            raise RuntimeError(f"{self.name}: {side.name} did not acknowledge everything")
        return {
            "rate": sent / max(result["seconds"] for result in results),
            "cpu": cpu / (sent * self.size / 1e9),
        }

    def order(self, side: Side, topic: str) -> Order:
        """The order for one producer."""
        return "produce", {
            "bootstrap": side.bootstrap,
            "topic": topic,
            "partitions": self.partitions,
            "count": self.count // self.producers,
            "size": self.size,
            "settings": {"acks": self.acks, **self.settings},
        }


class ProducerPerformanceCell(ClusterCell):
    """Kafka's own ``ProducerPerformance``: the Java client, idempotent and with acks=all unless told otherwise."""

    warm = True

    def __init__(self, name: str, title: str, group: str, *, size: int, count: int, acks: str, factor: int) -> None:
        self.name, self.title, self.group = name, title, group
        self.size, self.count, self.acks, self.factor = size, count, acks, factor
        self.metrics = rate_metrics()

    def run(self, side: Side) -> dict[str, float]:
        """Run the tool and read its last line."""
        topic = fresh_topic(self.name)
        side.create_topic(topic, 1, self.factor)
        before = side.cpu()
        try:
            done = subprocess.run(
                [
                    *(java(), "-Xmx512m", "-cp", classpath(KAFKA_3_9), "org.apache.kafka.tools.ProducerPerformance"),
                    *("--topic", topic, "--num-records", str(self.count), "--record-size", str(self.size)),
                    *("--throughput", "-1", "--producer-props", f"bootstrap.servers={side.bootstrap}"),
                    *(f"acks={self.acks}", "batch.size=131072", "linger.ms=5"),
                ],
                capture_output=True,
                text=True,
                check=True,
                timeout=180,
            )
        finally:
            side.delete_topic(topic)
        rates = SUMMARY.findall(done.stdout)
        return {"rate": float(rates[-1]), "cpu": (side.cpu() - before) / (self.count * self.size / 1e9)}


ACKS_1 = "Produce, acks=1, one partition unless said otherwise"
ACKS_ALL = "Produce, acks=all, replication factor 3"
TWICE, HALF_CPU = 2.0, 0.5

PRODUCE_CELLS: list[ClusterCell] = [
    ProduceCell("produce-100", "100 B", ACKS_1, size=100, count=5_000_000, metrics=rate_metrics(1.0, HALF_CPU)),
    ProduceCell("produce-1k", "1 KB", ACKS_1, size=1000, count=600_000, metrics=rate_metrics(TWICE, HALF_CPU)),
    ProduceCell(
        "produce-single",
        "100 B, one message a request",
        ACKS_1,
        size=100,
        count=40_000,
        settings={"linger.ms": 0, "batch.num.messages": 1},
        metrics=rate_metrics(4.0),
    ),
    ProduceCell("produce-1k-6p", "1 KB, 6 partitions", ACKS_1, size=1000, count=600_000, partitions=6),
    ProduceCell("produce-1k-60p", "1 KB, 60 partitions", ACKS_1, size=1000, count=600_000, partitions=60),
    ProduceCell(
        "produce-1k-3x",
        "1 KB, 3 producers, 6 partitions",
        ACKS_1,
        size=1000,
        count=600_000,
        partitions=6,
        producers=3,
    ),
    ProduceCell("produce-acks0", "1 KB, acks=0", ACKS_1, size=1000, count=600_000, acks="0"),
    ProducerPerformanceCell(
        "java-1k", "1 KB, Kafka's ProducerPerformance", ACKS_1, size=1000, count=500_000, acks="1", factor=1
    ),
    ProduceCell(
        "all-100", "100 B", ACKS_ALL, size=100, count=2_000_000, acks="all", factor=3, metrics=rate_metrics(TWICE)
    ),
    ProduceCell(
        "all-1k", "1 KB", ACKS_ALL, size=1000, count=250_000, acks="all", factor=3, metrics=rate_metrics(TWICE)
    ),
    ProduceCell(
        "all-1k-6p",
        "1 KB, 6 partitions",
        ACKS_ALL,
        size=1000,
        count=250_000,
        acks="all",
        factor=3,
        partitions=6,
        metrics=rate_metrics(TWICE),
    ),
    ProduceCell(
        "all-1k-60p", "1 KB, 60 partitions", ACKS_ALL, size=1000, count=250_000, acks="all", factor=3, partitions=60
    ),
    ProduceCell(
        "all-1k-3x",
        "1 KB, 3 producers, 6 partitions",
        ACKS_ALL,
        size=1000,
        count=250_000,
        acks="all",
        factor=3,
        partitions=6,
        producers=3,
    ),
    ProduceCell("rf3-acks1", "1 KB, acks=1 for comparison", ACKS_ALL, size=1000, count=250_000, factor=3),
    ProducerPerformanceCell(
        "java-all-1k", "1 KB, Kafka's ProducerPerformance", ACKS_ALL, size=1000, count=250_000, acks="all", factor=3
    ),
]
