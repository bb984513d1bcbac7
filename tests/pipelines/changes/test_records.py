"""Rows and changes as records."""

from __future__ import annotations

import json

import pytest

from kafkalite.pipelines.changes.pgoutput import UNCHANGED, ChangeError, Column, Relation, RowChange, Values
from kafkalite.pipelines.changes.records import ChangeRecord, change_records, row_record

TABLE = Relation("public", "t", (Column("id", 23), Column("name", 25)))


def row(number: int, name: str) -> ChangeRecord:
    return ChangeRecord(b'{"id":%d}' % number, json.dumps({"id": number, "name": name}, separators=(",", ":")).encode())


def gone(number: int) -> ChangeRecord:
    return ChangeRecord(b'{"id":%d}' % number, None)


# trap: kafkalite/pipelines/changes/records.py: A large value that an update leaves alone is not in the database's log.
@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        (None, (b"1", b"a"), [row(1, "a")]),
        ((b"1", b"a"), None, [gone(1)]),
        ((b"1", None), None, [gone(1)]),
        ((b"1", b"a"), (b"1", b"b"), [row(1, "b")]),
        ((b"1", b"a"), (b"2", b"a"), [gone(1), row(2, "a")]),
        ((b"1", b"large"), (b"1", UNCHANGED), [row(1, "large")]),
        ((b"1", b"large"), (b"2", UNCHANGED), [gone(1), row(2, "large")]),
    ],
)
def test_changes(old: Values | None, new: Values | None, wanted: list[ChangeRecord]) -> None:
    assert list(change_records(RowChange(TABLE, old, new), ("id",))) == wanted


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (RowChange(TABLE, None, (b"1", UNCHANGED)), "REPLICA IDENTITY FULL"),
        (RowChange(TABLE, None, (b"1", b"a")), "does not know column 'other'"),
    ],
)
def test_what_cannot_be_told(change: RowChange, said: str) -> None:
    key = ("other",) if "other" in said else ("id",)
    with pytest.raises(ChangeError, match=said):
        list(change_records(change, key))


@pytest.mark.parametrize(
    ("type_number", "text", "wanted"),
    [
        (16, "t", "true"),
        (16, "f", "false"),
        (20, "-9223372036854775808", "-9223372036854775808"),
        (1700, "1.50", "1.50"),
        (1700, "NaN", '"NaN"'),
        (701, "1e+300", "1e+300"),
        (701, "-Infinity", '"-Infinity"'),
        (3802, '{"a": [1, 2.50]}', '{"a": [1, 2.50]}'),
        (25, 'Zoë "\n', '"Zoë \\"\\n"'),
        (1184, "2013-01-01 05:00:00+00", '"2013-01-01 05:00:00+00"'),
        (1009, "{a,NULL}", '"{a,NULL}"'),
    ],
)
def test_values(type_number: int, text: str, wanted: str) -> None:
    found = row_record([Column("x", type_number)], (text.encode(),), ("x",))
    assert found == ChangeRecord(f'{{"x":{wanted}}}'.encode(), f'{{"x":{wanted}}}'.encode())
    json.loads(found.value or b"")


def test_nothing_is_null_and_the_key_has_its_own_order() -> None:
    columns = [Column("a", 23), Column('b "', 25), Column("c", 23)]
    assert row_record(columns, (b"1", None, b"3"), ("c", "a")) == ChangeRecord(
        b'{"c":3,"a":1}', b'{"a":1,"b \\"":null,"c":3}'
    )
