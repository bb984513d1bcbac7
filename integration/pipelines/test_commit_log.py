"""The job ``commit-log``: a table of a real PostgreSQL in a compacted topic, and a copy that a test destroys."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from integration.conftest import SOAK, ClusterFactory
from integration.harness.clients import fresh_topic
from integration.harness.wait import wait_for
from integration.pipelines.fleet import TABLE, Fleet, Record, flights
from integration.pipelines.postgres import Postgres
from integration.pipelines.reading import json_records
from integration.test_compaction import QUICK, compacted, configure
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.pipelines.context import Context
from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.failures import summary
from kafkalite.pipelines.jobs.commit_log import Options, start
from kafkalite.pipelines.pipeline import Pipeline, Trigger

ALL = 'SELECT * FROM fleet ORDER BY tailnum COLLATE "C"'
FIRST, EACH = 200, 200
"""Number of flights before the pipeline starts, and in each part after that."""
KILLS = 6 if SOAK else 1
LONG = 600.0
"""Seconds that a busy machine may need for work of a few seconds."""


class Nodes:
    """A database with the fleet, the topic of its changes, and a second database for the copy."""

    def __init__(self, cluster: LocalCluster, server: Postgres, name: str) -> None:
        self.name = name
        self.bootstrap = cluster.bootstrap
        self.topic = fresh_topic(name)
        self.fleet = Fleet()
        self._flights = flights()
        self._server = server
        self._names = f"{name}_first", f"{name}_second"
        self.first, self.second = (server.create(each) for each in self._names)
        server.sql(TABLE, self._names[0])
        server.sql(TABLE, self._names[1])

    def fly(self, count: int) -> list[Record]:
        """Change the first table by ``count`` flights; returns the expected records."""
        statements, records = self.fleet.fly_all(islice(self._flights, count))
        self._server.sql(statements, self._names[0])
        return records

    def empty(self) -> None:
        """Delete all rows of the first table by ``TRUNCATE``."""
        self.fleet.rows.clear()
        self.in_first("TRUNCATE fleet")

    def tables(self) -> tuple[str, str]:
        """All rows of both tables."""
        return self._server.sql(ALL, self._names[0]), self._server.sql(ALL, self._names[1])

    def in_second(self, statements: str) -> None:
        """Run SQL statements in the database of the copy."""
        self._server.sql(statements, self._names[1])

    def in_first(self, statements: str) -> str:
        """Run SQL statements in the database of the table."""
        return self._server.sql(statements, self._names[0])

    def are_equal(self) -> bool:
        """Whether both tables equal the result of plain Python."""
        wanted = self.fleet.as_psql()
        return self.tables() == (wanted, wanted)

    def records(self) -> list[Record]:
        """The topic so far."""
        return json_records(self.bootstrap, self.topic)

    def capture(self) -> Options:
        """Options of the capturing half of the job."""
        return Options(self.topic, "fleet", self.first, batch=50)

    def copy(self) -> Options:
        """Options of the copying half of the job."""
        return Options(self.topic, "fleet", copy=self.second)

    def toml(self) -> str:
        """The whole job as a pipeline of many small micro-batches."""
        return f"""
name = "{self.name}"
job = "commit-log"
kafka = {{ "bootstrap.servers" = "{self.bootstrap}" }}
trigger = {{ interval = "500 milliseconds" }}
[spark]
master = "local[2]"
"spark.driver.memory" = "600m"
[options]
topic = "{self.topic}"
table = "fleet"
database = "{self.first}"
copy = "{self.second}"
batch = 50
"""


class Driver:
    """``kafkalite pipeline run`` as a process, which a test can kill with all its children."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "run.log"
        self._failures = 0
        self._process = self._start()

    def kill(self) -> None:
        """Kill the process and its children by ``kill -9``."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(30)

    def start_again(self) -> None:
        """Start the process after :meth:`kill`."""
        self._process = self._start()

    def supervise(self) -> None:
        """Restart the process if it has failed, as an operating system would, a limited number of times."""
        if self._process.poll() is not None:
            # Spark waits ten seconds for its Python processes, which may be too short on a busy machine.
            self._failures += 1
            assert self._failures <= 3, self._log.read_text()
            self.start_again()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "kafkalite.cli.main", "pipeline", "run", "fleet.toml", "--state", "state"]
        with self._log.open("ab") as log:
            return subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log, start_new_session=True)


def run_once(spark: SparkSession, nodes: Nodes, state: Path, options: Options) -> None:
    """Process all existing changes."""
    kafka = {"bootstrap.servers": nodes.bootstrap}
    context = Context(spark, Pipeline(nodes.name, "commit-log", kafka, Trigger(once=True)), state)
    for query in start(context, options):
        query.awaitTermination()


def change_under_kills(nodes: Nodes, folder: Path) -> list[Record]:
    """Run and kill the pipeline while the table changes; returns the expected records.

    ``KAFKALITE_SEED`` repeats the moments of the kills of an earlier run.
    """
    seed = int(os.environ.get("KAFKALITE_SEED", random.randrange(1 << 16)))
    print(f"KAFKALITE_SEED={seed}")
    rng = random.Random(seed)
    (folder / "fleet.toml").write_text(nodes.toml())
    first, wanted = len(nodes.fleet.rows), list[Record]()
    driver = Driver(folder)

    def wait(condition: Callable[[], bool], what: str) -> None:
        def supervised() -> bool:
            driver.supervise()
            return condition()

        wait_for(supervised, what, LONG, interval=0.5)

    def come(count: int) -> None:
        wait(lambda: len(nodes.records()) >= first + count, f"{count} changes in the topic")

    try:
        come(0)
        for _ in range(KILLS):
            before = len(wanted)
            wanted += nodes.fly(EACH)
            come(rng.randrange(before + 1, len(wanted)))
            driver.kill()
            driver.start_again()
        come(len(wanted))
        wait(nodes.are_equal, "the copy is the table")
    finally:
        driver.kill()
    return wanted


@pytest.mark.full
@pytest.mark.timeout(2400)
def test_a_copy_is_rebuilt_from_the_compacted_topic(
    spark: SparkSession, make_cluster: ClusterFactory, database: Postgres, tmp_path: Path
) -> None:
    """The topic has each change once, in order, though processes were killed. Then it is compacted, and the copy is
    destroyed twice, first dropped and then emptied, while the table changes. Each time the copy becomes equal again."""
    cluster = make_cluster(1, QUICK)
    nodes = Nodes(cluster, database, "fleet")
    nodes.fly(FIRST)
    at_first = dict(nodes.fleet.rows)
    wanted = change_under_kills(nodes, tmp_path)
    found = nodes.records()
    assert {key["tailnum"]: row for key, row in found[: len(at_first)]} == at_first
    assert found[len(at_first) :] == wanted

    state = tmp_path / "state" / "fleet"
    settings = {"segment_bytes": "20000", "min_cleanable_dirty_ratio": "0.01"}
    configure(cluster, ConfigResource.Type.TOPIC, nodes.topic, **settings)
    more = nodes.fly(EACH)
    run_once(spark, nodes, state, nodes.capture())
    assert len(compacted(cluster, 1, nodes.topic)) < len(found) + len(more)
    nodes.in_second(f"DROP TABLE fleet; {TABLE}")
    run_once(spark, nodes, state, nodes.copy())
    assert nodes.are_equal()

    nodes.in_second("TRUNCATE fleet")
    nodes.fly(EACH)
    run_once(spark, nodes, state, nodes.capture())
    run_once(spark, nodes, state, nodes.copy())
    assert nodes.are_equal()


@pytest.mark.full
def test_a_truncate_deletes_the_rows_in_topic_and_copy(
    spark: SparkSession, shared_cluster: LocalCluster, database: Postgres, tmp_path: Path
) -> None:
    """The database's log does not name the deleted rows, so their keys are taken from the topic."""
    nodes = Nodes(shared_cluster, database, "emptied")
    nodes.fly(50)
    run_once(spark, nodes, tmp_path, nodes.capture())
    nodes.fly(20)
    nodes.empty()
    nodes.fly(20)
    run_once(spark, nodes, tmp_path, nodes.capture())
    last = {key["tailnum"]: row for key, row in nodes.records()}
    assert {number: row for number, row in last.items() if row is not None} == nodes.fleet.rows
    assert None in last.values()
    run_once(spark, nodes, tmp_path, nodes.copy())
    assert nodes.are_equal()


def test_impossible_captures_and_copies_have_clear_errors(
    spark: SparkSession, shared_cluster: LocalCluster, database: Postgres, tmp_path: Path
) -> None:
    nodes = Nodes(shared_cluster, database, "errors")

    def error_of(options: Options) -> str:
        with pytest.raises((PipelineError, StreamingQueryException)) as caught:
            run_once(spark, nodes, tmp_path, options)
        return summary(caught.value)

    assert "no table 'nothing'" in error_of(Options(nodes.topic, "nothing", nodes.first))
    nodes.in_first("CREATE TABLE loose (name text)")
    assert "no primary key" in error_of(Options(nodes.topic, "loose", nodes.first))
    assert "Connection refused" in error_of(Options(nodes.topic, "fleet", "postgresql://127.0.0.1:1/fleet"))
    nodes.in_second("INSERT INTO fleet VALUES ('N1', 'UA', 'EWR', 1, 1)")
    assert "rows that are not of topic" in error_of(nodes.copy())

    nodes.in_second("TRUNCATE fleet; ALTER TABLE fleet ADD CHECK (flights < 1)")
    nodes.fly(10)
    run_once(spark, nodes, tmp_path, nodes.capture())
    said = error_of(nodes.copy())
    assert said.startswith('the copy fleet cannot be written: new row for relation "fleet" violates check constraint')
    nodes.in_first("SELECT pg_drop_replication_slot('kafkalite_errors')")
    nodes.fly(10)
    assert "start again with an empty topic" in error_of(nodes.capture())
