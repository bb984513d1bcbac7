"""Streams that a test kills, in the test's session or in a separate driver, which may die with all of them.

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

from integration.harness.spark import ROOT, start_session
from integration.spark.killing import KillingDataSource, reached
from kafkalite.spark import python
from kafkalite.spark.source import KafkaliteDataSource

ATTEMPTS = 10
AT_ONCE = 2
"""Queries that start at the same time."""


class Victim(NamedTuple):
    """A stream from topic ``source`` to topic ``target``, with ``rows`` in a micro-batch, restarted after each kill."""

    source: str
    target: str
    folder: str
    rows: int

    @property
    def file(self) -> Path:
        """The file with the point of its death."""
        return Path(self.folder) / "kill"

    @property
    def was_hit(self) -> bool:
        """Whether the stream has reached the point of its death."""
        return reached(self.file).exists()

    def start(self, spark: SparkSession, bootstrap: str, tasks: int) -> StreamingQuery:
        """Start its query, which ends after all existing records."""
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
    """Start each stream until it has reached the point of its death."""
    queries: dict[Victim, StreamingQuery] = {}
    for few in in_turn(victims):
        # Repeat, because Spark waits ten seconds for its Python processes, which may be too short on a busy machine.
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
    """Run the streams; returns those that did not complete."""
    failed = []
    for few in in_turn(victims):
        queries = [(each, each.start(spark, bootstrap, tasks)) for each in few]
        failed += [each for each, query in queries if not came_to_its_end(query)]
    return failed


def in_turn(victims: Sequence[Victim]) -> list[Sequence[Victim]]:
    """Groups of streams that start at the same time."""
    return [victims[at : at + AT_ONCE] for at in range(0, len(victims), AT_ONCE)]


def came_to_its_end(query: StreamingQuery) -> bool:
    """Wait for the end of a query; returns whether it completed."""
    try:
        query.awaitTermination()
    except StreamingQueryException:
        return False
    return True


@contextmanager
def driver(
    bootstrap: str, folder: Path, master: str, tasks: int, victims: Sequence[Victim]
) -> Iterator[subprocess.Popen[bytes]]:
    """A separate driver. If it runs at the end, it is killed (-9) with all processes that it has started."""
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
    """Kill a process and its descendants, the JVM first."""
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
    """Run all streams in one small session; returns after all have ended or failed."""
    bootstrap, folder, master, tasks, order = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = python.program()
    settings = {
        "spark.driver.memory": "512m",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10",
        "spark.local.dir": folder,
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executor.memory": "512m",
    }
    session = start_session(master, settings)
    session.dataSource.register(KafkaliteDataSource)
    session.dataSource.register(KillingDataSource)
    victims = [Victim(*each) for each in json.loads(order)]
    for query in hit(session, bootstrap, victims, int(tasks)):
        came_to_its_end(query)


if __name__ == "__main__":
    main()
