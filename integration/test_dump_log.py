"""``kafkalite dump-log`` prints the same as the real DumpLogSegments (3.9.1) for every kind of file."""

from __future__ import annotations

import difflib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from integration.conftest import TEST_OVERRIDES, ClusterFactory
from integration.faults.cluster import compare_logs, read_batches, wait_in_sync, wait_led_by_others
from integration.harness.clients import fresh_topic
from integration.harness.commands import command
from integration.harness.java import KAFKA_0_10, KAFKA_3_9, kafka_launcher, run_tool
from integration.harness.records import CODECS, make_items
from integration.test_clients_confluent import Confluent
from kafkalite.embedded.cluster import LocalCluster

FLAGS = ("--deep-iteration", "--print-data-log")
SUFFIXES = (".log", ".index", ".timeindex", ".snapshot")
# Small segments and a dense index, so that few records make several segments and index entries.
SMALL = {"segment.bytes": "120000", "index.interval.bytes": "1000", "segment.index.bytes": "4096"}


def assert_same_dump(files: Sequence[Path]) -> None:
    """Check that both tools print the same for ``files``, without errors."""
    assert files
    names = ",".join(map(str, files))
    theirs = run_tool(KAFKA_3_9, "kafka.tools.DumpLogSegments", *FLAGS, "--files", names)
    ours = subprocess.run(
        [sys.executable, "-m", "kafkalite.cli.main", "dump-log", *FLAGS, "--files", names],
        capture_output=True,
        check=False,
    )
    assert ours.returncode == 0, ours.stderr.decode()
    said = ours.stdout.decode(errors="surrogateescape")
    difference = list(difflib.unified_diff(theirs.out.splitlines(), said.splitlines(), "Kafka", "dump-log", n=1))
    assert not difference, "\n".join(difference[:40])
    for complaint in ("Mismatches in", "Non-secutive", "Found timestamp mismatch", "isvalid: false"):
        assert complaint not in theirs.out, theirs.out[-3000:]


def files_of(cluster: LocalCluster, broker_id: int, topic: str) -> list[Path]:
    """All dumpable files of a broker's partition 0 of ``topic``; indexes need their segment beside them."""
    directory = cluster.broker_dir(broker_id) / "data" / f"{topic}-0"
    return sorted(path for path in directory.iterdir() if path.suffix in SUFFIXES)


@pytest.mark.kafkalite_only
def test_segments_of_kafkalite(make_cluster: ClusterFactory) -> None:
    """Every codec, on leader and followers, after recovery from ``kill -9`` and of an incomplete last batch."""
    cluster = make_cluster(3, {"replica.lag.time.max.ms": "3000"})
    topics = {codec: fresh_topic(f"dump-{codec}") for codec in CODECS}
    client = Confluent()
    for number, (codec, topic) in enumerate(topics.items()):
        client.create_topic(cluster.bootstrap, topic, 1, 3, SMALL)
        wait_in_sync(cluster, topic, 1, 3)
        client.produce(cluster.bootstrap, topic, make_items(number, 600, 1), codec=codec)
    plain = Confluent()
    plain.idempotent = False
    plain.produce(cluster.bootstrap, topics["none"], make_items(9, 100, 1))
    # Recovery: the brokers are killed, and the last batch of their logs is cut.
    for broker_id in (1, 2):
        cluster.kill_broker(broker_id)
    for topic in topics.values():
        last = max(path for path in files_of(cluster, 1, topic) if path.suffix == ".log")
        with last.open("ab") as file:
            file.write(bytes(7) + b"\x01torn")
    for broker_id in (1, 2):
        cluster.start_broker(broker_id, wait=False)
    cluster.wait_ready()
    for number, (codec, topic) in enumerate(topics.items()):
        wait_in_sync(cluster, topic, 1, 3)
        client.produce(cluster.bootstrap, topic, make_items(20 + number, 200, 1), codec=codec)
        wait_in_sync(cluster, topic, 1, 3)
    cluster.stop()
    for broker_id in cluster.broker_ids:
        assert_same_dump([path for topic in topics.values() for path in files_of(cluster, broker_id, topic)])


@pytest.mark.full
@pytest.mark.kafkalite_only
def test_after_truncation_by_leader_epoch(make_cluster: ClusterFactory) -> None:
    """A leader accepts records that its stopped followers do not fetch, dies, and comes back as a follower."""
    patient = {"replica.lag.time.max.ms": "60000", "zookeeper.session.timeout.ms": "60000"}
    cluster = make_cluster(3, patient)
    topics = {codec: fresh_topic(f"cut-{codec}") for codec in CODECS}
    client = Confluent()
    assignment = ["--replica-assignment", "1:2:3"]
    for number, (codec, topic) in enumerate(topics.items()):
        configs = [word for name, value in SMALL.items() for word in ("--config", f"{name}={value}")]
        where = ("--bootstrap-server", cluster.bootstrap)
        command("topics", *where, "--create", "--topic", topic, *assignment, *configs)
        wait_in_sync(cluster, topic, 1, 3)
        client.produce(cluster.bootstrap, topic, make_items(number, 300, 1), codec=codec)
    for follower in (2, 3):
        cluster.pause_broker(follower)
    alone = Confluent()
    alone.acks = "1"
    for number, (codec, topic) in enumerate(topics.items()):
        # Several batches, because the first may answer a fetch that waited when its follower was stopped.
        for part in range(3):
            alone.produce(cluster.address(1), topic, make_items(100 + 3 * number + part, 100, 1), codec=codec)
    cluster.kill_broker(1)
    for follower in (2, 3):
        cluster.resume_broker(follower)
    others = ",".join(cluster.address(broker_id) for broker_id in (2, 3))
    for number, (codec, topic) in enumerate(topics.items()):
        wait_led_by_others(cluster, topic, 1, 1)
        client.produce(others, topic, make_items(200 + number, 150, 1), codec=codec)
    lost = {topic: read_batches(cluster.broker_dir(1) / "data" / f"{topic}-0") for topic in topics.values()}
    cluster.start_broker(1)
    for codec, topic in topics.items():
        wait_in_sync(cluster, topic, 1, 3)
        compare_logs(cluster, topic, 1)
        kept = read_batches(cluster.broker_dir(1) / "data" / f"{topic}-0")
        assert lost[topic][-1] not in kept, f"{codec}: the old leader had nothing of its own"
        assert kept[-1].leader_epoch > lost[topic][-1].leader_epoch
        client.produce(cluster.bootstrap, topic, make_items(300, 50, 1), codec=codec)
        wait_in_sync(cluster, topic, 1, 3)
        compare_logs(cluster, topic, 1)
    cluster.stop()
    for broker_id in cluster.broker_ids:
        assert_same_dump([path for topic in topics.values() for path in files_of(cluster, broker_id, topic)])


@pytest.mark.full
def test_segments_of_kafka_in_old_formats(tmp_path: Path) -> None:
    """Message formats 0 and 1 in every codec of their time, and format 2, stored by real Kafka."""
    overrides = {**TEST_OVERRIDES, "inter.broker.protocol.version": "2.8"}
    cluster = LocalCluster(tmp_path / "kafka", 1, overrides=overrides, launcher=kafka_launcher())
    client = Confluent()
    client.idempotent = False
    try:
        cluster.start()
        topics = []
        for version in ("0.9.0", "0.10.2", "2.8"):
            for codec in ("none", "gzip", "snappy", "lz4"):
                topic = fresh_topic(f"v{version}-{codec}")
                client.create_topic(cluster.bootstrap, topic, 1, 1, {**SMALL, "message.format.version": version})
                flags = ["--broker-list", cluster.bootstrap, "--topic", topic, "--request-required-acks", "all"]
                lines = "".join(f"key{n}:value {n} {'q' * (n % 90)}\n" for n in range(400))
                run_tool(
                    KAFKA_0_10,
                    "kafka.tools.ConsoleProducer",
                    *flags,
                    *(["--compression-codec", codec] if codec != "none" else []),
                    "--property",
                    "parse.key=true",
                    "--property",
                    "key.separator=:",
                    stdin=lines,
                )
                topics.append(topic)
        cluster.stop()
        assert_same_dump([path for topic in topics for path in files_of(cluster, 1, topic)])
    finally:
        cluster.close()
