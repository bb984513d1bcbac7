"""Files and topics as frames of records with their origin.

Answers to: ``org.apache.kafka.connect.source.SourceTask``. Shell.
"""

from __future__ import annotations

import glob

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from kafkalite.pipelines.connect.options import FilesSource, Records, parse_size
from kafkalite.pipelines.connect.records import ERRORS, HEADERS, header, parsed
from kafkalite.pipelines.context import Context
from kafkalite.pipelines.errors import PipelineError


def read_files(context: Context, source: FilesSource, where: str) -> DataFrame:
    """The lines of growing files as records. Raises :class:`PipelineError`."""
    lines = (
        context.spark.readStream.format("kafkalite-files")
        .option("path", ",".join(source.path))
        .option("header", str(source.header).lower())
        .option("maxBytesPerTrigger", parse_size(source.max_bytes_per_trigger))
        .option("tasks", source.tasks)
        .option("failOnDataLoss", str(source.fail_on_data_loss).lower())
        .load()
    )
    if source.format != "text":
        lines = lines.where(sf.length("value") > 0)
    headers = sf.array(header(f"{ERRORS}file", sf.col("file")), header(f"{ERRORS}position", sf.col("position")))
    raw = lines.select(
        sf.lit(None).cast("binary").alias("key"),
        "value",
        sf.concat(sf.col("file"), sf.lit(", byte "), sf.col("position")).alias("origin"),
        headers.cast(HEADERS).alias("headers"),
    )
    schema = source.schema
    if schema is None and source.format == "csv":
        schema = header_schema(source, where)
    return parsed(raw, Records(source.format, schema, source.reader), where)


def header_schema(source: FilesSource, where: str) -> str:
    """Columns of text, as the first line of the first file names them. Raises :class:`PipelineError`."""
    if not source.header:
        raise PipelineError(f"{where}: format = \"csv\" wants a 'schema', or 'header = true' for columns of text")
    for pattern in source.path:
        for path in sorted(glob.glob(pattern, recursive=True)):
            with open(path, encoding="utf-8-sig") as file:
                names = file.readline().rstrip("\r\n").split(source.reader.get("sep", ","))
            if names != [""]:
                return ", ".join("`{}` STRING".format(name.strip().strip('"').replace("`", "``")) for name in names)
    raise PipelineError(f"{where}: no file of {', '.join(source.path)} has a header yet: write a 'schema'")
