"""The job ``commit-log``: a database's changes into a compacted topic, and copies of tables from it.

Answers to: nothing in Kafka; Debezium's source and a JDBC sink for Kafka Connect. Shell.

Changes are captured from the database's own log, through logical decoding, because it has every change once, in the
order of the commits, including deletes. A table filled by triggers costs every writer a second write, is numbered in
another order than that of the commits (a reader by number misses changes that commit late), and must be emptied.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from kafkalite.pipelines.changes.copy import TableCopy, TopicRow
from kafkalite.pipelines.changes.postgres import Slot, connect, find_table
from kafkalite.pipelines.changes.source import FORMAT, ChangesDataSource
from kafkalite.pipelines.context import Context

_SLOT = re.compile("[a-z0-9_]{1,63}")


@dataclass(frozen=True)
class Options:
    """``database`` is the source of the changes, ``copy`` the target of the copied table: one of them, or both.

    Both are PostgreSQL's addresses (``postgresql://user:password@host/name``). ``table`` has the changes,
    ``copy_table`` (by default a table of the same name) is the copy; they have the same columns. ``slot`` names the
    replication slot and publication, by default after the pipeline. The ``topic`` is created if it does not exist,
    compacted, with ``partitions`` and ``topic_configs``. A micro-batch has about ``batch`` changes, or records.
    """

    topic: str
    table: str
    database: str = ""
    copy: str = ""
    copy_table: str = ""
    slot: str = ""
    partitions: int = 1
    topic_configs: Mapping[str, str] = field(default_factory=dict)
    batch: int = 10_000

    def __post_init__(self) -> None:
        if not self.database and not self.copy:
            raise ValueError("'database' (where changes come from), 'copy' (where a table is made of them), or both")
        if self.slot and not _SLOT.fullmatch(self.slot):
            raise ValueError(f"slot '{self.slot}' may have a to z, 0 to 9 and '_', 63 at most")


def start(context: Context, options: Options) -> list[StreamingQuery]:
    """Start capturing, copying, or both. Raises :class:`PipelineError`."""
    context.ensure_topic(options.topic, options.partitions, **{"cleanup.policy": "compact", **options.topic_configs})
    queries = []
    if options.database:
        queries.append(_capture(context, options))
    if options.copy:
        queries.append(_copy(context, options))
    return queries


def _capture(context: Context, options: Options) -> StreamingQuery:
    slot = slot_name(options.slot, context.pipeline.name)
    with connect(options.database) as connection:
        Slot(connection, slot).set_up(find_table(connection, options.table))
    context.spark.dataSource.register(ChangesDataSource)
    settings = {
        **context.pipeline.kafka_options(),
        "subscribe": options.topic,
        "url": options.database,
        "table": options.table,
        "slot": slot,
        "maxChangesPerTrigger": str(options.batch),
    }
    changes = context.spark.readStream.format(FORMAT).options(**settings).load()
    return context.write_topic(changes, options.topic, query="changes")


def slot_name(slot: str, pipeline: str) -> str:
    """``slot``, or one after the pipeline's name."""
    return slot or ("kafkalite_" + re.sub("[^a-z0-9]", "_", pipeline))[:63]


def _copy(context: Context, options: Options) -> StreamingQuery:
    copy = TableCopy(options.copy, options.copy_table or options.table, options.topic)
    generation = copy.begin()
    records = context.read_topic(options.topic, maxOffsetsPerTrigger=str(options.batch))
    # A new copy has a query of its own, because the topic is read from its beginning.
    return context.write_each(records, _applying(copy, generation), query=f"copy-{generation}")


def _applying(copy: TableCopy, generation: str) -> Callable[[DataFrame, int], None]:
    def apply(frame: DataFrame, _: int) -> None:
        copy.apply(generation, [TopicRow(*row) for row in frame.select(*TopicRow._fields).collect()])

    return apply
