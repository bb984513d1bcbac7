"""The writers that Spark calls: for the result of a batch query, and for the micro-batches of a stream.

Answers to: ``org.apache.spark.sql.kafka010.{KafkaBatchWrite,KafkaStreamingWrite,KafkaWriter}``. Blocking shell.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from kafkalite.spark.errors import KafkaWriteError
from kafkalite.spark.exactly_once import abort, commit, write_attempt
from kafkalite.spark.housekeeping import freeze_objects
from kafkalite.spark.options import OptionError
from kafkalite.spark.row_writer import write_at_least_once
from kafkalite.spark.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
_COLUMNS = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}


def check_schema(schema: StructType, topic: str | None) -> None:
    """Check that the columns can be written. ``topic``: the option's value. Raises ``OptionError`` in Spark's words."""
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    if topic is None and "topic" not in found:
        raise OptionError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if "value" not in found:
        raise OptionError("Required attribute 'value' not found")
    for name, allowed in _COLUMNS.items():
        kind = found.get(name, allowed[0])
        if name == "topic" and topic is not None:
            continue
        if kind not in allowed and not kind.startswith("string collate"):
            raise OptionError(f"{name} attribute unsupported type {kind}. {name} must be a(n) {' or '.join(allowed)}")


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """``df.write.format("kafkalite")``: at least once, or once under the name ``kafkalite.batchId``.

    In a stream's ``foreachBatch`` the name is ``kafkalite.queryId`` with the number of the micro-batch. As of the
    stream sink, only the last number is remembered.
    """

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self.nonce = os.urandom(6).hex()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        if self.options.batch_id is None:
            return write_at_least_once(self.options, iterator)
        return write_attempt(self.options, *batch_of(self.options), self.nonce, iterator)

    def commit(self, messages: list[WriterCommitMessage]) -> None:
        """All tasks have written: decide, if the write has a name."""
        freeze_objects()
        if self.options.batch_id is not None:
            commit(self.options, messages)

    def abort(self, messages: list[WriterCommitMessage]) -> None:
        """A task or :meth:`commit` has failed."""
        if self.options.batch_id is not None:
            abort(self.options, messages, *batch_of(self.options))


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """``df.writeStream.format("kafkalite")``: exactly once, or at least once with ``kafkalite.exactlyOnce=false``."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self.nonce = os.urandom(6).hex()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task attempt of a micro-batch."""
        if not self.options.exactly_once:
            return write_at_least_once(self.options, iterator)
        context = TaskContext.get()
        query = context and context.getLocalProperty(_QUERY)
        batch = context and context.getLocalProperty(_BATCH)
        if query is None or batch is None:
            raise KafkaWriteError(f"the task knows no {_QUERY} or {_BATCH}: set kafkalite.exactlyOnce=false")
        return write_attempt(self.options, query, int(batch), self.nonce, iterator)

    def commit(self, messages: list[WriterCommitMessage], batchId: int) -> None:  # noqa: ARG002, N803  (Spark's signature)
        """Make the rows of the batch visible. Raises ``DecisionError`` and ``KafkaClientError``."""
        if self.options.exactly_once:
            commit(self.options, messages)

    def abort(self, messages: list[WriterCommitMessage], batchId: int) -> None:  # noqa: N803  (as above)
        """Abort the transactions of the batch, unless it was decided."""
        if self.options.exactly_once:
            abort(self.options, messages, None, batchId)


def batch_of(options: SinkOptions) -> tuple[str, int]:
    """The query and the number under which a named batch write uses the stream sink's protocol."""
    if options.query is not None:
        return options.query, int(options.batch_id or 0)
    return f"batch-{options.batch_id}", 0
