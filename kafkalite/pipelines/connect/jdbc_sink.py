"""Micro-batches into a table: rows are inserted, changed or deleted by key, each batch once.

Answers to: ``JdbcSinkTask`` of Kafka Connect's JDBC connectors (``insert.mode=upsert``), which may do a batch twice.
Shell.

Spark's tasks write a micro-batch into a staging table, concurrently. Then one transaction of the database merges it
into the target, and records query and batch number in ``kafkalite_batches``: a repeated batch finds that entry.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from kafkalite.pipelines.connect.jdbc import Database, table_exists
from kafkalite.pipelines.connect.options import JdbcSink
from kafkalite.pipelines.connect.sql import BATCH, DELETED, Statements, beside
from kafkalite.pipelines.errors import PipelineError

DONE = "kafkalite_batches"
"""The table with the last batch of each query, in the schema of the target."""


@dataclass(frozen=True)
class SinkTable:
    """The target of a pipeline's rows, whose ``columns`` are those of the target."""

    database: Database
    sink: JdbcSink
    columns: tuple[str, ...]

    @classmethod
    def find(cls, database: Database, sink: JdbcSink, columns: list[str]) -> SinkTable:
        """The table for rows of ``columns``. Raises :class:`PipelineError` if it does not exist, or lacks
        a column."""
        with database.transaction() as connection:
            there = connection.columns(f"SELECT * FROM {sink.table} WHERE 1 = 0")
        for name in columns:
            if name not in there:
                raise PipelineError(
                    f"{database.where}: table {sink.table} has no column '{name}'; it has {', '.join(there)}"
                )
        for name in sink.key:
            if name not in columns:
                raise PipelineError(f"{database.where}: key: no column '{name}'; there are {', '.join(columns)}")
        return cls(database, sink, tuple(columns))

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write the micro-batch ``batch_id`` of the streaming query that calls this. Raises :class:`PipelineError`."""
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        staging = beside(self.sink.table, f"kafkalite_stage_{query[:8]}")
        done = beside(self.sink.table, DONE)
        statements = Statements(self.database.kind, self.sink.table, staging, self.columns, self.sink.key)
        self._prepare(statements, done)
        with self.database.transaction() as connection:
            connection.execute(f"DELETE FROM {staging}")
            found = connection.first(f"SELECT batch FROM {done} WHERE query = ?", query)
        if found is not None and int(found[0] or -1) >= batch_id:
            return
        writer = self._latest(frame, batch_id).write.format("jdbc").options(**self.database.options())
        writer.option("dbtable", staging).option("batchsize", self.sink.batch_size).mode("append").save()
        with self.database.transaction() as connection:
            # First of all, so that of two concurrent writers the second waits here, and then fails.
            if found is None:
                connection.execute(f"INSERT INTO {done} (query, batch) VALUES (?, ?)", query, batch_id)
            else:
                changed = f"UPDATE {done} SET batch = ? WHERE query = ? AND batch < ?"
                if connection.execute(changed, batch_id, query, batch_id) == 0:
                    return
            connection.execute(statements.upsert(), batch_id)
            if self.sink.delete:
                connection.execute(statements.delete(), batch_id)
            connection.execute(f"DELETE FROM {staging}")

    def _prepare(self, statements: Statements, done: str) -> None:
        """Create both auxiliary tables if they do not exist."""
        for table, create in (
            (statements.staging, statements.create_staging()),
            (done, f"CREATE TABLE {done} (query VARCHAR(64) NOT NULL PRIMARY KEY, batch BIGINT NOT NULL)"),
        ):
            if not table_exists(self.database, table):
                with self.database.transaction() as connection:
                    connection.execute(create)

    def _latest(self, frame: DataFrame, batch_id: int) -> DataFrame:
        """The last record of each key, as a row of the staging table."""
        rows = frame if self.sink.delete else frame.where(~sf.col("deleted"))
        newest = Window.partitionBy(*(sf.col("row")[name] for name in self.sink.key)).orderBy(sf.col("order").desc())
        last = rows.withColumn("_rank", sf.row_number().over(newest)).where(sf.col("_rank") == 1)
        return last.select(
            *(sf.col("row")[name].alias(name) for name in self.columns),
            sf.lit(batch_id).alias(BATCH),
            sf.col("deleted").cast("int").alias(DELETED),
        )
