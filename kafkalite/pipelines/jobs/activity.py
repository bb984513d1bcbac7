"""The job ``activity``: page views, clicks and searches of a web site; sessions, and all events for a warehouse.

Answers to: nothing in Kafka; user activity was its first use. Shell: :func:`visits` is pure.

The events are those that ``kafkalite.pipelines.feeders.tracker`` sends, each kind in a topic of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StreamingQuery

from kafkalite.pipelines.context import Context
from kafkalite.pipelines.feeders.tracker import CLICK, PAGE_VIEW, SEARCH
from kafkalite.pipelines.jobs.durations import seconds
from kafkalite.pipelines.streams.sessions import sessions
from kafkalite.pipelines.streams.values import from_json, to_record

EVENT = """
    kind STRING, visitor STRING, at TIMESTAMP, page STRING, referrer STRING, element STRING, query STRING, hits INT
"""
"""All fields of the three kinds."""


@dataclass(frozen=True)
class Options:
    """The table ``[options]``."""

    page_views: str = "page-views"
    """The topics of events, created if they do not exist."""
    clicks: str = "clicks"
    searches: str = "searches"
    sessions: str = "sessions"
    """The topic of the results, created if it does not exist."""
    gap: str = "30 minutes"
    """A visitor's session ends when no event came for this long."""
    late: str = "5 minutes"
    """How far behind the newest event an event may be and still count for sessions. The warehouse gets all events."""
    warehouse: str | None = None
    """A folder, or an address that Spark writes to (``hdfs://…``, ``s3a://…``), for Parquet in ``kind=…/date=…``;
    without it nothing is loaded."""
    malformed: Literal["fail", "skip"] = "fail"
    """What to do with a value that is no event."""

    def __post_init__(self) -> None:
        seconds(self.gap)
        seconds(self.late)


def start(context: Context, options: Options) -> list[StreamingQuery]:
    """Start a query for the sessions, and one for the warehouse, which run independently."""
    topics = (options.page_views, options.clicks, options.searches)
    for topic in (*topics, options.sessions):
        context.ensure_topic(topic)

    def events() -> DataFrame:
        return from_json(context.read_topic(",".join(topics)), EVENT, errors=options.malformed)

    found = to_record(visits(events(), gap=options.gap, late=options.late), key="visitor")
    queries = [context.write_topic(found, options.sessions, query="sessions")]
    if options.warehouse is not None:
        dated = events().withColumn("date", sql.to_date("at"))
        queries.append(
            context.write_files(dated, "parquet", options.warehouse, query="warehouse", partition_by=["kind", "date"])
        )
    return queries


def visits(events: DataFrame, *, gap: str, late: str) -> DataFrame:
    """Each session of each visitor, once it is over: ``started`` and ``ended`` (the first and the last event), how many
    events of each kind, the first and last page, and the search queries."""
    where = sql.struct("at", "kind", "page")  # the kind, for events of the same moment
    found = sessions(
        events,
        sql.max("at").alias("ended"),
        *(sql.count_if(sql.col("kind") == kind).alias(name) for kind, name in _COUNTS.items()),
        sql.min_by("page", where).alias("entry"),
        sql.max_by("page", where).alias("exit"),
        sql.sort_array(sql.collect_set("query")).alias("queries"),
        time="at",
        gap=gap,
        by=["visitor"],
        late=late,
    )
    return found.select("visitor", sql.col("session.start").alias("started"), *found.columns[2:])


_COUNTS = {PAGE_VIEW: "page_views", CLICK: "clicks", SEARCH: "searches"}
