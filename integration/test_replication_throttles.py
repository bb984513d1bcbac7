"""Throttled reassignments by Kafka's own tools (KIP-73): the unthrottled traffic beside them, the clean-up.

The exact rate is shown on virtual time (``tests/replication/test_replication_quotas.py``) and by ``make soak``. Here
replicas get no more bytes than the rate allows in the time that has passed, which also holds on a machine that stalls.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.conftest import SOAK, ClusterFactory
from integration.harness.java import KAFKA_3_9, run_tool
from integration.harness.reassignments import RECORD, create, fill, limit, plan, reassign
from integration.harness.wait import wait_for
from integration.test_clients_confluent import Confluent
from kafkalite.embedded.cluster import LocalCluster

CONFIGS = "kafka.admin.ConfigCommand"
RATE = 2_000_000
SLOW = 250_000
"""A rate at which a transfer does not end while a test looks at it."""
AT_ONCE = 2_000_000
"""Bytes that may come at once: a fetch before the rate is known, and one that brings the rate above the quota."""
SIZE = 20_000_000


@pytest.fixture
def cluster(make_cluster: ClusterFactory) -> Iterator[LocalCluster]:
    """Two brokers."""
    yield make_cluster(2)


def stored(cluster: LocalCluster, broker_id: int, topic: str) -> int:
    """Bytes of partition 0 in a broker's directory."""
    folder = cluster.broker_dir(broker_id) / "data" / f"{topic}-0"
    return sum(file.stat().st_size for file in folder.glob("*.log"))


def overrides(cluster: LocalCluster, kind: str, name: str) -> list[str]:
    """The keys that are set for a broker or a topic."""
    where = ("--bootstrap-server", cluster.bootstrap, "--describe", "--entity-type", kind, "--entity-name", name)
    lines = run_tool(KAFKA_3_9, CONFIGS, *where).lines()[1:]
    return sorted(line.strip().split("=")[0] for line in lines)


def wait_and_check_slow(cluster: LocalCluster, topic: str, begun: float) -> None:
    """The transfer to broker 2, which began after the time ``begun``, goes on, and not faster than it may."""
    wait_for(lambda: stored(cluster, 2, topic) > AT_ONCE + SLOW, "the transfer goes on", 60)
    assert stored(cluster, 2, topic) <= 1.2 * SLOW * (time.monotonic() - begun) + AT_ONCE


def measured_rate(cluster: LocalCluster, broker_id: int, topic: str) -> float:
    """Bytes a second from the first byte of the broker's replica to the last."""
    first = wait_for(lambda: stored(cluster, broker_id, topic), "the transfer has begun", interval=0.005)
    start = time.monotonic()
    wait_for(lambda: stored(cluster, broker_id, topic) >= SIZE, "the transfer has ended", 60, 0.01)
    return (stored(cluster, broker_id, topic) - first) / (time.monotonic() - start)


@pytest.mark.full
def test_a_throttled_reassignment_keeps_its_rate(cluster: LocalCluster, tmp_path: Path) -> None:
    """Another topic, consumers, and the broker's other configurations are not affected; ``--verify`` removes the
    throttles."""
    topic, beside = create(cluster, "moved", 1), create(cluster, "beside", 1, 2)
    fill(cluster, topic, SIZE)
    file = plan(tmp_path / "move.json", topic, [2])
    assert stored(cluster, 2, topic) == 0
    limit(
        cluster.bootstrap,
        {"leader.replication.throttled.rate": SLOW, "follower.replication.throttled.rate": SLOW},
        1,
        2,
    )
    begun = time.monotonic()
    said = reassign(cluster, "--execute", file, "--throttle", str(SLOW))
    assert f"The inter-broker throttle limit was set to {SLOW} B/s" in said

    wait_for(lambda: stored(cluster, 2, topic), "the transfer has begun")
    start = time.monotonic()
    fill(cluster, beside, SIZE // 2)
    assert time.monotonic() - start < SIZE / 2 / SLOW, "replicas in sync were held back"
    end = Confluent().end_offset(cluster.bootstrap, topic, 0)
    assert len(Confluent().consume(cluster.bootstrap, topic, {0: 0}, end)) == SIZE // RECORD
    assert stored(cluster, 2, topic) < SIZE, "the transfer ended before a consumer had read all"
    wait_and_check_slow(cluster, topic, begun)
    said = reassign(cluster, "--execute", file, "--additional", "--throttle", str(1000 * SLOW))
    assert f"The inter-broker throttle limit was set to {1000 * SLOW} B/s" in said
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


def begin_move(cluster: LocalCluster, directory: Path, side: str, rate: int) -> str:
    """Begin the move of a new topic to broker 2, with a rate for all replicas of the topic only at the leader, or only
    at the follower; returns the topic."""
    topic = create(cluster, side, 1)
    fill(cluster, topic, SIZE)
    all_replicas = ("--entity-name", topic, "--add-config", f"{side}.replication.throttled.replicas=*")
    run_tool(
        KAFKA_3_9, CONFIGS, "--bootstrap-server", cluster.bootstrap, "--alter", "--entity-type", "topics", *all_replicas
    )
    limit(cluster.bootstrap, {f"{side}.replication.throttled.rate": rate}, 1 if side == "leader" else 2)
    reassign(cluster, "--execute", plan(directory / "move.json", topic, [2]))
    return topic


@pytest.mark.parametrize("side", ["leader", pytest.param("follower", marks=pytest.mark.full)])
def test_one_side_alone_holds_the_rate(cluster: LocalCluster, tmp_path: Path, side: str) -> None:
    begun = time.monotonic()
    wait_and_check_slow(cluster, begin_move(cluster, tmp_path, side, SLOW), begun)


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="make soak, or KAFKALITE_SOAK=1")
@pytest.mark.parametrize("side", ["leader", "follower"])
def test_the_rate_holds_within_a_fifth(cluster: LocalCluster, tmp_path: Path, side: str) -> None:
    """A machine that stalls for seconds fails here."""
    topic = begin_move(cluster, tmp_path, side, RATE)
    assert measured_rate(cluster, 2, topic) == pytest.approx(RATE, rel=0.2)
