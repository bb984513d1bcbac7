"""Spark finds ``format("kafkalite")`` here: it looks for a ``DefaultSource`` in top-level packages ``pyspark_*``.

Answers to: nothing in Kafka; sources in Java have ``org.apache.spark.sql.sources.DataSourceRegister``. Shell.

The distribution installs this folder as the top-level package ``pyspark_kafkalite``. Spark imports it in every session
that uses any source in Python, so this module imports only the class.
"""

from kafkalite.spark.source import KafkaliteDataSource as DefaultSource

__all__ = ["DefaultSource"]
