"""Bytes into columns, columns into bytes, and why a record is none.

Answers to: ``org.apache.kafka.connect.storage.Converter`` and ``org.apache.kafka.connect.runtime.errors.{ErrorReporter,
DeadLetterQueueReporter}``. Pure: DataFrame in, DataFrame out.

Between a source and a sink a frame has these columns: ``key`` and ``value`` as they came, ``origin`` (a text that says
where from, for people), ``headers`` (the same, and what came along, for a dead-letter topic), ``row`` (the columns of
the schema; null where there is no value) and ``error`` (why there is no row; null where all is well).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from kafkalite.pipelines.connect.options import Errors, Records
from kafkalite.pipelines.errors import PipelineError

_CORRUPT = "_kafkalite_corrupt"
HEADERS = "array<struct<key: string, value: binary>>"
ERRORS = "__connect.errors."
"""How Kafka Connect begins the names of the headers of a dead letter."""


def parse_schema(text: str, where: str) -> StructType:
    """Columns as SQL lists them. Raises :class:`PipelineError`."""
    try:
        found = StructType.fromDDL(text)
    except Exception as error:
        raise PipelineError(
            f"{where}: schema {text!r} is no list of columns such as 'id INT NOT NULL, name STRING'"
        ) from error
    if not isinstance(found, StructType):
        raise PipelineError(f"{where}: schema {text!r} is no list of columns such as 'id INT NOT NULL, name STRING'")
    return found


def parsed(frame: DataFrame, records: Records, where: str) -> DataFrame:
    """``frame`` with ``row`` and ``error`` made of its ``value``. Raises :class:`PipelineError`."""
    text = sf.col("value").cast("string")
    if records.schema is None:
        name = "line" if records.format == "text" else "value"
        row: Column = sf.when(sf.col("value").isNotNull(), sf.struct(text.alias(name)))
        return frame.select("*", row.alias("row"), _not_utf8().alias("error"))
    if records.format == "text":
        raise PipelineError(f"{where}: format = \"text\" has one column, 'line', and no schema")
    schema = parse_schema(records.schema, where)
    columns = [f"`{field.name}` {field.dataType.simpleString()}" for field in schema.fields]
    texts = [f"`{field.name}` STRING" for field in schema.fields]
    whole = frame.withColumn("_typed", _read(text, columns, records)).withColumn("_texts", _read(text, texts, records))
    row = sf.struct(*(sf.col("_typed")[field.name].alias(field.name) for field in schema.fields))
    given = sf.col("value").isNotNull()
    error = sf.coalesce(_not_utf8(), sf.when(given, sf.coalesce(_misfit(schema, records), _missing(schema))))
    return whole.select(*frame.columns, sf.when(given, row).alias("row"), error.alias("error"))


def _read(text: Column, columns: Sequence[str], records: Records) -> Column:
    ddl = ", ".join([*columns, f"{_CORRUPT} STRING"])
    options = {**records.reader, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    reader: Any = sf.from_csv if records.format == "csv" else sf.from_json
    result: Column = reader(text, ddl, options)
    return result


def _not_utf8() -> Column:
    return sf.when(~sf.is_valid_utf8(sf.col("value")), sf.lit("the value is not UTF-8"))


def _misfit(schema: StructType, records: Records) -> Column:
    """Which column cannot be what the schema says."""
    typed, texts = sf.col("_typed"), sf.col("_texts")
    shape = {"csv": f"the line has not the {len(schema)} columns of the schema", "json": "the value is no JSON object"}
    columns = [
        sf.when(
            typed[field.name].isNull() & texts[field.name].isNotNull(),
            sf.concat(
                sf.lit(f"column {field.name}: '"), texts[field.name], sf.lit(f"' is no {field.dataType.simpleString()}")
            ),
        )
        for field in schema.fields
    ]
    no_object = sf.when(typed.isNull() | texts[_CORRUPT].isNotNull(), sf.lit(shape[records.format]))
    reason = sf.coalesce(no_object, *columns, sf.lit("the value does not fit the schema"))
    return sf.when(typed.isNull() | typed[_CORRUPT].isNotNull(), reason)


def _missing(schema: StructType) -> Column:
    needed = [
        sf.when(
            sf.col("_typed")[field.name].isNull(),
            sf.lit(f"column {field.name}: there is no value, and there must be one"),
        )
        for field in schema.fields
        if not field.nullable
    ]
    return sf.coalesce(*needed, sf.lit(None).cast("string"))


def stopped_by_errors(frame: DataFrame) -> DataFrame:
    """``frame``, whose first record with an ``error`` fails whoever reads it."""
    reason = sf.raise_error(sf.concat(sf.col("origin"), sf.lit(": "), sf.col("error")))
    return frame.withColumn("row", sf.when(sf.col("error").isNull(), sf.col("row")).otherwise(reason))


def as_records(frame: DataFrame, key: Column, value: Column, topic: str, errors: Errors, pipeline: str) -> DataFrame:
    """What goes to topics: good rows as ``key`` and ``value`` to ``topic``, the others as ``errors`` says."""
    if errors.policy == "fail":
        frame = stopped_by_errors(frame)
    good = sf.col("error").isNull()
    if errors.topic is None:
        if errors.policy == "skip":
            frame = frame.where(good)
        return frame.select(sf.lit(topic).alias("topic"), key.alias("key"), value.alias("value"))
    return frame.select(
        sf.when(good, sf.lit(topic)).otherwise(sf.lit(errors.topic)).alias("topic"),
        sf.when(good, key).otherwise(sf.col("key")).alias("key"),
        sf.when(good, value).otherwise(sf.col("value")).alias("value"),
        sf.when(~good, _dead_headers(pipeline)).alias("headers"),
    )


def dead_letters(frame: DataFrame, topic: str, pipeline: str) -> DataFrame:
    """The records of ``frame`` that have an error, as they came, for ``topic``."""
    bad = frame.where(sf.col("error").isNotNull())
    return bad.select(sf.lit(topic).alias("topic"), "key", "value", _dead_headers(pipeline).alias("headers"))


def _dead_headers(pipeline: str) -> Column:
    """What came along, where from, and why; names as Kafka Connect gives them."""
    told = {
        "connector.name": sf.lit(pipeline),
        "stage": sf.lit("VALUE_CONVERTER"),
        "exception.class.name": sf.lit("org.apache.kafka.connect.errors.DataException"),
        "exception.message": sf.col("error"),
    }
    more = sf.array(*(header(ERRORS + name, value) for name, value in told.items()))
    return sf.concat(sf.col("headers"), more.cast(HEADERS))


def header(name: str, value: Column) -> Column:
    """One header; numbers as text, as Kafka Connect writes them."""
    return sf.struct(sf.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))


def key_column(names: Sequence[str]) -> Column:
    """The key made of a row's columns: one alone as text, several as a JSON object, none: null."""
    if not names:
        return sf.lit(None).cast("binary")
    if len(names) == 1:
        return sf.col("row")[names[0]].cast("string").cast("binary")
    return sf.to_json(sf.struct(*(sf.col("row")[name].alias(name) for name in names))).cast("binary")


def value_column(format: str, row: StructType, writer: Mapping[str, str], where: str) -> Column:
    """The value made of a row: JSON, CSV, or the only column as text. Raises :class:`PipelineError`."""
    if format == "json":
        return sf.to_json(sf.col("row"), {"ignoreNullFields": "false", **writer}).cast("binary")
    if format == "csv":
        return sf.to_csv(sf.col("row"), dict(writer)).cast("binary")
    if len(row) != 1:
        raise PipelineError(f'{where}: format = "text" is for rows of one column; these have {", ".join(row.names)}')
    return sf.col("row")[row.names[0]].cast("string").cast("binary")
