"""One small Spark session for all tests that need one, with Spark's own Kafka source and kafkalite's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from integration.harness.peers import POSTGRES_JDBC, SPARK_KAFKA, libs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
TOO_BUSY = "Python worker failed to connect back"
"""Error of a query whose Python process started later than the ten seconds that Spark waits for it."""


def start_session(master: str, settings: Mapping[str, str]) -> SparkSession:
    """A session without a web page; ``settings`` are added."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        **settings,
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def new_session(folder: Path) -> SparkSession:
    """A session with two cores and little memory; Spark's own files go to ``folder``."""
    from kafkalite.pipelines.session import register
    from kafkalite.spark import python

    os.environ["PYSPARK_PYTHON"] = python.program()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    jars = sorted(jar for peer in (SPARK_KAFKA, POSTGRES_JDBC) for jar in libs(peer).glob("*.jar"))
    settings = {
        "spark.app.name": "kafkalite-tests",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder),
        "spark.local.dir": str(folder),
        "spark.jars": ",".join(str(jar) for jar in jars),
    }
    session = start_session("local[2]", settings)
    register(session)
    return session
