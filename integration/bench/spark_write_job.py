"""One Spark session that writes topics repeatedly, in a separate process with the measured Spark.

``python -m integration.bench.spark_write_job ORDER``: JSON in, JSON out (the last line).
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from integration.bench.spark_job import Memory, measure, rate, session

SOURCES = ("kafka", "kafkalite")
ARROW_BYTES = 2 << 20
"""Bytes of rows that Spark passes to a worker at once, as docs/spark.md recommends."""


def made(spark: SparkSession, rows: int, size: int) -> DataFrame:
    """Keys and values of ``size`` bytes, cached in the JVM, so that their creation is not measured."""
    hashes = ", ".join(f"sha2(cast(id + {at} as string), 256)" for at in range(size // 64 + 1))
    frame = spark.range(0, rows, 1, 2).selectExpr(
        "cast(cast(id as string) as binary) key", f"cast(substring(concat({hashes}), 1, {size}) as binary) value"
    )
    frame.persist(StorageLevel.MEMORY_AND_DISK).count()
    return frame


def sums(frame: DataFrame) -> list[Any]:
    """Number of rows, and a checksum of their contents that does not depend on their order."""
    return list(frame.selectExpr("count(*)", "sum(xxhash64(key, value) % 1000000007)").collect()[0])


def main() -> None:
    """Write repeatedly, each time into a new topic.

    At the end both sources must read the written rows from the topic.
    """
    order: dict[str, Any] = json.loads(sys.argv[1])
    spark = session(order["jars"])
    # Harmless for a session that runs no Python.
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", ARROW_BYTES)
    from kafkalite.spark.source import KafkaliteDataSource

    spark.dataSource.register(KafkaliteDataSource)
    frame = made(spark, order["rows"], order["size"])
    kafka = {"kafka.bootstrap.servers": order["bootstrap"]}

    def write(number: int) -> float:
        writer = frame.write.format(order["format"]).options(**kafka).option("topic", order["topics"][number])
        return rate(order["rows"], writer.mode("append").save)

    found = measure(order, Memory(), write)
    written = sums(frame)
    for source in SOURCES:
        read = sums(spark.read.format(source).options(**kafka).option("subscribe", order["topics"][-1]).load())
        if read != written:
            raise AssertionError(f"{order['format']} wrote {written}, {source} reads {read}")
    print(json.dumps({"version": spark.version, **found}))


if __name__ == "__main__":
    main()
