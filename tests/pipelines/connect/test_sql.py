"""Statements of several databases."""

from __future__ import annotations

import sqlite3

import pytest

from kafkalite.pipelines.connect.sql import Statements, beside, database_kind, without_secrets


def statements(kind: str, columns: tuple[str, ...] = ("id", "name")) -> Statements:
    return Statements(kind, "shop.t", "shop.s", columns, ("id",))


STAGED = "FROM shop.s WHERE kafkalite_batch = ? AND kafkalite_deleted = 0"
UPSERTS = {
    "postgresql": f'INSERT INTO shop.t ("id", "name") SELECT DISTINCT "id", "name" {STAGED} '
    'ON CONFLICT ("id") DO UPDATE SET "name" = EXCLUDED."name"',
    "mysql": f"INSERT INTO shop.t (`id`, `name`) SELECT DISTINCT `id`, `name` {STAGED} "
    "ON DUPLICATE KEY UPDATE `name` = VALUES(`name`)",
    "derby": f'MERGE INTO shop.t t USING (SELECT DISTINCT "id", "name" {STAGED}) s ON t."id" = s."id" '
    'WHEN MATCHED THEN UPDATE SET "name" = s."name" WHEN NOT MATCHED THEN INSERT ("id", "name") '
    'VALUES (s."id", s."name")',
}


@pytest.mark.parametrize("kind", UPSERTS)
def test_upserts(kind: str) -> None:
    assert statements(kind).upsert() == UPSERTS[kind]


def test_a_table_of_keys_alone() -> None:
    assert statements("postgresql", ("id",)).upsert().endswith('ON CONFLICT ("id") DO NOTHING')


def test_names_are_quoted() -> None:
    assert Statements("mysql", "t", "s", (), ()).quote("a`b") == "`a``b`"
    assert Statements("oracle", "t", "s", (), ()).quote('a"b') == '"a""b"'


def test_they_do_what_they_say() -> None:
    """In the database that Python has at hand: changed, inserted, deleted, of one batch, and what was staged twice."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, name TEXT)")
    database.execute("INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    made = Statements("sqlite", "t", "s", ("id", "name"), ("id",))
    database.execute(made.create_staging())
    rows = [(1, "new", 7, 0), (1, "new", 7, 0), (4, "four", 7, 0), (2, None, 7, 1), (3, "old", 6, 0), (4, None, 6, 1)]
    database.executemany("INSERT INTO s VALUES (?, ?, ?, ?)", rows)
    for statement in (made.upsert(), made.delete()):
        database.execute(statement, (7,))
    assert database.execute("SELECT * FROM t ORDER BY id").fetchall() == [(1, "new"), (3, "three"), (4, "four")]


def test_addresses() -> None:
    assert database_kind("jdbc:postgresql://h/d?password=x") == "postgresql"
    assert without_secrets("jdbc:sqlserver://h;password=x") == "jdbc:sqlserver://h"
    with pytest.raises(ValueError, match=r"^url 'http://h' is none such as"):
        database_kind("http://h?password=x")


def test_names_beside_a_table() -> None:
    assert [beside(table, "x") for table in ("t", "shop.t", "a.b.t")] == ["x", "shop.x", "a.b.x"]
