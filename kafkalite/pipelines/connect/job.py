"""Connect's job: one source, one sink, as the pipeline's file declares them.

Answers to: ``org.apache.kafka.connect.runtime.Connect``, with one connector. Shell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

from kafkalite.pipelines.admin import check_topics, ensure_topic
from kafkalite.pipelines.connect.jdbc import Database
from kafkalite.pipelines.connect.jdbc_sink import SinkTable
from kafkalite.pipelines.connect.jdbc_source import Rounds, read_table
from kafkalite.pipelines.connect.options import (
    Errors,
    FileSink,
    FilesSource,
    JdbcSink,
    JdbcSource,
    Options,
    Sink,
    TopicSink,
    TopicSource,
    parse_sink,
    parse_source,
)
from kafkalite.pipelines.connect.records import checked, dead_letters, for_topic, key_column, value_column, watched
from kafkalite.pipelines.connect.sinks import Files
from kafkalite.pipelines.connect.sources import read_files, read_topic
from kafkalite.pipelines.connect.sql import without_secrets
from kafkalite.pipelines.context import Context
from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.pipeline import Pipeline

__all__ = ["Options", "check", "describe", "start"]

QUERY = "connect"


def check(pipeline: Pipeline, options: Options) -> None:
    """All checks that need no Spark. Raises :class:`PipelineError`."""
    source, sink = parse_source(options, pipeline.where), parse_sink(options, pipeline.where)
    if not isinstance(source, TopicSource) and not isinstance(sink, TopicSink):
        raise PipelineError(f'{pipeline.where}: the source or the sink must be of type = "topic"')
    if isinstance(source, JdbcSource) and options.errors.policy != "fail":
        raise PipelineError(f"{pipeline.where} [errors]: rows of a table are never bad: leave the table out")
    if isinstance(sink, TopicSink) and sink.partitions is not None:
        ensure_topic(pipeline, sink.topic, sink.partitions, {})
    ends = [each.topic for each in (source, sink) if isinstance(each, TopicSource | TopicSink)]
    check_topics(pipeline, [*ends, *filter(None, [options.errors.topic])])


def describe(options: Options) -> str:
    """Source and sink as text, for people."""
    return f"{_name(options.source)} -> {_name(options.sink)}, errors: {options.errors.topic or options.errors.policy}"


def _name(end: Mapping[str, object]) -> str:
    if "url" in end:
        return f"table {end.get('table') or '(query)'} at {without_secrets(str(end['url']))}"
    return f"{end['type']} {end.get('topic') or end.get('path')}"


def start(context: Context, options: Options) -> list[StreamingQuery]:
    """Start the query. Raises :class:`PipelineError`."""
    where = context.pipeline.where
    source, sink = parse_source(options, where), parse_sink(options, where)
    if isinstance(source, JdbcSource):
        assert isinstance(sink, TopicSink)
        return [_table_to_topic(context, source, sink)]
    records = watched(_read(context, source, options))
    if isinstance(sink, TopicSink):
        return [_to_topic(context, records, source, sink, options)]
    write = _writer(context, records, sink)

    def move(batch: DataFrame, number: int) -> None:
        topic = options.errors.topic
        if topic is not None:
            batch.persist()
            context.write_once(dead_letters(batch, topic, context.pipeline.name), "", number)
        write(checked(batch, options.errors), number)
        batch.unpersist()

    return [context.write_each(records, move, query=QUERY)]


def _read(context: Context, source: FilesSource | TopicSource, options: Options) -> DataFrame:
    where = f"{context.pipeline.where} [source]"
    if isinstance(source, FilesSource):
        return read_files(context, source, where)
    return read_topic(context, source, options.errors, where)


def _to_topic(
    context: Context, records: DataFrame, source: FilesSource | TopicSource, sink: TopicSink, options: Options
) -> StreamingQuery:
    """Good records and dead letters in one query, so that each is written once."""
    as_it_came = source.schema is None and source.format == sink.format
    frame = _as_written(context, records, sink, options.errors, as_it_came=as_it_came)
    return context.write_topic(frame, "", query=QUERY)


def _as_written(
    context: Context, records: DataFrame, sink: TopicSink, errors: Errors, *, as_it_came: bool = False
) -> DataFrame:
    where = f"{context.pipeline.where} [sink]"
    row = records.schema["row"].dataType
    value = sf.col("value") if as_it_came else value_column(sink.format, row, sink.writer, where)
    key = key_column(sink.key, row, where)
    return for_topic(records, sink.topic, key, value, errors, context.pipeline.name)


def _table_to_topic(context: Context, source: JdbcSource, sink: TopicSink) -> StreamingQuery:
    rounds = Rounds(_database(context, source, "source"), source)
    rounds.check()

    def write(records: DataFrame, number: int) -> None:
        seen = Observation()
        counted = records.observe(seen, sf.count(sf.lit(1)).alias("rows"))
        context.write_once(_as_written(context, counted, sink, Errors()), "", number)
        context.moved(f"{context.pipeline.name}.{QUERY}", seen.get["rows"])

    return read_table(context, source, QUERY, rounds, write)


def _writer(context: Context, records: DataFrame, sink: Sink) -> Callable[[DataFrame, int], None]:
    """The function that writes the rows of a micro-batch to files or a table."""
    where, columns = f"{context.pipeline.where} [sink]", records.schema["row"].dataType.names
    if isinstance(sink, JdbcSink):
        return SinkTable.find(_database(context, sink, "sink"), sink, columns).write
    assert isinstance(sink, FileSink)
    for name in sink.partition_by:
        if name not in columns:
            raise PipelineError(f"{where}: partition_by: no column '{name}'; there are {', '.join(columns)}")
    files = Files(sink.type, sink.path, sink.partition_by, sink.writer)
    return lambda batch, number: files.write(batch.where("not deleted").select("row.*"), number)


def _database(context: Context, side: JdbcSource | JdbcSink, table: str) -> Database:
    where = f"{context.pipeline.where} [{table}]"
    return Database(context.spark, side.url, side.user, side.password, side.driver, where)
