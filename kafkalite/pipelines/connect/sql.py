"""The statements that differ from database to database.

Answers to: ``io.aiven.connect.jdbc.dialect.DatabaseDialect`` and its kin in Kafka Connect's JDBC connectors. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

BATCH, DELETED = "kafkalite_batch", "kafkalite_deleted"
"""Columns that a staging table has beside those of its target."""
DRIVERS = {
    "postgresql": "org.postgresql.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
    "oracle": "oracle.jdbc.OracleDriver",
    "db2": "com.ibm.db2.jcc.DB2Driver",
    "h2": "org.h2.Driver",
    "derby": "org.apache.derby.jdbc.AutoloadedDriver",
    "sqlite": "org.sqlite.JDBC",
}
"""The default drivers, for files without ``driver``."""
_ON_CONFLICT = ("postgresql", "sqlite")
_ON_DUPLICATE = ("mysql", "mariadb")


def database_kind(url: str) -> str:
    """``postgresql`` of ``jdbc:postgresql://…``. Raises ``ValueError``."""
    match = re.match(r"jdbc:([a-z0-9]+):", url)
    if match is None:
        raise ValueError(f"url {without_secrets(url)!r} is none such as jdbc:postgresql://host/database")
    return match[1]


def without_secrets(url: str) -> str:
    """A JDBC address without its parameters, among which may be a password."""
    return re.split(r"[?;]", url)[0]


@dataclass(frozen=True)
class Statements:
    """The statements of a database of this ``kind`` for a ``table`` (as its owner writes it) and its staging table."""

    kind: str
    table: str
    staging: str
    columns: Sequence[str]
    key: Sequence[str]

    def quote(self, name: str) -> str:
        """A column's name as it stands in a statement."""
        mark = "`" if self.kind in _ON_DUPLICATE else '"'
        return mark + name.replace(mark, mark * 2) + mark

    def create_staging(self) -> str:
        """A table like the target, with two columns more, and no constraints."""
        ending = " WITH NO DATA" if self.kind == "derby" else ""
        return (
            f"CREATE TABLE {self.staging} AS SELECT {self._list(self.columns)}, 0 AS {BATCH}, 0 AS {DELETED} "
            f"FROM {self.table} WHERE 1 = 0{ending}"
        )

    def upsert(self) -> str:
        """Insert what is staged for a batch (the one parameter), or change the rows that are there."""
        rest = [name for name in self.columns if name not in self.key]
        # A task that was tried twice has staged its rows twice.
        staged = f"SELECT DISTINCT {self._list(self.columns)} FROM {self.staging} WHERE {BATCH} = ? AND {DELETED} = 0"
        insert = f"INSERT INTO {self.table} ({self._list(self.columns)}) {staged}"
        if self.kind in _ON_CONFLICT:
            changes = ", ".join(f"{self.quote(name)} = EXCLUDED.{self.quote(name)}" for name in rest)
            return f"{insert} ON CONFLICT ({self._list(self.key)}) DO {f'UPDATE SET {changes}' if rest else 'NOTHING'}"
        if self.kind in _ON_DUPLICATE:
            changes = ", ".join(f"{self.quote(name)} = VALUES({self.quote(name)})" for name in rest or self.key)
            return f"{insert} ON DUPLICATE KEY UPDATE {changes}"
        changes = ", ".join(f"{self.quote(name)} = s.{self.quote(name)}" for name in rest)
        same = " AND ".join(f"t.{self.quote(name)} = s.{self.quote(name)}" for name in self.key)
        given = ", ".join(f"s.{self.quote(name)}" for name in self.columns)
        matched = f"WHEN MATCHED THEN UPDATE SET {changes} " if rest else ""
        return (
            f"MERGE INTO {self.table} t USING ({staged}) s ON {same} {matched}"
            f"WHEN NOT MATCHED THEN INSERT ({self._list(self.columns)}) VALUES ({given})"
            + (";" if self.kind == "sqlserver" else "")
        )

    def delete(self) -> str:
        """Delete the rows whose key is staged for deletion in a batch (the one parameter)."""
        same = " AND ".join(f"s.{self.quote(name)} = {self.table}.{self.quote(name)}" for name in self.key)
        return (
            f"DELETE FROM {self.table} WHERE EXISTS (SELECT 1 FROM {self.staging} s "
            f"WHERE {same} AND s.{BATCH} = ? AND s.{DELETED} = 1)"
        )

    def _list(self, names: Sequence[str]) -> str:
        return ", ".join(map(self.quote, names))


def beside(table: str, name: str) -> str:
    """``name`` in the schema of ``table``."""
    schema, dot, _ = table.rpartition(".")
    return f"{schema}{dot}{name}"
