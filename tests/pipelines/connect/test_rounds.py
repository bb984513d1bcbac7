"""The rounds of a table's reader: where they begin and end."""

from __future__ import annotations

import sqlite3
from itertools import pairwise

import pytest

from kafkalite.pipelines.connect.jdbc_source import Bound, Settled, between


@pytest.mark.parametrize(
    ("columns", "bound", "comparison", "expected"),
    [
        (["id"], ("5",), ">", "((id > '5'))"),
        (["at", "id"], ("t", "5"), "<=", "((at < 't') OR (at = 't' AND id <= '5'))"),
        (["name"], ("it's",), ">", "((name > 'it''s'))"),
        (["id"], (), ">", ""),
    ],
)
def test_conditions(columns: list[str], bound: Bound, comparison: str, expected: str) -> None:
    assert between(columns, bound, comparison) == expected


def test_rounds_divide_a_table() -> None:
    """For all bounds: each row belongs to one round."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE t (at TEXT, id TEXT)")
    rows = [(f"{number // 3}", f"{number}") for number in range(9)]
    database.executemany("INSERT INTO t VALUES (?, ?)", rows)
    bounds: list[Bound] = [(), rows[1], rows[5], rows[6], rows[8]]
    found = []
    for after, upto in pairwise(bounds):
        where = " AND ".join(filter(None, (between(["at", "id"], after, ">"), between(["at", "id"], upto, "<="))))
        found += database.execute(f"SELECT at, id FROM t WHERE {where} ORDER BY at, id").fetchall()
    assert found == rows


# trap: kafkalite/pipelines/connect/jdbc_source.py: A younger row is committed before an older one: rows are read only
# when they are old enough.
def test_rows_are_read_when_they_are_old_enough() -> None:
    """A row that was last ``delay`` seconds ago; a younger one may still be overtaken by an older one."""
    now = [0.0]
    settled = Settled(10.0, lambda: now[0])
    seen = []
    for time, last in [(0, "1"), (5, "2"), (9, "3"), (10, "3"), (15, "4"), (19, "4"), (40, "4")]:
        now[0] = time
        seen.append(settled.see((last,)))
    assert seen == [None, None, None, ("1",), ("2",), ("3",), ("4",)]


def test_without_a_delay_the_last_row_counts() -> None:
    settled = Settled(0.0, lambda: 0.0)
    assert settled.see(()) == ()
    assert settled.see(("5",)) == ("5",)
