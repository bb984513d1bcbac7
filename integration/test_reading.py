"""Fetches by consumers: their replica, their end, their size, their wait, their sessions; and look-ups by time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from integration.conftest import TEST_OVERRIDES, launcher
from integration.faults.cluster import create_topic, read_batches
from integration.harness.clients import fresh_topic
from integration.harness.raw import NO_SESSION, RawClient, ask_partition, batch
from integration.harness.wait import wait_for
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import ZERO_UUID
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.protocol.fetch_response import FetchPartitionResponse, FetchResponse
from kafkalite.record.batch import BatchHeader, iter_headers
from kafkalite.record.records import Record, encode_batch

RACKS = {1: "left", 2: "middle", 3: "right"}
OVERRIDES = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    # Long, because a test stops a broker for a while, and the broker must stay registered and in the ISR.
    "zookeeper.session.timeout.ms": "60000",
    "replica.lag.time.max.ms": "60000",
}
LEADER, FOLLOWER, LAGGARD = 1, 2, 3
TIMES = 1_700_000_000_000


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers in three racks, which send consumers to the nearest replica."""
    directory = tmp_path_factory.mktemp("racks")
    cluster = LocalCluster(directory, 3, overrides={**TEST_OVERRIDES, **OVERRIDES}, launcher=launcher())
    for broker_id, rack in RACKS.items():
        cluster.override_broker(broker_id, {"broker.rack": rack})
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def topic(racks: LocalCluster) -> str:
    """A topic of two partitions, of which broker 1 leads partition 0."""
    name = fresh_topic("reading")
    create_topic(racks, name, 2)
    for broker_id in racks.broker_ids:
        with RawClient(racks.address(broker_id)) as wire:
            wait_for(lambda wire=wire: wire.leads(name, LEADER), f"broker {broker_id} knows {name}")  # type: ignore[misc]
    return name


@pytest.fixture
def client(racks: LocalCluster) -> Iterator[RawClient]:
    """A connection to the leader of partition 0."""
    with RawClient(racks.address(LEADER), timeout=60) as connection:
        yield connection


@pytest.fixture
def other(racks: LocalCluster) -> Iterator[RawClient]:
    """A connection to the leader of partition 1, which follows partition 0."""
    with RawClient(racks.address(FOLLOWER)) as connection:
        yield connection


def headers(answer: FetchPartitionResponse) -> list[BatchHeader]:
    """The whole batches of an answer."""
    assert answer.error == ErrorCode.NONE, answer.error
    return [header for _, header in iter_headers(memoryview(answer.records), allow_partial_tail=True)]  # type: ignore[arg-type]


def only(answer: FetchResponse) -> FetchPartitionResponse:
    """The only partition of an answer."""
    (partition,) = answer.partitions
    return partition


def produced(client: RawClient, topic: str, batches: int, records: int = 1, size: int = 10, partition: int = 0) -> None:
    """Produce batches of one size with acks=all."""
    for _ in range(batches):
        answer = client.produce(topic, batch(records, size=size, timestamp=TIMES), partition)
        assert answer.error == ErrorCode.NONE


# Replicas


def test_the_leader_names_the_replica_in_the_consumers_rack(client: RawClient, other: RawClient, topic: str) -> None:
    """A consumer that sends its rack gets a preferred replica instead of records; that follower serves it."""
    produced(client, topic, 3)
    asked = [ask_partition(topic, 0)]
    for rack, preferred in (("middle", FOLLOWER), ("right", LAGGARD)):

        def named(rack: str = rack, preferred: int = preferred) -> bool:
            answer = only(client.fetch(asked, rack=rack))
            return answer.preferred_read_replica == preferred and not answer.records

        # Wait, because the leader learns the follower's position by the follower's next fetch.
        wait_for(named, f"broker {preferred} is preferred in {rack}")
    for rack in ("left", "nowhere", ""):
        answer = only(client.fetch(asked, rack=rack))
        assert answer.preferred_read_replica == -1
        assert len(headers(answer)) == 3
    wait_for(lambda: len(headers(only(other.fetch(asked, rack="middle")))) == 3, "the follower serves")
    assert only(other.fetch(asked, rack="right")).preferred_read_replica == -1, "followers send no consumer on"


def test_a_consumer_reads_from_its_rack(racks: LocalCluster, client: RawClient, topic: str) -> None:
    """librdkafka with ``client.rack``: after the first answer of the leader, all fetches go to the follower."""
    produced(client, topic, 20)
    fetches: dict[str, int] = {}

    def statistics(text: str) -> None:
        # Add the entries of a broker, because the connection to the group's coordinator has a separate entry with the
        # broker's name.
        brokers = list(json.loads(text)["brokers"].values())
        for name in {broker["nodename"] for broker in brokers}:
            fetches[name] = sum(broker["req"].get("Fetch", 0) for broker in brokers if broker["nodename"] == name)

    consumer = Consumer(
        {
            "bootstrap.servers": racks.bootstrap,
            "group.id": "none",
            "client.rack": "right",
            "statistics.interval.ms": 50,
            "stats_cb": statistics,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        read = 0

        def all_read(count: int) -> bool:
            nonlocal read
            read += sum(1 for message in consumer.consume(100, 0.1) if message.error() is None)
            return read == count

        wait_for(lambda: all_read(20), "the records are read")
        near, leader = racks.address(LAGGARD), racks.address(LEADER)
        wait_for(lambda: all_read(20) and fetches.get(near, 0) > 3, "the follower is asked")
        before = dict(fetches)
        produced(client, topic, 20)
        wait_for(lambda: all_read(40) and fetches[near] > before[near], "the rest is read")
        assert fetches[leader] == before[leader], "no consumer asks the leader any more"
    finally:
        consumer.close()


def test_followers_show_only_what_is_committed(
    racks: LocalCluster, client: RawClient, other: RawClient, topic: str
) -> None:
    """A follower does not show a stored record to readers while another replica in the ISR lacks it."""
    produced(client, topic, 2)
    wait_for(lambda: only(other.fetch([ask_partition(topic, 0)])).high_watermark == 2, "the follower knows of both")
    racks.pause_broker(LAGGARD)
    try:
        # Several batches, because the first may answer a fetch that waited when its follower was stopped.
        for _ in range(3):
            assert client.produce(topic, batch(timestamp=TIMES), acks=1).error == ErrorCode.NONE
        directory = racks.broker_dir(FOLLOWER) / "data" / f"{topic}-0"
        wait_for(lambda: read_batches(directory)[-1].last_offset == 4, "the follower has all")
        for connection in (client, other):
            answer = only(connection.fetch([ask_partition(topic, 0)]))
            assert answer.high_watermark < 4
            assert headers(answer)[-1].last_offset < answer.high_watermark
            assert not only(connection.fetch([ask_partition(topic, answer.high_watermark)])).records
            # The records above the high watermark give no error and no records.
            assert only(connection.fetch([ask_partition(topic, 5)])).error in (
                ErrorCode.NONE,
                ErrorCode.OFFSET_OUT_OF_RANGE,
            )
    finally:
        racks.resume_broker(LAGGARD)
    for connection in (client, other):
        wait_for(
            lambda connection=connection: len(headers(only(connection.fetch([ask_partition(topic, 0)])))) == 5,  # type: ignore[misc]
            "everything is committed",
        )


# Sizes and waits


def test_an_answer_has_the_first_batch_and_further_ones_that_fit(client: RawClient, topic: str) -> None:
    """The last batch may be cut."""
    produced(client, topic, 5, size=1000)
    one = headers(only(client.fetch([ask_partition(topic, 0)])))[0].size
    for limit in (1, one - 1, one):
        assert len(only(client.fetch([ask_partition(topic, 0)], max_bytes=limit)).records or b"") == one
        assert len(only(client.fetch([ask_partition(topic, 0, max_bytes=limit)])).records or b"") == one
    for limit in (2 * one, 2 * one + 10, 4 * one + 10):
        answer = only(client.fetch([ask_partition(topic, 0, max_bytes=limit)]))
        assert len(answer.records or b"") <= limit
        assert len(headers(answer)) == limit // one
    assert [header.base_offset for header in headers(only(client.fetch([ask_partition(topic, 3)])))] == [3, 4]


def test_a_fetch_waits_for_min_bytes_or_its_timeout(racks: LocalCluster, client: RawClient, topic: str) -> None:
    """The answer comes at the earlier of the two."""
    produced(client, topic, 1, size=100)
    begun = time.monotonic()
    answer = client.fetch([ask_partition(topic, 0)], max_wait_ms=300, min_bytes=10_000)
    assert time.monotonic() - begun >= 0.3
    assert len(headers(only(answer))) == 1, "what there is comes all the same"
    begun = time.monotonic()
    assert len(headers(only(client.fetch([ask_partition(topic, 0)], max_wait_ms=30_000, min_bytes=1)))) == 1
    assert time.monotonic() - begun < 30

    answers: list[FetchResponse] = []

    def ask() -> None:
        with RawClient(racks.address(LEADER), timeout=60) as waiting:
            answers.append(waiting.fetch([ask_partition(topic, 1)], max_wait_ms=50_000, min_bytes=3000))

    thread = threading.Thread(target=ask)
    thread.start()
    begun = time.monotonic()

    def enough() -> bool:
        produced(client, topic, 1, size=1000)
        return bool(answers)

    wait_for(enough, "the fetch is answered", 30)
    thread.join(10)
    assert time.monotonic() - begun < 30
    assert sum(header.size for header in headers(only(answers[0]))) >= 3000


# Sessions


def test_a_fetch_session_answers_only_changed_partitions(client: RawClient, racks: LocalCluster) -> None:
    """The first answer has every partition, each further answer only those with news."""
    name = fresh_topic("session")
    admin = AdminClient({"bootstrap.servers": racks.bootstrap, "log_level": 0})
    create_on_leader(admin, name, 3)
    wait_for(lambda: all(client.leads(name, LEADER, p) for p in range(3)), "one leads them all")
    produced(client, name, 1, partition=0)
    everything = [ask_partition(name, 0, partition) for partition in range(3)]
    opened = client.fetch(everything, session=(0, 0))
    assert opened.session_id > 0
    assert [p.partition for p in opened.partitions] == [0, 1, 2]
    epoch = iter(range(1, 100))

    def further(**fields: object) -> list[tuple[int, int]]:
        answer = client.fetch(fields.pop("partitions", ()), session=(opened.session_id, next(epoch)), **fields)  # type: ignore[arg-type]
        assert answer.error == ErrorCode.NONE
        return [(p.partition, len(headers(p))) for p in answer.partitions]

    # A client that does not advance its position gets the records again.
    assert further() == [(0, 1)]
    assert further(partitions=[ask_partition(name, 1, 0)]) == []
    assert further() == []
    produced(client, name, 2, partition=2)
    assert further() == [(2, 2)]
    assert further(partitions=[ask_partition(name, 2, 2)]) == []
    produced(client, name, 1, partition=1)
    produced(client, name, 1, partition=2)
    assert further(forgotten=[(name, ZERO_UUID, 2)]) == [(1, 1)]
    assert further(partitions=[ask_partition(name, 1, 1)]) == []
    assert further(partitions=[ask_partition(name, 0, 2)]) == [(2, 3)]
    # A second connection may continue the session, with the next epoch only.
    with RawClient(racks.address(LEADER)) as second:
        assert second.fetch((), session=(opened.session_id, 50)).error == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert second.fetch((), session=(opened.session_id + 1, 1)).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert second.fetch((), session=(opened.session_id, next(epoch))).error == ErrorCode.NONE
    assert client.fetch((), session=(opened.session_id, NO_SESSION)).session_id == 0
    assert client.fetch((), session=(opened.session_id, next(epoch))).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def create_on_leader(admin: AdminClient, name: str, partitions: int) -> None:
    """Create a topic whose partitions have broker 1 as their only replica."""
    for future in admin.create_topics(
        [NewTopic(name, partitions, replica_assignment=[[LEADER]] * partitions)]
    ).values():
        future.result(30)


# By time


def test_a_look_up_by_time_finds_the_first_record_at_or_after_it(
    racks: LocalCluster, client: RawClient, topic: str
) -> None:
    """The exact record, also in a compressed batch and with decreasing timestamps."""
    times = [[10, 20, 30], [5, 40, 15], [7], [100, 90, 100]]
    offset = 0
    for number, stamps in enumerate(times):
        records = [Record(n, TIMES + stamp, None, b"x") for n, stamp in enumerate(stamps)]
        assert client.produce(topic, encode_batch(records, codec=number % 2)).base_offset == offset
        offset += len(stamps)
    expected = {0: 0, 10: 0, 11: 1, 25: 2, 30: 2, 31: 4, 40: 4, 41: 7, 95: 7, 100: 7}
    for stamp, found in expected.items():
        assert client.list_offset(topic, TIMES + stamp)[::2] == (ErrorCode.NONE, found), stamp
    assert client.list_offset(topic, TIMES + 35) == (ErrorCode.NONE, TIMES + 40, 4)
    assert client.list_offset(topic, TIMES + 101) == (ErrorCode.NONE, -1, -1)
    assert client.list_offset(topic, -2)[2] == 0
    assert client.list_offset(topic, -1)[2] == offset
    admin = AdminClient({"bootstrap.servers": racks.bootstrap, "log_level": 0})
    asked = TopicPartition(topic, 0)
    (future,) = admin.list_offsets({asked: OffsetSpec.max_timestamp()}).values()
    latest = future.result(30)
    assert (latest.offset, latest.timestamp) == (7, TIMES + 100)
