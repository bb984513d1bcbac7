"""Records on their way from a source to a sink, and what becomes of those that do not fit the schema.

Answers to: ``org.apache.kafka.connect.connector.ConnectRecord`` and
``org.apache.kafka.connect.runtime.errors.DeadLetterQueueReporter``. Pure: DataFrame in, DataFrame out.

A frame of records has these columns: ``key`` and ``value`` as they came; ``origin``, a text that says where from;
``order``, which of two records of one key is the later one; ``headers``, for a dead-letter topic: where from, and what
came along; ``deleted``, whether the value is null; ``row``, the columns of the schema; ``error``, why that is nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from kafkalite.pipelines.connect.options import Errors
from kafkalite.pipelines.errors import PipelineError

HEADERS = "array<struct<key: string, value: binary>>"
ERRORS = "__connect.errors."
"""How Kafka Connect begins the names of the headers of a dead letter."""


def watched(frame: DataFrame) -> DataFrame:
    """``frame``, of which the progress of its query says how many records were bad."""
    return frame.observe("records", sf.count("error").alias("bad"))


def checked(frame: DataFrame, errors: Errors) -> DataFrame:
    """The good records. The first bad one fails whoever reads them, where ``errors`` says so."""
    if errors.policy != "fail":
        return frame.where(sf.col("error").isNull())
    reason = sf.raise_error(sf.concat(sf.col("origin"), sf.lit(": "), sf.col("error")))
    return frame.withColumn("row", sf.when(sf.col("error").isNull(), sf.col("row")).otherwise(reason))


def for_topic(frame: DataFrame, topic: str, key: Column, value: Column, errors: Errors, pipeline: str) -> DataFrame:
    """Records as a sink of topics takes them: good ones to ``topic``, those that were deleted with their key alone; bad
    ones where ``errors`` says. All in one frame, so that a stream reads its source once."""
    value = sf.when(~sf.col("deleted"), value)
    if errors.topic is None:
        return checked(frame, errors).select(sf.lit(topic).alias("topic"), key.alias("key"), value.alias("value"))
    good = sf.col("error").isNull()
    return frame.select(
        sf.when(good, sf.lit(topic)).otherwise(sf.lit(errors.topic)).alias("topic"),
        sf.when(good, key).otherwise(sf.col("key")).alias("key"),
        sf.when(good, value).otherwise(sf.col("value")).alias("value"),
        sf.when(~good, _dead_headers(pipeline)).alias("headers"),
    )


def dead_letters(frame: DataFrame, topic: str, pipeline: str) -> DataFrame:
    """The bad records as they came, for ``topic``."""
    bad = frame.where(sf.col("error").isNotNull())
    return bad.select(sf.lit(topic).alias("topic"), "key", "value", _dead_headers(pipeline).alias("headers"))


def _dead_headers(pipeline: str) -> Column:
    """Where from, what came along, and the reason, in headers as Kafka Connect names them."""
    told = {
        "connector.name": sf.lit(pipeline),
        "stage": sf.lit("VALUE_CONVERTER"),
        "exception.class.name": sf.lit("org.apache.kafka.connect.errors.DataException"),
        "exception.message": sf.col("error"),
    }
    more = sf.array(*(header(ERRORS + name, value) for name, value in told.items())).cast(HEADERS)
    return sf.concat(sf.col("headers"), more)


def header(name: str, value: Column) -> Column:
    """One header; numbers as text, as Kafka Connect writes them."""
    return sf.struct(sf.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))


def key_column(names: Sequence[str], row: StructType, where: str) -> Column:
    """The key made of a row's columns: one alone as text, several as a JSON object, none: null.

    Raises :class:`PipelineError`.
    """
    for name in names:
        if name not in row.names:
            raise PipelineError(f"{where}: key: no column '{name}'; there are {', '.join(row.names)}")
    columns = [sf.col("row")[name].alias(name) for name in names]
    if not columns:
        return sf.lit(None).cast("binary")
    text = columns[0].cast("string") if len(columns) == 1 else sf.to_json(sf.struct(*columns))
    return text.cast("binary")


def value_column(format: str, row: StructType, writer: Mapping[str, str], where: str) -> Column:
    """The value made of a row: JSON, CSV, or the only column as text. Raises :class:`PipelineError`."""
    if format == "json":
        return sf.to_json(sf.col("row"), {"ignoreNullFields": "false", **writer}).cast("binary")
    if format == "csv":
        return sf.to_csv(sf.col("row"), dict(writer)).cast("binary")
    if len(row) != 1:
        raise PipelineError(f'{where}: format = "text" is for rows of one column; these have {", ".join(row.names)}')
    return sf.col("row")[row.names[0]].cast("string").cast("binary")
