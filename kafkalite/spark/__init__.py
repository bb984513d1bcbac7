"""Spark's data source ``kafkalite``: topics as DataFrames, read and written by plain Kafka clients."""

from kafkalite.spark.archives import keep_directories

keep_directories()
