"""The data source ``kafkalite``: register it, then ``spark.read.format("kafkalite")``.

Answers to: ``org.apache.spark.sql.kafka010.KafkaSourceProvider``. Shell: it only translates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafkalite.spark.housekeeping import freeze_objects
from kafkalite.spark.options import OptionError, SourceOptions, includes_headers

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter


class KafkaliteDataSource(DataSource):  # type: ignore[misc]
    """Spark's Kafka source and sink in Python: the same options, columns and meanings."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "kafkalite"

    def schema(self) -> StructType:
        """Spark's columns of a topic; ``headers`` only where ``includeHeaders`` asks for them."""
        freeze_objects()
        return read_schema(includes_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  (Spark's signature; the columns are fixed)
        """For batch queries. Raises ``OptionError``."""
        from kafkalite.spark.batch_reader import BatchReader

        return BatchReader(SourceOptions.parse(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  (as above)
        """For streaming queries. Raises ``OptionError``."""
        try:
            from kafkalite.spark.stream_reader import StreamReader
        except ImportError as error:
            if error.name != "pyspark.sql.streaming.datasource":
                raise
            # Earlier versions have no admission control for sources in Python.
            raise OptionError(f"streams need PySpark 4.2 or newer, this is {pyspark.__version__}") from None

        return StreamReader(SourceOptions.parse(self.options, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For batch queries. Raises ``OptionError``."""
        from kafkalite.spark.sink_options import SinkOptions
        from kafkalite.spark.writers import BatchWriter, check_schema

        if overwrite:
            raise OptionError(
                "Save mode Overwrite not allowed for Kafka. Allowed save modes are Append and ErrorIfExists (default)."
            )
        options = SinkOptions.parse(self.options)
        check_schema(schema, options.topic)
        freeze_objects()
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802  (complete mode appends, as in Spark's sink)
        """For streaming queries. Raises ``OptionError``."""
        from kafkalite.spark.sink_options import SinkOptions
        from kafkalite.spark.writers import StreamWriter, check_schema

        options = SinkOptions.parse(self.options)
        check_schema(schema, options.topic)
        freeze_objects()
        return StreamWriter(options)


def read_schema(include_headers: bool) -> StructType:
    """The columns of the source."""
    # Types, not a DDL text, because the meaning of "timestamp" in a text depends on the session's configuration.
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if include_headers:
        pair = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        fields.append(StructField("headers", ArrayType(pair)))
    return StructType(fields)
