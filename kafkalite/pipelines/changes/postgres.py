"""PostgreSQL, as far as capturing changes needs it: the set-up, the slot's changes, a first copy of a table.

Answers to: nothing in Kafka; Debezium's ``PostgresConnection`` for Kafka Connect. Blocking shell around psycopg.

The slot makes PostgreSQL keep its log until a reader confirms a position. Reading (``peek``) confirms nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kafkalite.pipelines.changes.pgoutput import (
    Column,
    SourceTransaction,
    Values,
    format_position,
    parse_position,
    transactions,
)
from kafkalite.pipelines.errors import PipelineError

SLOT_TIMEOUT = 60.0
"""Seconds to wait for a slot that a dead reader still holds: its server process notices at its next answer."""
_IN_USE = "55006"
FETCH = 5_000
"""Rows of a table at a time."""
QUIET = 16 << 20
"""Bytes of the log without a change of the table that are passed over in one step."""


def connect(url: str, *, autocommit: bool = True) -> Any:
    """A connection with fixed text formats for all sessions. Raises :class:`PipelineError`."""
    try:
        import psycopg
    except ImportError:
        raise PipelineError("psycopg is not installed: pip install 'kafkalite[postgresql]'") from None
    styles = "-c datestyle=ISO -c intervalstyle=postgres -c timezone=UTC -c extra_float_digits=1 -c bytea_output=hex"
    with said_plainly("cannot connect to the database"):
        given = psycopg.conninfo.conninfo_to_dict(url)
        options = f"{given.get('options', '')} {styles}".strip()
        return psycopg.connect(
            url, autocommit=autocommit, options=options, application_name="kafkalite", client_encoding="UTF8"
        )


@contextmanager
def said_plainly(what: str) -> Iterator[None]:
    """Convert the database's errors to :class:`PipelineError`: ``what`` failed, and the line that says why."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise PipelineError(f"{what}: {str(error).partition(chr(10))[0]}") from error


@dataclass(frozen=True)
class SourceTable:
    """A table with a primary key. ``name`` is quoted if necessary; ``columns`` leaves out generated columns."""

    name: str
    oid: int
    columns: tuple[Column, ...]
    key: tuple[str, ...]


def find_table(connection: Any, name: str) -> SourceTable:
    """The table of that name, in SQL's form. Raises :class:`PipelineError` if it or its primary key does not exist."""
    found = connection.execute(
        "SELECT pg_class.oid, format('%%I.%%I', nspname, relname) FROM pg_class"
        " JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE pg_class.oid = to_regclass(%s) AND relkind = 'r'",
        (name,),
    ).fetchone()
    if found is None:
        raise PipelineError(f"the database '{connection.info.dbname}' has no table '{name}'")
    oid, full_name = found
    columns = connection.execute(
        "SELECT attname, atttypid FROM pg_attribute"
        " WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
        (oid,),
    ).fetchall()
    key = connection.execute(
        "SELECT attname FROM pg_index, unnest(indkey) WITH ORDINALITY AS part (attnum, place)"
        " JOIN pg_attribute USING (attnum) WHERE indrelid = %s AND indisprimary AND attrelid = indrelid ORDER BY place",
        (oid,),
    ).fetchall()
    if not key:
        raise PipelineError(f"table {full_name} has no primary key, which is to be the records' key")
    return SourceTable(full_name, oid, tuple(Column(*column) for column in columns), tuple(column for (column,) in key))


class Slot:
    """A logical replication slot and its publication of one table, both with the same ``name``."""

    def __init__(self, connection: Any, name: str) -> None:
        self._connection = connection
        self.name = name

    def set_up(self, table: SourceTable) -> bool:
        """Create slot and publication if missing; returns whether the slot is new. Raises :class:`PipelineError`."""
        level = self._value("SHOW wal_level")
        if level != "logical":
            raise PipelineError(f"the database has wal_level = {level}: logical is needed, and a restart")
        with said_plainly(f"changes of {table.name} cannot be captured"):
            if self._value("SELECT relreplident FROM pg_class WHERE oid = %s", table.oid) != "f":
                # Otherwise the log lacks large values that an update leaves unchanged.
                self._connection.execute(f"ALTER TABLE {table.name} REPLICA IDENTITY FULL")
            # Before the slot, because it uses the publications as they were when a change was made.
            published = self._value(
                "SELECT array_agg(prrelid) FROM pg_publication LEFT JOIN pg_publication_rel"
                " ON prpubid = pg_publication.oid WHERE pubname = %s",
                self.name,
            )
            if published is None:
                self._connection.execute(f"CREATE PUBLICATION {self.name} FOR TABLE {table.name}")
            elif published != [table.oid]:
                raise PipelineError(
                    f"the publication '{self.name}' is not of {table.name} alone: drop it, or name another slot"
                )
            if self.position() is not None:
                return False
            self._value("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", self.name)
            return True

    def position(self) -> int | None:
        """The position up to which its changes are confirmed; ``None`` if there is no such slot."""
        text = self._value(
            "SELECT confirmed_flush_lsn FROM pg_replication_slots"
            " WHERE slot_name = %s AND database = current_database()",
            self.name,
        )
        return None if text is None else parse_position(text)

    def end_of_log(self) -> int:
        """The end of the log now. A record is written after it, so that all before it is on disk and can be read."""
        end = parse_position(self._value("SELECT pg_current_wal_insert_lsn()"))
        self._value("SELECT pg_logical_emit_message(true, 'kafkalite', '')")
        return end

    def quiet_end(self, start: int, stop: int | None = None) -> int:
        """The end of a long stretch without changes after ``start``, because PostgreSQL may drop that part of its log.
        Otherwise ``start``. At most ``stop``, which is an :meth:`end_of_log`."""
        end = parse_position(self._value("SELECT pg_current_wal_insert_lsn()")) if stop is None else stop
        if end - start < QUIET:
            return start
        end = self.end_of_log() if stop is None else stop
        return end if self.next_end(start, 1, end) == start else start

    def changes(self, start: int, end: int) -> Iterator[SourceTransaction]:
        """The transactions committed after ``start``, up to ``end``."""
        rows = self._patiently(
            "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s, NULL, 'proto_version', '1',"
            " 'publication_names', %s)",
            (self.name, format_position(end), self.name),
        )
        return (each for each in transactions(data for (data,) in rows) if start < each.end <= end)

    def next_end(self, start: int, limit: int, stop: int | None = None) -> int:
        """The end of the transaction that contains the ``limit``-th message after ``start``; ``start`` if there is
        no message. Messages after ``stop`` are ignored."""
        while True:
            found, count = self._patiently(
                "SELECT max(lsn), count(*) FROM pg_logical_slot_peek_binary_changes(%s, %s, %s, 'proto_version', '1',"
                " 'publication_names', %s)",
                (self.name, None if stop is None else format_position(stop), limit, self.name),
            ).fetchone()
            end = parse_position(found) if found else 0
            # The first messages may be confirmed ones, because the slot is one step behind.
            if end > start or count < limit:
                return max(end, start)
            limit *= 2

    def advance(self, position: int) -> None:
        """Confirm all changes up to ``position``."""
        if (self.position() or 0) < position:
            self._patiently("SELECT pg_replication_slot_advance(%s, %s)", (self.name, format_position(position)))

    def _patiently(self, statement: str, values: tuple[object, ...]) -> Any:
        """Run a statement that needs exclusive use of the slot."""
        import psycopg

        deadline = time.monotonic() + SLOT_TIMEOUT
        while True:
            try:
                return self._connection.execute(statement, values)
            except psycopg.Error as error:
                if error.sqlstate != _IN_USE or time.monotonic() > deadline:
                    raise
            time.sleep(0.5)

    def _value(self, statement: str, *values: object) -> Any:
        row = self._connection.execute(statement, values).fetchone()
        return row and row[0]


def rows(connection: Any, table: SourceTable) -> Iterator[Values]:
    """All rows of ``table`` at one moment, in the form of the log's changes."""
    names = ", ".join('"' + column.name.replace('"', '""') + '"' for column in table.columns)
    with connection.transaction():
        connection.execute(f"DECLARE first_copy NO SCROLL CURSOR FOR SELECT {names} FROM {table.name}")
        while True:
            result = connection.execute(f"FETCH {FETCH} FROM first_copy").pgresult
            for row in range(result.ntuples):
                yield tuple(result.get_value(row, column) for column in range(result.nfields))
            if result.ntuples < FETCH:
                return
