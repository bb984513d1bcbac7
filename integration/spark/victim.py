"""A stream that is killed: in the test's session, or in a process of its own, whose JVM may die with it.

``python -m integration.spark.victim BOOTSTRAP SOURCE TARGET FOLDER ROWS TASKS`` ends with 0 where the query did.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from integration.spark.killing import KillingDataSource
from kafkalite.spark.source import KafkaliteDataSource


class Victim:
    """A stream from ``source`` to ``target``, with ``rows`` a micro-batch, started again and again."""

    def __init__(self, spark: SparkSession, bootstrap: str, source: str, target: str, folder: Path, rows: int) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.source = source
        self.target = target
        self.folder = folder
        self.rows = rows
        self.file = folder / "kill"

    def run(self, tasks: int) -> bool:
        """Whether it came to its end."""
        query = (
            self.spark.readStream.format("kafkalite")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", self.source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", self.rows)
            .option("minPartitions", tasks)
            .load()
            .select("key", "value")
            .writeStream.format("kafkalite-killing")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("topic", self.target)
            .option("kill.file", str(self.file))
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except StreamingQueryException:
            return False
        return True


def main() -> int:
    """One run, with a small session."""
    bootstrap, source, target, folder, rows, tasks = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10",
        "spark.local.dir": folder,
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.dataSource.register(KafkaliteDataSource)
    session.dataSource.register(KillingDataSource)
    return 0 if Victim(session, bootstrap, source, target, Path(folder), int(rows)).run(int(tasks)) else 1


if __name__ == "__main__":
    sys.exit(main())
