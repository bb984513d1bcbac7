"""Records on their way from a source to a sink, and the handling of those that do not fit the schema.

Answers to: ``org.apache.kafka.connect.connector.ConnectRecord`` and
``org.apache.kafka.connect.runtime.errors.DeadLetterQueueReporter``. Pure: DataFrame in, DataFrame out.

A frame of records has these columns: ``key`` and ``value`` as they arrived; ``origin``, a text that names the source;
``order``, by which the later of two records of one key is found; ``headers``, for a dead-letter topic: the source and
the original headers; ``deleted``, whether the value is null; ``row``, the columns of the schema; ``error``, why there
is no row.
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
"""The prefix of a dead letter's headers in Kafka Connect."""


def watched(frame: DataFrame) -> DataFrame:
    """``frame``, extended so that its query's progress has the number of bad records."""
    return frame.observe("records", sf.count("error").alias("bad"))


def checked(frame: DataFrame, errors: Errors) -> DataFrame:
    """The good records. If ``errors`` says so, the first bad one makes the query fail."""
    if errors.policy != "fail":
        return frame.where(sf.col("error").isNull())
    reason = sf.raise_error(sf.concat(sf.col("origin"), sf.lit(": "), sf.col("error")))
    return frame.withColumn("row", sf.when(sf.col("error").isNull(), sf.col("row")).otherwise(reason))


def for_topic(frame: DataFrame, topic: str, key: Column, value: Column, errors: Errors, pipeline: str) -> DataFrame:
    """Records for a sink of topics: good ones to ``topic``, deleted ones with their key alone; bad
    ones as ``errors`` says. All in one frame, so that a stream reads its source once."""
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
    """The bad records in their original form, for ``topic``."""
    bad = frame.where(sf.col("error").isNotNull())
    return bad.select(sf.lit(topic).alias("topic"), "key", "value", _dead_headers(pipeline).alias("headers"))


def _dead_headers(pipeline: str) -> Column:
    """The source, the original headers and the reason, in headers with Kafka Connect's names."""
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
