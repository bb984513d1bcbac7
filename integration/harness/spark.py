"""One small Spark session for all tests that need one, with all sources: Spark's own and ours."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from integration.harness.peers import POSTGRES_JDBC, SPARK_KAFKA, libs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
TOO_BUSY = "Python worker failed to connect back"
"""How a query fails where the machine lets a Python process of Spark's start later than the ten seconds it is given."""

PYTHON = """#!/bin/sh
kept=
IFS=:
for entry in $PYTHONPATH; do
    case $entry in
        *pyspark.zip|*.jar) ;;
        *) kept=${{kept:+$kept:}}$entry ;;
    esac
done
PYTHONPATH=$kept exec '{python}' "$@"
"""
"""Spark puts an archive of PySpark before the installed one, and its modules are compiled by every process anew: three
quarters of a process's start."""


def new_session(folder: Path) -> SparkSession:
    """Two cores and little memory; what Spark writes for itself goes to ``folder``."""
    from pyspark.sql import SparkSession

    from kafkalite.pipelines.session import register

    os.environ["PYSPARK_PYTHON"] = quick_python(folder)
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


def quick_python(folder: Path) -> str:
    """A program in ``folder`` that is Python without Spark's archives."""
    program = folder / "python"
    program.write_text(PYTHON.format(python=sys.executable))
    program.chmod(0o755)
    return str(program)
