"""Selection of rows. Pure: DataFrames in, DataFrames out.

Answers to: ``org.apache.kafka.streams.kstream.KStream`` (``filter``, ``split``).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql


def keep(frame: DataFrame, condition: Column | str) -> DataFrame:
    """The rows of which ``condition`` (a column, or SQL) is true."""
    return frame.where(condition)


def split(frame: DataFrame, condition: Column | str) -> tuple[DataFrame, DataFrame]:
    """The rows of which ``condition`` is true, and all others, including those of which it is null."""
    true = sql.coalesce(sql.expr(condition) if isinstance(condition, str) else condition, sql.lit(False))
    return frame.where(true), frame.where(~true)


def complete(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The rows that have a value in each of ``columns``."""
    for column in columns:
        frame = frame.where(sql.col(column).isNotNull())
    return frame
