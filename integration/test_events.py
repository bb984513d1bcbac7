"""``kafkalite events``: a failover under load reads as a story, also by clocks that differ."""

from __future__ import annotations

import json
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
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
from kafkalite.common.events import decode_frames
from kafkalite.embedded.cluster import LocalCluster

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


def place(story: Story, wanted: Callable[[dict[str, Any]], bool], after: int = -1) -> int:
    """The first event behind ``after`` that is ``wanted``; -1 without one."""
    return next((n for n, event in enumerate(story) if n > after and wanted(event)), -1)


def test_the_clocks_differ(cluster: LocalCluster) -> None:
    for number in cluster.broker_ids:
        before = time.time() * 1000
        with urllib.request.urlopen((cluster.metrics(number) or "").replace("/metrics", "/events"), timeout=30) as page:
            now = decode_frames(page.read()).now_ms
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
