"""The Spark session of a run.

Answers to: ``org.apache.kafka.connect.cli.ConnectStandalone``, as far as that brings up a worker. Shell.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

import kafkalite
from kafkalite.pipelines.connect.files import FilesDataSource
from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.pipeline import Pipeline
from kafkalite.spark import python
from kafkalite.spark.source import KafkaliteDataSource

PACKAGE = Path(kafkalite.__file__).parents[1]
LOGGING = Path(__file__).with_name("log4j2.properties")
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # For Parquet files: without it, programs other than Spark read times without a zone.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # For every query with state, as long as its checkpoint lives.
    "spark.sql.shuffle.partitions": "8",
}
"""Default settings."""


def register(spark: SparkSession) -> None:
    """Register kafkalite's sources and sinks with ``spark``."""
    spark.dataSource.register(KafkaliteDataSource)
    spark.dataSource.register(FilesDataSource)


def settings(pipeline: Pipeline, log: Path) -> dict[str, str]:
    """The session's settings; Spark's log goes to the file ``log``."""
    told = pipeline.spark.conf
    found = {**DEFAULTS, "spark.app.name": pipeline.name, "spark.master": pipeline.spark.master}
    if pipeline.spark.master.startswith("local"):
        found |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    else:
        found |= {"spark.pyspark.python": python.program(), "spark.executorEnv.PYTHONPATH": str(PACKAGE)}
    if pipeline.spark.jars:
        found["spark.jars"] = ",".join(pipeline.spark.jars)
    if pipeline.spark.packages:
        found["spark.jars.packages"] = ",".join(pipeline.spark.packages)
    java = f'"-Dlog4j2.configurationFile=file:{LOGGING}" "-Dkafkalite.log={log}"'
    options = "spark.driver.extraJavaOptions"
    return {**found, **told, options: f"{java} {told.get(options, '')}".rstrip()}


@contextmanager
def session(pipeline: Pipeline, log: Path) -> Iterator[SparkSession]:
    """A session for ``pipeline``, stopped at the end. Raises :class:`PipelineError`."""
    os.environ.setdefault("PYSPARK_PYTHON", python.program())
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(PACKAGE), os.environ.get("PYTHONPATH"))))
    with _noise_to(log):
        spark = _start(pipeline, log)
    try:
        register(spark)
        yield spark
    finally:
        spark.stop()


def _start(pipeline: Pipeline, log: Path) -> SparkSession:
    builder = SparkSession.builder
    for name, value in settings(pipeline, log).items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        raise PipelineError(
            f"{pipeline.where}: Spark does not start at {pipeline.spark.master}: {said} (see {log})"
        ) from error


@contextmanager
def _noise_to(log: Path) -> Iterator[None]:
    """Redirect the standard error of the Java process, and of its children the workers, to ``log``."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
