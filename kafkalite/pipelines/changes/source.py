"""The data source ``kafkalite-changes``: a table of PostgreSQL, and then its changes, as a stream of records.

Answers to: nothing in Kafka; Debezium's ``PostgresConnectorTask`` for Kafka Connect. Shell.

Its offsets are positions in the database's log: a micro-batch that is run again has the same transactions, and
transactions before a checkpoint are not read again. The first micro-batch is a copy of the table. Changes committed
during the copy follow it, in their order, so that each key ends with its last value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, StructField, StructType

from kafkalite.pipelines.changes.pgoutput import SourceTransaction, Truncate, format_position, parse_position
from kafkalite.pipelines.changes.postgres import Slot, connect, find_table, rows, said_plainly
from kafkalite.pipelines.changes.records import ChangeRecord, change_records, row_record
from kafkalite.pipelines.changes.topic_keys import live_keys
from kafkalite.pipelines.errors import PipelineError

FORMAT = "kafkalite-changes"
Offset = dict[str, str]
_BEGINNING = ""
_ALL = 1 << 30
_RESTART = "start again with an empty topic and a new state"


@dataclass(frozen=True)
class ChangesOptions:
    """The table's address, the slot's name, the approximate changes in a micro-batch, and the options for reading the
    target topic, whose keys are needed for a ``TRUNCATE``, because only the topic has the removed rows."""

    url: str
    table: str
    slot: str
    limit: int
    topic: Mapping[str, str]

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ChangesOptions:
        """From the options of a stream."""
        topic = {name: value for name, value in options.items() if name == "subscribe" or name.startswith("kafka.")}
        limit = int(options.get("maxChangesPerTrigger", "10000"))
        return cls(options["url"], options["table"], options["slot"], limit, topic)


class ChangesDataSource(DataSource):  # type: ignore[misc]
    """``readStream.format("kafkalite-changes")`` with ``url``, ``table``, ``slot``, ``maxChangesPerTrigger``; and
    ``subscribe`` and ``kafka.…`` as for ``format("kafkalite")``: the topic to which the records go."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """A record of a topic."""
        return StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])

    def streamReader(self, schema: StructType) -> ChangesReader:  # noqa: ARG002, N802  (Spark's signature)
        """For streaming queries."""
        return ChangesReader(ChangesOptions.parse(self.options))


class LogRange(InputPartition):  # type: ignore[misc]
    """One task: the transactions committed after ``start`` up to ``end``, or the whole table."""

    def __init__(self, start: str, end: str) -> None:
        super().__init__((start, end))
        self.start = start
        self.end = end


class ChangesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads in the order of the commits, in one task."""

    def __init__(self, options: ChangesOptions) -> None:
        self.options = options
        self._connection: Any = None
        self._stop: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        """The position before the copy of the table."""
        return {"position": _BEGINNING}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Whole transactions up to a number of changes."""
        return ReadMaxRows(self.options.limit)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """The end of the next micro-batch. Raises :class:`PipelineError` if the log does not reach back to ``start``
        any more."""
        with self._reading():
            return {"position": self._next(start["position"], limit)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Limit all reading to the current end of the log."""
        with self._reading():
            self._stop = self._slot().end_of_log()

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """One task, because the changes must stay in order."""
        return [LogRange(start["position"], end["position"])]

    def read(self, partition: LogRange) -> Iterator[ChangeRecord]:
        """The records of a task."""
        with connect(self.options.url) as connection, self._reading():
            table = find_table(connection, self.options.table)
            if partition.start == _BEGINNING:
                for values in rows(connection, table):
                    yield row_record(table.columns, values, table.key)
                return
            start, end = parse_position(partition.start), parse_position(partition.end)
            changes = Slot(connection, self.options.slot).changes(start, end)
            yield from records_of(changes, table.key, lambda: live_keys(self.options.topic))

    def commit(self, end: Offset) -> None:
        """Confirm to PostgreSQL the changes that are in the topic."""
        with self._reading():
            self._slot().advance(parse_position(end["position"]))

    def stop(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _next(self, start: str, limit: ReadLimit) -> str:
        slot = self._slot()
        kept_from = slot.position()
        if kept_from is None:
            raise PipelineError(f"the slot '{slot.name}' is gone, and with it what changed: {_RESTART}")
        if start == _BEGINNING:
            return format_position(kept_from)
        begun = parse_position(start)
        if kept_from > begun:
            raise PipelineError(
                f"the slot '{slot.name}' begins at {format_position(kept_from)}, behind {start}: {_RESTART}"
            )
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else _ALL
        end = slot.next_end(begun, most, self._stop)
        if end == begun and kept_from < begun:
            # Confirm here, too, because Spark's own confirmation comes one micro-batch late: each read would
            # begin with the previous changes.
            slot.advance(begun)
        return format_position(end if end > begun else slot.quiet_end(begun, self._stop))

    def _reading(self) -> AbstractContextManager[None]:
        return said_plainly(f"changes of {self.options.table} cannot be read")

    def _slot(self) -> Slot:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self.options.url)
        return Slot(self._connection, self.options.slot)


def records_of(
    transactions: Iterable[SourceTransaction], key: Sequence[str], in_topic: Callable[[], Collection[bytes]]
) -> Iterator[ChangeRecord]:
    """The records of a micro-batch's transactions; ``in_topic`` gives the keys with a value in the topic, and is
    called only if a ``TRUNCATE`` needs them."""
    there: dict[bytes, bool] = {}
    for transaction in transactions:
        for change in transaction.changes:
            if isinstance(change, Truncate):
                gone = {**dict.fromkeys(in_topic(), True), **there}
                records = [ChangeRecord(each, None) for each in sorted(gone) if gone[each]]
            else:
                records = list(change_records(change, key))
            there.update((record.key, record.value is not None) for record in records)
            yield from records
