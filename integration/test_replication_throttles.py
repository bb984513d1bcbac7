"""Throttled reassignments by Kafka's own tools (KIP-73): the rate, who is not slowed down, and what is left behind."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from integration.conftest import ClusterFactory
from integration.harness.clients import fresh_topic
from integration.harness.java import KAFKA_3_9, run_tool
from integration.harness.wait import wait_for
from integration.test_clients_confluent import Confluent
from kafkalite.embedded.cluster import LocalCluster

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
CONFIGS = "kafka.admin.ConfigCommand"
RATE = 2_000_000
SIZE = 20_000_000
RECORD = 10_000


@pytest.fixture(scope="module")
def payload() -> bytes:
    """What no codec makes smaller."""
    return os.urandom(RECORD)


@pytest.fixture
def cluster(make_cluster: ClusterFactory) -> Iterator[LocalCluster]:
    """Two brokers."""
    yield make_cluster(2)


def fill(cluster: LocalCluster, topic: str, payload: bytes, size: int = SIZE) -> None:
    """``size`` bytes of records in partition 0 of ``topic``."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5})
    for _ in range(size // RECORD):
        producer.produce(topic, payload, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def stored(cluster: LocalCluster, broker_id: int, topic: str) -> int:
    """Bytes of partition 0 in that broker's directory."""
    folder = cluster.broker_dir(broker_id) / "data" / f"{topic}-0"
    return sum(file.stat().st_size for file in folder.glob("*.log"))


def create(cluster: LocalCluster, prefix: str, *replicas: int) -> str:
    """A topic with one partition on ``replicas``."""
    topic = fresh_topic(prefix)
    run_tool(
        KAFKA_3_9,
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", cluster.bootstrap, "--create", "--topic", topic),
        *("--replica-assignment", ":".join(map(str, replicas))),
    )
    return topic


def move(path: Path, topic: str, *replicas: int) -> Path:
    """A reassignment of partition 0."""
    path.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": list(replicas)}]})
    )
    return path


def reassign(cluster: LocalCluster, action: str, file: Path, *more: str) -> str:
    """ReassignPartitionsCommand; what it says."""
    where = ("--bootstrap-server", cluster.bootstrap)
    return run_tool(KAFKA_3_9, REASSIGN, *where, action, "--reassignment-json-file", str(file), *more).out


def overrides(cluster: LocalCluster, kind: str, name: str) -> list[str]:
    """The keys that are set for a broker or a topic."""
    where = ("--bootstrap-server", cluster.bootstrap, "--describe", "--entity-type", kind, "--entity-name", name)
    lines = run_tool(KAFKA_3_9, CONFIGS, *where).lines()[1:]
    return sorted(line.strip().split("=")[0] for line in lines)


def measured_rate(cluster: LocalCluster, broker_id: int, topic: str) -> float:
    """Bytes per second from the first that the broker has to the last."""
    first = wait_for(lambda: stored(cluster, broker_id, topic), "the transfer has begun", interval=0.005)
    start = time.monotonic()
    wait_for(lambda: stored(cluster, broker_id, topic) >= SIZE, "the transfer has ended", 60, 0.01)
    return (stored(cluster, broker_id, topic) - first) / (time.monotonic() - start)


@pytest.mark.full
def test_a_throttled_reassignment(cluster: LocalCluster, payload: bytes, tmp_path: Path) -> None:
    """The rate holds within 20 %; a topic beside it, consumers, and the broker's other configurations are free.

    ``--verify`` takes the throttles away.
    """
    topic, beside = create(cluster, "moved", 1), create(cluster, "beside", 1, 2)
    fill(cluster, topic, payload)
    file = move(tmp_path / "move.json", topic, 2)
    assert stored(cluster, 2, topic) == 0
    said = reassign(cluster, "--execute", file, "--throttle", str(RATE))
    assert f"The inter-broker throttle limit was set to {RATE} B/s" in said

    wait_for(lambda: stored(cluster, 2, topic), "the transfer has begun", interval=0.005)
    before = stored(cluster, 2, topic)
    start = time.monotonic()
    fill(cluster, beside, payload, SIZE // 2)
    beside_took = time.monotonic() - start
    assert stored(cluster, 2, topic) < SIZE
    end = Confluent().end_offset(cluster.bootstrap, topic, 0)
    assert len(Confluent().consume(cluster.bootstrap, topic, {0: 0}, end)) == SIZE // RECORD
    assert stored(cluster, 2, topic) < SIZE, "the transfer ended before a consumer had read all"
    wait_for(lambda: stored(cluster, 2, topic) >= SIZE, "the transfer has ended", 60, 0.01)
    rate = (stored(cluster, 2, topic) - before) / (time.monotonic() - start)
    assert rate == pytest.approx(RATE, rel=0.2)
    assert beside_took < SIZE / 2 / RATE, "replicas in sync were held back"

    wait_for(lambda: stored(cluster, 1, topic) == 0, "the old replica has gone")
    assert "leader.replication.throttled.rate" in overrides(cluster, "brokers", "1")
    change = ("--alter", "--entity-type", "brokers", "--entity-name", "1", "--add-config", "log.cleaner.threads=2")
    run_tool(KAFKA_3_9, CONFIGS, "--bootstrap-server", cluster.bootstrap, *change)
    said = reassign(cluster, "--verify", file)
    assert f"Reassignment of partition {topic}-0 is completed." in said
    assert "Clearing broker-level throttles on brokers 1,2" in said
    assert f"Clearing topic-level throttles on topic {topic}" in said
    assert overrides(cluster, "brokers", "1") == ["log.cleaner.threads"]
    assert overrides(cluster, "brokers", "2") == []
    assert overrides(cluster, "topics", topic) == []
    assert Confluent().end_offset(cluster.bootstrap, topic, 0) == end


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_one_side_alone_holds_the_rate(cluster: LocalCluster, payload: bytes, tmp_path: Path, side: str) -> None:
    """A rate at the leader only, or at the follower only, for all replicas of the topic."""
    topic = create(cluster, side, 1)
    fill(cluster, topic, payload)
    for kind, name, setting in (
        ("brokers", "1" if side == "leader" else "2", f"{side}.replication.throttled.rate={RATE}"),
        ("topics", topic, f"{side}.replication.throttled.replicas=*"),
    ):
        change = ("--alter", "--entity-type", kind, "--entity-name", name, "--add-config", setting)
        run_tool(KAFKA_3_9, CONFIGS, "--bootstrap-server", cluster.bootstrap, *change)
    reassign(cluster, "--execute", move(tmp_path / "move.json", topic, 2))
    assert measured_rate(cluster, 2, topic) == pytest.approx(RATE, rel=0.2)
