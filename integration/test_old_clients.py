"""Clients of 2015 and 2017, with message formats 0 and 1 and request versions that new clients do not send."""

from __future__ import annotations

import pytest

from integration.harness.clients import fresh_topic
from integration.harness.java import KAFKA_0_8, KAFKA_0_10, KAFKA_3_9, run_tool
from integration.harness.peers import Peer
from integration.harness.records import DAILY_CODECS, FIRST_TIMESTAMP, Item
from integration.test_clients_confluent import Confluent
from kafkalite.embedded.cluster import LocalCluster

RECORDS = 150
PEERS = (KAFKA_0_10, KAFKA_0_8)
OLD = pytest.mark.parametrize(
    "peer", [KAFKA_0_10, pytest.param(KAFKA_0_8, marks=pytest.mark.full)], ids=lambda peer: peer.name
)

EVERY_CODEC = pytest.mark.parametrize(
    "codec",
    [
        codec if codec in DAILY_CODECS else pytest.param(codec, marks=pytest.mark.full)
        for codec in ("none", "gzip", "snappy", "lz4")
    ],
)


def create(cluster: LocalCluster, prefix: str) -> str:
    """A fresh topic of one partition."""
    topic = fresh_topic(prefix)
    Confluent().create_topic(cluster.bootstrap, topic, 1, 3, {})
    return topic


@OLD
@EVERY_CODEC
def test_a_new_client_reads_an_old_producers_records(shared_cluster: LocalCluster, peer: Peer, codec: str) -> None:
    """Keys, order, every codec of the time."""
    topic = create(shared_cluster, "old")
    lines = [f"key{n}:value {n} {'y' * (n % 70)}" for n in range(RECORDS)]
    flags = ["--broker-list", shared_cluster.bootstrap, "--topic", topic, "--request-required-acks", "-1"]
    if codec != "none":
        flags += ["--compression-codec", codec]
    flags += ["--property", "parse.key=true", "--property", "key.separator=:", "--sync"]
    if peer is KAFKA_0_8 and codec == "lz4":
        flags.append("--new-producer")
    run_tool(peer, "kafka.tools.ConsoleProducer", *flags, stdin="\n".join(lines) + "\n")
    read = Confluent().consume(shared_cluster.bootstrap, topic, {0: 0}, RECORDS)
    assert [f"{(r.key or b'').decode()}:{(r.value or b'').decode()}" for r in read] == lines
    assert [r.offset for r in read] == list(range(RECORDS))


@OLD
@EVERY_CODEC
def test_an_old_consumer_reads_a_new_clients_records(shared_cluster: LocalCluster, peer: Peer, codec: str) -> None:
    """The broker converts the batches to the old format for SimpleConsumerShell."""
    topic = create(shared_cluster, "down")
    lines = [f"value {n} {'z' * (n % 70)}" for n in range(RECORDS)]
    run_tool(
        KAFKA_3_9,
        "kafka.tools.ConsoleProducer",
        "--bootstrap-server",
        shared_cluster.bootstrap,
        "--topic",
        topic,
        "--compression-codec",
        codec,
        stdin="\n".join(lines) + "\n",
    )
    result = run_tool(
        peer,
        "kafka.tools.SimpleConsumerShell",
        "--broker-list",
        shared_cluster.bootstrap,
        "--topic",
        topic,
        "--partition",
        "0",
        "--offset",
        "-2",
        "--max-messages",
        str(RECORDS),
        "--no-wait-at-logend",
    )
    assert [line for line in result.lines() if line.startswith("value ")] == lines


@OLD
def test_bootstrap_from_each_broker_alone(shared_cluster: LocalCluster, peer: Peer) -> None:
    """An old producer that knows one broker finds all three partitions; an old look-up finds first, last and none."""
    topic = fresh_topic("old-boot")
    Confluent().create_topic(shared_cluster.bootstrap, topic, 3, 3, {})
    sent = []
    for broker_id in shared_cluster.broker_ids:
        lines = [f"key{n}:from {broker_id} number {n}" for n in range(40)]
        flags = ["--broker-list", shared_cluster.address(broker_id), "--topic", topic, "--request-required-acks", "-1"]
        flags += ["--property", "parse.key=true", "--property", "key.separator=:", "--sync"]
        run_tool(peer, "kafka.tools.ConsoleProducer", *flags, stdin="\n".join(lines) + "\n")
        sent += lines
    ends = [Confluent().end_offset(shared_cluster.bootstrap, topic, partition) for partition in range(3)]
    assert sum(ends) == len(sent) and all(ends)
    read = Confluent().consume(shared_cluster.bootstrap, topic, dict.fromkeys(range(3), 0), len(sent))
    assert sorted(f"{(r.key or b'').decode()}:{(r.value or b'').decode()}" for r in read) == sorted(sent)
    for broker_id, (moment, offsets) in zip(
        shared_cluster.broker_ids, (("-1", ends), ("-2", [0, 0, 0]), ("-1", ends)), strict=True
    ):
        where = ("--broker-list", shared_cluster.address(broker_id), "--topic", topic)
        found = run_tool(peer, "kafka.tools.GetOffsetShell", *where, "--time", moment).lines()
        assert sorted(found) == [f"{topic}:{partition}:{offset}" for partition, offset in enumerate(offsets)]


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_zookeeper_consumer_reads_all_records(shared_cluster: LocalCluster, peer: Peer) -> None:
    """It finds brokers, leaders and its offsets in ZooKeeper."""
    topic = create(shared_cluster, "zk-consumer")
    lines = [f"line {n}" for n in range(RECORDS)]
    items = [Item(0, FIRST_TIMESTAMP + n, None, line.encode(), ()) for n, line in enumerate(lines)]
    Confluent().produce(shared_cluster.bootstrap, topic, items, codec="gzip")
    flags = ["--zookeeper", shared_cluster.zookeeper, "--topic", topic, "--from-beginning"]
    read = run_tool(peer, "kafka.tools.ConsoleConsumer", *flags, "--max-messages", str(RECORDS))
    assert [line for line in read.lines() if line.startswith("line ")] == lines


def test_the_new_consumer_of_0_10_reads_from_an_offset(shared_cluster: LocalCluster) -> None:
    """A partition with a message set that a producer of 0.10.2 has sent."""
    topic = create(shared_cluster, "both")
    lines = [f"line {n}" for n in range(RECORDS)]
    flags = ["--broker-list", shared_cluster.bootstrap, "--topic", topic, "--request-required-acks", "all"]
    run_tool(KAFKA_0_10, "kafka.tools.ConsoleProducer", *flags, stdin="\n".join(lines) + "\n")
    read = run_tool(
        KAFKA_0_10,
        "kafka.tools.ConsoleConsumer",
        "--bootstrap-server",
        shared_cluster.bootstrap,
        "--topic",
        topic,
        "--partition",
        "0",
        "--offset",
        "100",
        "--max-messages",
        str(RECORDS - 100),
        "--timeout-ms",
        "20000",
    )
    assert read.lines() == lines[100:]
