"""The job ``activity``, compared with plain Python: visitors of a web site, their sessions, and the warehouse."""

from __future__ import annotations

import http.client
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyarrow import dataset, timestamp
from pyspark.sql import SparkSession

from integration.harness.wait import wait_for
from integration.pipelines.reading import json_records, records
from integration.pipelines.site import Event, Site, Visitor
from integration.spark.topics import new_topic
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.pipelines.context import Context
from kafkalite.pipelines.feeders.tracker import Tracker, TrackerTopics
from kafkalite.pipelines.jobs.activity import Options, start
from kafkalite.pipelines.pipeline import Pipeline, Trigger

Wait = Callable[[Callable[[], bool], str], None]
DAY = datetime(2026, 3, 1, tzinfo=UTC)
GAP = timedelta(minutes=30)
VISITORS = 24
AT_ONCE = 8
PATIENCE = 180.0
"""Seconds for a micro-batch on a busy machine."""


@pytest.fixture
def topics(shared_cluster: LocalCluster) -> TrackerTopics:
    """Three topics."""
    return TrackerTopics(*(new_topic(shared_cluster, kind, 2) for kind in ("page-views", "clicks", "searches")))


@pytest.fixture
def site(shared_cluster: LocalCluster, topics: TrackerTopics) -> Iterator[Site]:
    """The web site."""
    tracker = Tracker({"bootstrap.servers": shared_cluster.bootstrap}, topics)
    site = Site(tracker)
    yield site
    site.close()
    tracker.close()


def come(visitors: Sequence[Visitor], begin: datetime) -> None:
    """Let all visitors visit, in a limited number of threads, each within 20 minutes after ``begin``."""

    def one(number: int, visitor: Visitor) -> None:
        visitor.visit(begin + timedelta(seconds=7 * number), steps=number % 5, most_seconds=120)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, range(len(visitors)), visitors))


@contextmanager
def running(spark: SparkSession, cluster: LocalCluster, state: Path, options: Options) -> Iterator[Wait]:
    """Run the job with continuous micro-batches; yields a function that waits for a condition."""
    pipeline = Pipeline("activity", "activity", {"bootstrap.servers": cluster.bootstrap}, Trigger("200 milliseconds"))
    queries = start(Context(spark, pipeline, state), options)

    def wait(condition: Callable[[], bool], what: str) -> None:
        def done() -> bool:
            assert [query.exception() for query in queries] == [None, None]
            return condition()

        wait_for(done, what, PATIENCE, 0.3)

    try:
        yield wait
    finally:
        for query in queries:
            query.stop()


def sessions_of(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The sessions of one visitor."""
    groups: list[list[Event]] = []
    for event in sorted(events, key=lambda event: (event["at"], event["kind"], event["page"])):
        if not groups or moment(event) - moment(groups[-1][-1]) > GAP:
            groups.append([])
        groups[-1].append(event)
    return [
        {
            "visitor": group[0]["visitor"],
            "started": to_milliseconds(moment(group[0])),
            "ended": to_milliseconds(moment(group[-1])),
            "page_views": sum(event["kind"] == "page_view" for event in group),
            "clicks": sum(event["kind"] == "click" for event in group),
            "searches": sum(event["kind"] == "search" for event in group),
            "entry": group[0]["page"],
            "exit": group[-1]["page"],
            "queries": sorted({event["query"] for event in group if "query" in event}),
        }
        for group in groups
    ]


def moment(event: Event) -> datetime:
    return datetime.fromisoformat(event["at"])


def to_milliseconds(moment: datetime) -> str:
    """A time in the format of Spark's JSON."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def warehouse_rows(folder: Path) -> list[tuple[Any, ...]]:
    """The rows of the Parquet files, with the partitions by kind and date as columns."""
    if not any(folder.rglob("*.parquet")):
        return []
    table = dataset.dataset(folder, format="parquet", partitioning="hive").to_table()
    moments = [at.isoformat() for at in table["at"].cast(timestamp("us", "UTC")).to_pylist()]
    columns = [table[name].to_pylist() for name in ("visitor", "page", "referrer", "element", "query", "hits")]
    kinds, dates = table["kind"].to_pylist(), map(str, table["date"].to_pylist())
    return sorted(zip(kinds, dates, moments, *columns, strict=True))


def expected_rows(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """The expected rows by the visitors' own records."""
    optional = ("referrer", "element", "query", "hits")
    return sorted(
        (event["kind"], event["at"][:10], event["at"], event["visitor"], event["page"], *map(event.get, optional))
        for event in events
    )


def test_sessions_and_warehouse_have_each_event_of_the_visitors_once(
    spark: SparkSession, shared_cluster: LocalCluster, tmp_path: Path, site: Site, topics: TrackerTopics
) -> None:
    """The visitors come three times, on two days; the job is restarted while sessions are open."""
    visitors = [Visitor(site.port, seed) for seed in range(VISITORS)]
    results, warehouse = new_topic(shared_cluster, "sessions", 2), tmp_path / "warehouse"
    options = Options(
        topics.page_views, topics.clicks, topics.searches, results, late="30 minutes", warehouse=str(warehouse)
    )

    def events() -> list[Event]:
        return [event for visitor in visitors for event in visitor.events]

    def sessions() -> list[dict[str, Any]]:
        return [session for visitor in visitors for session in sessions_of(visitor.events)]

    def loaded() -> bool:
        return len(warehouse_rows(warehouse)) == len(events())

    def told() -> list[dict[str, Any]]:
        return [value for _, value in json_records(shared_cluster.bootstrap, results)]

    with running(spark, shared_cluster, tmp_path / "state", options) as wait:
        come(visitors, DAY + timedelta(hours=22))
        wait(loaded, "the first visits are in the warehouse")
        assert told() == [], "all sessions are open"
        first = sessions()
        come(visitors[::2], DAY + timedelta(hours=23, minutes=50))
        wait(lambda: len(told()) == len(first), "the first visits are over, by the time of others")
        assert by_start(told()) == by_start(first)
    come(visitors[1::2], DAY + timedelta(days=1, hours=9))
    with running(spark, shared_cluster, tmp_path / "state", options) as wait:
        wait(loaded, "all visits are in the warehouse")
        expected = sessions()
        visitors.append(Visitor(site.port, VISITORS))
        visitors[-1].visit(DAY + timedelta(days=1, hours=12), 0, 1)
        wait(lambda: len(told()) >= len(expected), "all sessions but the last are over")
        wait(loaded, "the last visit is in the warehouse")
    assert by_start(told()) == by_start(expected)
    assert len(expected) == VISITORS * 2 and any(session["queries"] for session in expected)
    assert warehouse_rows(warehouse) == expected_rows(events())
    folders = {path.parent.relative_to(warehouse).as_posix() for path in warehouse.rglob("*.parquet")}
    assert {f"kind=page_view/date={date(2026, 3, day)}" for day in (1, 2)} <= folders
    check_topics(shared_cluster, topics, events())


def by_start(sessions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(sessions, key=lambda session: (session["started"], session["visitor"]))


def check_topics(cluster: LocalCluster, topics: TrackerTopics, events: Sequence[Event]) -> None:
    """Each kind of event is in its own topic, under the visitor's name, in the visitor's order."""
    for kind in ("page_view", "click", "search"):
        found: dict[str, list[Event]] = defaultdict(list)
        for key, value in records(cluster.bootstrap, topics.of(kind)):
            found[(key or b"").decode()].append(json.loads(value or b""))
        expected: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            if event["kind"] == kind:
                expected[event["visitor"]].append(event)
        assert found == expected, kind


@pytest.mark.full
def test_the_site_refuses_invalid_events(site: Site, shared_cluster: LocalCluster, topics: TrackerTopics) -> None:
    """They do not reach a topic."""
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=60)
    connection.request("POST", "/track", '{"kind": "page_view", "visitor": "me"}')
    response = connection.getresponse()
    assert (response.status, response.read()) == (400, b"a page_view has kind, visitor, at, page, referrer")
    connection.close()
    assert records(shared_cluster.bootstrap, topics.page_views) == []
