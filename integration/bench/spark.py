"""Cells of Spark: kafkalite's source and Spark's own, on the same Spark, broker and data, with two cores.

The columns *kafkalite* and *kafka* are the two sources here; the broker is kafkalite's for both.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Producer

from integration.bench.cell import FreshCell, Metric
from integration.bench.side import KAFKALITE, Maker, Side
from integration.harness.peers import SPARK_KAFKA, SPARK_KAFKA_4_1, cache_dir, libs

READING = "Spark 4.1.1: reading a topic of a kafkalite broker, by our source and (column Kafka) by Spark's own"
STREAMING = "The newest Spark: a stream over a whole topic, by our source and (column Kafka) by Spark's own"
SPARK = "pyspark==4.1.1"
"""The Spark of the comparison: the last version for which the registry has every part of Spark's own connector."""
ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 2
BYTES, RECORDS = 3_000_000_000, 10_000_000
"""Limits of the topic's uncompressed bytes and of its records. The faster source takes seconds for them, so that
planning is a small part of its time."""
WARM, ROUNDS, LOOKS = 4, 3, 1
"""Runs in each session: warm-up runs, because a JVM is slow until it has compiled; timed runs; and separate runs that
measure memory, because that would slow down the timed ones."""
TIMEOUT = 1800


class SparkReadCell(FreshCell):
    """All columns of a topic of records of ``size`` bytes, produced with ``codec``, into Spark's rows."""

    group = READING
    job = "integration.bench.spark_job"
    verb = "read"
    connector = SPARK_KAFKA_4_1
    rounds = 1
    """A session has rounds of its own."""
    metrics = (
        Metric("rate", "rows/s", at_least=2.0),
        Metric("memory", "MB, driver and workers", at_most=1.25),
        Metric("cpu", "s of driver and workers a million rows"),
    )

    def __init__(self, size: int, codec: str) -> None:
        plain = codec == "none"
        self.name = f"spark-{self.verb}-{size}" + ("" if plain else f"-{codec}")
        self.title = f"{size} B, {'uncompressed' if plain else codec}"
        self.size = size
        self.codec = codec

    def run(self, maker: Maker, directory: Path) -> dict[str, float]:
        """The median of some rounds in a separate session."""
        side = Side(KAFKALITE, directory, brokers=1).start()
        try:
            side.create_topic("read", PARTITIONS)
            rows = fill(side.bootstrap, self.size, self.codec)
            result = run_spark(
                {
                    "format": maker.name,
                    "options": {"kafka.bootstrap.servers": side.bootstrap, "subscribe": "read"},
                    "jars": ",".join(str(jar) for jar in sorted(libs(self.connector).glob("*.jar"))),
                    "rows": rows,
                    "warm": WARM,
                    "rounds": ROUNDS,
                    "looks": LOOKS,
                },
                self.job,
                self.spark_home(),
            )
        finally:
            side.close()
        rates: list[float] = result["rates"]
        cpu = result["cpu"] / len(rates) / rows * 1e6
        return {"rate": median(rates), "memory": result["memory"] / 1e6, "cpu": cpu}

    def spark_home(self) -> Path | None:
        """Folder of the Spark to compare with; ``None``: the installed one."""
        return spark_home()


class SparkStreamCell(SparkReadCell):
    """The same as streams, for which Spark has supported sources in Python only since later versions."""

    group = STREAMING
    job = "integration.bench.spark_stream_job"
    verb = "stream"
    connector = SPARK_KAFKA

    def spark_home(self) -> Path | None:
        """``None``: the installed Spark."""
        return None


def fill(bootstrap: str, size: int, codec: str) -> int:
    """Fill the topic up to :data:`BYTES` or :data:`RECORDS`, in batches of a usual size; returns the number of
    records."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "linger.ms": 5,
            "batch.num.messages": max(10, 100_000 // size),
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    values = [value(size, number) for number in range(1000)]
    count = min(BYTES // size, RECORDS)
    batch = [{"value": each} for each in values]
    for partition in range(PARTITIONS):
        sent = 0
        while sent < count // PARTITIONS:
            sent += producer.produce_batch("read", batch[: count // PARTITIONS - sent], partition=partition)
            producer.poll(0.001)
    if producer.flush(120):
        raise RuntimeError("the topic could not be filled")
    return count // PARTITIONS * PARTITIONS


def value(size: int, number: int) -> bytes:
    """A value that a codec compresses to a half or a third."""
    words = (b"%07x" % (number * 2_654_435_761 * (at + 1) % (1 << 28)) for at in range(size // 8 + 1))
    return b" ".join(words)[:size]


def run_spark(order: dict[str, object], job: str, home: Path | None) -> dict[str, Any]:
    """Run the program ``job`` with the Spark in ``home``, or with the installed one; returns its figures."""
    path = os.pathsep.join(str(folder) for folder in (home, ROOT) if folder)
    done = subprocess.run(
        [sys.executable, "-m", job, json.dumps(order)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the Spark job failed: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert result["version"] == (SPARK.partition("==")[2] if home else version("pyspark"))
    return result


def spark_home() -> Path:
    """A folder with :data:`SPARK` from PyPI, for the path before the installed Spark."""
    home = cache_dir() / SPARK.replace("==", "-")
    if not (home / "pyspark").is_dir():
        partial = home.with_name(f"{home.name}.{os.getpid()}")
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", str(partial), SPARK], check=True)
        try:
            partial.rename(home)
        except OSError:
            shutil.rmtree(partial)  # another process has made the folder
    return home


SPARK_CELLS = [
    kind(size, codec) for kind in (SparkReadCell, SparkStreamCell) for codec in ("none", "zstd") for size in (100, 1000)
]
