"""Streams that are killed: in the test's session, or in a driver of their own, which may die with all of them.

``python -m integration.spark.victim BOOTSTRAP FOLDER MASTER TASKS VICTIMS``, the last as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from integration.harness.spark import ROOT
from integration.spark.killing import KillingDataSource, reached
from kafkalite.spark import python
from kafkalite.spark.source import KafkaliteDataSource

ATTEMPTS = 10
AT_ONCE = 2
"""Queries that start at the same time."""


class Victim(NamedTuple):
    """A stream from topic ``source`` to topic ``target``, with ``rows`` a micro-batch, started again and again."""

    source: str
    target: str
    folder: str
    rows: int

    @property
    def file(self) -> Path:
        """Says where it is to die."""
        return Path(self.folder) / "kill"

    @property
    def was_hit(self) -> bool:
        """Whether it came to where it was to die."""
        return reached(self.file).exists()

    def start(self, spark: SparkSession, bootstrap: str, tasks: int) -> StreamingQuery:
        """Its query, through all that is there."""
        return (
            spark.readStream.format("kafkalite")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", self.source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", self.rows)
            .option("minPartitions", tasks)
            .load()
            .select("key", "value")
            .writeStream.format("kafkalite-killing")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", self.target)
            .option("kill.file", str(self.file))
            .option("checkpointLocation", str(Path(self.folder) / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )


def hit(spark: SparkSession, bootstrap: str, victims: Sequence[Victim], tasks: int) -> list[StreamingQuery]:
    """Start each until it is where it is to die."""
    queries: dict[Victim, StreamingQuery] = {}
    for few in in_turn(victims):
        # Spark gives its Python processes ten seconds to start: a busy machine may be too slow for that.
        for _ in range(ATTEMPTS):
            queries |= {each: each.start(spark, bootstrap, tasks) for each in few if not each.was_hit}
            while any(queries[each].isActive and not each.was_hit for each in few):
                time.sleep(0.05)
            if all(each.was_hit for each in few):
                break
        else:
            raise AssertionError(f"not all of {few} are where they are to die")
    return [queries[each] for each in victims]


def run(spark: SparkSession, bootstrap: str, victims: Sequence[Victim], tasks: int) -> list[Victim]:
    """Run them; those that did not come to their end."""
    failed = []
    for few in in_turn(victims):
        queries = [(each, each.start(spark, bootstrap, tasks)) for each in few]
        failed += [each for each, query in queries if not came_to_its_end(query)]
    return failed


def in_turn(victims: Sequence[Victim]) -> list[Sequence[Victim]]:
    """Those that start at the same time."""
    return [victims[at : at + AT_ONCE] for at in range(0, len(victims), AT_ONCE)]


def came_to_its_end(query: StreamingQuery) -> bool:
    """Wait for it."""
    try:
        query.awaitTermination()
    except StreamingQueryException:
        return False
    return True


@contextmanager
def driver(
    bootstrap: str, folder: Path, master: str, tasks: int, victims: Sequence[Victim]
) -> Iterator[subprocess.Popen[bytes]]:
    """A driver of their own; at the end it is killed (-9) with all that it has started, if it has not ended."""
    order = json.dumps(victims)
    command = [sys.executable, "-m", "integration.spark.victim", bootstrap, str(folder), master, str(tasks), order]
    with (
        (folder / "driver.log").open("wb") as log,
        subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log) as started,
    ):
        try:
            yield started
        finally:
            kill(started)


def kill(process: subprocess.Popen[bytes]) -> None:
    """It and all under it, the JVM first."""
    try:
        family = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    for each in sorted(family, key=lambda each: each.name() != "java"):
        try:
            each.kill()
        except psutil.NoSuchProcess:
            pass
    process.kill()


def main() -> None:
    """All of them in one small session; ends when they have, one way or the other."""
    bootstrap, folder, master, tasks, order = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = python.program()
    builder = SparkSession.builder.master(master)
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10",
        "spark.local.dir": folder,
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executor.memory": "512m",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(KafkaliteDataSource)
    session.dataSource.register(KillingDataSource)
    victims = [Victim(*each) for each in json.loads(order)]
    for query in hit(session, bootstrap, victims, int(tasks)):
        came_to_its_end(query)


if __name__ == "__main__":
    main()
