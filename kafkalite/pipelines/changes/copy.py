"""A table built from a topic's records, with its positions in the topic stored beside it.

Answers to: nothing in Kafka; ``org.apache.kafka.connect.sink.SinkTask`` with offsets of its own. Blocking shell around
psycopg.

Rows and positions change in one transaction of the copy's own database, so each record counts once, also after a
crash. A copy that was dropped, emptied or restored is recognised by its file on disk and built again.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from kafkalite.pipelines.changes.postgres import SourceTable, connect, find_table, said_plainly
from kafkalite.pipelines.errors import PipelineError

_POSITIONS = """
CREATE TABLE IF NOT EXISTS kafkalite_copies (
    copy text PRIMARY KEY, topic text NOT NULL, generation text NOT NULL, file bigint NOT NULL, positions jsonb NOT NULL
)
"""


class TopicRow(NamedTuple):
    """A record with its position in the topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class CopyLostError(Exception):
    """The copy is not the one that the run began with: it was dropped or emptied meanwhile."""


class TableCopy:
    """The copy of ``topic`` in the table of that ``name``. Raises :class:`PipelineError` if there is none."""

    def __init__(self, url: str, name: str, topic: str) -> None:
        self._url = url
        self._name = name
        self._topic = topic

    def begin(self) -> str:
        """The generation of the copy: if the copy was replaced, a new one with an empty table."""
        with self._transaction() as connection:
            table = find_table(connection, self._name)
            connection.execute(_POSITIONS)
            known = self._known(connection, table)
            if known is not None and known["topic"] != self._topic:
                raise PipelineError(
                    f"table {table.name} is the copy of topic '{known['topic']}': to make one of '{self._topic}' of it,"
                    f" empty it, and DELETE FROM kafkalite_copies WHERE copy = '{table.name}'"
                )
            if known is not None and known["intact"]:
                return str(known["generation"])
            full = connection.execute(f"SELECT EXISTS (SELECT FROM {table.name})").fetchone()[0]
            if full and known is None:
                raise PipelineError(
                    f"table {table.name} has rows that are not of topic '{self._topic}': empty it, or name another"
                )
            if full:
                connection.execute(f"TRUNCATE {table.name}")
            generation = uuid.uuid4().hex
            connection.execute(
                "INSERT INTO kafkalite_copies VALUES (%s, %s, %s, pg_relation_filenode(%s), '{}')"
                " ON CONFLICT (copy) DO UPDATE SET topic = excluded.topic, generation = excluded.generation,"
                " file = excluded.file, positions = excluded.positions",
                (table.name, self._topic, generation, table.oid),
            )
            return generation

    def apply(self, generation: str, rows: Collection[TopicRow]) -> None:
        """Apply ``rows`` to the copy, except those that it has already. Raises :class:`CopyLostError`."""
        with self._transaction() as connection:
            table = find_table(connection, self._name)
            known = self._known(connection, table)
            if known is None or not known["intact"] or known["generation"] != generation:
                raise CopyLostError(
                    f"table {table.name} was dropped or emptied while it was written: a restart rebuilds it"
                )
            positions = {int(partition): offset for partition, offset in known["positions"].items()}
            new = [row for row in sorted(rows) if row.offset >= positions.get(row.partition, 0)]
            if not new:
                return
            _write(connection, table, latest(new))
            positions |= {row.partition: row.offset + 1 for row in new}
            connection.execute(
                "UPDATE kafkalite_copies SET positions = %s WHERE copy = %s", (json.dumps(positions), table.name)
            )

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        with (
            said_plainly(f"the copy {self._name} cannot be written"),
            connect(self._url, autocommit=False) as connection,
        ):
            yield connection

    def _known(self, connection: Any, table: SourceTable) -> Mapping[str, Any] | None:
        """The copy's entry in the database, locked until the end of the transaction."""
        row = connection.execute(
            "SELECT topic, generation, positions, file = pg_relation_filenode(%s) FROM kafkalite_copies"
            " WHERE copy = %s FOR UPDATE",
            (table.oid, table.name),
        ).fetchone()
        return row and dict(zip(("topic", "generation", "positions", "intact"), row, strict=True))


def latest(rows: Iterable[TopicRow]) -> dict[bytes, bytes | None]:
    """The last value of each key; records without a key are ignored."""
    return {row.key: row.value for row in rows if row.key is not None}


def _write(connection: Any, table: SourceTable, values: Mapping[bytes, bytes | None]) -> None:
    """Insert or update rows with a value, delete the others."""
    columns = [_quote(column.name) for column in table.columns]
    key = [_quote(name) for name in table.key]
    others = ", ".join(f"{column} = excluded.{column}" for column in columns if column not in key)
    connection.execute("CREATE TEMPORARY TABLE incoming (key json NOT NULL, value json) ON COMMIT DROP")
    with connection.cursor() as cursor, cursor.copy("COPY incoming FROM STDIN") as copy:
        for each, value in values.items():
            copy.write_row((each.decode(), None if value is None else value.decode()))
    made = f"json_populate_record(NULL::{table.name}, incoming"
    connection.execute(
        f"DELETE FROM {table.name} WHERE ({', '.join(key)}) IN"
        f" (SELECT {_made(key)} FROM incoming, {made}.key) AS made WHERE incoming.value IS NULL)"
    )
    connection.execute(
        f"INSERT INTO {table.name} ({', '.join(columns)}) OVERRIDING SYSTEM VALUE"
        f" SELECT {_made(columns)} FROM incoming, {made}.value) AS made WHERE incoming.value IS NOT NULL"
        f" ON CONFLICT ({', '.join(key)}) DO {f'UPDATE SET {others}' if others else 'NOTHING'}"
    )


def _made(columns: Iterable[str]) -> str:
    return ", ".join(f"made.{column}" for column in columns)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
