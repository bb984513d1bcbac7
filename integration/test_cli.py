"""Every command, on a cluster that ``kafkalite cluster start --detach`` started."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.conftest import TEST_OVERRIDES
from integration.harness.clients import fresh_topic
from integration.harness.commands import Outcome, command, process
from integration.harness.reassignments import limit
from integration.harness.wait import wait_for
from kafkalite.embedded.state import BrokerAddress, broker_process, read_brokers, read_state, stop_cluster

pytestmark = pytest.mark.kafkalite_only

OVERRIDES = {
    **TEST_OVERRIDES,
    # Long, so that a broker which a test stops (SIGSTOP) stays in the cluster.
    "zookeeper.session.timeout.ms": "120000",
    "log.retention.check.interval.ms": "200",
}


class Cluster:
    """The cluster of a directory, and commands with its addresses."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def state(self) -> dict[str, Any]:
        """``cluster.json``."""
        state = read_state(self.directory)
        assert state is not None
        return state

    @property
    def brokers(self) -> dict[int, BrokerAddress]:
        """The brokers by id."""
        return {broker.id: broker for broker in read_brokers(self.directory)}

    def start(self, *more: str) -> Outcome:
        """``cluster start --detach``."""
        overrides = [word for name, value in OVERRIDES.items() for word in ("--override", f"{name}={value}")]
        return process("cluster", "start", "--brokers", 3, "--dir", self.directory, "--detach", *overrides, *more)

    def run(self, *arguments: object, stdin: str = "", code: int = 0) -> Outcome:
        """A command with ``--bootstrap-server``."""
        return command(*arguments, "--bootstrap-server", self.state["bootstrap"], stdin=stdin, code=code)

    def create(self, prefix: str, *more: object) -> str:
        """Create a fresh topic: one partition on all brokers, unless ``more`` has other flags."""
        topic = fresh_topic(prefix)
        flags = more or ("--partitions", 1, "--replication-factor", 3)
        assert self.run("topics", "--create", "--topic", topic, *flags).lines == [f"Created topic {topic}."]
        wait_for(lambda: all(part["leader"] > 0 for part in self.describe(topic)["partitions"]), "it has leaders")
        return topic

    def describe(self, topic: str) -> Any:
        """``topics --describe --json`` of one topic."""
        [described] = self.run("topics", "--describe", "--topic", topic, "--json").json
        return described

    def offset(self, topic: str, time: str = "latest") -> int:
        """``get-offsets`` of a topic with one partition."""
        [line] = self.run("get-offsets", "--topic", topic, "--time", time).lines
        assert line.startswith(f"{topic}:0:")
        return int(line.rpartition(":")[2])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all tests here."""
    cluster = Cluster(tmp_path_factory.mktemp("cli") / "cluster")
    cluster.start()
    yield cluster
    stop_cluster(cluster.directory)


def test_topics_are_created_listed_described_altered_and_deleted(cluster: Cluster) -> None:
    """Refusals have Kafka's error names."""
    topic = cluster.create("topics", "--partitions", 2, "--replication-factor", 3, "--config", "retention.ms=99000")
    other = cluster.create("topics", "--replica-assignment", "3:1,1:2")
    assert {topic, other} <= set(cluster.run("topics", "--list").lines)
    assert topic in cluster.run("topics", "--list", "--json").json
    head, *lines = cluster.run("topics", "--describe", "--topic", topic).lines
    expected = (
        rf"Topic: {topic}\tTopicId: [\w-]{{22}}\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: retention.ms=99000"
    )
    assert re.fullmatch(expected, head)
    assert [re.sub(r"\d", "n", line) for line in lines] == [
        re.sub(r"\d", "n", f"\tTopic: {topic}\tPartition: n\tLeader: n\tReplicas: n,n,n\tIsr: n,n,n")
        + "\tElr: N/A\tLastKnownElr: N/A"
    ] * 2
    described = cluster.describe(other)
    assert [part["replicas"] for part in described["partitions"]] == [[3, 1], [1, 2]]
    assert cluster.run("topics", "--describe", "--topic", topic, "--under-replicated-partitions").lines == []
    cluster.run("topics", "--alter", "--topic", topic, "--partitions", 4)
    wait_for(lambda: cluster.describe(topic)["partition_count"] == 4, "four partitions")

    for words, error in (
        (("--create", "--topic", topic, "--partitions", 1), "TOPIC_ALREADY_EXISTS"),
        (("--create", "--topic", "wide", "--partitions", 1, "--replication-factor", 4), "INVALID_REPLICATION_FACTOR"),
        (("--create", "--topic", "bad", "--config", "retention.ms=soon"), "retention.ms"),
        (("--alter", "--topic", topic, "--partitions", 3), "INVALID_PARTITIONS"),
        (("--delete", "--topic", "no-such"), "UNKNOWN_TOPIC_OR_PARTITION"),
    ):
        refused = cluster.run("topics", *words, code=1).err
        assert refused.startswith("kafkalite topics: ") and error in refused and len(refused.splitlines()) == 1
    cluster.run("topics", "--create", "--if-not-exists", "--topic", topic)
    cluster.run("topics", "--delete", "--if-exists", "--topic", "no-such")
    cluster.run("topics", "--delete", "--topic", "topics-.*")
    wait_for(lambda: not {topic, other} & set(cluster.run("topics", "--list").lines), "both have gone")


def test_consume_prints_what_produce_sent(cluster: Cluster) -> None:
    """Keys, headers, timestamps, nulls, partition, offset, from the beginning, a number of records."""
    topic = cluster.create("lines", "--partitions", 2, "--replication-factor", 3)
    reader = ("parse.key=true", "parse.headers=true", "parse.timestamp=true", "key.separator=:", "null.marker=NULL")
    flags = [word for name in reader for word in ("--property", name)]
    lines = [
        "1700000000001\ta:1,b:2\tkey 1:first",
        "1700000000002\tNULL\tNULL:second",
        "1700000000003\tc:NULL\tkey 3:NULL",
    ]
    stdin = "".join(f"{line}\n" for line in lines)
    cluster.run("produce", "--topic", topic, "--partition", 1, "--compression-codec", "zstd", *flags, stdin=stdin)
    begin = ("consume", "--topic", topic, "--from-beginning")
    names = ("timestamp", "partition", "offset", "headers", "key")
    shown = [word for name in names for word in ("--property", f"print.{name}=true")]
    read = cluster.run(*begin, *shown, "--property", "key.separator=|", "--max-messages", 3)
    assert read.lines == [
        "CreateTime:1700000000001|Partition:1|Offset:0|a:1,b:2|key 1|first",
        "CreateTime:1700000000002|Partition:1|Offset:1|NO_HEADERS|null|second",
        "CreateTime:1700000000003|Partition:1|Offset:2|c:null|key 3|null",
    ]
    assert "Processed a total of 3 messages" in read.err
    same = [json.loads(line) for line in cluster.run(*begin, "--json", "--max-messages", 3).lines]
    assert same[0] == {
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "timestamp": 1700000000001,
        "timestamp_type": "CreateTime",
        "headers": [["a", "1"], ["b", "2"]],
        "key": "key 1",
        "value": "first",
    }
    assert (same[1]["key"], same[2]["value"], same[2]["headers"]) == (None, None, [["c", None]])

    stamp = ("--timestamp", 1700000009000, "--header", "all=yes")
    cluster.run("produce", "--topic", topic, "--partition", 0, *stamp, "--sync", stdin="x\ny\n")
    from_x = cluster.run("consume", "--topic", topic, "--from-timestamp", 1700000009000, "--max-messages", 2, "--json")
    assert [json.loads(line)["headers"] for line in from_x.lines] == [[["all", "yes"]]] * 2
    part = ("consume", "--topic", topic, "--partition")
    assert cluster.run(*part, 1, "--offset", 1, "--max-messages", 1).lines == ["second"]
    assert cluster.run(*part, 0, "--offset", "earliest", "--timeout-ms", 6000).lines == ["x", "y"]
    assert cluster.run(*part, 0, "--offset", "latest", "--timeout-ms", 500).lines == []
    assert "does not exist" in cluster.run(*part, 7, code=1).err
    assert "--offset needs --partition" in cluster.run("consume", "--topic", topic, "--offset", 1, code=2).err
    missing = cluster.run("produce", "--topic", topic, "--property", "parse.key=true", stdin="no separator\n", code=2)
    assert "line number 1" in missing.err


def test_configs_of_topics_are_obeyed(cluster: Cluster) -> None:
    """``max.message.bytes`` and ``retention.ms`` take effect at once, and end when they are deleted."""
    topic = cluster.create("configs")
    cluster.run("produce", "--topic", topic, "--timestamp", 1700000000000, stdin="a\nb\n")
    entity = ("configs", "--entity-type", "topics", "--entity-name", topic)
    added = cluster.run(*entity, "--alter", "--add-config", "max.message.bytes=1000,cleanup.policy=[delete]")
    assert added.lines == [f"Completed updating config for topic {topic}."]
    head, *lines = cluster.run(*entity, "--describe").lines
    assert head == f"Dynamic configs for topic {topic} are:"
    assert [line.split(" sensitive=")[0] for line in lines] == ["  cleanup.policy=delete", "  max.message.bytes=1000"]
    assert (
        "synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=1000, DEFAULT_CONFIG:message.max.bytes=1048588}" in lines[1]
    )
    [shown] = cluster.run(*entity, "--describe", "--all", "--json").json
    assert shown["configs"]["max.message.bytes"]["value"] == "1000"
    assert shown["configs"]["segment.bytes"]["config_source"] == "DEFAULT_CONFIG"
    large = "x" * 3000 + "\n"
    refused = wait_for(lambda: too_large(cluster, topic, large), "a large record is refused")
    assert "MSG_SIZE_TOO_LARGE" in refused
    cluster.run(*entity, "--alter", "--delete-config", "max.message.bytes")
    wait_for(lambda: not too_large(cluster, topic, large), "a large record is taken")

    assert cluster.offset(topic, "earliest") == 0
    cluster.run("configs", "--topic", topic, "--alter", "--add-config", "retention.ms=3600000,segment.ms=1")
    wait_for(lambda: cluster.offset(topic, "earliest") >= 2, "what is older than an hour has gone")
    assert "INVALID_CONFIG" in cluster.run(*entity, "--alter", "--add-config", "retention.ms=soon", code=1).err
    assert "UNKNOWN_TOPIC" in cluster.run("configs", "--topic", "no-such", "--describe", code=1).err


def too_large(cluster: Cluster, topic: str, line: str) -> str:
    """The error of ``produce`` if the brokers refused the record; empty if they accepted it."""
    words = ("produce", "--topic", topic, "--bootstrap-server", cluster.state["bootstrap"])
    outcome = command(*words, stdin=line, code=None)
    return outcome.err if outcome.code else ""


def test_configs_of_brokers_are_obeyed(cluster: Cluster) -> None:
    """The default of all brokers, then one broker's own value, take effect while the brokers run."""
    topic = cluster.create("broker-configs", "--replica-assignment", "2")
    large = "x" * 3000 + "\n"
    for flags, label in (
        (("--entity-type", "brokers", "--entity-default"), "default brokers in the cluster"),
        (("--entity-type", "brokers", "--entity-name", 2), "broker 2"),
    ):
        words = ("configs", *flags)
        said = cluster.run(*words, "--alter", "--add-config", "message.max.bytes=1000,log.cleaner.threads=2")
        assert said.lines == [f"Completed updating config for {label}."]
        described = wait_for(
            lambda words=words: [line for line in cluster.run(*words, "--describe").lines if "message.max" in line],  # type: ignore[misc]
            "it is described",
        )
        assert described[0].startswith("  message.max.bytes=1000 sensitive=false synonyms={DYNAMIC_")
        wait_for(lambda: too_large(cluster, topic, large), "a large record is refused")
        cluster.run(*words, "--alter", "--delete-config", "message.max.bytes,log.cleaner.threads")
        wait_for(lambda: not too_large(cluster, topic, large), "a large record is taken")
    refused = cluster.run("configs", "--broker", 2, "--alter", "--add-config", "broker.id=9", code=1).err
    assert "INVALID_REQUEST" in refused or "INVALID_CONFIG" in refused
    [shown] = cluster.run("configs", "--broker", 2, "--describe", "--all", "--json").json
    assert shown["configs"]["broker.id"]["value"] == "2"


def test_offsets_are_found_and_records_deleted(cluster: Cluster, tmp_path: Path) -> None:
    """Earliest, latest, by time, by greatest time; none for the future; deletion of the oldest records."""
    topic = cluster.create("offsets", "--partitions", 2, "--replication-factor", 3)
    for number in range(5):
        stamp = 1700000000000 + number
        cluster.run("produce", "--topic", topic, "--partition", 0, "--timestamp", stamp, stdin=f"{number}\n")
    words = ("get-offsets", "--topic", topic)
    for time, offsets in (
        ("latest", [5, 0]),
        ("earliest", [0, 0]),
        ("-1", [5, 0]),
        ("max-timestamp", [4, None]),
        ("1700000000002", [2, None]),
        ("99999999999999", [None, None]),
    ):
        lines = [f"{topic}:{partition}:{offset}" for partition, offset in enumerate(offsets) if offset is not None]
        assert cluster.run(*words, "--time", time).lines == lines
        found = cluster.run(*words, "--time", time, "--json").json
        assert [entry["offset"] for entry in found] == offsets
    assert cluster.run("get-offsets", "--topic-partitions", f"{topic}:1-").lines == [f"{topic}:1:0"]
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 3}]}))
    said = cluster.run("delete-records", "--offset-json-file", file)
    assert said.lines[-1] == f"partition: {topic}-0\tlow_watermark: 3"
    assert cluster.run(*words, "--partitions", "0", "--time", "earliest").lines == [f"{topic}:0:3"]
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": -1}]}))
    [deleted] = cluster.run("delete-records", "--offset-json-file", file, "--json").json
    assert deleted == {"topic": topic, "partition": 0, "low_watermark": 5}
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 9}]}))
    assert "OFFSET_OUT_OF_RANGE" in names_of(cluster.run("delete-records", "--offset-json-file", file, code=1).err)


def names_of(text: str) -> str:
    """Kafka's names of the errors in ``text``, because the client library writes ``OffsetOutOfRangeError``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).upper()


def test_log_dirs_shows_the_sizes_of_replicas(cluster: Cluster) -> None:
    """Each broker has one directory."""
    topic = cluster.create("dirs")
    cluster.run("produce", "--topic", topic, stdin="one\ntwo\n")
    said = cluster.run("log-dirs", "--describe", "--topic-list", topic)
    assert said.lines[0] == "Querying brokers for log directories information"
    document = cluster.run("log-dirs", "--describe", "--topic-list", topic, "--broker-list", "1,3", "--json").json
    assert [entry["broker"] for entry in document["brokers"]] == [1, 3]
    for entry in document["brokers"]:
        [directory] = entry["logDirs"]
        assert directory["error"] is None
        assert directory["logDir"].startswith(str(cluster.directory))
        [partition] = directory["partitions"]
        assert partition["partition"] == f"{topic}-0" and partition["size"] > 60 and not partition["isFuture"]
    assert "there is no broker 9" in cluster.run("log-dirs", "--describe", "--broker-list", "9", code=2).err


def test_a_reassignment_is_executed_and_the_preferred_leader_elected(cluster: Cluster, tmp_path: Path) -> None:
    """Generate, execute, list, cancel, verify; then the preferred leader."""
    one, two, new = 1, 2, 3
    topic = cluster.create("moves", "--replica-assignment", f"{one}:{two},{two}:{one}")
    # Ten megabytes in each partition, so that the throttle below keeps the reassignment going during this test. Without
    # the property, a producer that is done within milliseconds fills one of the partitions.
    evenly = ("--producer-props", "sticky.partitioning.linger.ms=0")
    cluster.run("perf", "produce", "--topic", topic, "--num-records", 20_000, "--record-size", 1000, *evenly)
    topics, moves = tmp_path / "topics.json", tmp_path / "moves.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    generate = ("reassign", "--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,2,3")
    lines = cluster.run(*generate).lines
    assert lines[0] == "Current partition replica assignment"
    assert [part["replicas"] for part in json.loads(lines[1])["partitions"]] == [[one, two], [two, one]]
    proposed = cluster.run(*generate, "--json").json["proposed"]["partitions"]
    assert all(len(set(part["replicas"]) & {1, 2, 3}) == 2 for part in proposed)

    words = ("--reassignment-json-file", moves)
    parts = [{"topic": topic, "partition": 0, "replicas": [new, one]}]
    moves.write_text(json.dumps({"version": 1, "partitions": parts}))
    assert cluster.run("reassign", "--list").lines == ["No partition reassignments found."]
    rates = {"leader.replication.throttled.rate": 1000, "follower.replication.throttled.rate": 1000}
    limit(cluster.state["bootstrap"], rates, one, two, new)
    said = cluster.run("reassign", "--execute", *words, "--throttle", 1000)
    assert said.lines[-1] == f"Successfully started partition reassignment for {topic}-0"
    assert json.loads(said.lines[2])["partitions"][0]["replicas"] == [one, two]
    listed = f"{topic}-0: replicas: {new},{one},{two}. adding replicas: {new}. removing replicas: {two}."
    assert listed in cluster.run("reassign", "--list").lines
    assert cluster.run("reassign", "--list", "--json").json[0]["adding_replicas"] == [new]
    under_way = cluster.run("reassign", "--verify", *words, code=1).lines
    assert under_way[1] == f"Reassignment of partition {topic}-0 is still in progress."
    said = cluster.run("reassign", "--cancel", *words)
    assert said.lines[0] == f"Successfully cancelled partition reassignment for: {topic}-0"
    wait_for(lambda: cluster.describe(topic)["partitions"][0]["replicas"] == [one, two], "it is as it was")
    assert cluster.run("reassign", "--cancel", *words).lines == ["None of the specified partition moves are active."]
    instead = cluster.run("reassign", "--verify", *words, code=1).lines[1]
    assert f"replicas are {one},{two} instead of {new},{one}" in instead

    cluster.run("reassign", "--execute", *words)
    verify = ("reassign", "--verify", *words, "--bootstrap-server", cluster.state["bootstrap"])
    wait_for(lambda: command(*verify, code=None).code == 0, "it has moved", 60)
    assert cluster.run("reassign", "--verify", *words, "--json").json == {f"{topic}-0": "completed"}
    elect_preferred(cluster, topic, new, one)


def elect_preferred(cluster: Cluster, topic: str, preferred: int, leader: int) -> None:
    """Run ``elect``: the leadership of partition 0 of ``topic`` goes from ``leader`` back to ``preferred``."""
    elect = ("elect", "--election-type", "preferred", "--topic", topic, "--partition")
    wait_for(lambda: set(cluster.describe(topic)["partitions"][0]["isr"]) == {preferred, leader}, "both are in sync")
    assert cluster.describe(topic)["partitions"][0]["leader"] == leader
    said = cluster.run(*elect, 0)
    assert said.lines == [f"Successfully completed leader election (PREFERRED) for partitions {topic}-0"]
    wait_for(lambda: cluster.describe(topic)["partitions"][0]["leader"] == preferred, "the preferred broker leads")
    assert cluster.run(*elect, 1).lines == [f"Valid replica already elected for partitions {topic}-1"]
    everything = cluster.run("elect", "--election-type", "preferred", "--all-topic-partitions", "--json").json
    assert everything["failed"] == {}
    assert "UNKNOWN_TOPIC_OR_PARTITION" in cluster.run(*elect, 9, code=1).out


def test_perf_prints_its_measurements(cluster: Cluster) -> None:
    """Three measurements, as text and as JSON."""
    topic = cluster.create("perf")
    produce = ("perf", "produce", "--topic", topic, "--num-records", 2000, "--record-size", 100)
    line = r"2000 records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, .* ms 99\.9th\."
    assert re.fullmatch(line, cluster.run(*produce, "--producer-props", "acks=all", "linger.ms=2").lines[-1])
    assert cluster.run(*produce, "--throughput", 20000, "--json").json["records"] == 2000
    consume = ("perf", "consume", "--topic", topic, "--messages", 4000)
    head, numbers = cluster.run(*consume).lines
    assert head.startswith("start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg")
    assert numbers.split(", ")[4] == "4000"
    assert cluster.run(*consume, "--json").json["records"] == 4000
    latency = ("perf", "latency", "--topic", topic, "--num-records", 20, "--acks", "all")
    assert re.match(r"Avg latency: [\d.]+ ms", cluster.run(*latency).lines[0])
    assert cluster.run(*latency, "--json").json["p50_ms"] > 0


def test_zk_prints_and_verifies_the_tree(cluster: Cluster) -> None:
    """The tree conforms to the schemas."""
    zookeeper = cluster.state["zookeeper"]
    tree = command("zk", "tree", "--zookeeper", zookeeper).lines
    assert any(re.match(r"/controller  \[EPH v0\]  \{", line) for line in tree)
    brokers = command("zk", "tree", "--zookeeper", zookeeper, "--path", "/brokers/ids", "--json").json
    assert [row["path"] for row in brokers] == ["/brokers/ids", *(f"/brokers/ids/{n}" for n in (1, 2, 3))]
    assert wait_for(
        lambda: re.fullmatch(r"\d+ znodes, 0 faults", command("zk", "verify", "--zookeeper", zookeeper).lines[-1]),
        "no faults",
    )
    assert command("zk", "verify", "--zookeeper", zookeeper, "--json").json["faults"] == []


def test_dump_log_prints_a_segment(cluster: Cluster) -> None:
    """In the formats of Kafka 3.9 and of Kafka up to 2.0. (test_dump_log.py compares with the real tool.)"""
    topic = cluster.create("dumped")
    stamp = 1700000000000
    cluster.run("produce", "--topic", topic, "--timestamp", stamp, "--property", "parse.key=true", stdin="k\tvalue\n")
    segment = cluster.directory / "broker-1" / "data" / f"{topic}-0" / f"{0:020}.log"
    wait_for(lambda: segment.stat().st_size, "the segment is written")
    lines = command("dump-log", "--files", segment, "--print-data-log").lines
    assert lines[:2] == [f"Dumping {segment}", "Log starting offset: 0"]
    assert lines[2].startswith("baseOffset: 0 lastOffset: 0 count: 1 baseSequence: ")
    assert lines[3].startswith(f"| offset: 0 CreateTime: {stamp} keySize: 1 valueSize: 5 sequence: ")
    assert lines[3].endswith("headerKeys: [] key: k payload: value")
    classic = command("dump-log", "--files", segment, "--deep-iteration", "--format", "classic").lines[-1]
    sizes = "isvalid: true keysize: 1 valuesize: 5 magic: 2 compresscodec: NONE"
    assert classic.startswith(f"offset: 0 position: 0 CreateTime: {stamp} {sizes}")


def test_wrong_usage_has_one_line_of_error_and_an_exit_code(cluster: Cluster, tmp_path: Path) -> None:
    """The line is on standard error."""
    assert command("topics", "--list", code=2).err.splitlines()[-1].endswith("required: --bootstrap-server")
    assert "NAME=VALUE" in cluster.run("produce", "--topic", "t", "--property", "x", code=2).err
    properties = tmp_path / "client.properties"
    properties.write_text("bootstrap.timeout.ms=500\n")
    where = ("--bootstrap-server", "127.0.0.1:1", "--command-config", properties)
    unreachable = command("topics", "--list", *where, code=1)
    assert unreachable.err.startswith("kafkalite topics: ") and len(unreachable.err.splitlines()) == 1


@pytest.mark.full
def test_a_stopped_cluster_starts_with_its_addresses_and_data(cluster: Cluster) -> None:
    """``cluster status|stop|start``; the processes are new ones."""
    topic = cluster.create("kept", "--partitions", 2, "--replication-factor", 3)
    cluster.run("produce", "--topic", topic, "--partition", 1, stdin="before\n")
    before = cluster.state
    described = cluster.describe(topic)
    where = ("--dir", cluster.directory)
    status = process("cluster", "status", *where, "--json").json
    assert {name: status[name] for name in ("zookeeper", "bootstrap")} == {
        name: before[name] for name in ("zookeeper", "bootstrap")
    }
    assert [broker["status"] for broker in status["brokers"]] == ["running"] * 3
    assert status["controller"] in (1, 2, 3)
    assert (
        f"brokers [1, 2, 3] of {cluster.directory} are running"
        in process("cluster", "start", "--detach", *where, code=1).err
    )
    broker_process(cluster.brokers[2]).kill()
    assert "stopped" in process("cluster", "status", *where, code=1).out
    process("cluster", "stop", *where)
    assert not any(broker_process(broker).is_alive() for broker in cluster.brokers.values())
    assert [broker["status"] for broker in process("cluster", "status", *where, "--json", code=1).json["brokers"]] == [
        "stopped"
    ] * 3

    cluster.start()
    after = cluster.state
    assert after["zookeeper"] == before["zookeeper"] and after["bootstrap"] == before["bootstrap"]
    assert not {broker["pid"] for broker in after["brokers"]} & {broker["pid"] for broker in before["brokers"]}
    wait_for(lambda: all(len(part["isr"]) == 3 for part in cluster.describe(topic)["partitions"]), "all in sync")
    assert cluster.describe(topic)["topic_id"] == described["topic_id"]
    cluster.run("produce", "--topic", topic, "--partition", 1, stdin="after\n")
    read = cluster.run("consume", "--topic", topic, "--from-beginning", "--max-messages", 2)
    assert read.lines == ["before", "after"]
    assert "no cluster in" in process("cluster", "stop", "--dir", cluster.directory / "none", code=1).err
