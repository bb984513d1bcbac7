"""Topic configurations about records: timestamps, codecs, size limits, flushing, retention, deletion."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from integration.conftest import TEST_OVERRIDES, launcher
from integration.harness.clients import fresh_topic
from integration.harness.raw import RawClient, ask_partition, batch
from integration.harness.wait import wait_for
from kafkalite.common.errors import ErrorCode
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.record.batch import BatchHeader, iter_headers
from kafkalite.record.records import iter_records

LEADER, FOLLOWER = 1, 2
TIMES = 1_700_000_000_000
CODEC_IDS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
OVERRIDES = {
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "200",
    "log.segment.delete.delay.ms": "100",
}
NONE = ErrorCode.NONE


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two brokers with short intervals for retention and checkpoints."""
    directory = tmp_path_factory.mktemp("keeping")
    cluster = LocalCluster(directory, 2, overrides={**TEST_OVERRIDES, **OVERRIDES}, launcher=launcher())
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def client(pair: LocalCluster) -> Iterator[RawClient]:
    """A connection to the leader of every topic."""
    with RawClient(pair.address(LEADER)) as connection:
        yield connection


def admin(cluster: LocalCluster) -> AdminClient:
    """An administrator."""
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


def make(cluster: LocalCluster, *configs: Mapping[str, str]) -> list[str]:
    """Create a topic for each of ``configs``, with one partition on both brokers; returns when they have leaders."""
    topics = [
        NewTopic(fresh_topic("keeping"), 1, replica_assignment=[[LEADER, FOLLOWER]], config=dict(config))
        for config in configs
    ]
    administrator = admin(cluster)
    for future in administrator.create_topics(topics).values():
        future.result(30)
    names = [topic.topic for topic in topics]
    with RawClient(cluster.address(LEADER)) as wire:
        for name in names:
            wait_for(lambda name=name: wire.leads(name, LEADER), f"{name} is led")  # type: ignore[misc]
    return names


def stored(client: RawClient, topic: str, offset: int = 0) -> tuple[list[BatchHeader], list[bytes | None]]:
    """Headers of the batches from ``offset`` on, and the values in them."""
    headers: list[BatchHeader] = []
    values: list[bytes | None] = []
    end = client.list_offset(topic, -1)[2]
    while offset < end:  # an answer ends with its segment
        (answer,) = client.fetch([ask_partition(topic, offset)]).partitions
        assert answer.error == NONE, answer.error
        view = memoryview(answer.records)  # type: ignore[arg-type]
        for at, header in iter_headers(view):
            headers.append(header)
            values += [record.value for record in iter_records(view, header, at)]
        offset = headers[-1].next_offset
    return headers, values


def files(cluster: LocalCluster, broker_id: int, topic: str) -> list[Path]:
    """The segment files of a replica, also those that are marked for deletion."""
    directory = cluster.broker_dir(broker_id) / "data" / f"{topic}-0"
    return sorted(path for path in directory.iterdir() if ".log" in path.name)


def test_log_append_time_is_the_brokers(pair: LocalCluster, client: RawClient) -> None:
    """In the answer, in the batch, and in look-ups by time."""
    (topic,) = make(pair, {"message.timestamp.type": "LogAppendTime"})
    begun = int(time.time() * 1000)
    for codec in (0, 4):
        answer = client.produce(topic, batch(3, timestamp=TIMES, codec=codec))
        assert answer.error == NONE
        assert begun <= answer.log_append_time <= int(time.time() * 1000)
        headers, values = stored(client, topic, answer.base_offset)
        assert [(h.timestamp_type, h.max_timestamp, h.compression) for h in headers] == [
            (1, answer.log_append_time, codec)
        ]
        assert len(values) == 3
    assert client.list_offset(topic, begun)[::2] == (NONE, 0)
    assert client.list_offset(topic, TIMES)[::2] == (NONE, 0)
    (topic,) = make(pair, {})
    answer = client.produce(topic, batch(timestamp=TIMES))
    assert answer.log_append_time == -1
    assert [(h.timestamp_type, h.max_timestamp) for h in stored(client, topic)[0]] == [(0, TIMES)]


def test_the_broker_compresses_with_the_topics_codec(pair: LocalCluster, client: RawClient) -> None:
    """``compression.type`` other than ``producer`` replaces any codec of the producer."""
    topics = dict(zip(CODEC_IDS, make(pair, *({"compression.type": name} for name in CODEC_IDS)), strict=True))
    for name, topic in topics.items():
        for codec in CODEC_IDS.values():
            assert client.produce(topic, batch(4, size=300, codec=codec, timestamp=TIMES)).error == NONE
        headers, values = stored(client, topic)
        assert [header.compression for header in headers] == [CODEC_IDS[name]] * len(CODEC_IDS)
        assert [header.base_offset for header in headers] == [0, 4, 8, 12, 16]
        assert values == [b"%0300d" % n for n in range(4)] * len(CODEC_IDS)


def test_too_large_batches_are_refused(pair: LocalCluster, client: RawClient) -> None:
    """``max.message.bytes`` bounds the compressed batch of the producer; a change takes effect at once."""
    (topic,) = make(pair, {"max.message.bytes": "2000"})
    assert client.produce(topic, batch(size=1000)).error == NONE
    assert client.produce(topic, batch(size=2000)).error == ErrorCode.MESSAGE_TOO_LARGE
    assert client.produce(topic, batch(20, size=1000, codec=1)).error == NONE
    entry = ConfigEntry("max.message.bytes", "3000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    administrator = admin(pair)
    for future in administrator.incremental_alter_configs([resource]).values():
        future.result(30)
    wait_for(lambda: client.produce(topic, batch(size=2000)).error == NONE, "the new limit holds")


def test_flush_messages_1_flushes_each_record(pair: LocalCluster, client: RawClient) -> None:
    """The recovery point is behind each acknowledged record; without the setting it may be before it."""
    eager, lazy = make(pair, {"flush.messages": "1"}, {})
    for topic in (eager, lazy):
        for _ in range(5):
            assert client.produce(topic, batch(timestamp=TIMES)).error == NONE

    def recovery_points(broker_id: int) -> dict[str, int]:
        text = (pair.broker_dir(broker_id) / "data" / "recovery-point-offset-checkpoint").read_text()
        return {line.split()[0]: int(line.split()[2]) for line in text.splitlines()[2:]}

    for broker_id in (LEADER, FOLLOWER):
        wait_for(lambda broker_id=broker_id: recovery_points(broker_id).get(eager) == 5, "all is flushed")  # type: ignore[misc]
        assert recovery_points(broker_id)[lazy] == 0


def test_retention_by_size_deletes_old_segments(pair: LocalCluster, client: RawClient) -> None:
    """On every replica, until the rest is small enough; readers of deleted offsets get an error."""
    (topic,) = make(pair, {"segment.bytes": "10000", "retention.bytes": "30000", "file.delete.delay.ms": "100"})
    record = batch(size=1000, timestamp=TIMES)
    for _ in range(100):
        assert client.produce(topic, record).error == NONE

    def settled() -> bool:
        # Without one further segment the size would be below ``retention.bytes``.
        segments = (100 - client.list_offset(topic, -2)[2]) / (10_000 // len(record))
        return (segments - 1) * (10_000 // len(record)) * len(record) < 30_000

    wait_for(settled, "old records are gone")
    start = client.list_offset(topic, -2)[2]
    kept = sum(header.size for header in stored(client, topic, start)[0])
    assert 30_000 <= kept < 40_000
    (answer,) = client.fetch([ask_partition(topic, 0)]).partitions
    assert answer.error == ErrorCode.OFFSET_OUT_OF_RANGE
    for broker_id in (LEADER, FOLLOWER):
        wait_for(lambda broker_id=broker_id: len(files(pair, broker_id, topic)) <= 5, "their files are gone")  # type: ignore[misc]


def test_retention_by_time_deletes_old_records(pair: LocalCluster, client: RawClient) -> None:
    """Also those in the active segment; new records stay."""
    timely = {"segment.bytes": "10000", "retention.ms": "60000", "file.delete.delay.ms": "100"}
    old, fresh = make(pair, timely, timely)
    for topic, stamp in ((old, TIMES), (fresh, int(time.time() * 1000))):
        for _ in range(30):
            assert client.produce(topic, batch(size=1000, timestamp=stamp)).error == NONE
    wait_for(lambda: client.list_offset(old, -2)[2] == 30, "all of it is gone")
    for broker_id in (LEADER, FOLLOWER):
        wait_for(lambda broker_id=broker_id: len(files(pair, broker_id, old)) == 1, "their files are gone")  # type: ignore[misc]
    assert client.list_offset(fresh, -2)[2] == 0
    assert len(stored(client, fresh)[0]) == 30
    answer = client.produce(old, batch(timestamp=int(time.time() * 1000)))
    assert (answer.error, answer.base_offset) == (NONE, 30)


def test_delete_records_moves_the_log_start_offset(pair: LocalCluster, client: RawClient) -> None:
    """On all replicas, also to an offset within a batch; -1 is the high watermark."""
    (topic,) = make(pair, {"segment.bytes": "10000", "file.delete.delay.ms": "100"})
    for _ in range(10):
        assert client.produce(topic, batch(5, size=1000, timestamp=TIMES)).error == NONE
    assert client.delete_records(topic, 7) == (NONE, 7)
    assert client.list_offset(topic, -2)[2] == 7
    for offset, error in ((6, ErrorCode.OFFSET_OUT_OF_RANGE), (7, NONE)):
        (answer,) = client.fetch([ask_partition(topic, offset)]).partitions
        assert answer.error == error
    # A lower offset is no error and changes nothing.
    assert client.delete_records(topic, 3) == (NONE, 7)
    assert client.delete_records(topic, 51)[0] == ErrorCode.OFFSET_OUT_OF_RANGE
    with RawClient(pair.address(FOLLOWER)) as wrong:
        assert wrong.delete_records(topic, 8)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        (answer,) = wrong.fetch([ask_partition(topic, 6)]).partitions
        assert answer.error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert client.delete_records(topic, -1) == (NONE, 50)
    for broker_id in (LEADER, FOLLOWER):
        wait_for(lambda broker_id=broker_id: len(files(pair, broker_id, topic)) == 1, "the files are gone")  # type: ignore[misc]
    assert client.produce(topic, batch(timestamp=TIMES)).base_offset == 50
