"""An unchanged pipeline file on a Spark cluster with a standalone master and two workers, one of which dies."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from integration.harness.commands import command, process
from integration.harness.wait import wait_for
from integration.pipelines.flights import closed, expected, flight_rows, in_time, latest, lines, send
from integration.pipelines.reading import json_records
from integration.pipelines.standalone import StandaloneCluster
from integration.spark.topics import new_topic
from kafkalite.embedded.cluster import LocalCluster

ROWS = flight_rows()[::100]
PATIENCE = 600.0
"""Seconds that a busy machine may need for work of ten seconds."""
PIPELINE = """
name = "{name}"
job = "delays"

[kafka]
"bootstrap.servers" = "{servers}"

[spark]
master = "local[2]"
"spark.sql.shuffle.partitions" = 2
"spark.driver.memory" = "512m"
"spark.executor.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"spark.executor.memory" = "512m"

[options]
flights = "{flights}"
delays = "{delays}"
"""


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """The Spark cluster."""
    with pytest.MonkeyPatch.context() as patch, StandaloneCluster(tmp_path_factory.mktemp("spark")) as cluster:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        yield cluster


def last_batch(state: Path, log: str) -> int:
    """The last micro-batch that Spark has begun (``offsets``) or completed (``commits``)."""
    return max(int(path.name) for path in (state / "mortal/checkpoints/delays" / log).iterdir() if path.name.isdigit())


def test_a_pipeline_has_the_same_results_on_a_cluster(
    shared_cluster: LocalCluster, tmp_path: Path, workers: StandaloneCluster
) -> None:
    flights = new_topic(shared_cluster, "flights", 3)
    send(shared_cluster, flights, lines(ROWS))
    results = new_topic(shared_cluster, "delays", 2)
    file = tmp_path / "there.toml"
    file.write_text(PIPELINE.format(name="there", servers=shared_cluster.bootstrap, flights=flights, delays=results))
    where = ("--master", workers.master, "--state", tmp_path / "state")
    process("pipeline", "run", file, "--once", *where, timeout=PATIENCE)
    # test_delays.py expects the same results in one process.
    assert latest(shared_cluster, results) == expected(ROWS)
    assert "on spark://" in command("pipeline", "status", "there", "--state", tmp_path / "state").out
    assert workers.has_worked(1)
    assert workers.has_worked(2)


@pytest.mark.full
def test_each_result_comes_once_though_a_worker_dies(
    shared_cluster: LocalCluster, tmp_path: Path, workers: StandaloneCluster
) -> None:
    """The worker dies in the middle of a micro-batch."""
    rows = in_time(ROWS)
    flights, results = new_topic(shared_cluster, "flights", 3), new_topic(shared_cluster, "delays", 2)
    state, file = tmp_path / "state", tmp_path / "pipeline.toml"
    text = PIPELINE.format(name="mortal", servers=shared_cluster.bootstrap, flights=flights, delays=results)
    file.write_text(text + 'results = "final"\nlate = "1 hour"\n')
    half, part = len(rows) // 2, len(rows) // 8
    parts = [rows[at : at + part] for at in range(half, len(rows), part)]

    def results_until(last: int) -> int:
        newest = datetime.fromisoformat(rows[last]["time_hour"]) - timedelta(hours=1)
        return len(closed(expected(rows[: last + 1]), newest))

    send(shared_cluster, flights, lines(rows[:half]))
    process("pipeline", "run", file, "--master", workers.master, "--background", "--state", state, timeout=PATIENCE)
    try:
        first = results_until(half - 1)
        wait_for(lambda: len(latest(shared_cluster, results)) == first, "the first half's results", PATIENCE, 0.5)
        caught = False
        while not caught:
            wait_for(lambda: last_batch(state, "commits") == last_batch(state, "offsets"), "rest", PATIENCE)
            before = last_batch(state, "offsets")
            assert parts, "each micro-batch ended before the worker could be stopped"
            send(shared_cluster, flights, lines(parts.pop(0)))
            wait_for(lambda: last_batch(state, "offsets") > before, "the next micro-batch begins", PATIENCE, 0.01)  # noqa: B023 (it waits here)
            workers.freeze_worker(1)
            # On a busy machine the micro-batch may have ended by now: then the next one is tried.
            caught = last_batch(state, "commits") == before
            if not caught:
                workers.thaw_worker(1)
        workers.kill_worker(1)
        for rest in parts:
            send(shared_cluster, flights, lines(rest))
        everything = results_until(len(rows) - 1)
        wait_for(lambda: len(latest(shared_cluster, results)) == everything, "all results", PATIENCE, 0.5)
    finally:
        process("pipeline", "stop", "mortal", "--state", state, timeout=PATIENCE)
    newest = datetime.fromisoformat(rows[-1]["time_hour"]) - timedelta(hours=1)
    assert len(json_records(shared_cluster.bootstrap, results)) == everything, "no window has two results"
    assert latest(shared_cluster, results) == closed(expected(rows), newest)
    assert command("pipeline", "status", "mortal", "--state", state).out.count("stopped") == 1
