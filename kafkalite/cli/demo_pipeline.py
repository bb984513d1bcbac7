"""The demo's last part: the job ``delays`` over its topic, compared with the same sums without Spark or a broker.

Answers to: nothing in Kafka; the purpose of its stream processing. Reactor shell (a Spark process, client library).
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from kafkalite.cli.clients import print_table
from kafkalite.cli.flights import READ_TIMEOUT, TOPIC, open_flights
from kafkalite.common.errors import StartupError

RESULTS = "flight-delays"
DELAYED = 15
"""Minutes."""
TIMEOUT = 300.0
Key = tuple[str, str]
"""Day and airport."""
Figures = dict[str, float | None]
PIPELINE = """\
name = "demo"
job = "delays"

[kafka]
"bootstrap.servers" = "{servers}"

[trigger]
once = true

[spark]
master = "local[2]"
"spark.sql.shuffle.partitions" = 2
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

[options]
flights = "{flights}"
delays = "{results}"
delayed = {delayed}
"""


class DelaysJob:
    """The pipeline over the records that the topic has at its start, in its own process until the end of the block."""

    def __init__(self, servers: str, directory: Path) -> None:
        self.servers = servers
        self.file = directory / "delays.toml"
        self._state = directory / "pipelines"

    def __enter__(self) -> DelaysJob:
        self.file.write_text(PIPELINE.format(servers=self.servers, flights=TOPIC, results=RESULTS, delayed=DELAYED))
        command = [sys.executable, "-m", "kafkalite.cli.main", "pipeline", "run", str(self.file)]
        command += ["--state", str(self._state)]
        self._began = time.monotonic()
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.kill()

    def wait(self) -> float:
        """The seconds that the job took. Raises :class:`StartupError` with the end of its output if it fails."""
        try:
            said, errors = self._process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            raise StartupError(f"the pipeline took more than {TIMEOUT:g} s") from None
        if self._process.returncode:
            raise StartupError(f"the pipeline failed: {(errors or said).strip()[-500:]}")
        return time.monotonic() - self._began


def judge(job: DelaysJob, rows: int, say: Callable[[str], None]) -> bool:
    """Wait for the job, print some of its results; returns whether all of them are as expected."""
    say("5. Spark: delays by day and airport, with the weather, from the topic into a new one")
    say(f"   `kafkalite pipeline run {job.file.name}`, begun when all flights were read:")
    expected = compute(rows)
    say(f"   {job.wait():.1f} s, Spark's start among them")
    found = read_results(job.servers)
    worst = sorted(expected, key=lambda key: -expected[key]["delayed"])[:3]  # type: ignore[operator]
    shown = ("flights", "cancelled", "delayed", "average_delay", "flights_in_rain")
    print_table(
        ["   day", "airport", *(name.replace("_", " ") for name in shown)],
        [
            [f"   {day}", airport, *(_short(found.get((day, airport), {}).get(name)) for name in shown)]
            for day, airport in worst
        ],
    )
    wrong = differences(found, expected)
    if wrong:
        say(f"   FAILED: {len(wrong)} of {len(expected)} results differ, the first: {wrong[0]}")
    else:
        say(f"   all {len(expected):,} results are what the file gives without Spark and without brokers")
    return not wrong


def read_results(servers: str) -> dict[Key, Figures]:
    """The last result of each day and airport, read with ``read_committed``."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "demo",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    try:
        partitions = consumer.list_topics(RESULTS, READ_TIMEOUT).topics[RESULTS].partitions
        consumer.assign([TopicPartition(RESULTS, partition, 0) for partition in partitions])
        found: dict[Key, Figures] = {}
        left = len(partitions)
        while left:
            message = consumer.poll(READ_TIMEOUT)
            if message is None:
                raise StartupError(f"{RESULTS} cannot be read")
            if message.error() is not None and message.error().code() == KafkaError._PARTITION_EOF:
                left -= 1
                continue
            result = json.loads(message.value())
            found[result.pop("window")["start"][:10], result.pop("origin")] = result
        return found
    finally:
        consumer.close()


def compute(rows: int) -> dict[Key, Figures]:
    """The expected results from the file of flights: plain sums, in a loop."""
    with open_flights() as lines:
        flights = list(itertools.islice(csv.DictReader(lines), rows))
    rain = {
        (row["origin"], row["time_hour"]): float(row["precip"]) for row in table("weather") if row["precip"] != "NA"
    }
    seats = {row["tailnum"]: int(row["seats"]) for row in table("planes") if row["seats"] != "NA"}
    counts: dict[Key, Counter[str]] = defaultdict(Counter)
    delays: dict[Key, dict[bool, list[int]]] = defaultdict(lambda: {False: [], True: []})
    for flight in flights:
        key = flight["time_hour"][:10], flight["origin"]
        in_rain = rain.get((flight["origin"], flight["time_hour"]), 0.0) > 0
        counts[key].update(flights=1, flights_in_rain=in_rain)
        if flight["dep_delay"] == "NA":
            counts[key]["cancelled"] += 1
            continue
        delay = int(flight["dep_delay"])
        delays[key][in_rain].append(delay)
        if delay >= DELAYED:
            counts[key].update(delayed=1, seats_delayed=seats.get(flight["tailnum"], 0))
    return {
        key: {
            **{name: count[name] for name in ("flights", "cancelled", "delayed", "flights_in_rain", "seats_delayed")},
            "average_delay": _average(delays[key][False] + delays[key][True]),
            "average_delay_in_rain": _average(delays[key][True]),
        }
        for key, count in counts.items()
    }


def table(name: str) -> Iterator[dict[str, str]]:
    """The rows of another file of the package with the flights."""
    with open_flights(name) as lines:
        yield from csv.DictReader(lines)


def differences(found: dict[Key, Figures], expected: dict[Key, Figures]) -> list[str]:
    """A line for each result that is missing, unexpected, or has other figures."""
    return [
        f"{key}: {found.get(key)} instead of {expected.get(key)}"
        for key in sorted(found.keys() | expected.keys())
        if not _alike(found.get(key), expected.get(key))
    ]


def _alike(one: Figures | None, other: Figures | None) -> bool:
    if one is None or other is None or one.keys() != other.keys():
        return False
    pairs = [(one[name], other[name]) for name in one]
    return all(a == b if a is None or b is None else math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) for a, b in pairs)


def _average(values: list[int]) -> float | None:
    return sum(values) / len(values) if values else None


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
