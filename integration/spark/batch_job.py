"""Batch queries in a Spark session of their own: ``python -m integration.spark.batch_job BOOTSTRAP TOPIC DAEMON``.

JSON out (the last line): the rows of the topic in order, their headers, how many columns come when two are asked for,
and what the queries say that must fail.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kafkalite.spark.source import KafkaliteDataSource


def session(daemon: str) -> SparkSession:
    """One core is enough."""
    builder = SparkSession.builder.master("local[1]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.python.daemon.module": daemon,
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def failure(frame: DataFrame) -> str:
    """What a query says that has to fail."""
    try:
        frame.count()
    except Exception as error:
        return str(error)
    return ""


def main() -> None:
    """Run the queries."""
    bootstrap, topic, daemon = sys.argv[1:]
    spark = session(daemon)
    spark.dataSource.register(KafkaliteDataSource)
    reader = spark.read.format("kafkalite").option("kafka.bootstrap.servers", bootstrap).option("includeHeaders", True)
    rows = reader.option("subscribe", topic).load().orderBy("partition", "offset").collect()
    found: dict[str, Any] = {
        "version": spark.version,
        "rows": [
            [
                row.key.decode(),
                row.value.decode(),
                row.topic,
                row.partition,
                row.offset,
                round(row.timestamp.timestamp() * 1000),
                row.timestampType,
            ]
            for row in rows
        ],
        "headers": [[[name, bytes(content).decode()] for name, content in row.headers] for row in rows],
        "refused": failure(reader.option("subscribe", f"{topic}-not").load()),
    }
    try:
        stream = spark.readStream.format("kafkalite").option("kafka.bootstrap.servers", bootstrap)
        query = stream.option("subscribe", topic).load().writeStream.format("noop").start()
        query.processAllAvailable()
        query.stop()
        found["stream"] = ""
    except Exception as error:
        found["stream"] = str(error)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
