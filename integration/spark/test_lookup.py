"""``format("kafkalite")`` in sessions that register nothing, and in those that do: Spark in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from integration.bench.spark import ROOT, SPARK, spark_home
from integration.harness.records import FIRST_TIMESTAMP, Item
from integration.spark import lookup_job
from integration.spark.topics import new_topic, produce
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.spark.python import program

TIMEOUT = 600
WHEEL = pytest.mark.parametrize("stranger_python", ["borrowed"], indirect=True)
REPLACED = "WARN DataSourceManager: The data source kafkalite replaced a statically registered data source."
"""What Spark says if a session registers a source that Spark has found, too."""


@WHEEL
def test_an_installed_wheel(stranger_python: Path, shared_cluster: LocalCluster, tmp_path: Path) -> None:
    found, said = query(shared_cluster, tmp_path, stranger_python, stranger_python)
    assert found["version"] == version("pyspark")
    assert str(ROOT) not in found["package"]
    assert said == ([REPLACED], [])


@pytest.mark.full
@WHEEL
def test_an_installed_wheel_with_the_oldest_spark(
    stranger_python: Path, shared_cluster: LocalCluster, tmp_path: Path
) -> None:
    found, said = query(shared_cluster, tmp_path, stranger_python, stranger_python, spark_home())
    assert found["version"] == SPARK.partition("==")[2]
    assert str(ROOT) not in found["package"]
    assert said == ([REPLACED], [])


@pytest.mark.full
def test_a_source_tree_by_kafkalite_python(shared_cluster: LocalCluster, tmp_path: Path) -> None:
    found, _ = query(shared_cluster, tmp_path, Path(sys.executable), Path(program()), ROOT)
    assert str(ROOT) in found["package"]


def query(
    cluster: LocalCluster, directory: Path, driver: Path, worker: Path, *folders: Path
) -> tuple[dict[str, Any], tuple[list[str], list[str]]]:
    """What :mod:`integration.spark.lookup_job` found, and what Spark said about data sources in each of its sessions:
    one that registers the source and one that does not.

    ``driver`` runs the job, ``worker`` Spark's other processes; ``folders`` come first on Python's path. Both sessions
    must have found all values of the topic.
    """
    topic = new_topic(cluster, "lookup")
    produce(cluster, topic, [Item(0, FIRST_TIMESTAMP, None, b"v%d" % number, ()) for number in range(10)])
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}
    done = subprocess.run(
        [driver, lookup_job.__file__, cluster.bootstrap, topic],
        cwd=directory,
        env={**environment, "PYTHONPATH": os.pathsep.join(map(str, folders)), "PYSPARK_PYTHON": str(worker)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["values"] == [[f"v{number}" for number in range(10)]] * 2
    registered, between, other = done.stderr.partition(lookup_job.BETWEEN)
    assert between
    return found, (about_sources(registered), about_sources(other))


def about_sources(said: str) -> list[str]:
    """The lines of Spark's log about data sources, without their times."""
    return [line[18:] for line in said.splitlines() if "DataSource" in line]
