"""The new rows of a table, round by round, each row once.

Answers to: ``JdbcSourceTask`` of Kafka Connect's JDBC connectors, with its modes, which may send a row twice. Shell.

Every trigger is a round. Its bounds (the last row before it, and its own last row) are durable beside the checkpoint
before a row is read; the rows are written once under the query's id and the round's number. An interrupted round is
repeated with the same number, and finds its bounds.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

from kafkalite.pipelines.connect.jdbc import Database
from kafkalite.pipelines.connect.options import JdbcSource, parse_time
from kafkalite.pipelines.connect.records import HEADERS
from kafkalite.pipelines.context import Context
from kafkalite.pipelines.store import Store

Bound = tuple[str, ...]
"""The last row so far, by the columns that order a table, as texts; empty before the first."""
BOUNDS = "bounds.json"


class Settled:
    """The last row that is at least ``delay`` seconds old, so that no older row is still to be committed."""

    def __init__(self, delay: float, now: Callable[[], float] = time.monotonic) -> None:
        self._delay = delay
        self._now = now
        self._seen: deque[tuple[float, Bound]] = deque()

    def see(self, last: Bound) -> Bound | None:
        """Add ``last``, the last row now; returns the row that is old enough, ``None`` if there is none yet."""
        now = self._now()
        if not self._seen or self._seen[-1][1] != last:
            self._seen.append((now, last))
        while len(self._seen) > 1 and now - self._seen[1][0] >= self._delay:
            self._seen.popleft()
        at, settled = self._seen[0]
        return settled if now - at >= self._delay else None


@dataclass(frozen=True)
class Rounds:
    """The table of the rounds; ``columns`` order it, and are empty in the mode ``bulk``."""

    database: Database
    source: JdbcSource

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the order: the time of the last change before the number."""
        return tuple(filter(None, (self.source.timestamp, self.source.incrementing)))

    @property
    def relation(self) -> str:
        """The relation to select from."""
        return self.source.table or f"({self.source.query}) kafkalite_rows"

    def check(self) -> None:
        """Raises :class:`PipelineError` if table or columns do not exist."""
        with self.database.transaction() as connection:
            connection.columns(f"SELECT {', '.join(self.columns) or '*'} FROM {self.relation} WHERE 1 = 0")

    def last(self) -> Bound:
        """The last row now."""
        descending = ", ".join(f"{name} DESC" for name in self.columns)
        given = " AND ".join(f"{name} IS NOT NULL" for name in self.columns)
        with self.database.transaction() as connection:
            found = connection.first(
                f"SELECT {', '.join(self.columns)} FROM {self.relation} WHERE {given} ORDER BY {descending}"
            )
        return tuple(text or "" for text in found) if found is not None else ()

    def read(self, after: Bound, upto: Bound) -> DataFrame:
        """The rows after ``after``, up to and including ``upto``."""
        where = " AND ".join(filter(None, (between(self.columns, after, ">"), between(self.columns, upto, "<="))))
        query = f"SELECT * FROM {self.relation}{f' WHERE {where}' if where else ''}"
        reader = self.database.spark.read.format("jdbc").options(**self.database.options())
        return reader.option("query", query).option("fetchsize", self.source.fetch_size).load()


def between(columns: Sequence[str], bound: Bound, comparison: str) -> str:
    """The SQL condition that a row, by ``columns``, is in ``comparison`` (``>`` or ``<=``) to ``bound``; empty
    without a bound."""
    if not bound:
        return ""
    literals = ["'" + text.replace("'", "''") + "'" for text in bound]
    alternatives = []
    for number, column in enumerate(columns):
        last = number == len(columns) - 1
        same = [f"{name} = {literal}" for name, literal in zip(columns[:number], literals, strict=False)]
        step = comparison if last else comparison[0]
        alternatives.append(" AND ".join([*same, f"{column} {step} {literals[number]}"]))
    return "(" + " OR ".join(f"({each})" for each in alternatives) + ")"


def read_table(
    context: Context, source: JdbcSource, query: str, rounds: Rounds, write: Callable[[DataFrame, int], None]
) -> StreamingQuery:
    """Start the rounds; ``write`` gets each round's records and its number."""
    settled = Settled(parse_time(source.delay))
    store = Store(context.spark, context.checkpoint(query))
    once = context.pipeline.trigger.once

    def new_rows(number: int) -> tuple[Bound, Bound] | None:
        """The bounds of round ``number``; ``None`` if there are no new rows."""
        known = store.read(BOUNDS) or {"round": -1, "after": [], "upto": []}
        if known["round"] != number:
            last = rounds.last()
            upto = settled.see(last)
            if once and upto is None:
                time.sleep(parse_time(source.delay))
                upto = last
            if upto is None or list(upto) == known["upto"]:
                return None
            known = {"round": number, "after": known["upto"], "upto": list(upto)}
            store.write(BOUNDS, known)
        return tuple(known["after"]), tuple(known["upto"])

    def do_round(_: DataFrame, number: int) -> None:
        bounds = ((), ()) if source.mode == "bulk" else new_rows(number)
        if bounds is not None:
            write(as_records(rounds.read(*bounds), source), number)

    # A stream with one row a trigger: only the number of the micro-batch is used.
    ticks = context.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    return context.write_each(ticks, do_round, query=query)


def as_records(frame: DataFrame, source: JdbcSource) -> DataFrame:
    """Rows of a table in the form of Connect's records."""
    nothing = sf.lit(None)
    return frame.select(
        nothing.cast("binary").alias("key"),
        nothing.cast("binary").alias("value"),
        sf.lit(source.table or "query").alias("origin"),
        nothing.cast(HEADERS).alias("headers"),
        sf.lit(0).cast("bigint").alias("order"),
        sf.struct("*").alias("row"),
        nothing.cast("string").alias("error"),
        sf.lit(False).alias("deleted"),
    )
