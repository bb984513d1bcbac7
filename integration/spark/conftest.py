"""One small Spark session for all tests that need one, with both sources: Spark's own and ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.harness.peers import SPARK_KAFKA, libs
from kafkalite.spark.source import KafkaliteDataSource

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, little memory, ``format("kafkalite")`` registered and ``format("kafka")`` at hand."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    warehouse = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.master("local[2]").appName("kafkalite-tests")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.local.dir": str(warehouse),
        "spark.jars": ",".join(str(jar) for jar in sorted(libs(SPARK_KAFKA).glob("*.jar"))),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(KafkaliteDataSource)
    yield session
    session.stop()
