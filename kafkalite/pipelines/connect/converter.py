"""Bytes into the columns of a schema, with the reason if they do not fit.

Answers to: ``org.apache.kafka.connect.storage.Converter``. Pure: DataFrame in, DataFrame out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from kafkalite.pipelines.connect.options import RecordFormat
from kafkalite.pipelines.errors import PipelineError

_CORRUPT = "_kafkalite_corrupt"
_SHAPES = {"csv": "the line has not the {} columns of the schema", "json": "this is no JSON object"}


def parse_schema(text: str, where: str) -> StructType:
    """Columns as SQL lists them. Raises :class:`PipelineError`."""
    found: object = None
    try:
        found = StructType.fromDDL(text)
    except Exception as error:
        raise PipelineError(f"{where}: schema {text!r}: {str(error).splitlines()[0][:200]}") from error
    if not isinstance(found, StructType):
        raise PipelineError(f"{where}: schema {text!r} is no list such as 'id INT NOT NULL, name STRING'")
    return found


def convert(frame: DataFrame, column: str, records: RecordFormat, where: str) -> DataFrame:
    """``frame`` with the columns of ``column`` in ``{column}_row`` (null where that is null), and why there are none in
    ``{column}_error``. Raises :class:`PipelineError`."""
    text = sf.col(column).cast("string")
    utf8 = sf.when(~sf.is_valid_utf8(sf.col(column)), sf.lit("this is not UTF-8"))
    if records.schema is None:
        row, error = _whole(text, records)
        return _with(frame, column, row, sf.coalesce(utf8, error))
    schema = parse_schema(records.schema, where)
    typed, texts = f"_{column}_typed", f"_{column}_texts"
    if records.format == "text":
        if len(schema) != 1:
            raise PipelineError(f'{where}: format = "text" has one column, and {records.schema!r} are {len(schema)}')
        [field] = schema.fields
        whole = frame.withColumn(typed, sf.struct(text.try_cast(field.dataType).alias(field.name)))
        whole = whole.withColumn(texts, sf.struct(text.alias(field.name)))
        misfit = _misfit(field, typed, texts)
    else:
        columns = [f"`{field.name}` {field.dataType.simpleString()}" for field in schema.fields]
        strings = [f"`{field.name}` STRING" for field in schema.fields]
        whole = frame.withColumn(typed, _read(text, columns, records)).withColumn(texts, _read(text, strings, records))
        misfit = _misfits(schema, typed, texts, _SHAPES[records.format].format(len(schema)))
    found = sf.struct(*(sf.col(typed)[field.name].alias(field.name) for field in schema.fields))
    return _with(whole, column, found, sf.coalesce(utf8, misfit, _missing(schema, typed))).drop(typed, texts)


def _with(frame: DataFrame, column: str, row: Column, error: Column) -> DataFrame:
    given = sf.col(column).isNotNull()
    return frame.select("*", sf.when(given, row).alias(f"{column}_row"), sf.when(given, error).alias(f"{column}_error"))


def _whole(text: Column, records: RecordFormat) -> tuple[Column, Column]:
    """Without a schema there is one column, with all of the text."""
    if records.format == "text":
        return sf.struct(text.alias("line")), sf.lit(None).cast("string")
    return sf.struct(text.alias("value")), sf.when(sf.try_parse_json(text).isNull(), sf.lit("this is no JSON"))


def _read(text: Column, columns: Sequence[str], records: RecordFormat) -> Column:
    ddl = ", ".join([*columns, f"{_CORRUPT} STRING"])
    options = {**records.reader, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    reader: Any = sf.from_csv if records.format == "csv" else sf.from_json
    result: Column = reader(text, ddl, options)
    return result


def _misfits(schema: StructType, typed: str, texts: str, shape: str) -> Column:
    """A value that does not fit the schema."""
    wrong_shape = sf.when(sf.col(typed).isNull() | sf.col(texts)[_CORRUPT].isNotNull(), sf.lit(shape))
    columns = [_misfit(field, typed, texts) for field in schema.fields]
    reason = sf.coalesce(wrong_shape, *columns, sf.lit("this does not fit the schema"))
    return sf.when(sf.col(typed).isNull() | sf.col(typed)[_CORRUPT].isNotNull(), reason)


def _misfit(field: StructField, typed: str, texts: str) -> Column:
    found, text = sf.col(typed)[field.name], sf.col(texts)[field.name]
    reason = sf.concat(sf.lit(f"column {field.name}: '"), text, sf.lit(f"' is no {field.dataType.simpleString()}"))
    return sf.when(found.isNull() & text.isNotNull(), reason)


def _missing(schema: StructType, typed: str) -> Column:
    """Which column is null and must not be."""
    needed = [
        sf.when(sf.col(typed)[field.name].isNull(), sf.lit(f"column {field.name}: there is no value, and must be"))
        for field in schema.fields
        if not field.nullable
    ]
    return sf.coalesce(*needed, sf.lit(None).cast("string"))
