"""Queries by ``format("kafkalite")`` in two new Spark sessions: ``python lookup_job.py BOOTSTRAP TOPIC``.

The first session registers the source's class, the second one nothing. JSON out (the last line): Spark's version, the
values of the topic in each session, and the file of the package ``kafkalite``. On standard error :data:`BETWEEN` comes
after the first session's lines.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

BETWEEN = "the next session registers nothing"


def main() -> None:
    """Run the queries."""
    bootstrap, topic = sys.argv[1:]
    builder = SparkSession.builder.master("local[1]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }.items():
        builder = builder.config(name, value)
    registered = builder.getOrCreate()
    # A session has registrations of its own. This one is first, so that nothing has looked for sources before.
    other = registered.newSession()
    from kafkalite.spark import KafkaliteDataSource

    registered.dataSource.register(KafkaliteDataSource)
    values = [read(registered, bootstrap, topic)]
    print(BETWEEN, file=sys.stderr, flush=True)
    values.append(read(other, bootstrap, topic))
    import kafkalite

    print(json.dumps({"version": registered.version, "values": values, "package": kafkalite.__file__}))


def read(spark: SparkSession, bootstrap: str, topic: str) -> list[str]:
    """The values of the topic, sorted."""
    rows = spark.read.format("kafkalite").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()
    return sorted(bytes(row.value).decode() for row in rows.select("value").collect())


if __name__ == "__main__":
    main()
