"""The data source ``kafkalite``: register it, then ``spark.read.format("kafkalite")``.

Answers to: ``org.apache.spark.sql.kafka010.KafkaSourceProvider``. Shell: it only translates.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader

from kafkalite.spark.options import SourceOptions, includes_headers

COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
HEADERS = "headers array<struct<key: string, value: binary>>"


class KafkaliteDataSource(DataSource):  # type: ignore[misc]
    """Spark's Kafka source and sink in Python: the same options, columns and meanings."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "kafkalite"

    def schema(self) -> str:
        """Spark's columns of a topic; ``headers`` only where ``includeHeaders`` asks for them."""
        return f"{COLUMNS}, {HEADERS}" if includes_headers(self.options) else COLUMNS

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002  (Spark's signature; the columns are fixed)
        """For batch queries. Raises ``OptionError``."""
        from kafkalite.spark.batch_reader import BatchReader

        return BatchReader(SourceOptions.parse(self.options, streaming=False))

    def streamReader(self, schema: Any) -> Any:  # noqa: ARG002, N802  (as above)
        """For streaming queries. Raises ``OptionError``."""
        from kafkalite.spark.stream_reader import StreamReader

        return StreamReader(SourceOptions.parse(self.options, streaming=True))
