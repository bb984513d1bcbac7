"""Growing files and topics as frames of records.

Answers to: ``org.apache.kafka.connect.source.SourceTask`` and ``org.apache.kafka.connect.runtime.WorkerSinkTask``.
Shell.
"""

from __future__ import annotations

import glob

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from kafkalite.pipelines.connect.converter import convert
from kafkalite.pipelines.connect.options import Errors, FilesSource, RecordFormat, TopicSource, parse_size
from kafkalite.pipelines.connect.records import ERRORS, HEADERS, header
from kafkalite.pipelines.context import Context
from kafkalite.pipelines.errors import PipelineError

_METADATA = ("topic", "partition", "offset", "timestamp")


def read_files(context: Context, source: FilesSource, where: str) -> DataFrame:
    """The lines of growing files as records. Raises :class:`PipelineError`."""
    schema = source.schema
    if schema is None and source.format == "csv":
        schema = header_schema(source, where)
    lines = (
        context.spark.readStream.format("kafkalite-files")
        .option("path", ",".join(source.path))
        .option("header", str(source.header).lower())
        .option("maxBytesPerTrigger", parse_size(source.max_bytes_per_trigger))
        .option("tasks", source.tasks)
        .option("copies", str(source.copies).lower())
        .option("failOnDataLoss", str(source.fail_on_data_loss).lower())
        .load()
    )
    if source.format != "text":
        lines = lines.where(sf.length("value") > 0)
    converted = convert(lines, "value", RecordFormat(source.format, schema, source.reader), where)
    headers = sf.array(header(f"{ERRORS}file", sf.col("file")), header(f"{ERRORS}position", sf.col("position")))
    return converted.select(
        sf.lit(None).cast("binary").alias("key"),
        "value",
        sf.concat(sf.col("file"), sf.lit(", byte "), sf.col("position")).alias("origin"),
        sf.col("position").alias("order"),
        headers.cast(HEADERS).alias("headers"),
        sf.lit(False).alias("deleted"),
        sf.col("value_row").alias("row"),
        sf.col("value_error").alias("error"),
    )


def header_schema(source: FilesSource, where: str) -> str:
    """Columns of text, with the names in the first line of the first file. Raises :class:`PipelineError`."""
    if not source.header:
        raise PipelineError(f"{where}: format = \"csv\" wants a 'schema', or 'header = true' for columns of text")
    for pattern in source.path:
        for path in sorted(glob.glob(pattern, recursive=True)):
            with open(path, encoding="utf-8-sig") as file:
                names = file.readline().rstrip("\r\n").split(source.reader.get("sep", ","))
            if names != [""]:
                return ", ".join("`{}` STRING".format(name.strip().strip('"').replace("`", "``")) for name in names)
    raise PipelineError(f"{where}: no file of {', '.join(source.path)} has a header yet: write a 'schema'")


def read_topic(context: Context, source: TopicSource, errors: Errors, where: str) -> DataFrame:
    """The records of a topic. Raises :class:`PipelineError`."""
    options = {
        "startingOffsets": source.starting_offsets,
        "maxOffsetsPerTrigger": str(source.max_offsets_per_trigger),
        "failOnDataLoss": str(source.fail_on_data_loss).lower(),
        # Only dead letters need the original headers.
        "includeHeaders": str(errors.topic is not None).lower(),
    }
    frame = context.read_topic(source.topic, **options)
    frame = convert(frame, "value", RecordFormat(source.format, source.schema, source.reader), where)
    error, columns = sf.col("value_error"), _columns(frame, "value_row")
    if source.key_schema is not None:
        keys = RecordFormat(source.key_format, source.key_schema, source.reader)
        frame = convert(frame, "key", keys, f"{where} key_schema")
        error = sf.coalesce(error, sf.concat(sf.lit("key: "), sf.col("key_error")))
        # For a column of the key the value's field is used first, and the key's if the record has no value.
        for name, column in _columns(frame, "key_row").items():
            columns[name] = sf.coalesce(columns[name], column) if name in columns else column
    if source.metadata:
        columns |= {f"_{name}": sf.col(name) for name in _METADATA}
    told = sf.array(*(header(ERRORS + name, sf.col(name)) for name in _METADATA[:3])).cast(HEADERS)
    came = sf.coalesce(sf.col("headers"), sf.array().cast(HEADERS)) if errors.topic is not None else sf.array()
    return frame.select(
        "key",
        "value",
        sf.format_string("topic %s, partition %d, offset %d", "topic", "partition", "offset").alias("origin"),
        sf.col("offset").alias("order"),
        sf.concat(came.cast(HEADERS), told).alias("headers"),
        sf.col("value").isNull().alias("deleted"),
        sf.struct(*(column.alias(name) for name, column in columns.items())).alias("row"),
        error.alias("error"),
    )


def _columns(frame: DataFrame, row: str) -> dict[str, Column]:
    return {name: sf.col(row)[name] for name in frame.schema[row].dataType.names}
