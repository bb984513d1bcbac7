"""The job ``commit-log``: a table of a real PostgreSQL in a compacted topic, and a copy of it that is destroyed."""

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
"""Flights before the pipeline begins, and those of each part after it."""
KILLS = 6 if SOAK else 1
LONG = 600.0
"""Seconds for what takes a few on a machine that has nothing else to do."""


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
        """Change the first table by so many flights; the records that are to come of them."""
        statements, records = self.fleet.fly_all(islice(self._flights, count))
        self._server.sql(statements, self._names[0])
        return records

    def empty(self) -> None:
        """The first table loses all rows at once."""
        self.fleet.rows.clear()
        self.in_first("TRUNCATE fleet")

    def tables(self) -> tuple[str, str]:
        """All rows of both."""
        return self._server.sql(ALL, self._names[0]), self._server.sql(ALL, self._names[1])

    def in_second(self, statements: str) -> None:
        """Do something to the copy."""
        self._server.sql(statements, self._names[1])

    def in_first(self, statements: str) -> str:
        """Do something to the table, or ask."""
        return self._server.sql(statements, self._names[0])

    def are_equal(self) -> bool:
        """Whether both tables are what plain Python says."""
        wanted = self.fleet.as_psql()
        return self.tables() == (wanted, wanted)

    def records(self) -> list[Record]:
        """The topic so far."""
        return json_records(self.bootstrap, self.topic)

    def capture(self) -> Options:
        """Half of the job."""
        return Options(self.topic, "fleet", self.first, batch=50)

    def copy(self) -> Options:
        """The other half."""
        return Options(self.topic, "fleet", copy=self.second)

    def toml(self) -> str:
        """Both, as a pipeline of many small micro-batches."""
        return f"""
name = "{self.name}"
job = "commit-log"
kafka = {{ "bootstrap.servers" = "{self.bootstrap}" }}
trigger = {{ interval = "500 milliseconds" }}
spark = {{ master = "local[2]", "spark.driver.memory" = "600m" }}
[options]
topic = "{self.topic}"
table = "fleet"
database = "{self.first}"
copy = "{self.second}"
batch = 50
"""


class Driver:
    """``kafkalite pipeline run`` as a process with children, all of which can be killed at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "run.log"
        self._failures = 0
        self._process = self._start()

    def kill(self) -> None:
        """-9, the JVM with it."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(30)

    def start_again(self) -> None:
        """After :meth:`kill`."""
        self._process = self._start()

    def supervise(self) -> None:
        """Start it again where it has failed, as an operating system would; not for ever."""
        if self._process.poll() is not None:
            # Spark gives its own Python processes ten seconds to start, which a busy machine may not have.
            self._failures += 1
            assert self._failures <= 3, self._log.read_text()
            self.start_again()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "kafkalite.cli.main", "pipeline", "run", "fleet.toml", "--state", "state"]
        with self._log.open("ab") as log:
            return subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log, start_new_session=True)


def run_once(spark: SparkSession, nodes: Nodes, state: Path, options: Options) -> None:
    """All that there is now."""
    kafka = {"bootstrap.servers": nodes.bootstrap}
    context = Context(spark, Pipeline(nodes.name, "commit-log", kafka, Trigger(once=True)), state)
    for query in start(context, options):
        query.awaitTermination()


def change_under_kills(nodes: Nodes, folder: Path) -> list[Record]:
    """The pipeline runs, and is killed, while the table changes; the records that are to come of it.

    ``KAFKALITE_SEED`` repeats the moments of an earlier run.
    """
    seed = int(os.environ.get("KAFKALITE_SEED", random.randrange(1 << 16)))
    print(f"KAFKALITE_SEED={seed}")
    chance = random.Random(seed)
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
            come(chance.randrange(before + 1, len(wanted)))
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
    """First the topic has each change once, in order, whatever died. Then it is compacted, and the copy is destroyed:
    dropped, then emptied, while the table changes on. Each time it becomes the table again."""
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


def test_a_table_that_is_emptied(
    spark: SparkSession, shared_cluster: LocalCluster, database: Postgres, tmp_path: Path
) -> None:
    """The log does not say which rows went; the topic knows them."""
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


def test_what_cannot_be_captured_or_copied_is_said(
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
    assert "begin anew" in error_of(nodes.capture())
