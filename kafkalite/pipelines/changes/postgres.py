"""PostgreSQL, as far as capturing changes needs it: what must be set up, the slot's changes, a first copy of a table.

Answers to: nothing in Kafka; Debezium's ``PostgresConnection`` for Kafka Connect. Blocking shell around psycopg.

The slot makes PostgreSQL keep its log until somebody says what is done with. Looking at it (``peek``) moves nothing.
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
"""Seconds for a slot that a dead reader still holds: its server process notices when it next answers."""
_IN_USE = "55006"
FETCH = 5_000
"""Rows of a table at a time."""
QUIET = 16 << 20
"""Bytes of the log, with nothing of the table, that are passed over in a step."""


def connect(url: str, *, autocommit: bool = True) -> Any:
    """A connection whose texts every session writes alike. Raises :class:`PipelineError`."""
    try:
        import psycopg
    except ImportError:
        raise PipelineError("psycopg is not installed: pip install 'kafkalite[postgresql]'") from None
    styles = "-c datestyle=ISO -c intervalstyle=postgres -c timezone=UTC -c extra_float_digits=1 -c bytea_output=hex"
    with said_plainly("the database does not let us in"):
        given = psycopg.conninfo.conninfo_to_dict(url)
        options = f"{given.get('options', '')} {styles}".strip()
        return psycopg.connect(
            url, autocommit=autocommit, options=options, application_name="kafkalite", client_encoding="UTF8"
        )


@contextmanager
def said_plainly(what: str) -> Iterator[None]:
    """The database's errors as :class:`PipelineError`: ``what`` cannot be done, and the line that says why."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise PipelineError(f"{what}: {str(error).partition(chr(10))[0]}") from error


@dataclass(frozen=True)
class SourceTable:
    """A table with a primary key. ``name`` is quoted where it must be; ``columns`` leaves out what is generated."""

    name: str
    oid: int
    columns: tuple[Column, ...]
    key: tuple[str, ...]


def find_table(connection: Any, name: str) -> SourceTable:
    """The table of that name, as SQL writes it. Raises :class:`PipelineError` where it, or its primary key, is not."""
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
    """A logical replication slot, with the publication of one table that it speaks of, both of one ``name``."""

    def __init__(self, connection: Any, name: str) -> None:
        self._connection = connection
        self.name = name

    def set_up(self, table: SourceTable) -> bool:
        """Make what is not there yet; whether the slot had to be made. Raises :class:`PipelineError`."""
        level = self._value("SHOW wal_level")
        if level != "logical":
            raise PipelineError(f"the database has wal_level = {level}: logical is needed, and a restart")
        with said_plainly(f"changes of {table.name} cannot be captured"):
            if self._value("SELECT relreplident FROM pg_class WHERE oid = %s", table.oid) != "f":
                # Otherwise large values that an update leaves alone are not in the log.
                self._connection.execute(f"ALTER TABLE {table.name} REPLICA IDENTITY FULL")
            # Before the slot: it looks publications up as they were when a change was made.
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
        """Up to where its changes are done with; ``None`` where there is no such slot."""
        text = self._value(
            "SELECT confirmed_flush_lsn FROM pg_replication_slots"
            " WHERE slot_name = %s AND database = current_database()",
            self.name,
        )
        return None if text is None else parse_position(text)

    def end_of_log(self) -> int:
        """Where the log ends now: behind a record, and all before it is on disk, and so can be read."""
        end = parse_position(self._value("SELECT pg_current_wal_insert_lsn()"))
        self._value("SELECT pg_logical_emit_message(true, 'kafkalite', '')")
        return end

    def quiet_end(self, start: int, stop: int | None = None) -> int:
        """How far behind ``start`` nothing has come, if that is far: PostgreSQL may forget what others wrote. Otherwise
        ``start``. Not behind ``stop``, which is an :meth:`end_of_log`."""
        end = parse_position(self._value("SELECT pg_current_wal_insert_lsn()")) if stop is None else stop
        if end - start < QUIET:
            return start
        end = self.end_of_log() if stop is None else stop
        return end if self.next_end(start, 1, end) == start else start

    def changes(self, start: int, end: int) -> Iterator[SourceTransaction]:
        """The transactions committed behind ``start``, up to ``end``."""
        rows = self._patiently(
            "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s, NULL, 'proto_version', '1',"
            " 'publication_names', %s)",
            (self.name, format_position(end), self.name),
        )
        return (each for each in transactions(data for (data,) in rows) if start < each.end <= end)

    def next_end(self, start: int, limit: int, stop: int | None = None) -> int:
        """The end of the transaction with which ``limit`` messages behind ``start`` are full; ``start`` where nothing
        has come. Nothing behind ``stop`` counts."""
        while True:
            found, count = self._patiently(
                "SELECT max(lsn), count(*) FROM pg_logical_slot_peek_binary_changes(%s, %s, %s, 'proto_version', '1',"
                " 'publication_names', %s)",
                (self.name, None if stop is None else format_position(stop), limit, self.name),
            ).fetchone()
            end = parse_position(found) if found else 0
            # What was done last may still be in front: the slot follows a step behind.
            if end > start or count < limit:
                return max(end, start)
            limit *= 2

    def advance(self, position: int) -> None:
        """All up to ``position`` is done with."""
        if (self.position() or 0) < position:
            self._patiently("SELECT pg_replication_slot_advance(%s, %s)", (self.name, format_position(position)))

    def _patiently(self, statement: str, values: tuple[object, ...]) -> Any:
        """Run a statement that needs the slot for itself."""
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
    """All rows of ``table`` at one moment, as the log would tell of them."""
    names = ", ".join('"' + column.name.replace('"', '""') + '"' for column in table.columns)
    with connection.transaction():
        connection.execute(f"DECLARE first_copy NO SCROLL CURSOR FOR SELECT {names} FROM {table.name}")
        while True:
            result = connection.execute(f"FETCH {FETCH} FROM first_copy").pgresult
            for row in range(result.ntuples):
                yield tuple(result.get_value(row, column) for column in range(result.nfields))
            if result.ntuples < FETCH:
                return
