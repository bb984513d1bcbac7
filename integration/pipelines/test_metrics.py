"""The job *metrics* over a real cluster's brokers and real processes, compared with figures by plain Python."""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from integration.blocks import blocks_of
from integration.conftest import ClusterFactory
from integration.harness.clients import fresh_topic
from integration.harness.records import Item
from integration.harness.spark import TOO_BUSY
from integration.harness.wait import wait_for
from integration.pipelines.reading import json_records
from integration.pipelines.worker import Worker
from integration.spark.topics import new_topic, produce
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.pipelines.context import Context
from kafkalite.pipelines.feeders.cluster_figures import ClusterFigures
from kafkalite.pipelines.jobs.alert_rules import AlertRule
from kafkalite.pipelines.jobs.metrics import Options, start
from kafkalite.pipelines.pipeline import Pipeline, Trigger

WINDOW, LATE = 2.0, 1.0
HELD = 200_000_000
TIMEOUT = 300
MEMORY = AlertRule("memory", "resident_bytes", ">", HELD / 2, "1 second", "hoarder")
CPU = AlertRule("cpu", "cpu_seconds", ">", 0.05, "500 milliseconds", "burner", rate=True)
GONE = AlertRule("gone", "up", "<", 1, process="[bh]*er")
Fields = dict[str, Any]


class Point(NamedTuple):
    """One figure at one time."""

    time: float
    value: float


class Figures(NamedTuple):
    """The values of one record of the topic of figures (``samples`` is its ``count``); NaN means no value."""

    processes: float
    samples: float
    avg: float
    min: float
    max: float
    last: float
    rate: float


@dataclass
class Job:
    """The job on its own topics; each run continues where the last one stopped."""

    spark: SparkSession
    bootstrap: str
    folder: Path
    samples: str = field(default_factory=lambda: fresh_topic("samples"))
    figures: str = field(default_factory=lambda: fresh_topic("figures"))
    alerts: str = field(default_factory=lambda: fresh_topic("alerts"))
    queries: list[StreamingQuery] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the job that detects alerts."""
        self._start_alerts()
        try:
            yield
        finally:
            for query in self.queries:
                query.stop()
            self.queries = []

    def _start_alerts(self) -> None:
        options = Options(self.samples, "", self.alerts, rules=(MEMORY, CPU, GONE))
        self.queries = start(self.context(Trigger("2 seconds")), options)

    def run_figures(self) -> None:
        """Run the job that computes figures of all existing samples."""
        options = Options(self.samples, self.figures, "", window=f"{WINDOW:g} seconds", late=f"{LATE:g} seconds")
        queries = start(self.context(Trigger(once=True)), options)
        try:
            for query in queries:
                query.awaitTermination()
        except StreamingQueryException as error:
            assert TOO_BUSY in str(error)
            for query in queries:
                query.stop()
            self.run_figures()

    def context(self, trigger: Trigger) -> Context:
        """The context of the job."""
        pipeline = Pipeline("metrics", "metrics", {"bootstrap.servers": self.bootstrap}, trigger)
        return Context(self.spark, pipeline, self.folder)

    def taken(self) -> list[Fields]:
        """All samples of the topic."""
        return [value for _, value in json_records(self.bootstrap, self.samples)]

    def told(self, rule: AlertRule) -> list[Fields]:
        """The alerts of ``rule``, those of a process in order."""
        for error in filter(None, [query.exception() for query in self.queries]):
            assert TOO_BUSY in str(error)
            self._start_alerts()
        return [value for _, value in json_records(self.bootstrap, self.alerts) if value["alert"] == rule.name]

    def wait_for(self, rule: AlertRule, *states: str) -> None:
        """Wait until the alerts of ``rule`` are exactly ``states``, in this order."""
        wait_for(
            lambda: [alert["state"] for alert in self.told(rule)] == [*states], f"{rule}: {states}", TIMEOUT, interval=1
        )

    def wait_until_resolved(self, rule: AlertRule) -> None:
        """Wait until the last alert of ``rule`` is resolved; on a busy machine there may be several before it."""
        wait_for(lambda: self.told(rule)[-1]["state"] == "resolved", f"{rule}: resolved", TIMEOUT, interval=1)


@pytest.fixture
def job(spark: SparkSession, shared_cluster: LocalCluster, tmp_path: Path) -> Job:
    """The job, not yet started, and a topic for samples."""
    job = Job(spark, shared_cluster.bootstrap, tmp_path)
    job.context(Trigger()).ensure_topic(job.samples)
    return job


def documented_command() -> list[str]:
    """The command of the sampler in docs/pipelines.md."""
    [block] = (block for block in blocks_of("docs/pipelines.md", __file__) if block.kind == "sh")
    return shlex.split(block.text.replace("\\\n", ""))


@contextmanager
def sampler(job: Job, cluster: LocalCluster, processes: Mapping[str, int]) -> Iterator[None]:
    """Run the sampler by the documented command, two samples a second; it is ended by SIGTERM."""
    here = {
        "python": sys.executable,
        "localhost:9092": job.bootstrap,
        "metrics": job.samples,
        "5": "0.5",
        "brokers=kafkalite.* broker start": f"brokers=kafkalite.* broker start .*{cluster.directory}",
        "web:sites=4711": f"web:sites={os.getpid()}",
    }
    command = documented_command()
    assert here.keys() <= set(command)
    command = [here.get(argument, argument) for argument in command] + ["--host", "here", "--topics", job.samples]
    process = subprocess.Popen([*command, *(f"--process={name}={pid}" for name, pid in processes.items())])
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(60) == 0


@pytest.mark.full
def test_figures_and_alerts_of_brokers_and_processes_are_right(job: Job, shared_cluster: LocalCluster) -> None:
    with Worker() as hoarder, Worker() as burner, Worker() as sleeper:
        workers = {"hoarder:workers": hoarder.pid, "burner:workers": burner.pid, "sleeper": sleeper.pid}
        with sampler(job, shared_cluster, workers):
            with job.running():
                hoarder.do(f"hold {HELD}")
                job.wait_for(MEMORY, "raised")
            job.run_figures()
            with job.running():
                burner.do("burn 2")
                hoarder.do("free")
                job.wait_for(MEMORY, "raised", "resolved")
                job.wait_until_resolved(CPU)
                hoarder.do(f"hold {HELD}")
                job.wait_for(MEMORY, "raised", "resolved", "raised")
                hoarder.kill()
                job.wait_for(MEMORY, "raised", "resolved", "raised", "resolved")
                job.wait_for(GONE, "raised")
    job.run_figures()
    taken = job.taken()
    assert_same_figures(found_figures(job), expected_figures(taken))
    assert job.told(MEMORY) == expected_alerts(taken, MEMORY, "hoarder")
    assert job.told(CPU) == expected_alerts(taken, CPU, "burner")
    brokers = {f"brokers-{shared_cluster.pid(number)}" for number in shared_cluster.broker_ids}
    assert {one["process"] for one in taken} >= brokers | {"web", "sleeper", f"topic.{job.samples}", "broker.1"}


def test_the_sampler_gets_figures_of_brokers_topics_and_groups_by_kafkas_protocol(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster(2)
    topic = new_topic(cluster, "told", 2, replicas=2)
    produce(cluster, topic, [Item(number % 2, 1, None, b"x" * 100, ()) for number in range(10)])
    group = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "readers"})
    group.commit(offsets=[TopicPartition(topic, 0, 3), TopicPartition(topic, 1, 5)], asynchronous=False)
    group.close()
    asked = ClusterFigures({"bootstrap.servers": cluster.bootstrap}, re.compile("told"))

    def figures() -> dict[str, Fields]:
        return {one.process: {**one.counters, **one.gauges} for one in asked.figures()}

    found = figures()
    assert found.pop("broker.1")["log_bytes"] > 10 * 100
    assert found.pop("broker.2")["log_bytes"] > 10 * 100
    whole = {"records": 10, "partitions": 2, "under_replicated_partitions": 0}
    assert found == {f"topic.{topic}": whole, "group.readers": {"lag": 2}}
    cluster.kill_broker(2)
    short = {**whole, "under_replicated_partitions": 2}
    wait_for(lambda: figures()[f"topic.{topic}"] == short, "half of the replicas are gone", TIMEOUT, interval=1)


def seconds(text: str) -> float:
    """A time in ISO 8601."""
    return datetime.fromisoformat(text).timestamp()


def expected_figures(samples: Sequence[Fields]) -> dict[tuple[str, str, float], Figures]:
    """Key, metric and beginning of each closed window → figures, from ``samples`` by dicts and lists."""
    points: dict[tuple[str, str, float], list[Point]] = defaultdict(list)
    counters: set[str] = set()
    groups: dict[str, str] = {}
    for sample in samples:
        time, key = seconds(sample["time"]), f"{sample['host']}/{sample['process']}"
        if sample["group"]:
            groups[key] = sample["group"]
        counters.update(sample["counters"])
        for metric, value in {**sample["counters"], **sample["gauges"]}.items():
            points[key, metric, time // WINDOW * WINDOW].append(Point(time, value))
    watermark = max(seconds(sample["time"]) for sample in samples) - LATE
    closed = {place: sorted(found) for place, found in points.items() if place[2] + WINDOW <= watermark}
    processes = {place: of_process(found, counter=place[1] in counters) for place, found in closed.items()}
    members: dict[tuple[str, str, float], list[Figures]] = defaultdict(list)
    for (key, metric, begin), found in processes.items():
        if key in groups:
            members[groups[key], metric, begin].append(found)
    return {**processes, **{place: of_group(found) for place, found in members.items()}}


def of_process(points: Sequence[Point], *, counter: bool) -> Figures:
    """The figures of one process in one window."""
    values = [point.value for point in points]
    rate = math.nan
    if counter and len(points) > 1:
        grown = sum(after.value - before.value for before, after in pairwise(points))
        rate = grown / (points[-1].time - points[0].time)
    return Figures(math.nan, len(values), math.fsum(values) / len(values), min(values), max(values), values[-1], rate)


def of_group(members: Sequence[Figures]) -> Figures:
    """The figures of a group from those of its ``members``."""
    samples = sum(one.samples for one in members)
    rates = [one.rate for one in members if not math.isnan(one.rate)]
    return Figures(
        len(members),
        samples,
        math.fsum(one.avg * one.samples for one in members) / samples,
        min(one.min for one in members),
        max(one.max for one in members),
        math.fsum(one.last for one in members),
        math.fsum(rates) if rates else math.nan,
    )


def found_figures(job: Job) -> dict[tuple[str, str, float], Figures]:
    """The figures of the topic, which may have no key twice."""
    found: dict[tuple[str, str, float], Figures] = {}
    for key, fields in json_records(job.bootstrap, job.figures):
        place = (key, fields["metric"], seconds(fields["start"]))
        assert place not in found, f"twice: {place}"
        assert seconds(fields["end"]) == place[2] + WINDOW
        figures = (fields.get(name) for name in ("processes", "count", "avg", "min", "max", "last", "rate"))
        found[place] = Figures(*(math.nan if figure is None else figure for figure in figures))
    return found


def assert_same_figures(
    found: Mapping[tuple[str, str, float], Figures], expected: Mapping[tuple[str, str, float], Figures]
) -> None:
    assert found.keys() == expected.keys()
    for place, figures in expected.items():
        assert found[place] == pytest.approx(figures, rel=1e-6, nan_ok=True), place


def expected_alerts(samples: Sequence[Fields], rule: AlertRule, process: str) -> list[Fields]:
    """The expected alerts of ``rule`` (greater than) for ``samples`` of ``process``."""
    about = {"alert": rule.name, "host": "here", "process": process, "metric": rule.metric}
    limit = {"comparison": ">", "threshold": rule.threshold}
    told: list[Fields] = []
    since, raised = "", False
    for time, value in compared(samples, rule, process):
        broken = value is not None and value > rule.threshold
        since = since or (time if broken else "")
        lasting = broken and seconds(time) - seconds(since) >= duration(rule)
        if (lasting and not raised) or (raised and not broken):
            raised = broken
            state = "raised" if raised else "resolved"
            told.append({**about, **limit, "state": state, "since": since, "time": time, "value": value})
        since = since if broken else ""
    return told


def compared(samples: Sequence[Fields], rule: AlertRule, process: str) -> list[tuple[str, float | None]]:
    """The values that ``rule`` compares, with their times; ``None`` once the process has ended."""
    found = [
        (sample["time"], {**sample["counters"], **sample["gauges"]}.get(rule.metric))
        for sample in sorted(samples, key=lambda sample: str(sample["time"]))
        if sample["process"] == process
    ]
    if rule.rate:
        grown = (((end or 0) - (begin or 0), time, before) for (before, begin), (time, end) in pairwise(found))
        found = [(time, growth / (seconds(time) - seconds(before))) for growth, time, before in grown]
    return found


def duration(rule: AlertRule) -> float:
    """The duration of ``rule`` in seconds."""
    return {"1 second": 1.0, "500 milliseconds": 0.5}[rule.lasting]
