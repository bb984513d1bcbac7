"""A database through Spark's Java: for statements in one transaction, and for queries of one row.

Answers to: ``CachedConnectionProvider`` of Kafka Connect's JDBC connectors. Blocking shell around ``java.sql``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from kafkalite.pipelines.connect.sql import DRIVERS, database_kind, without_secrets
from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.failures import summary


@dataclass(frozen=True)
class Database:
    """The address and user, and ``where`` in a pipeline's file they are written."""

    spark: SparkSession
    url: str
    user: str | None
    password: str | None
    driver: str | None
    where: str

    @property
    def kind(self) -> str:
        """``postgresql``, …."""
        return database_kind(self.url)

    def options(self) -> dict[str, str]:
        """For Spark's readers and writers of the format ``jdbc``."""
        driver = self.driver or DRIVERS.get(self.kind)
        given = {"url": self.url, "user": self.user, "password": self.password, "driver": driver}
        return {name: value for name, value in given.items() if value is not None}

    @contextmanager
    def transaction(self) -> Iterator[JdbcConnection]:
        """A connection whose statements are committed together. Raises :class:`PipelineError`."""
        raw = self._connect()
        try:
            raw.setAutoCommit(False)
            connection = JdbcConnection(raw, self)
            yield connection
            connection.commit()
        except BaseException:
            raw.rollback()
            raise
        finally:
            raw.close()

    def failed(self, what: str, error: BaseException) -> PipelineError:
        """The error as one line, without Java's stack."""
        return PipelineError(f"{self.where}: {what} at {without_secrets(self.url)}: {summary(error)}")

    def _connect(self) -> Any:
        jvm: Any = self.spark._jvm
        options = jvm.PythonUtils.toScalaMap({**self.options(), "dbtable": "none"})
        try:
            parsed = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(options)
        except Exception as error:
            driver = self.options().get("driver")
            if driver is None or "ClassNotFoundException" not in str(error):
                raise self.failed("no driver", error) from error
            raise PipelineError(
                f"{self.where}: the driver {driver} is not there: name its jar in [spark] jars, or itself in packages"
            ) from error
        try:
            return jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(self.url).createConnectionFactory(parsed).apply(-1)
        except Exception as error:
            raise self.failed("no connection", error) from error


class JdbcConnection:
    """Statements within a transaction."""

    def __init__(self, raw: Any, database: Database) -> None:
        self._raw = raw
        self._database = database

    def execute(self, sql: str, *parameters: object) -> int:
        """Execute a statement; returns how many rows it changed. Raises :class:`PipelineError`."""
        try:
            statement = self._prepare(sql, parameters)
            try:
                statement.execute()
                return int(statement.getUpdateCount())
            finally:
                statement.close()
        except Exception as error:
            raise self._database.failed(sql.split(" (", maxsplit=1)[0][:80], error) from error

    def first(self, sql: str, *parameters: object) -> tuple[str | None, ...] | None:
        """The first row of a query, as texts. Raises :class:`PipelineError`."""
        try:
            statement = self._prepare(sql, parameters)
            try:
                statement.setMaxRows(1)
                rows = statement.executeQuery()
                count = rows.getMetaData().getColumnCount()
                return tuple(rows.getString(number) for number in range(1, count + 1)) if rows.next() else None
            finally:
                statement.close()
        except Exception as error:
            raise self._database.failed(sql[:80], error) from error

    def columns(self, sql: str) -> list[str]:
        """The names of a query's columns. Raises :class:`PipelineError`."""
        try:
            statement = self._prepare(sql, ())
            try:
                found = statement.executeQuery().getMetaData()
                return [found.getColumnName(number) for number in range(1, found.getColumnCount() + 1)]
            finally:
                statement.close()
        except Exception as error:
            raise self._database.failed(sql[:80], error) from error

    def commit(self) -> None:
        """Commit all that was executed. Raises :class:`PipelineError`."""
        try:
            self._raw.commit()
        except Exception as error:
            raise self._database.failed("commit", error) from error

    def _prepare(self, sql: str, parameters: Sequence[object]) -> Any:
        statement = self._raw.prepareStatement(sql)
        for number, value in enumerate(parameters, 1):
            # By text, py4j could not tell an int from a long.
            if isinstance(value, int):
                statement.setLong(number, value)
            else:
                statement.setString(number, str(value))
        return statement


def table_exists(database: Database, table: str) -> bool:
    """Whether the database can read ``table``."""
    try:
        with database.transaction() as connection:
            connection.columns(f"SELECT * FROM {table} WHERE 1 = 0")
    except PipelineError:
        return False
    return True
