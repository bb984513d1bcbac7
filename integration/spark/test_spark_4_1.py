"""Batch reading with Spark 4.1, in which a data source in Python cannot stream yet, in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from integration.bench.spark import ROOT, SPARK, spark_home
from integration.harness.records import FIRST_TIMESTAMP, Item
from integration.spark.topics import new_topic, produce
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.spark.python import program

TIMEOUT = 600


@pytest.mark.parametrize(
    ("interpreter", "daemon"),
    [
        pytest.param(sys.executable, "pyspark.daemon", id="spark", marks=pytest.mark.full),
        pytest.param(sys.executable, "kafkalite.spark.daemon", id="daemon", marks=pytest.mark.full),
        pytest.param(program(), "pyspark.daemon", id="kafkalite"),
    ],
)
def test_batch_queries(shared_cluster: LocalCluster, tmp_path: Path, interpreter: str, daemon: str) -> None:
    """All rows are read, with Spark's own daemon and with kafkalite's; an unsupported query has a clear error."""
    topic = new_topic(shared_cluster, "spark41", 2)
    items = [
        Item(number % 2, FIRST_TIMESTAMP + number, b"k%d" % number, b"v%d" % number, (("h", b"x"),))
        for number in range(100)
    ]
    for codec in ("none", "zstd"):
        produce(shared_cluster, topic, items, codec)
    wanted = [
        [f"k{number}", f"v{number}", topic, partition, offset, FIRST_TIMESTAMP + number, 0]
        for partition in (0, 1)
        for offset, number in enumerate([*range(partition, 100, 2)] * 2)
    ]
    found = run(shared_cluster.bootstrap, topic, interpreter, daemon, tmp_path)
    assert found["version"] == SPARK.partition("==")[2]
    assert found["rows"] == wanted
    assert found["headers"] == [[["h", "x"]]] * len(wanted)
    assert f"UnknownTopicOrPartitionException: topic {topic}-not" in found["refused"]
    assert "streams need PySpark 4.2" in found["stream"], found["stream"]


def run(bootstrap: str, topic: str, interpreter: str, daemon: str, directory: Path) -> dict[str, Any]:
    """The results of the queries of :mod:`integration.spark.batch_job`."""
    done = subprocess.run(
        [sys.executable, "-m", "integration.spark.batch_job", bootstrap, topic, daemon],
        cwd=directory,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(spark_home()), str(ROOT))),
            "PYSPARK_PYTHON": interpreter,
            "SPARK_HOME": str(spark_home() / "pyspark"),
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
