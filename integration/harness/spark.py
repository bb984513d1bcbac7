"""One small Spark session for all tests that need one, with all sources: Spark's own and ours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from integration.harness.peers import POSTGRES_JDBC, SPARK_KAFKA, libs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
TOO_BUSY = "Python worker failed to connect back"
"""How a query fails where the machine lets a Python process of Spark's start later than the ten seconds it is given."""


def new_session(folder: Path) -> SparkSession:
    """Two cores and little memory; what Spark writes for itself goes to ``folder``."""
    from pyspark.sql import SparkSession

    from kafkalite.pipelines.session import register
    from kafkalite.spark import python

    os.environ["PYSPARK_PYTHON"] = python.program()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    jars = sorted(jar for peer in (SPARK_KAFKA, POSTGRES_JDBC) for jar in libs(peer).glob("*.jar"))
    builder = SparkSession.builder.master("local[2]").appName("kafkalite-tests")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder),
        "spark.local.dir": str(folder),
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    register(session)
    return session
