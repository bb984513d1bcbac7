"""Ready-made job *metrics*: samples of many processes aggregated in windows of time, and alerts.

Answers to: nothing in Kafka; the use "operational monitoring data" of its documentation. Shell.

Samples come from ``kafkalite.pipelines.feeders.metrics``, or from any program that writes the same JSON
(:data:`SAMPLE`). Counters only grow, and restart at 0 with their process; gauges go up and down.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from kafkalite.pipelines.context import Context
from kafkalite.pipelines.jobs.alert_rules import AlertRule
from kafkalite.pipelines.jobs.alert_states import observe
from kafkalite.pipelines.jobs.durations import seconds
from kafkalite.pipelines.streams.values import from_json, to_record
from kafkalite.pipelines.streams.windows import windowed

if TYPE_CHECKING:
    import pandas

SAMPLE = (
    "time TIMESTAMP, host STRING, process STRING, `group` STRING, "
    "counters MAP<STRING, DOUBLE>, gauges MAP<STRING, DOUBLE>"
)
"""The value of a sample. Its key is ``host/process``, so that a process's samples stay in their order."""
ALERT = (
    "alert STRING, state STRING, host STRING, process STRING, metric STRING, value DOUBLE, comparison STRING, "
    "threshold DOUBLE, since TIMESTAMP, time TIMESTAMP"
)
"""The value of an alert: ``since`` is when the condition began to hold, ``time`` that of the sample that caused it; a
resolved alert has the first value that did not meet the condition, none if no more samples of the process came."""
FIGURES = ("count", "avg", "min", "max", "last", "rate")


@dataclass(frozen=True)
class Options:
    """The job's table ``[options]``.

    ``samples`` is the topic to read. ``figures`` gets one record for each process, metric and ``window``, and one for
    each group of processes, metric and window: count, avg, min, max, last, and of counters the rate a second (their
    growth between the window's first and last sample). For a group, last and rate are the sums over its processes.
    A window is written when samples have come that are ``late`` younger than its end; later ones are left out.
    ``alerts`` gets an alert when one of ``rules`` is broken (``[[options.rules]]``, see :class:`AlertRule`) and when it
    is resolved. A process without samples for ``forget`` is forgotten, and its alerts are resolved.
    Without a name for ``figures`` or ``alerts`` there are none. Topics that are not there are created with
    ``partitions``.
    """

    samples: str = "metrics"
    figures: str = "metrics-figures"
    alerts: str = "metrics-alerts"
    window: str = "1 minute"
    late: str = "10 seconds"
    forget: str = "1 hour"
    rules: tuple[AlertRule, ...] = ()
    partitions: int = 3

    def __post_init__(self) -> None:
        for length in (self.window, self.late, self.forget):
            seconds(length)
        names = [rule.name for rule in self.rules]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two rules are called '{twice}'")


def start(context: Context, options: Options) -> list[StreamingQuery]:
    """Start the queries ``processes`` and ``groups`` (figures), and ``alerts`` if there are rules."""
    for topic in filter(None, (options.samples, options.figures, options.alerts)):
        context.ensure_topic(topic, options.partitions)
    samples = from_json(context.read_topic(options.samples), SAMPLE, errors="skip").withWatermark("time", options.late)
    queries = []
    if options.figures:
        processes = process_figures(samples, options.window)
        for query, figures, key in (
            ("processes", processes, ("host", "process")),
            ("groups", group_figures(processes, options.window), ("group",)),
        ):
            queries.append(context.write_topic(figure_records(figures, key), options.figures, query=query))
    if options.alerts and options.rules:
        found = alerts(samples, options.rules, options.forget)
        record = to_record(found, key=("alert", "host", "process"))
        queries.append(context.write_topic(record, options.alerts, query="alerts"))
    return queries


def process_figures(samples: DataFrame, window: str) -> DataFrame:
    """:data:`FIGURES` of each process, metric and ``window`` of ``samples``, which have a watermark on ``time``."""
    points = sql.sort_array(sql.collect_list(sql.when(sql.col("counter"), sql.struct("time", "value"))))
    return windowed(
        measurements(samples),
        sql.count("*").alias("count"),
        sql.avg("value").alias("avg"),
        sql.min("value").alias("min"),
        sql.max("value").alias("max"),
        sql.max_by("value", "time").alias("last"),
        rate(points).alias("rate"),
        time="time",
        size=window,
        by=("host", "process", "group", "metric"),
    )


def group_figures(processes: DataFrame, window: str) -> DataFrame:
    """The same figures of each group, from those of its ``processes``, whose number is one more."""
    total = sql.sum(sql.col("avg") * sql.col("count"))
    return windowed(
        processes.where(sql.col("group").isNotNull()),
        sql.count("*").alias("processes"),
        (total / sql.sum("count")).alias("avg"),
        sql.sum("count").alias("count"),
        sql.min("min").alias("min"),
        sql.max("max").alias("max"),
        sql.sum("last").alias("last"),
        sql.sum("rate").alias("rate"),
        time="window",
        size=window,
        by=("group", "metric"),
    )


def figure_records(figures: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """The record's columns: the window as ``start`` and ``end``, the key as text with slashes."""
    rows = figures.select(
        sql.col("window.start").alias("start"),
        sql.col("window.end").alias("end"),
        *(name for name in ("host", "process", "group", "processes", "metric") if name in figures.columns),
        *FIGURES,
    )
    values = rows.columns
    return to_record(rows.withColumn("key", sql.concat_ws("/", *key)), key="key", value=values)


def measurements(samples: DataFrame) -> DataFrame:
    """One row a metric instead of one a sample: ``metric``, ``value``, and whether it is a ``counter``."""
    both = sql.concat(_entries("counters", counter=True), _entries("gauges", counter=False))
    rows = samples.select("time", "host", "process", "group", sql.explode(both).alias("entry"))
    return rows.select("time", "host", "process", "group", "entry.*").where("value IS NOT NULL AND time IS NOT NULL")


def rate(points: Column) -> Column:
    """Growth a second over ``points`` (``time``, ``value``) in the order of time; a value below the one before counts
    from 0. Null for fewer than two points."""
    first, last = sql.get(points, sql.lit(0)), sql.try_element_at(points, sql.lit(-1))
    begin = sql.struct(first["value"].alias("before"), sql.lit(0.0).alias("growth"))

    def add(so_far: Column, point: Column) -> Column:
        value, before = point["value"], so_far["before"]
        growth = sql.when(value >= before, value - before).otherwise(value)
        return sql.struct(value.alias("before"), (so_far["growth"] + growth).alias("growth"))

    rest = sql.slice(points, sql.lit(2), sql.greatest(sql.size(points) - 1, sql.lit(0)))
    growth = sql.aggregate(rest, begin, add, lambda found: found["growth"])
    span = sql.unix_micros(last["time"]) - sql.unix_micros(first["time"])
    return sql.when((sql.size(points) > 1) & (span > 0), growth / (span / 1e6))


def alerts(samples: DataFrame, rules: tuple[AlertRule, ...], forget: str) -> DataFrame:
    """The alerts about ``samples`` by ``rules``, in the form of :data:`ALERT`."""
    timeout = int(seconds(forget) * 1000)
    times = {name: sql.timestamp_seconds(name) for name in ("since", "time")}
    shape = ALERT.replace("TIMESTAMP", "DOUBLE")  # pandas' times would be those of the session's zone.

    def told(key: tuple[str, str], frames: Iterator[pandas.DataFrame], state: GroupState) -> Iterator[pandas.DataFrame]:
        yield from observe(rules, key, () if state.hasTimedOut else frames, state, timeout)

    metrics = sql.to_json(sql.map_concat(_map("counters"), _map("gauges")))
    return (
        samples.where("time IS NOT NULL")
        .select("host", "process", "time", (sql.unix_micros("time") / 1e6).alias("at"), metrics.alias("metrics"))
        .groupBy("host", "process")
        .applyInPandasWithState(told, shape, "watches STRING", "append", GroupStateTimeout.EventTimeTimeout)
        .withColumns(times)
    )


def _entries(name: str, *, counter: bool) -> Column:
    def entry(pair: Any) -> Column:
        return sql.struct(pair["key"].alias("metric"), pair["value"].alias("value"), sql.lit(counter).alias("counter"))

    return sql.transform(sql.map_entries(_map(name)), entry)


def _map(name: str) -> Column:
    return sql.coalesce(sql.col(name), sql.from_json(sql.lit("{}"), "MAP<STRING, DOUBLE>"))
