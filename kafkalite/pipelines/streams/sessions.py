"""Sessions: rows with little time between them. Pure: DataFrames in, DataFrames out.

Answers to: ``org.apache.kafka.streams.kstream.SessionWindowedKStream``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql


def sessions(
    frame: DataFrame, *aggregates: Column, time: str, gap: str, by: Sequence[str], late: str | None = None
) -> DataFrame:
    """``aggregates`` of each session: rows of the same ``by``, none more than ``gap`` after the one before it.

    Columns: ``session`` (``start``: the first row's time; ``end``: the last one's and ``gap``), those of ``by``, the
    aggregates. A stream writes a session once, when the newest row is ``late`` (the watermark) past its end: only
    ``mode="append"`` is possible.
    """
    timed = frame if late is None else frame.withWatermark(time, late)
    return timed.groupBy(sql.session_window(time, gap).alias("session"), *by).agg(*aggregates)
