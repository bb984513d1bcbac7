"""Messages of PostgreSQL's output plugin, made here byte by byte."""

from __future__ import annotations

import struct

import pytest

from kafkalite.pipelines.changes.pgoutput import (
    UNCHANGED,
    ChangeError,
    Column,
    Relation,
    RowChange,
    SourceTransaction,
    Truncate,
    Unchanged,
    format_position,
    parse_position,
    transactions,
)

TABLE = Relation("public", "t", (Column("id", 23), Column("name", 25)))
NUMBER = 16385
Value = bytes | Unchanged | None
BEGIN = b"B" + struct.pack(">QQI", 50, 0, 7)


def commit(end: int) -> bytes:
    return b"C\0" + struct.pack(">QQQ", end - 8, end, 0)


def relation(table: Relation = TABLE, number: int = NUMBER) -> bytes:
    columns = b"".join(
        b"\x01" + column.name.encode() + b"\0" + struct.pack(">Ii", column.type, -1) for column in table.columns
    )
    names = f"{table.schema}\0{table.name}\0".encode()
    return b"R" + struct.pack(">I", number) + names + b"f" + struct.pack(">h", len(table.columns)) + columns


def values(*row: Value) -> bytes:
    def one(value: Value) -> bytes:
        if isinstance(value, bytes):
            return b"t" + struct.pack(">I", len(value)) + value
        return b"n" if value is None else b"u"

    return struct.pack(">h", len(row)) + b"".join(map(one, row))


def change(kind: bytes, body: bytes, number: int = NUMBER) -> bytes:
    return kind + struct.pack(">I", number) + body


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        (change(b"I", b"N" + values(b"1", None)), RowChange(TABLE, None, (b"1", None))),
        (change(b"U", b"N" + values(b"1", UNCHANGED)), RowChange(TABLE, None, (b"1", UNCHANGED))),
        (
            change(b"U", b"K" + values(b"1", None) + b"N" + values(b"2", b"")),
            RowChange(TABLE, (b"1", None), (b"2", b"")),
        ),
        (
            change(b"U", b"O" + values(b"1", b"x") + b"N" + values(b"1", b"y")),
            RowChange(TABLE, (b"1", b"x"), (b"1", b"y")),
        ),
        (change(b"D", b"K" + values(b"1", None)), RowChange(TABLE, (b"1", None), None)),
        (change(b"D", b"O" + values(b"1", "ü\0".encode())), RowChange(TABLE, (b"1", "ü\0".encode()), None)),
        (b"T" + struct.pack(">IBI", 1, 0, NUMBER), Truncate((TABLE,))),
    ],
)
def test_changes(message: bytes, wanted: RowChange | Truncate) -> None:
    assert list(transactions([BEGIN, relation(), message, commit(60)])) == [SourceTransaction(60, (wanted,))]


def test_transactions_and_a_table_that_changes() -> None:
    wider = Relation("public", "t", (*TABLE.columns, Column("more", 16)))
    told = [
        *(
            BEGIN,
            relation(),
            change(b"I", b"N" + values(b"1", b"a")),
            change(b"I", b"N" + values(b"2", b"b")),
            commit(60),
        ),
        *(BEGIN, b"O" + bytes(8) + b"elsewhere\0", b"Y" + bytes(8), commit(70)),
        *(BEGIN, relation(wider), change(b"I", b"N" + values(b"3", b"c", b"t")), commit(80)),
        *(BEGIN, change(b"I", b"N" + values(b"4", b"never committed", None))),
    ]
    assert list(transactions(told)) == [
        SourceTransaction(60, (RowChange(TABLE, None, (b"1", b"a")), RowChange(TABLE, None, (b"2", b"b")))),
        SourceTransaction(70, ()),
        SourceTransaction(80, (RowChange(wider, None, (b"3", b"c", b"t")),)),
    ]


def test_bytes_that_are_not_of_the_protocol_are_refused() -> None:
    with pytest.raises(ChangeError, match="kind b'S'"):
        list(transactions([b"S" + bytes(12)]))


@pytest.mark.parametrize(("text", "number"), [("0/0", 0), ("16/B374D848", 0x16B374D848), ("0/1D5D548", 0x1D5D548)])
def test_positions(text: str, number: int) -> None:
    assert parse_position(text) == number
    assert format_position(number) == text
