"""The Spark session of a run.

Answers to: ``org.apache.kafka.connect.cli.ConnectStandalone``, as far as that brings up a worker. Shell.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from kafkalite.spark.source import KafkaliteDataSource


def register(spark: SparkSession) -> None:
    """Make our sources and sinks known to ``spark``."""
    spark.dataSource.register(KafkaliteDataSource)
