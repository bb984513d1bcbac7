"""Joins of a stream with a table, and with another stream. Pure: DataFrames in, DataFrames out.

Answers to: ``org.apache.kafka.streams.kstream.KStream`` (``join``, ``leftJoin``), ``JoinWindows``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

Kind = Literal["inner", "left"]
On = Sequence[str] | Mapping[str, str]
"""Columns of both sides with the same names, or {a column of the left: the column of the right that equals it}."""


def with_table(stream: DataFrame, table: DataFrame, on: On, *, how: Kind = "left", broadcast: bool = True) -> DataFrame:
    """Each row of ``stream`` with the columns of its key's row in ``table``; the key's columns appear once.

    ``left``: rows whose key is not in the table (or null) stay, with nulls. ``broadcast``: the table is small, and
    every executor gets all of it. A table with several rows of one key multiplies. Raises ``ValueError`` where another
    column is on both sides.
    """
    renamed, condition, mine = _sides(stream, table, on)
    return stream.join(sql.broadcast(renamed) if broadcast else renamed, condition, how).drop(*mine)


def with_stream(
    left: DataFrame,
    right: DataFrame,
    on: On,
    *,
    left_time: str,
    right_time: str,
    within: str,
    before: str = "0 seconds",
    late: str = "0 seconds",
    how: Kind = "inner",
) -> DataFrame:
    """Each row of ``left`` with every row of ``right`` of its key from ``before`` before it until ``within`` after it.

    Times are columns of event time; rows more than ``late`` behind the newest of their side may be left out. ``left``:
    a row without a match is written with nulls once no match can come any more. Raises ``ValueError`` if a column
    other than the key is on both sides.
    """
    renamed, condition, mine = _sides(left, right.withWatermark(right_time, late), on)
    timed = left.withWatermark(left_time, late)
    from_, to = sql.col(left_time) - sql.expr(f"INTERVAL {before}"), sql.col(left_time) + sql.expr(f"INTERVAL {within}")
    return timed.join(renamed, condition & sql.col(right_time).between(from_, to), how).drop(*mine)


def _sides(left: DataFrame, right: DataFrame, on: On) -> tuple[DataFrame, Column, list[str]]:
    """The right side with keys of other names, what makes two rows one, and the columns to leave out afterwards."""
    pairs = dict(on) if isinstance(on, Mapping) else {name: name for name in on}
    if both := sorted(set(left.columns) & (set(right.columns) - set(pairs.values()))):
        raise ValueError(f"columns of both sides besides the key: {', '.join(both)}; rename them on one side")
    names = {column: f"__right_{column}" for column in pairs.values()}
    condition = sql.lit(True)
    for mine, other in pairs.items():
        condition = condition & (sql.col(mine) == sql.col(names[other]))
    return right.withColumnsRenamed(names), condition, list(names.values())
