"""Spark's data source ``kafkalite``: topics as DataFrames, read and written by plain Kafka clients."""
