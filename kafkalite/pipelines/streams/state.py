"""State for each key. Pure: DataFrames in, DataFrames out.

Answers to: ``org.apache.kafka.streams.kstream.KTable``, ``KGroupedStream``.

The state is Spark's, beside the checkpoint. What :func:`latest` and :func:`running` return is written with
``mode="update"``: a row for each key that a micro-batch has changed. A compacted topic of them is the table.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql


def latest(frame: DataFrame, *, by: Sequence[str], order: Sequence[str]) -> DataFrame:
    """For each value of ``by`` the row with the greatest ``order`` (columns, by priority): ``offset``, or a time."""
    rest = [name for name in frame.columns if name not in by]
    newest = sql.max_by(sql.struct(*rest), sql.struct(*order)).alias("__newest")
    return frame.groupBy(*by).agg(newest).select(*by, "__newest.*")


def running(frame: DataFrame, *aggregates: Column, by: Sequence[str]) -> DataFrame:
    """``aggregates`` of all rows of each value of ``by`` since the query first began."""
    return frame.groupBy(*by).agg(*aggregates)


def deduplicated(frame: DataFrame, *, by: Sequence[str], time: str | None = None, late: str | None = None) -> DataFrame:
    """The first row of each value of ``by``.

    With ``time`` and ``late`` a value is forgotten once the newest row is ``late`` (the watermark) past its first one,
    and then counts as new. Without them it is never forgotten.
    """
    if time is None or late is None:
        return frame.dropDuplicates(list(by))
    return frame.withWatermark(time, late).dropDuplicatesWithinWatermark(list(by))
