"""Figures of windows of time. Pure: DataFrames in, DataFrames out.

Answers to: ``org.apache.kafka.streams.kstream.TimeWindowedKStream``.

``late`` is the watermark: rows older than the newest by more than this may be left out, and a window that much older
is closed and dropped. Without it (and without a watermark of the frame itself) a stream's windows stay open for ever,
and its state grows. With ``mode="append"`` each window is written once, when it is closed; with ``"update"`` each time
that it changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql


def windowed(
    frame: DataFrame,
    *aggregates: Column,
    time: str,
    size: str,
    slide: str | None = None,
    by: Sequence[str] = (),
    late: str | None = None,
) -> DataFrame:
    """``aggregates`` (``sql.max("delay").alias("worst")``, …) of each window and each value of the columns ``by``.

    Windows of ``size`` (``"5 minutes"``) begin every ``slide``, without it one where the last ends. Columns:
    ``window`` (``start`` inclusive, ``end`` exclusive), those of ``by``, the aggregates.
    """
    timed = frame if late is None else frame.withWatermark(time, late)
    return timed.groupBy(sql.window(time, size, slide), *by).agg(*aggregates)


def windowed_counts(
    frame: DataFrame, *, time: str, size: str, slide: str | None = None, by: Sequence[str] = (), late: str | None = None
) -> DataFrame:
    """Numbers of rows: columns ``window``, ``by``, ``count``."""
    return windowed(frame, sql.count("*").alias("count"), time=time, size=size, slide=slide, by=by, late=late)


def windowed_averages(
    frame: DataFrame,
    columns: Sequence[str],
    *,
    time: str,
    size: str,
    slide: str | None = None,
    by: Sequence[str] = (),
    late: str | None = None,
) -> DataFrame:
    """The averages of ``columns``, nulls aside, under ``average_<column>``, behind ``count``, the number of rows."""
    averages = [sql.avg(column).alias(f"average_{column}") for column in columns]
    return windowed(
        frame, sql.count("*").alias("count"), *averages, time=time, size=size, slide=slide, by=by, late=late
    )
