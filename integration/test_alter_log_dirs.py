"""Moves of replicas between the log directories of a broker, by Kafka's tools and by kafkalite's (KIP-113)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.conftest import ClusterFactory
from integration.harness.commands import command
from integration.harness.java import KAFKA_3_9, run_tool
from integration.harness.reassignments import RECORD, create, fill, limit, plan, reassign
from integration.harness.tree import Tree
from integration.harness.wait import wait_for
from integration.test_clients_confluent import Confluent
from kafkalite.embedded.cluster import LocalCluster

LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
SLOW = 200_000
"""A rate at which a copy does not end while a test looks at it. The exact rate is shown on virtual time
(``tests/replication/test_alter_log_dirs.py``)."""
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
AT_ONCE = 1_100_000
"""Bytes that may be copied at once."""
SIZE = 16_000_000


@pytest.fixture
def cluster(make_cluster: ClusterFactory) -> Iterator[LocalCluster]:
    """Two brokers with two log directories each."""
    made = make_cluster(2, start=False)
    for broker_id in made.broker_ids:
        made.override_broker(broker_id, {"log.dirs": ",".join(directory(made, broker_id, n) for n in (0, 1))})
    made.start()
    yield made


def directory(cluster: LocalCluster, broker_id: int, number: int) -> str:
    """A log directory."""
    return str(cluster.broker_dir(broker_id) / f"data-{number}")


def home(cluster: LocalCluster, broker_id: int, topic: str) -> int:
    """The number of the directory with the current replica, not its copy. Raises ``LookupError`` during the swap."""
    found = [n for n in (0, 1) if os.path.isdir(f"{directory(cluster, broker_id, n)}/{topic}-0")]
    if len(found) != 1:
        raise LookupError(f"{topic}-0 is in {len(found)} directories")
    return found[0]


def wait_until_verified(cluster: LocalCluster, file: Path, word: str) -> None:
    """Wait until the output of ``--verify`` contains ``word``."""
    wait_for(lambda: word in reassign(cluster, "--verify", file), word, 60, 0.2)


def copied(log_dir: str, topic: str) -> int:
    """Bytes of the future replica of partition 0 in a directory."""
    return sum(file.stat().st_size for file in Path(log_dir).glob(f"{topic}-0.*-future/*.log"))


def copies(cluster: LocalCluster, topic: str) -> list[dict[str, Any]]:
    """The future replicas in the output of LogDirsCommand."""
    where = ("--bootstrap-server", cluster.bootstrap, "--describe", "--topic-list", topic)
    document = json.loads(run_tool(KAFKA_3_9, LOG_DIRS, *where).lines()[-1])
    return [
        {**partition, "logDir": found["logDir"], "broker": entry["broker"]}
        for entry in document["brokers"]
        for found in entry["logDirs"]
        for partition in found["partitions"]
        if partition["isFuture"]
    ]


def read_everything(cluster: LocalCluster, topic: str) -> int:
    """Number of records that a consumer reads."""
    end = Confluent().end_offset(cluster.bootstrap, topic, 0)
    return len(Confluent().consume(cluster.bootstrap, topic, {0: 0}, end))


@pytest.mark.full
def test_a_throttled_move_keeps_its_rate(cluster: LocalCluster, tmp_path: Path) -> None:
    """Also while producers write; the tool reports the end, and removes the rate."""
    topic = create(cluster, "moved", 1, 2)
    fill(cluster, topic, SIZE)
    old = home(cluster, 1, topic)
    target = directory(cluster, 1, 1 - old)
    file = plan(tmp_path / "plan.json", topic, [1, 2], [target, "any"])
    limit(cluster.bootstrap, {RATE: SLOW}, 1)
    begun = time.monotonic()
    said = reassign(cluster, "--execute", file, "--replica-alter-log-dirs-throttle", str(SLOW))
    assert f"The replica-alter-dir throttle limit was set to {SLOW} B/s" in said
    assert f"{target} for replica {topic}-0 with broker 1" in said
    wait_for(lambda: copied(target, topic), "the copying has begun")
    fill(cluster, topic, 100 * RECORD)
    assert home(cluster, 1, topic) == old
    wait_for(lambda: copied(target, topic) > AT_ONCE + SLOW, "the copying goes on", 60)
    assert copied(target, topic) <= 1.2 * SLOW * (time.monotonic() - begun) + AT_ONCE
    reassign(cluster, "--execute", file, "--additional", "--replica-alter-log-dirs-throttle", str(1000 * SLOW))
    wait_for(lambda: home(cluster, 1, topic) != old, "the replica has moved", 60)

    fill(cluster, topic, 10 * RECORD)
    assert read_everything(cluster, topic) == SIZE // RECORD + 110
    said = reassign(cluster, "--verify", file)
    assert f"Reassignment of replica {topic}-0-1 completed successfully." in said
    assert "Clearing broker-level throttles on brokers 1,2" in said


def test_a_new_replica_is_made_in_the_requested_directory(cluster: LocalCluster, tmp_path: Path) -> None:
    """Also if another directory has fewer partitions."""
    topic = create(cluster, "new", 1)
    fill(cluster, topic, 50 * RECORD)
    for number in (0, 1):
        file = plan(tmp_path / "plan.json", topic, [2], [directory(cluster, 2, number)])
        said = reassign(cluster, "--execute", file)
        assert f"Successfully started partition reassignment for {topic}-0" in said
        wait_until_verified(cluster, file, f"Reassignment of replica {topic}-0-2 completed successfully.")
        assert home(cluster, 2, topic) == number
        file = plan(tmp_path / "back.json", topic, [1], ["any"])
        reassign(cluster, "--execute", file)
        wait_until_verified(cluster, file, f"Reassignment of partition {topic}-0 is completed.")
        wait_for(lambda: not list(cluster.broker_dir(2).glob(f"data-*/{topic}-0")), "the replica on broker 2 has gone")
    assert read_everything(cluster, topic) == 50


@pytest.mark.full
def test_a_move_continues_after_a_restart_and_can_be_cancelled(
    cluster: LocalCluster, tree: Tree, tmp_path: Path
) -> None:
    """A killed broker continues its copy; a request for the current directory cancels the move."""
    topic = create(cluster, "restarted", 1)
    fill(cluster, topic, SIZE)
    old = home(cluster, 1, topic)
    target = directory(cluster, 1, 1 - old)
    forth = plan(tmp_path / "forth.json", topic, [1], [target])
    limit(cluster.bootstrap, {RATE: 100_000}, 1)
    reassign(cluster, "--execute", forth, "--replica-alter-log-dirs-throttle", "100000")
    wait_for(lambda: copied(target, topic) > SIZE // 64, "some of it is copied")
    (copy,) = copies(cluster, topic)
    assert (copy["partition"], copy["broker"], copy["logDir"]) == (f"{topic}-0", 1, target)
    assert 0 < copy["size"] < SIZE and 0 < copy["offsetLag"] < SIZE // RECORD
    assert f"Reassignment of replica {topic}-0-1 is still in progress." in reassign(cluster, "--verify", forth)
    assert read_everything(cluster, topic) == SIZE // RECORD

    (name,) = Path(target).glob(f"{topic}-0.*-future")
    cluster.kill_broker(1)
    wait_for(lambda: 1 not in tree.live(), "the broker's session has ended")
    cluster.start_broker(1)
    assert [name] == list(Path(target).glob(f"{topic}-0.*-future"))
    again = copied(target, topic)
    wait_for(lambda: copied(target, topic) > again, "the copying goes on")
    back = plan(tmp_path / "back.json", topic, [1], [directory(cluster, 1, old)])
    reassign(cluster, "--execute", back, "--additional")
    wait_for(lambda: not list(Path(target).glob(f"{topic}-0*-future")), "the copy is given up")
    assert home(cluster, 1, topic) == old
    assert copies(cluster, topic) == []
    reassign(cluster, "--execute", forth, "--additional")
    where = ("--bootstrap-server", cluster.bootstrap, "--alter", "--entity-type", "brokers", "--entity-name", "1")
    run_tool(KAFKA_3_9, "kafka.admin.ConfigCommand", *where, "--delete-config", RATE)
    wait_for(lambda: home(cluster, 1, topic) != old, "the replica has moved", 60)
    assert read_everything(cluster, topic) == SIZE // RECORD
    cluster.restart_broker(1)
    assert home(cluster, 1, topic) != old
    wait_for(lambda: read_everything(cluster, topic) == SIZE // RECORD, "all is there after a restart")


@pytest.mark.full
def test_kafkalites_commands_move_replicas(cluster: LocalCluster, tmp_path: Path) -> None:
    """``reassign`` and ``log-dirs`` move to another broker and another directory together, with both throttles."""
    topic = create(cluster, "own", 1)
    fill(cluster, topic, 400 * RECORD)
    old = home(cluster, 1, topic)
    where = ("--bootstrap-server", cluster.bootstrap)
    words = ("--reassignment-json-file", tmp_path / "plan.json", *where)
    plan(
        tmp_path / "plan.json",
        topic,
        [1, 2],
        [directory(cluster, 1, 1 - old), directory(cluster, 2, 1)],
    )
    limit(cluster.bootstrap, {RATE: 50_000}, 1, 2)
    limits = ("--throttle", 1_000_000, "--replica-alter-log-dirs-throttle", 50_000)
    said = command("reassign", "--execute", *words, *limits).lines
    assert "The inter-broker throttle limit was set to 1000000 B/s" in said
    assert f"Successfully started partition reassignment for {topic}-0" in said
    began = f"for replica {topic}-0 with broker 1"
    assert any(began in line for line in said)
    shown = command("configs", "--describe", "--entity-type", "brokers", "--entity-name", 1, *where).out
    assert "leader.replication.throttled.rate=1000000" in shown
    described = command("log-dirs", "--describe", "--topic-list", topic, "--json", *where).json
    futures = [
        (entry["broker"], found["logDir"])
        for entry in described["brokers"]
        for found in entry["logDirs"]
        for partition in found["partitions"]
        if partition["isFuture"]
    ]
    assert (1, directory(cluster, 1, 1 - old)) in futures
    assert command("reassign", "--verify", *words, "--json", code=1).json[f"{topic}-0-1"] == "in progress"
    assert f"log directory move for: {topic}-0-1" in command("reassign", "--cancel", *words, "--preserve-throttles").out
    command("reassign", "--execute", *words, "--additional", "--replica-alter-log-dirs-throttle", 50_000_000)
    wait_for(lambda: command("reassign", "--verify", *words, code=None).code == 0, "all is done", 60, 0.2)
    assert (home(cluster, 1, topic), home(cluster, 2, topic)) == (1 - old, 1)
    shown = command("configs", "--describe", "--entity-type", "brokers", "--entity-name", 1, *where).out
    assert "throttled" not in shown and "alter.log.dirs" not in shown
    assert read_everything(cluster, topic) == 400
