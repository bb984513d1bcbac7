"""Batch queries in a separate Spark session: ``python -m integration.spark.batch_job BOOTSTRAP TOPIC DAEMON``.

The last line of output is JSON: the rows of the topic in order, their headers, the number of columns of a query for
two, and the errors of queries that must fail.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import DataFrame

from integration.harness.spark import start_session
from kafkalite.spark.source import KafkaliteDataSource


def failure(frame: DataFrame) -> str:
    """The error of a query that must fail."""
    try:
        frame.count()
    except Exception as error:
        return str(error)
    return ""


def main() -> None:
    """Run the queries."""
    bootstrap, topic, daemon = sys.argv[1:]
    spark = start_session("local[1]", {"spark.driver.memory": "512m", "spark.python.daemon.module": daemon})
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
