"""The messages of PostgreSQL's own output plugin about changes in its write-ahead log.

Answers to: nothing in Kafka; Debezium's ``PgOutputMessageDecoder`` does this for Kafka Connect. Pure.

The bytes are those of the logical replication protocol, version 1: PostgreSQL's documentation, "Logical Replication
Message Formats". Each call of ``pg_logical_slot_peek_binary_changes`` describes a table before its first change.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

_INT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">I"), struct.Struct(">Q")
_PASSED_OVER = b"YOM"
"""Message types: types of other columns, origins of replicated changes, messages of applications in the log."""


class ChangeError(Exception):
    """A change that cannot be converted to records; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's name, and the number of its type."""

    name: str
    type: int


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, as it was when the following changes were written."""

    schema: str
    name: str
    columns: tuple[Column, ...]


class Unchanged:
    """Stands for a large value that an update left unchanged, and that is therefore not in the log."""


UNCHANGED = Unchanged()
Values = tuple[bytes | Unchanged | None, ...]
"""A row: each column's value as text, in the relation's order."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row that is ``new`` (insert), was ``old`` (delete), or became ``new`` (update). Without ``old`` an update left
    the identity of its row alone."""

    relation: Relation
    old: Values | None
    new: Values | None


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables that lost all their rows at once."""

    relations: tuple[Relation, ...]


@dataclass(frozen=True, slots=True)
class SourceTransaction:
    """The changes of one transaction, in order; ``end`` is the position behind it in the log. Transactions come in the
    order of their commits."""

    end: int
    changes: tuple[RowChange | Truncate, ...]


def transactions(messages: Iterable[bytes]) -> Iterator[SourceTransaction]:
    """The messages of one call, by transaction. Raises :class:`ChangeError` for invalid messages."""
    relations: dict[int, Relation] = {}
    changes: list[RowChange | Truncate] = []
    for message in messages:
        kind, reader = message[:1], _Reader(message)
        if kind == b"B":
            changes = []
        elif kind == b"C":
            yield SourceTransaction(_INT64.unpack_from(message, 10)[0], tuple(changes))
        elif kind == b"R":
            number = reader.int32()
            relations[number] = reader.relation()
        elif kind == b"T":
            count, _ = reader.int32(), reader.byte()
            changes.append(Truncate(tuple(relations[reader.int32()] for _ in range(count))))
        elif kind in b"IUD":
            changes.append(_change(reader, relations))
        elif kind not in _PASSED_OVER:
            raise ChangeError(f"a message of kind {kind!r} is not of version 1 of PostgreSQL's protocol")


def _change(reader: _Reader, relations: Mapping[int, Relation]) -> RowChange:
    relation = relations[reader.int32()]
    old: Values | None = None
    part = reader.byte()
    if part in b"KO":
        old = reader.values()
        part = reader.byte()
    return RowChange(relation, old, reader.values() if part == b"N" else None)


class _Reader:
    """Reads the fields of one message, after its type."""

    def __init__(self, message: bytes) -> None:
        self._message = message
        self._at = 1

    def byte(self) -> bytes:
        """The next byte; empty at the end."""
        self._at += 1
        return self._message[self._at - 1 : self._at]

    def int16(self) -> int:
        value: int = _INT16.unpack_from(self._message, self._at)[0]
        self._at += 2
        return value

    def int32(self) -> int:
        value: int = _INT32.unpack_from(self._message, self._at)[0]
        self._at += 4
        return value

    def text(self) -> str:
        """A text that ends with a zero."""
        end = self._message.index(0, self._at)
        text = self._message[self._at : end].decode()
        self._at = end + 1
        return text

    def relation(self) -> Relation:
        schema, name, _ = self.text(), self.text(), self.byte()
        return Relation(schema, name, tuple(self._column() for _ in range(self.int16())))

    def _column(self) -> Column:
        _, name, number, _ = self.byte(), self.text(), self.int32(), self.int32()
        return Column(name, number)

    def values(self) -> Values:
        return tuple(self._value() for _ in range(self.int16()))

    def _value(self) -> bytes | Unchanged | None:
        kind = self.byte()
        if kind == b"n":
            return None
        if kind == b"u":
            return UNCHANGED
        size = self.int32()
        self._at += size
        return self._message[self._at - size : self._at]


def parse_position(text: str) -> int:
    """A position in the log (``16/B374D848``) as a number that can be compared."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def format_position(position: int) -> str:
    """The inverse: the text of a position."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"
