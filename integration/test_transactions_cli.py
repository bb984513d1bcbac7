"""Actions of ``kafkalite transactions`` that Kafka's tool lacks: ends of a dead producer's transaction."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from integration.conftest import ClusterFactory
from integration.harness.clients import fresh_topic
from integration.harness.commands import Outcome, command
from integration.harness.groups import Ground
from integration.harness.wait import wait_for
from kafkalite.embedded.cluster import LocalCluster

TIMEOUT = 60.0
NO_TIMEOUT_MS = 2147483647
SHORT_MS = 4000
"""Longer than a machine stalls, because the transaction may not be aborted before the test has seen it."""


def transactions(cluster: LocalCluster, *arguments: object, code: int = 0) -> Outcome:
    """Run ``kafkalite transactions``."""
    return command("transactions", "--bootstrap-server", cluster.bootstrap, *arguments, code=code)


def left_open(cluster: LocalCluster, topic: str, transactional_id: str, *values: bytes, timeout_ms: int = 60000) -> Any:
    """Write ``values`` in a transaction that stays open; returns its description."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
    )
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(TIMEOUT) == 0
    described = transactions(cluster, "describe", "--transactional-id", transactional_id, "--json").json
    assert described["state"] == "Ongoing" and described["partitions"] == [f"{topic}-0"]
    assert described["start_time_ms"] > 0 and described["timeout_ms"] == timeout_ms
    return producer, described


def exactly(described: Any) -> tuple[str, ...]:
    """The flags for a transaction's producer."""
    names = ("transactional_id", "producer_id", "producer_epoch")
    return tuple(word for name in names for word in (f"--{name.replace('_', '-')}", str(described[name])))


def committed(cluster: LocalCluster, topic: str, count: int) -> list[str]:
    """Wait for ``count`` committed records; returns their values."""
    flags = ("--isolation-level", "read_committed", "--partition", "0", "--offset", "earliest")
    where = ("--bootstrap-server", cluster.bootstrap, "--topic", topic)
    return command("consume", *where, *flags, "--max-messages", count, "--timeout-ms", "20000").lines


def a_topic(cluster: LocalCluster) -> str:
    """Create a topic with one partition."""
    return Ground(cluster).topic(1)


def state(cluster: LocalCluster, transactional_id: str) -> str:
    """A transactional id's state."""
    return str(transactions(cluster, "describe", "--transactional-id", transactional_id, "--json").json["state"])


@pytest.mark.parametrize(("action", "end"), [("commit", "CompleteCommit"), ("abort", "CompleteAbort")])
def test_a_transaction_is_ended_by_its_producers_id_and_epoch(
    shared_cluster: LocalCluster, action: str, end: str
) -> None:
    """The command has the transactional id, too; another epoch is refused."""
    topic, name = a_topic(shared_cluster), fresh_topic("prepared")
    _producer, described = left_open(shared_cluster, topic, name, b"one", b"two")
    flags = exactly(described)
    wrong = transactions(shared_cluster, action, *flags[:-1], described["producer_epoch"] + 1, code=1)
    assert "FENCED" in wrong.err or "INVALID_PRODUCER_EPOCH" in wrong.err
    assert state(shared_cluster, name) == "Ongoing"
    transactions(shared_cluster, action, *flags)
    wait_for(lambda: state(shared_cluster, name) == end, "it has ended")
    producer, _ = left_open(shared_cluster, topic, fresh_topic("next"), b"three")
    producer.commit_transaction(TIMEOUT)
    expected = ["one", "two", "three"] if action == "commit" else ["three"]
    assert committed(shared_cluster, topic, len(expected)) == expected


def test_forced_termination_aborts_and_fences(shared_cluster: LocalCluster) -> None:
    """The open transaction is aborted, its producer is fenced; an unknown transactional id is an error."""
    topic, name = a_topic(shared_cluster), fresh_topic("forced")
    producer, described = left_open(shared_cluster, topic, name, b"lost")
    transactions(shared_cluster, "forceTerminateTransaction", "--transactional-id", name)
    after = transactions(shared_cluster, "describe", "--transactional-id", name, "--json").json
    assert after["producer_epoch"] > described["producer_epoch"] or after["producer_id"] != described["producer_id"]
    assert after["state"] in ("Empty", "CompleteAbort") and after["partitions"] == []
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction(TIMEOUT)
    assert fenced.value.args[0].fatal()
    unknown = transactions(shared_cluster, "forceTerminateTransaction", "--transactional-id", "nobody", code=1)
    assert "TRANSACTIONAL_ID_NOT_FOUND" in unknown.err
    successor, _ = left_open(shared_cluster, topic, name, b"kept")
    successor.commit_transaction(TIMEOUT)
    assert committed(shared_cluster, topic, 1) == ["kept"]


def test_transactions_are_listed_by_duration(shared_cluster: LocalCluster) -> None:
    """With the filter only those that have been open that long; without it all."""
    topic, name = a_topic(shared_cluster), fresh_topic("long")
    producer, _ = left_open(shared_cluster, topic, name, b"value")

    def listed(*flags: object) -> dict[str, str]:
        return {
            one["transactional_id"]: one["state"] for one in transactions(shared_cluster, "list", "--json", *flags).json
        }

    assert listed()[name] == "Ongoing"
    assert name not in listed("--duration-filter", 3_600_000)
    wait_for(lambda: name in listed("--duration-filter", 500), "it has been open for half a second")
    producer.commit_transaction(TIMEOUT)
    wait_for(lambda: listed()[name] == "CompleteCommit", "it is committed")


@pytest.mark.full
@pytest.mark.kafkalite_only
def test_prepared_transactions_are_committed_or_aborted_by_command(make_cluster: ClusterFactory) -> None:
    """Two producers with two-phase commit prepare and end; no timeout aborts their transactions."""
    overrides = {
        "transaction.two.phase.commit.enable": "true",
        "transaction.max.timeout.ms": str(SHORT_MS),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    }
    cluster = make_cluster(2, overrides)
    topic = a_topic(cluster)
    prepared, abandoned, ordinary = (fresh_topic(word) for word in ("prepared", "abandoned", "ordinary"))
    described = left_open(cluster, topic, prepared, b"prepared", timeout_ms=NO_TIMEOUT_MS)[1]
    left_open(cluster, topic, abandoned, b"abandoned", timeout_ms=NO_TIMEOUT_MS)
    left_open(cluster, topic, ordinary, b"ordinary", timeout_ms=SHORT_MS)
    wait_for(lambda: state(cluster, ordinary) == "CompleteAbort", "the timeout ends what has one")
    coordinator = described["coordinator"]
    cluster.kill_broker(coordinator)
    cluster.start_broker(coordinator)
    listed = transactions(cluster, "list", "--duration-filter", SHORT_MS, "--json").json
    lasting = {one["transactional_id"] for one in listed if one["state"] == "Ongoing"}
    assert lasting == {prepared, abandoned}
    transactions(cluster, "commit", *exactly(described))
    transactions(cluster, "forceTerminateTransaction", "--transactional-id", abandoned)
    last, _ = left_open(cluster, topic, fresh_topic("last"), b"last", timeout_ms=SHORT_MS)
    last.commit_transaction(TIMEOUT)
    assert committed(cluster, topic, 2) == ["prepared", "last"]
