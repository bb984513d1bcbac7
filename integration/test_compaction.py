"""Compacted topics on real brokers: remaining records, by every client, and ``kill -9`` during a compaction."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from integration.conftest import SOAK, TEST_OVERRIDES, ClusterFactory
from integration.faults.cluster import wait_in_sync
from integration.harness.admin import admin
from integration.harness.clients import ClientAdapter, fresh_topic
from integration.harness.java import KAFKA_0_10, KAFKA_3_9, kafka_launcher, run_tool
from integration.harness.peers import Peer
from integration.harness.wait import has_ended, wait_for
from integration.test_clients_aiokafka import AioKafka
from integration.test_clients_confluent import Confluent
from integration.test_clients_kafka_python import KafkaPython
from integration.test_dump_log import assert_same_dump, files_of
from kafkalite.embedded.cluster import Launcher, LocalCluster, kafkalite_launcher
from kafkalite.record.batch import iter_headers
from kafkalite.record.records import iter_records

KEYS = 10_000
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OLD_CONSUMER = "kafka.tools.ConsoleConsumer"
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "1000000",
    "min.cleanable.dirty.ratio": "0.2",
    "file.delete.delay.ms": "1000",
}
QUICK = {"log.cleaner.backoff.ms": "200"}
SLOW_BYTES = 20
"""Bytes a second for each update, so slow that a test can kill a compaction in the middle."""
NOISE = random.Random(7).randbytes(500_000).hex().encode()
Row = tuple[int, bytes, "bytes | None"]


def key_of(number: int) -> bytes:
    """The key of an update: all keys in turn, in an order other than their sorting order."""
    return b"key-%d" % (number * 7919 % KEYS)


def value_of(number: int) -> bytes:
    """The value of an update, a text that codecs hardly compress."""
    at = number * 50 % (len(NOISE) - 50)
    return b"%d-%b" % (number, NOISE[at : at + 50])


class Updates(threading.Thread):
    """Writes ``count`` updates with an idempotent producer, also while brokers are killed."""

    def __init__(self, bootstrap: str, topic: str, count: int) -> None:
        super().__init__(daemon=True)
        self._servers = bootstrap
        self._topic = topic
        self._count = count
        self.sent = 0
        self.errors: list[object] = []

    def run(self) -> None:
        """Write until all updates are acknowledged."""
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "compression.type": "lz4",
                "log_level": 0,
            }
        )
        try:
            for number in range(self._count):
                while True:
                    try:
                        producer.produce(self._topic, value_of(number), key_of(number), 0, on_delivery=self._delivered)
                        break
                    except BufferError:
                        producer.poll(0.1)
                self.sent = number
                if number % 1000 == 0:
                    producer.poll(0)
            assert producer.flush(120) == 0
        except BaseException as error:
            self.errors.append(error)

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self.errors.append(error)

    def finished(self) -> None:
        """Wait for the end."""
        self.join(240)
        assert not self.is_alive()
        assert self.errors == []


def folder(cluster: LocalCluster, broker_id: int, topic: str) -> Path:
    return cluster.broker_dir(broker_id) / "data" / f"{topic}-0"


def stored(cluster: LocalCluster, broker_id: int, topic: str) -> list[Row]:
    """Offset, key and value of every record in a broker's files."""
    rows: list[Row] = []
    for path in sorted(folder(cluster, broker_id, topic).glob("*.log")):
        data = path.read_bytes()
        for position, header in iter_headers(data, allow_partial_tail=True):
            if not header.is_control:
                rows += [
                    (record.offset, record.key or b"", record.value) for record in iter_records(data, header, position)
                ]
    return rows


def compacted(cluster: LocalCluster, broker_id: int, topic: str) -> list[Row]:
    """The stored records, once all segments below the active one are compacted."""
    data = cluster.broker_dir(broker_id) / "data"

    def at_rest() -> list[Row]:
        bases = [int(path.stem) for path in folder(cluster, broker_id, topic).glob("*.log")]
        text = (data / "cleaner-offset-checkpoint").read_text()
        if f"{topic} 0 {max(bases)}\n" not in text:
            raise LookupError(f"segments {sorted(bases)}, checkpoint {text!r}")
        return stored(cluster, broker_id, topic)

    return wait_for(at_rest, f"{topic} is compacted on broker {broker_id}", 60, interval=0.3)


def table(rows: Sequence[Row]) -> dict[bytes, bytes]:
    """Key → last value of the records, without deleted keys."""
    return {key: value for key, value in {key: value for _, key, value in rows}.items() if value is not None}


def configure(cluster: LocalCluster, kind: ConfigResource.Type, name: str, **settings: str) -> None:
    """Set configurations of a topic or of a broker."""
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin(cluster.bootstrap).incremental_alter_configs([resource])[resource].result(20)


def compactors(cluster: LocalCluster, broker_id: int) -> list[psutil.Process]:
    """The compactor processes of a broker."""
    found = []
    for child in psutil.Process(cluster.pid(broker_id)).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if any("cleaner_process" in word for word in child.cmdline()):
                found.append(child)
    return found


def in_the_middle(cluster: LocalCluster, broker_id: int, topic: str, last: int = 0) -> psutil.Process:
    """Wait until a broker has partly written a compacted segment; returns its compactor, other than ``last``."""
    where = folder(cluster, broker_id, topic)

    def half_done() -> psutil.Process:
        if not any(path.stat().st_size > 0 for path in where.glob("*.log.cleaned")):
            raise LookupError("no compaction")
        others = [each for each in compactors(cluster, broker_id) if each.pid != last]
        if not others:
            raise LookupError("no other compactor yet")
        return others[0]

    return wait_for(half_done, f"broker {broker_id} compacts", 60, interval=0.002)


def compact_all(cluster: LocalCluster, topic: str, last: int) -> list[Row]:
    """Wait until all records but one last one are compacted; returns the leader's records."""
    configure(cluster, ConfigResource.Type.TOPIC, topic, min_cleanable_dirty_ratio="0.0", segment_ms="100")
    client = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def rolled() -> bool:
        # Produce repeatedly, because a new record rolls the active segment only after ``segment.ms``.
        client.produce(topic, value_of(last), key_of(last), 0)
        assert client.flush(20) == 0
        rows = {broker_id: len(compacted(cluster, broker_id, topic)) for broker_id in cluster.broker_ids}
        if any(count > KEYS + 3 for count in rows.values()):
            raise LookupError(f"{rows}")
        return True

    wait_for(rolled, f"{topic} is compacted", 60, interval=0.3)
    return compacted(cluster, leader(cluster, topic), topic)


def read_by_java(cluster: LocalCluster, topic: str, count: int, peer: Peer, main: str) -> list[tuple[bytes, bytes]]:
    """Keys and values, read by one of Kafka's console consumers."""
    where = ("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--partition", "0", "--offset", "earliest")
    shown = ("--max-messages", str(count), "--timeout-ms", "20000", "--property", "print.key=true")
    read = [line.split("\t") for line in run_tool(peer, main, *where, *shown).lines()]
    return [(key.encode(), value.encode()) for key, value in read]


def check_clients(cluster: LocalCluster, topic: str, rows: Sequence[Row]) -> None:
    """Check that every client reads exactly ``rows``, also one that is too old for their stored format."""
    clients: list[ClientAdapter] = [Confluent(), KafkaPython(), AioKafka()]
    for client in clients:
        read = client.consume(cluster.bootstrap, topic, {0: 0}, len(rows))
        assert [(each.offset, each.key, each.value) for each in read] == list(rows), type(client).__name__
    for peer, main in ((KAFKA_3_9, CONSUMER), (KAFKA_0_10, OLD_CONSUMER)):
        assert read_by_java(cluster, topic, len(rows), peer, main) == [(key, value) for _, key, value in rows], peer


def check_compaction(cluster: LocalCluster, count: int, disturb: Callable[[str, Updates], None]) -> str:
    """Write ``count`` updates during ``disturb``; check that the topic has each key's last value; return the topic."""
    topic = fresh_topic("compacted")
    Confluent().create_topic(cluster.bootstrap, topic, 1, len(cluster.broker_ids), SETTINGS)
    wait_in_sync(cluster, topic, 1, len(cluster.broker_ids))
    updates = Updates(cluster.bootstrap, topic, count)
    updates.start()
    disturb(topic, updates)
    updates.finished()
    wait_in_sync(cluster, topic, 1, len(cluster.broker_ids))
    rows = compact_all(cluster, topic, count - 1)
    expected = {key_of(number): value_of(number) for number in range(count)}
    assert len(expected) == KEYS
    for broker_id in cluster.broker_ids:
        assert table(compacted(cluster, broker_id, topic)) == expected, f"broker {broker_id}"
    check_clients(cluster, topic, rows)
    return topic


def leader(cluster: LocalCluster, topic: str) -> int:
    found = admin(cluster.bootstrap).list_topics(topic, timeout=20).topics[topic].partitions[0].leader
    return int(found)


def slow(count: int) -> dict[str, str]:
    """Settings of brokers that compact ``count`` updates slowly, and none before a test starts the compaction."""
    return {**QUICK, "log.cleaner.io.max.bytes.per.second": str(SLOW_BYTES * count), "log.cleaner.threads": "0"}


def kill_in_the_middle(cluster: LocalCluster) -> Callable[[str, Updates], None]:
    """Kill compactors and brokers with partly written segments; then compact without a limit.

    Each broker compacts nothing before its turn, so that it has uncompacted segments however fast the others were.
    """

    def disturb(topic: str, _: Updates) -> None:
        for broker_id in cluster.broker_ids:
            # By a restart, because as in Kafka the number of threads cannot be changed from 0 at run time.
            cluster.kill_broker(broker_id)
            cluster.start_broker(broker_id, {"log.cleaner.threads": "1"})
            first = in_the_middle(cluster, broker_id, topic)
            first.kill()
            orphan = in_the_middle(cluster, broker_id, topic, first.pid)
            cluster.kill_broker(broker_id)
            wait_for(lambda pid=orphan.pid: has_ended(pid), "the compactor follows its broker", 10)  # type: ignore[misc]
            cluster.start_broker(broker_id)
            wait_in_sync(cluster, topic, 1, len(cluster.broker_ids))
        # Ask with a new client, because the old one forgot a broker that was down and waits for minutes to hear of it.
        admin.cache_clear()
        for broker_id in cluster.broker_ids:
            configure(cluster, ConfigResource.Type.BROKER, str(broker_id), log_cleaner_io_max_bytes_per_second="1e9")

    return disturb


@pytest.mark.full
@pytest.mark.kafkalite_only
def test_updates_survive_kills_in_the_middle(make_cluster: ClusterFactory) -> None:
    """Every replica, client and tool has the last of many updates of each key."""
    count = 100_000
    cluster = make_cluster(2, slow(count))
    topic = check_compaction(cluster, count, kill_in_the_middle(cluster))
    pids = [process for broker_id in cluster.broker_ids for process in compactors(cluster, broker_id)]
    assert all(process.nice() >= 10 for process in pids)
    cluster.stop()
    # Wait, because a compactor ends when it finds its broker's pipe closed, a moment after the broker.
    wait_for(lambda: all(has_ended(process.pid) for process in pids), "the compactors have ended")
    for broker_id in cluster.broker_ids:
        assert_same_dump(files_of(cluster, broker_id, topic))


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="make soak, or KAFKALITE_SOAK=1")
@pytest.mark.kafkalite_only
def test_a_million_updates_survive_kills_in_the_middle(make_cluster: ClusterFactory) -> None:
    """The same check with a million updates."""
    count = 1_000_000
    cluster = make_cluster(2, slow(count))
    check_compaction(cluster, count, kill_in_the_middle(cluster))


@pytest.mark.full
def test_a_million_updates_end_with_one_value_for_each_key(make_cluster: ClusterFactory) -> None:
    """A million updates over 10,000 keys end with 10,000 values."""
    cluster = make_cluster(1, QUICK)
    check_compaction(cluster, 1_000_000, lambda _topic, _updates: None)


@pytest.mark.full
def test_clients_read_on_where_one_round_has_emptied_many_segments(make_cluster: ClusterFactory) -> None:
    """librdkafka fails after eleven answers in a row without a record (its issue 1472)."""
    cluster = make_cluster(1, QUICK)
    topic, count = fresh_topic("emptied"), 30 * KEYS
    Confluent().create_topic(cluster.bootstrap, topic, 1, 1, {**SETTINGS, "min.cleanable.dirty.ratio": "1.0"})
    updates = Updates(cluster.bootstrap, topic, count)
    updates.start()
    updates.finished()
    assert len(list(folder(cluster, 1, topic).glob("*.log"))) > 16
    configure(cluster, ConfigResource.Type.TOPIC, topic, min_cleanable_dirty_ratio="0.0")
    rows = compacted(cluster, 1, topic)
    assert len(rows) < 4 * KEYS
    check_clients(cluster, topic, rows)


@pytest.mark.kafkalite_only
def test_kafka_takes_a_compacted_log_over_and_gives_it_back(tmp_path: Path) -> None:
    """Real Kafka loads a log that kafkalite has compacted, reads the same records and compacts it; and vice versa."""
    overrides = {**TEST_OVERRIDES, **QUICK, "log.cleaner.dedupe.buffer.size": "20000000"}
    topic, count = fresh_topic("shared"), 2 * KEYS
    rows: list[Row] = []
    launchers: list[Launcher] = [kafkalite_launcher, kafka_launcher(), kafkalite_launcher]
    for turn, launch in enumerate(launchers):
        cluster = LocalCluster(tmp_path / "cluster", 1, overrides=overrides, launcher=launch)
        try:
            cluster.start()
            if turn:
                wait_in_sync(cluster, topic, 1, 1)
                assert stored(cluster, 1, topic) == rows
                read = Confluent().consume(cluster.bootstrap, topic, {0: 0}, len(rows))
                assert [(each.offset, each.key, each.value) for each in read] == rows
            else:
                Confluent().create_topic(cluster.bootstrap, topic, 1, 1, SETTINGS)
            if turn < 2:
                configure(cluster, ConfigResource.Type.TOPIC, topic, segment_ms="604800000", delete_retention_ms="100")
                updates = Updates(cluster.bootstrap, topic, count)
                updates.start()
                updates.finished()
                delete(cluster, topic, range(turn * 100, turn * 100 + 100))
                rows = compact_all(cluster, topic, count - 1)
                assert len(table(rows)) == KEYS - 100
            cluster.stop()
        finally:
            cluster.close()
    assert_same_dump(files_of(cluster, 1, topic))


def delete(cluster: LocalCluster, topic: str, numbers: Iterable[int]) -> None:
    """Write tombstones for some keys."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in numbers:
        producer.produce(topic, None, key_of(number), 0)
    assert producer.flush(20) == 0
