"""A record's value as columns, and columns as records. Pure: DataFrames in, DataFrames out.

Answers to: ``org.apache.kafka.streams.kstream.Consumed`` and ``Produced`` (their serdes).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType, StructField, StructType

Errors = Literal["fail", "skip", "keep"]
"""For a value that cannot be read: the query fails, the row is dropped, or kept with its text in ``malformed``."""
MALFORMED = "malformed"


def from_json(
    frame: DataFrame, schema: StructType | str, *, keep: Sequence[str] = (), errors: Errors = "fail"
) -> DataFrame:
    """The fields of JSON values as columns, behind the columns ``keep`` of the record (``key``, ``offset``, …).

    ``schema`` is Spark's or DDL (``"visitor STRING, at TIMESTAMP"``). A record without a value has nulls everywhere.
    """
    fields, options = _reading(schema, errors)
    return _columns(frame, sql.from_json(sql.col("value").cast("string"), fields, options), keep, errors)


def from_csv(
    frame: DataFrame, schema: StructType | str, *, keep: Sequence[str] = (), errors: Errors = "fail", null: str = ""
) -> DataFrame:
    """The fields of CSV lines as columns, as :func:`from_json` has it; ``null``, as an empty field, is none."""
    fields, options = _reading(schema, errors)
    text = sql.col("value").cast("string")
    return _columns(frame, sql.from_csv(text, fields.simpleString(), {**options, "nullValue": null}), keep, errors)


def to_record(
    frame: DataFrame, *, key: str | Sequence[str] | None = None, value: str | Sequence[str] | None = None
) -> DataFrame:
    """``key`` and ``value`` for a topic: a name is that column (as text, unless bytes), names are a JSON object.

    Without ``value`` it is an object of all columns, without ``key`` the records have none. An object shows its nulls.
    """
    columns = [_field(frame, frame.columns if value is None else value).alias("value")]
    if key is not None:
        columns.insert(0, _field(frame, key).alias("key"))
    return frame.select(*columns)


def _reading(schema: StructType | str, errors: Errors) -> tuple[StructType, dict[str, str]]:
    fields = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if errors == "fail":
        return fields, {"mode": "FAILFAST"}
    with_text = StructType([*fields.fields, StructField(MALFORMED, StringType())])
    return with_text, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": MALFORMED}


def _columns(frame: DataFrame, parsed: Column, keep: Sequence[str], errors: Errors) -> DataFrame:
    rows = frame.select(*keep, parsed.alias("__value")).select(*keep, "__value.*")
    return rows.where(sql.col(MALFORMED).isNull()).drop(MALFORMED) if errors == "skip" else rows


def _field(frame: DataFrame, names: str | Sequence[str]) -> Column:
    if not isinstance(names, str):
        return sql.to_json(sql.struct(*names), {"ignoreNullFields": "false"})
    return (
        sql.col(names)
        if frame.schema[names].dataType.typeName() in ("string", "binary")
        else sql.col(names).cast("string")
    )
