"""``kafkalite events``: a failover under load reads as a story, also by clocks that differ."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from integration.conftest import TEST_OVERRIDES
from integration.harness import skewed_broker
from integration.harness.clients import fresh_topic
from integration.harness.commands import command
from integration.harness.tree import Tree
from integration.harness.wait import wait_for
from integration.test_clients_confluent import Confluent
from kafkalite.common.events import EventFrames, decode_frames
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.processes import free_ports

PARTITIONS = 6
AHEAD_MS = {1: 0, 2: 2000, 3: -2000}
"""By how much the clock of each broker is ahead of the true one."""
pytestmark = pytest.mark.kafkalite_only


def skewed(config: Path) -> list[str]:
    """The command of a broker whose clock is wrong; its folder is named after its id."""
    ahead = AHEAD_MS[int(config.parent.name.rpartition("-")[2])]
    return [sys.executable, "-P", skewed_broker.__file__, str(ahead), "broker", "start", "--config", str(config)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers with pages, whose logs are JSON, and whose clocks differ by two seconds and more."""
    overrides = {**TEST_OVERRIDES, "log.format": "json"}
    directory = tmp_path_factory.mktemp("events")
    with closing(LocalCluster(directory, overrides=overrides, launcher=skewed, metrics=True)) as started:
        started.start()
        yield started


class Load:
    """A producer that sends to every partition of a topic until the end of the block."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged = 0
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
        self._topic = topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.01):
            for partition in range(PARTITIONS):
                self._producer.produce(self._topic, b"x", partition=partition, on_delivery=self._delivered)
            self._producer.poll(0)
        self._producer.flush(60)

    def _delivered(self, error: object, _: object) -> None:
        self.acknowledged += error is None


Story = list[dict[str, Any]]


def timeline(*where: str) -> Story:
    return [json.loads(line) for line in command("events", *where, "--json").lines]


def told_at(page: str) -> EventFrames:
    """The answer of the page of a broker's present life."""
    with urllib.request.urlopen(page, timeout=30) as answer:
        return decode_frames(answer.read())


def place(story: Story, wanted: Callable[[dict[str, Any]], bool], after: int = -1) -> int:
    """The first event behind ``after`` that is ``wanted``; -1 without one."""
    return next((n for n, event in enumerate(story) if n > after and wanted(event)), -1)


def test_the_clocks_differ(cluster: LocalCluster) -> None:
    for number in cluster.broker_ids:
        before = time.time() * 1000
        now = told_at((cluster.metrics(number) or "").replace("/metrics", "/events")).now_ms
        assert before - 1 <= now - AHEAD_MS[number] <= time.time() * 1000 + 1


def test_the_failover_of_a_killed_controller_reads_as_a_story(cluster: LocalCluster) -> None:
    topic = fresh_topic("story")
    Confluent().create_topic(cluster.bootstrap, topic, PARTITIONS, 3, {"min.insync.replicas": "1"})
    with Tree(cluster.zookeeper) as tree:
        killed, epoch = tree.controller(), tree.controller_epoch()
        pages = {tree.json(f"/brokers/ids/{number}")["events"] for number in cluster.broker_ids}
    assert pages == {(cluster.metrics(number) or "").replace("/metrics", "/events") for number in cluster.broker_ids}
    with Load(cluster.bootstrap, topic) as load:
        wait_for(lambda: load.acknowledged > 100, "records are acknowledged")
        cluster.kill_broker(killed)
        moved: set[int] = set()

        def accepted() -> bool:
            """Whether every partition that moved accepted a record in its new leader epoch."""
            story = timeline("--zookeeper", cluster.zookeeper)
            start = place(story, lambda each: each.get("controller_epoch") == epoch + 1)
            of_topic = [each for each in story[start:] if each.get("topic") == topic] if start >= 0 else []
            moved.update(each["partition"] for each in of_topic if f"instead of {killed}" in each["text"])
            return bool(moved) and moved <= {each["partition"] for each in of_topic if each["kind"] == "produce"}

        wait_for(accepted, "the partitions of the killed broker accept records", timeout=60)
    story = timeline("--zookeeper", cluster.zookeeper)
    assert {each["broker"] for each in story} == set(cluster.broker_ids) - {killed}

    closed = place(story, lambda each: each["text"].startswith(f"/controller of broker {killed} is gone"))
    elected = place(story, lambda each: each["kind"] == "controller" and each.get("controller_epoch") == epoch + 1)
    assert 0 <= closed < elected, "the session closed, then the controller was elected"
    assert story[elected]["zxid"] > 0
    for partition in moved:

        def of_partition(each: dict[str, Any], kind: str, partition: int = partition) -> bool:
            return each["kind"] == kind and (each.get("topic"), each.get("partition")) == (topic, partition)

        decided = place(story, lambda each: of_partition(each, "leadership") and "instead of" in each["text"], elected)
        leads = place(story, lambda each: of_partition(each, "leadership") and " leads " in each["text"], decided)
        produced = place(story, lambda each: of_partition(each, "produce"), leads)
        assert elected < decided < leads < produced, f"partition {partition}"
        epochs = {story[each]["leader_epoch"] for each in (decided, leads, produced)}
        assert len(epochs) == 1, "all of one leader epoch"

    by_brokers = timeline("--bootstrap-server", cluster.bootstrap)
    assert {(each["broker"], each["sequence"]) for each in story} <= {
        (each["broker"], each["sequence"]) for each in by_brokers
    }
    shown = command("events", "--zookeeper", cluster.zookeeper, "--kind", "controller").lines
    assert any(f"is the controller (controller epoch {epoch + 1}" in line for line in shown)


def test_decisions_on_groups_transactions_configurations_and_replicas_are_told(cluster: LocalCluster) -> None:
    """After the failover: the broker that was killed comes back, too."""
    for number in cluster.broker_ids:
        if not cluster.is_alive(number):
            cluster.start_broker(number)
    topic, group = fresh_topic("told"), fresh_topic("listeners")
    Confluent().create_topic(cluster.bootstrap, topic, 1, 3, {})
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.commit_transaction(60)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    with closing(consumer):
        consumer.subscribe([topic])
        wait_for(lambda: consumer.poll(1.0), "the member reads")
        consumer.commit(asynchronous=False)
        # An edit is told by a coordinator that has read what stood there before.
        wait_for(lambda: consumer.committed([TopicPartition(topic, 0)], 30)[0].offset == 1, "the commit counts")
        path = f"/consumers/{group}/offsets/{topic}/0"
        command("zk", "set", "--zookeeper", cluster.zookeeper, "--path", path, "--data", 0)
        # The coordinator reads the number when it is asked for it.
        wait_for(lambda: consumer.committed([TopicPartition(topic, 0)], 30)[0].offset == 0, "the edit counts")
    alter = ("--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", "retention.ms=1000000")
    command("configs", "--bootstrap-server", cluster.bootstrap, *alter)
    expected: list[dict[str, Any]] = [
        {"kind": "transaction", "transactional_id": topic, "text": "PrepareCommit, 1 partitions"},
        {"kind": "rebalance", "group": group, "text": "generation 1 with 1 members"},
        {"kind": "offset-edit", "group": group, "topic": topic, "partition": 0, "text": "is 0 instead of 1"},
        {"kind": "configuration", "topic": topic, "text": "was read again"},
        {"kind": "registration", "text": "is registered"},
        {"kind": "isr", "topic": "story-", "why": "replicas caught up", "text": "ISR"},
    ]

    def told(event: dict[str, Any], facts: dict[str, Any]) -> bool:
        parts = ("text", "topic")
        return all(
            str(value) in str(event.get(name)) if name in parts else event.get(name) == value
            for name, value in facts.items()
        )

    def missing() -> list[dict[str, Any]]:
        story = timeline("--zookeeper", cluster.zookeeper)
        return [each for each in expected if not any(told(event, each) for event in story)]

    try:
        wait_for(lambda: not missing(), "each is told", timeout=60)
    except AssertionError:
        raise AssertionError(f"not told: {missing()}") from None


def test_every_line_of_the_log_is_an_object(cluster: LocalCluster) -> None:
    broker = next(number for number in cluster.broker_ids if cluster.is_alive(number))
    lines = [json.loads(line) for line in cluster.log_file(broker).read_text().splitlines()]
    assert {"INFO"} <= {line["level"] for line in lines}
    assert any(line["logger"] == "kafkalite.broker.server" and "serves on" in line["message"] for line in lines)


class Follower:
    """``kafkalite events --follow`` as a process, until the end of the block."""

    def __init__(self, directory: Path, *where: str) -> None:
        self._out = directory / f"{where[0]}.out"
        self._command = [sys.executable, "-m", "kafkalite.cli.main", "events", *where, "--follow", "--json"]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Follower:
        with self._out.open("wb") as out:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._process.poll() is None, f"it ended: {self._out.read_text()[-2000:]}"
        self._process.terminate()
        self._process.wait(30)

    @property
    def printed(self) -> Counter[str]:
        """The whole lines of events, and how often each was printed."""
        lines = self._out.read_text().rpartition("\n")[0].splitlines()
        return Counter(line for line in lines if line.startswith("{"))


def test_brokers_that_are_added_or_come_back_elsewhere_are_followed(cluster: LocalCluster, tmp_path: Path) -> None:
    """By their registrations and by their configurations; all that they tell is printed, and none of it twice."""
    late, back, stays = cluster.broker_ids
    for number in (back, stays):
        if not cluster.is_alive(number):
            cluster.start_broker(number)
    if cluster.is_alive(late):
        cluster.kill_broker(late)
    pages = {number: (cluster.metrics(number) or "").replace("/metrics", "/events") for number in cluster.broker_ids}
    with ExitStack() as stack:
        flags = (("--zookeeper", cluster.zookeeper), ("--bootstrap-server", cluster.address(back)))
        followers = [stack.enter_context(Follower(tmp_path, *each)) for each in flags]

        def all_told(number: int) -> bool:
            """Whether each follower has printed what the broker's page has."""
            told = {json.dumps(each.facts(), ensure_ascii=False) for each in told_at(pages[number]).events}
            return any("is registered" in each for each in told) and all(
                told <= follower.printed.keys() for follower in followers
            )

        for number in (back, stays):
            wait_for(lambda: all_told(number), f"broker {number} is followed", timeout=60)  # noqa: B023
        cluster.start_broker(late)
        wait_for(lambda: all_told(late), "the broker that was added is followed", timeout=60)
        cluster.kill_broker(back)
        elsewhere = f"http://127.0.0.1:{free_ports(1)[0]}"
        pages[back] = f"{elsewhere}/events"
        cluster.start_broker(back, {"metrics.listener": elsewhere})
        for number in cluster.broker_ids:
            wait_for(lambda: all_told(number), f"broker {number} is followed to its new address", timeout=60)  # noqa: B023
        for follower in followers:
            assert {line: count for line, count in follower.printed.items() if count > 1} == {}
