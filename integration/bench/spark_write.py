"""Cells of writing by Spark: kafkalite's sink and Spark's own, with the same Spark, broker and rows.

The columns *kafkalite* and *kafka* are the two sinks here; the broker is kafkalite's for both, and each sink's topic is
read by both sources. Acks, idempotence and batches are the defaults of each sink.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

from integration.bench.cell import FreshCell, Metric
from integration.bench.side import KAFKALITE, Maker, Side
from integration.bench.spark import LOOKS, PARTITIONS, ROUNDS, WARM, run_spark, spark_home
from integration.harness.peers import SPARK_KAFKA_4_1, libs

WRITING = "Spark 4.1.1: writing to a kafkalite broker, by our sink and (column Kafka) by Spark's own"
JOB = "integration.bench.spark_write_job"
BYTES = 100_000_000
"""Bytes of the values that a round writes."""


class SparkWriteCell(FreshCell):
    """Rows of a key and a value of ``size`` bytes, from the memory of the JVM into a topic."""

    group = WRITING
    rounds = 1
    """A session has rounds of its own."""
    metrics = (
        Metric("rate", "rows/s", at_least=1.5),
        Metric("cpu", "s, driver and workers"),
        Metric("memory", "MB, driver and workers", at_most=1.25),
    )

    def __init__(self, size: int) -> None:
        self.name = f"spark-write-{size}"
        self.title = f"{size} B"
        self.size = size

    def run(self, maker: Maker, directory: Path) -> dict[str, float]:
        """The median of some rounds in a separate session; each round writes to a new topic."""
        side = Side(KAFKALITE, directory, brokers=1).start()
        topics = [f"written-{number}" for number in range(WARM + ROUNDS + LOOKS)]
        try:
            for topic in topics:
                side.create_topic(topic, PARTITIONS)
            result = run_spark(
                {
                    "format": maker.name,
                    "bootstrap": side.bootstrap,
                    "topics": topics,
                    "jars": ",".join(str(jar) for jar in sorted(libs(SPARK_KAFKA_4_1).glob("*.jar"))),
                    "rows": BYTES // self.size,
                    "size": self.size,
                    "warm": WARM,
                    "rounds": ROUNDS,
                    "looks": LOOKS,
                },
                JOB,
                spark_home(),
            )
        finally:
            side.close()
        rates: list[float] = result["rates"]
        return {"rate": median(rates), "cpu": result["cpu"] / ROUNDS, "memory": result["memory"] / 1e6}


SPARK_WRITE_CELLS = [SparkWriteCell(size) for size in (100, 1000)]
