"""Changes of a table as records of a compacted topic: the primary key, and the row or nothing.

Answers to: nothing in Kafka; what ``org.apache.kafka.connect.json.JsonConverter`` writes for Connect. Pure.

Key and value are JSON objects; numbers keep all their digits, JSON columns are parts of the object, all other columns
are texts as PostgreSQL writes and reads them. So ``json_populate_record`` makes the same row of a value, except that
JSON's null, in a JSON column, becomes SQL's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kafkalite.pipelines.changes.pgoutput import ChangeError, Column, Relation, RowChange, Unchanged, Values

_BOOL, _JSON = 16, (114, 3802)
_NUMBERS = (20, 21, 23, 26, 700, 701, 1700)
_NUMBER = re.compile(rb"-?\d+(\.\d+)?([eE][+-]?\d+)?")


class ChangeRecord(NamedTuple):
    """One record: without a value the row was deleted."""

    key: bytes
    value: bytes | None


def row_record(columns: Sequence[Column], values: Values, key: Sequence[str]) -> ChangeRecord:
    """The record of an existing row; ``key`` names the columns of the primary key."""
    return ChangeRecord(_key(columns, values, key), _object(columns, values))


def change_records(change: RowChange, key: Sequence[str]) -> Iterator[ChangeRecord]:
    """The records of a change: two where an update changed the key. Raises :class:`ChangeError`."""
    columns = change.relation.columns
    new = None if change.new is None else _complete(change.relation, change.new, change.old)
    before = None if change.old is None else _key(columns, change.old, key)
    after = None if new is None else _key(columns, new, key)
    if before is not None and before != after:
        yield ChangeRecord(before, None)
    if new is not None and after is not None:
        yield ChangeRecord(after, _object(columns, new))


def _complete(relation: Relation, new: Values, old: Values | None) -> Values:
    """``new``, with the values that the update left unchanged taken from ``old``."""
    if not any(isinstance(value, Unchanged) for value in new):
        return new
    if old is None:
        table = f"{relation.schema}.{relation.name}"
        raise ChangeError(
            f"an update of {table} left a large value alone, which is not in the log: ALTER TABLE {table} REPLICA "
            "IDENTITY FULL"
        )
    return tuple(before if isinstance(value, Unchanged) else value for value, before in zip(new, old, strict=True))


def _key(columns: Sequence[Column], values: Values, key: Sequence[str]) -> bytes:
    by_name: Mapping[str, tuple[Column, bytes | Unchanged | None]] = {
        column.name: (column, value) for column, value in zip(columns, values, strict=True)
    }
    missing = [name for name in key if name not in by_name]
    if missing:
        raise ChangeError(f"the log does not know column '{missing[0]}' of the primary key")
    chosen = [by_name[name] for name in key]
    return _object([column for column, _ in chosen], tuple(value for _, value in chosen))


def _object(columns: Sequence[Column], values: Values) -> bytes:
    fields = (
        f"{json.dumps(column.name, ensure_ascii=False)}:{_literal(column.type, value)}"
        for column, value in zip(columns, values, strict=True)
    )
    return ("{" + ",".join(fields) + "}").encode()


def _literal(type_number: int, value: bytes | Unchanged | None) -> str:
    """A value as JSON."""
    if value is None:
        return "null"
    assert not isinstance(value, Unchanged)
    if type_number == _BOOL:
        return "true" if value == b"t" else "false"
    # NaN and infinity are numbers to PostgreSQL, and not to JSON.
    if type_number in _JSON or (type_number in _NUMBERS and _NUMBER.fullmatch(value)):
        return value.decode()
    return json.dumps(value.decode(), ensure_ascii=False)
