"""Connect's job: one source, one sink, as the file declares them.

Answers to: ``org.apache.kafka.connect.runtime.{WorkerSourceTask,WorkerSinkTask}``. Shell.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

from kafkalite.pipelines.admin import check_topics, ensure_topic
from kafkalite.pipelines.connect.options import (
    FilesSource,
    Options,
    TopicSink,
    TopicSource,
    parse_sink,
    parse_source,
)
from kafkalite.pipelines.connect.records import as_records, key_column, value_column
from kafkalite.pipelines.connect.sources import read_files
from kafkalite.pipelines.context import Context
from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.pipeline import Pipeline

__all__ = ["Options", "start"]

QUERY = "connect"


def start(context: Context, options: Options) -> list[StreamingQuery]:
    """Begin to move records. Raises :class:`PipelineError`."""
    where = context.pipeline.where
    source, sink = parse_source(options, where), parse_sink(options, where)
    assert isinstance(source, FilesSource) and isinstance(sink, TopicSink)
    records = read_files(context, source, f"{where} [source]")
    records = records.observe("records", sf.count(sf.lit(1)).alias("read"), sf.count("error").alias("bad"))
    return [_to_topic(context, records, sink, options)]


def check(pipeline: Pipeline, options: Options) -> None:
    """All that can be found wrong without Spark. Raises :class:`PipelineError`."""
    source, sink = parse_source(options, pipeline.where), parse_sink(options, pipeline.where)
    if isinstance(sink, TopicSink) and sink.partitions is not None:
        ensure_topic(pipeline, sink.topic, sink.partitions, {})
    ends = [each.topic for each in (source, sink) if isinstance(each, TopicSource | TopicSink)]
    check_topics(pipeline, [*ends, *filter(None, [options.errors.topic])])


def _to_topic(context: Context, records: DataFrame, sink: TopicSink, options: Options) -> StreamingQuery:
    where = f"{context.pipeline.where} [sink]"
    row = records.schema["row"].dataType
    for name in sink.key:
        if name not in row.names:
            raise PipelineError(f"{where}: key: no column '{name}'; there are {', '.join(row.names)}")
    value = value_column(sink.format, row, sink.writer, where)
    frame = as_records(records, key_column(sink.key), value, sink.topic, options.errors, context.pipeline.name)
    return context.write_topic(frame, "", query=QUERY)
