"""Kafka's own tools of 3.9.1 on the cluster."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from integration.harness.clients import fresh_topic
from integration.harness.java import KAFKA_3_9, run_tool
from integration.harness.records import CODECS, DAILY_CODECS, make_items
from integration.harness.wait import wait_for
from integration.test_clients_confluent import Confluent
from kafkalite.embedded.cluster import LocalCluster

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
PRODUCER = "kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
RECORDS = 200


def tool(cluster: LocalCluster, main: str, *arguments: str, stdin: str | None = None) -> list[str]:
    """Run a tool with all brokers' addresses; returns its lines."""
    return run_tool(KAFKA_3_9, main, "--bootstrap-server", cluster.bootstrap, *arguments, stdin=stdin).lines()


def create(cluster: LocalCluster, prefix: str, partitions: int = 1, *more: str) -> str:
    """Create a fresh topic; by TopicCommand with its flags ``more``, otherwise by a client that starts faster."""
    topic = fresh_topic(prefix)
    if not more:
        Confluent().create_topic(cluster.bootstrap, topic, partitions, 3, {})
        return topic
    flags = ["--partitions", str(partitions), "--replication-factor", "3", *more]
    said = tool(cluster, TOPICS, "--create", "--topic", topic, *flags)
    assert f"Created topic {topic}." in said
    return topic


def parsed(keys: bool = True) -> list[str]:
    """Flags of the console producer's reader."""
    return ["--property", f"parse.key={str(keys).lower()}", "--property", "key.separator=:"] if keys else []


@pytest.mark.parametrize(
    "codec", [codec if codec in DAILY_CODECS else pytest.param(codec, marks=pytest.mark.full) for codec in CODECS]
)
def test_the_console_consumer_reads_the_console_producers_records(shared_cluster: LocalCluster, codec: str) -> None:
    """Every codec, keys, headers, explicit partition and offset (which needs no group), printed timestamps."""
    topic = create(shared_cluster, f"console-{codec}")
    lines = [f"number:{n},parity:{n % 2}\tkey{n}\tvalue {n} {'x' * (n % 50)}" for n in range(RECORDS)]
    tool(
        shared_cluster,
        PRODUCER,
        "--topic",
        topic,
        "--compression-codec",
        codec,
        "--property",
        "parse.key=true",
        "--property",
        "parse.headers=true",
        stdin="\n".join(lines) + "\n",
    )
    shown = [word for name in ("key", "headers", "offset") for word in ("--property", f"print.{name}=true")]
    for start in (0, 150):
        read = tool(
            shared_cluster,
            CONSUMER,
            "--topic",
            topic,
            "--partition",
            "0",
            "--offset",
            str(start),
            "--max-messages",
            str(RECORDS - start),
            "--timeout-ms",
            "20000",
            *shown,
        )
        expected = [f"Offset:{n}\t{lines[n]}" for n in range(start, RECORDS)]
        assert read == expected


@pytest.mark.full
def test_bootstrap_from_each_broker_alone(shared_cluster: LocalCluster) -> None:
    """A client that knows one broker finds all: topics, a producer that partitions by key, a consumer of each
    partition."""
    topic = create(shared_cluster, "boot", 3)
    sent: list[str] = []
    for broker_id in shared_cluster.broker_ids:
        where = ("--bootstrap-server", shared_cluster.address(broker_id), "--topic", topic)
        lines = [f"key{n}:from {broker_id} number {n}" for n in range(60)]
        run_tool(KAFKA_3_9, PRODUCER, *where, *parsed(), stdin="\n".join(lines) + "\n")
        sent += lines
    wanted = [word for name in ("key", "partition") for word in ("--property", f"print.{name}=true")]
    read: list[str] = []
    for partition, broker_id in enumerate(shared_cluster.broker_ids):
        where = ("--bootstrap-server", shared_cluster.address(broker_id), "--topic", topic)
        [end] = run_tool(KAFKA_3_9, OFFSETS, *where, "--partitions", str(partition)).lines()
        count = end.rpartition(":")[2]
        flags = ("--partition", str(partition), "--offset", "0", "--max-messages", count, "--timeout-ms", "20000")
        found = run_tool(KAFKA_3_9, CONSUMER, *where, *flags, *wanted, "--property", "key.separator=:").lines()
        assert len(found) == int(count)
        assert all(line.startswith(f"Partition:{partition}:") for line in found)
        read += [line.split(":", 2)[2] for line in found]
    assert sorted(read) == sorted(sent)
    by_key: dict[str, list[str]] = {}
    for line in read:
        by_key.setdefault(line.split(":")[0], []).append(line)
    assert all(lines == [line for line in sent if line.startswith(f"{key}:")] for key, lines in by_key.items())


def test_timestamps_are_the_clients_or_the_brokers(shared_cluster: LocalCluster) -> None:
    """CreateTime is the client's, LogAppendTime the broker's; the latter is found by time."""
    shown = ("--property", "print.timestamp=true", "--property", "print.value=false", "--timeout-ms", "20000")
    where = ("--partition", "0", "--offset", "earliest", "--max-messages", "6")
    created, appended = fresh_topic("created"), fresh_topic("appended")
    items = make_items(5, 6, 1, headers=False, nulls=False)
    client = Confluent()
    client.create_topic(shared_cluster.bootstrap, created, 1, 3, {})
    client.produce(shared_cluster.bootstrap, created, items)
    read = tool(shared_cluster, CONSUMER, "--topic", created, *where, *shown)
    assert read == [f"CreateTime:{item.timestamp}" for item in items]
    client.create_topic(shared_cluster.bootstrap, appended, 1, 3, {"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    client.produce(shared_cluster.bootstrap, appended, items[:5])
    tool(shared_cluster, PRODUCER, "--topic", appended, stdin="the last\n")
    read = tool(shared_cluster, CONSUMER, "--topic", appended, *where, *shown)
    stamps = [int(line.removeprefix("LogAppendTime:")) for line in read]
    assert stamps == sorted(stamps) and before <= stamps[0] and stamps[5] <= int(time.time() * 1000)
    # The last record has a later time than the others, because its console producer takes long to start.
    found = tool(shared_cluster, OFFSETS, "--topic", appended, "--time", str(stamps[5]))
    assert found == [f"{appended}:0:5"]


def test_topic_command_works(shared_cluster: LocalCluster) -> None:
    """List, describe, more partitions, delete."""
    topic = create(shared_cluster, "command", 2, "--config", "retention.ms=999000")
    assert topic in tool(shared_cluster, TOPICS, "--list")
    head, *partitions = tool(shared_cluster, TOPICS, "--describe", "--topic", topic)
    assert re.search(r"PartitionCount: 2\tReplicationFactor: 3\tConfigs: .*retention.ms=999000", head)
    assert re.search(r"TopicId: [\w-]{22}\t", head)
    for number, line in enumerate(partitions):
        match = re.search(r"Partition: (\d+)\tLeader: (\d+)\tReplicas: ([\d,]+)\tIsr: ([\d,]+)", line)
        assert match is not None, line
        assert int(match[1]) == number
        assert match[2] == match[3].split(",")[0]
        assert sorted(match[3].split(",")) == sorted(match[4].split(",")) == ["1", "2", "3"]
    tool(shared_cluster, TOPICS, "--alter", "--topic", topic, "--partitions", "4")
    wait_for(lambda: len(tool(shared_cluster, TOPICS, "--describe", "--topic", topic)) == 5, "four partitions")
    tool(shared_cluster, TOPICS, "--delete", "--topic", topic)
    wait_for(lambda: topic not in tool(shared_cluster, TOPICS, "--list"), "the topic has gone")


@pytest.mark.full
def test_config_command_works(shared_cluster: LocalCluster) -> None:
    """Topic and broker configurations: add, describe, delete."""
    topic = create(shared_cluster, "config")
    for entity in (
        ["--entity-type", "topics", "--entity-name", topic],
        ["--entity-type", "brokers", "--entity-default"],
    ):
        name = "max.message.bytes" if "topics" in entity else "message.max.bytes"
        tool(shared_cluster, CONFIGS, *entity, "--alter", "--add-config", f"{name}=2000012")
        wait_for(
            lambda entity=entity, name=name: (
                f"{name}=2000012"  # type: ignore[misc]
                in " ".join(tool(shared_cluster, CONFIGS, *entity, "--describe"))
            ),
            f"{name} is set",
        )
        tool(shared_cluster, CONFIGS, *entity, "--alter", "--delete-config", name)
        wait_for(
            lambda entity=entity: "2000012" not in " ".join(tool(shared_cluster, CONFIGS, *entity, "--describe")),  # type: ignore[misc]
            f"{name} has gone",
        )


@pytest.mark.full
def test_producer_performance_sends_all_records(shared_cluster: LocalCluster) -> None:
    """ProducerPerformance is idempotent by default; the end offsets count its records."""
    topic = create(shared_cluster, "perf", 3)
    result = run_tool(
        KAFKA_3_9,
        "org.apache.kafka.tools.ProducerPerformance",
        "--topic",
        topic,
        "--num-records",
        "30000",
        "--record-size",
        "100",
        "--throughput",
        "-1",
        "--producer-props",
        f"bootstrap.servers={shared_cluster.bootstrap}",
        "acks=all",
        "compression.type=lz4",
    )
    assert "30000 records sent" in result.out
    ends = tool(shared_cluster, OFFSETS, "--topic", topic)
    assert sum(int(line.split(":")[2]) for line in ends) == 30000
    begins = tool(shared_cluster, OFFSETS, "--topic", topic, "--time", "earliest")
    assert [line.split(":")[2] for line in begins] == ["0", "0", "0"]


@pytest.mark.full
def test_get_offset_shell_finds_offsets_by_time(shared_cluster: LocalCluster) -> None:
    """Earliest, latest, greatest timestamp, and none for the future."""
    topic = create(shared_cluster, "offsets")
    Confluent().produce(shared_cluster.bootstrap, topic, make_items(4, 10, 1))  # one millisecond apart
    for moment, offset in (("-2", "0"), ("-1", "10"), ("-3", "9"), ("1", "0")):
        assert tool(shared_cluster, OFFSETS, "--topic", topic, "--time", moment) == [f"{topic}:0:{offset}"]
    assert tool(shared_cluster, OFFSETS, "--topic", topic, "--time", "99999999999999") == []


def test_delete_records_and_log_dirs_commands_work(shared_cluster: LocalCluster, tmp_path: Path) -> None:
    """Records below an offset are deleted; the log directories are described."""
    topic = create(shared_cluster, "trim")
    tool(shared_cluster, PRODUCER, "--topic", topic, stdin="".join(f"{n}\n" for n in range(10)))
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 4}]}))
    said = tool(shared_cluster, "org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(file))
    assert any("low_watermark: 4" in line for line in said)
    assert tool(shared_cluster, OFFSETS, "--topic", topic, "--time", "earliest") == [f"{topic}:0:4"]
    said = tool(shared_cluster, "org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", topic)
    document = json.loads(said[-1])
    assert sorted(broker["broker"] for broker in document["brokers"]) == [1, 2, 3]
    for broker in document["brokers"]:
        [partition] = [each for directory in broker["logDirs"] for each in directory["partitions"]]
        assert partition["partition"] == f"{topic}-0"
        assert partition["size"] > 0
        assert partition["offsetLag"] == 0


@pytest.mark.full
def test_reassignment_and_leader_election_commands_work(shared_cluster: LocalCluster, tmp_path: Path) -> None:
    """Move a partition, verify, elect the preferred leader."""
    topic = fresh_topic("move")
    tool(shared_cluster, TOPICS, "--create", "--topic", topic, "--replica-assignment", "1:2")
    tool(shared_cluster, PRODUCER, "--topic", topic, stdin="".join(f"{n}\n" for n in range(100)))
    file = tmp_path / "move.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [3, 2]}]}))
    command = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    said = tool(shared_cluster, command, "--execute", "--reassignment-json-file", str(file))
    assert any("Successfully started partition reassignment" in line for line in said)
    wait_for(
        lambda: (
            "is completed" in " ".join(tool(shared_cluster, command, "--verify", "--reassignment-json-file", str(file)))
        ),
        "the partition has moved",
        timeout=60,
    )
    said = tool(shared_cluster, TOPICS, "--describe", "--topic", topic)
    assert "Replicas: 3,2" in said[1]
    run_tool(
        KAFKA_3_9,
        "org.apache.kafka.tools.LeaderElectionCommand",
        "--bootstrap-server",
        shared_cluster.bootstrap,
        "--election-type",
        "preferred",
        "--topic",
        topic,
        "--partition",
        "0",
    )
    wait_for(
        lambda: "Leader: 3" in tool(shared_cluster, TOPICS, "--describe", "--topic", topic)[1],
        "broker 3 leads",
        timeout=30,
    )
    assert tool(shared_cluster, OFFSETS, "--topic", topic) == [f"{topic}:0:100"]
    read = tool(
        shared_cluster, CONSUMER, "--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "100"
    )
    assert read == [str(n) for n in range(100)]


def test_broker_api_versions_command_prints_every_broker(shared_cluster: LocalCluster) -> None:
    """Each with its API versions."""
    said = tool(shared_cluster, "kafka.admin.BrokerApiVersionsCommand")
    assert sum(1 for line in said if re.search(r"^127\.0\.0\.1:\d+ \(id: \d", line)) == 3
