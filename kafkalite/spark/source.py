"""The data source ``kafkalite``: register it, then ``spark.read.format("kafkalite")``.

Answers to: ``org.apache.spark.sql.kafka010.KafkaSourceProvider``. Shell: it only translates.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource


class KafkaliteDataSource(DataSource):  # type: ignore[misc]
    """Spark's Kafka source and sink in Python: the same options, columns and meanings."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "kafkalite"

    def schema(self) -> Any:
        """Spark's columns of a topic."""
        raise NotImplementedError
