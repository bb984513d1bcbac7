"""Fetching a range: what is asked for next, what is tried again, and what is an error. Brokers are stand-ins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.fetch import decode_fetch
from kafkalite.protocol.fetch_response import FetchPartitionResponse, encode_fetch_response
from kafkalite.record.records import Record, encode_batch
from kafkalite.spark.client.cluster import ClusterConnections
from kafkalite.spark.client.config import ClientConfig
from kafkalite.spark.client.errors import BrokerUnreachableError, KafkaClientError, OffsetOutOfRangeError
from kafkalite.spark.client.fetch import Fetched, fetch_range, list_offsets

PARTITION = TopicPartition("t", 3)
VERSION = 12
CONFIG = ClientConfig((("h", 1),), retry_backoff_ms=0, retry_backoff_max_ms=0, fetch_max_wait_ms=0)
Answer = FetchPartitionResponse | Exception


class Broker:
    """A connection that answers fetches by ``answer(offset)``; ``asked`` are the offsets, in order."""

    def __init__(self, answer: Callable[[int], Answer]) -> None:
        self.answer = answer
        self.asked: list[int] = []
        self.isolation: set[int] = set()
        self.closed = False
        self.pending: list[int] = []

    def version(self, _key: int, newest: int) -> int:
        return newest

    def post(self, _key: int, version: int, body: bytes) -> None:
        request = decode_fetch(version, memoryview(body))
        (wanted,) = request.partitions
        assert (wanted.topic, wanted.partition) == PARTITION
        self.isolation.add(request.isolation_level)
        self.pending.append(wanted.fetch_offset)
        assert len(self.pending) == 1, "one request at a time"
        self.asked.append(wanted.fetch_offset)

    def receive(self, *, reuse: bool) -> memoryview:
        assert reuse
        answer = self.answer(self.pending.pop())
        if isinstance(answer, Exception):
            raise answer
        parts = encode_fetch_response(VERSION, 0, 0, [answer])
        return memoryview(b"".join(bytes(part) for part in parts))  # type: ignore[arg-type]

    def close(self) -> None:
        self.closed = True


class OneBroker(ClusterConnections):
    """A cluster of which one stand-in leads everything."""

    def __init__(self, broker: Any, config: ClientConfig = CONFIG) -> None:
        super().__init__(config)
        self.stand_in = broker
        self.forgotten = 0

    def leader_connection(self, partition: TopicPartition) -> Any:
        assert partition == PARTITION
        return self.stand_in

    def forget(self, partitions: Any = ()) -> None:
        assert not partitions
        self.forgotten += 1


def batch(first: int, count: int) -> bytes:
    return encode_batch([Record(first + at, 1, None, b"v") for at in range(count)])


def answer(records: bytes = b"", error: int = 0, end: int = 100, **more: Any) -> FetchPartitionResponse:
    return FetchPartitionResponse(
        "t", partition=3, error=error, high_watermark=end, last_stable_offset=end - 10, records=records, **more
    )


def offsets(found: list[Fetched]) -> list[tuple[int, int]]:
    return [(item.offset, item.next_offset) for item in found]


def test_the_next_request_is_on_its_way_while_the_caller_works() -> None:
    broker = Broker(lambda offset: answer(batch(offset, 10)))
    seen = []
    for fetched in fetch_range(OneBroker(broker), PARTITION, 0, 25, 1000):
        seen.append((fetched.offset, fetched.next_offset, list(broker.pending)))
    assert seen == [(0, 10, [10]), (10, 20, [20]), (20, 30, [])]
    assert broker.isolation == {0}
    assert not broker.closed


def test_a_reader_that_stops_early_leaves_no_answer_behind() -> None:
    broker = Broker(lambda offset: answer(batch(offset, 10)))
    reading = fetch_range(OneBroker(broker), PARTITION, 0, 100, 1000)
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    assert broker.closed


def test_a_batch_that_is_cut_short_comes_again() -> None:
    broker = Broker(lambda offset: answer(batch(offset, 10) + batch(offset + 10, 10)[:-5]))
    found = list(fetch_range(OneBroker(broker), PARTITION, 0, 15, 1000))
    assert offsets(found) == [(0, 10), (10, 20)]
    assert [len(item.batches) for item in found] == [1, 1]


def test_passing_errors_and_lost_connections_are_tried_again() -> None:
    troubles: list[Answer] = [
        answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        BrokerUnreachableError("gone"),
        answer(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    broker = Broker(lambda offset: troubles.pop() if offset == 10 and troubles else answer(batch(offset, 10)))
    cluster = OneBroker(broker)
    assert offsets(list(fetch_range(cluster, PARTITION, 0, 20, 5000))) == [(0, 10), (10, 20)]
    assert cluster.forgotten == 3
    assert broker.asked == [0, 10, 10, 10, 10]


def test_errors_that_do_not_pass() -> None:
    broker = Broker(lambda _: answer(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaClientError, match="Fetch of t-3 at offset 5: TOPIC_AUTHORIZATION_FAILED"):
        list(fetch_range(OneBroker(broker), PARTITION, 5, 6, 5000))
    assert broker.asked == [5]


def test_out_of_range_is_not_tried_again() -> None:
    broker = Broker(lambda _: answer(error=ErrorCode.OFFSET_OUT_OF_RANGE))
    with pytest.raises(OffsetOutOfRangeError, match="offset 5 of t-3 is out of range") as caught:
        list(fetch_range(OneBroker(broker), PARTITION, 5, 6, 5000))
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 3, 5)
    assert broker.asked == [5]


def test_a_partition_that_ends_early_is_named() -> None:
    broker = Broker(lambda _: answer(end=7))
    with pytest.raises(
        KafkaClientError, match=r"offset 7 of t-3 in 20 milliseconds: the partition ends at 7, .* to 8 "
    ):
        list(fetch_range(OneBroker(broker), PARTITION, 7, 9, 20))


def test_read_committed() -> None:
    broker = Broker(lambda offset: answer(batch(offset, 1), aborted=[(5, 0)]))
    config = ClientConfig((("h", 1),), isolation_level="read_committed")
    (found,) = fetch_range(OneBroker(broker, config), PARTITION, 0, 1, 1000)
    assert found.aborted == [(5, 0)]
    assert broker.isolation == {1}
    (plain,) = fetch_range(OneBroker(broker), PARTITION, 0, 1, 1000)
    assert plain.aborted is None


class Listing(ClusterConnections):
    """Two brokers that know offsets: even partitions are led by 0, odd ones by 1."""

    def __init__(self, config: ClientConfig = CONFIG) -> None:
        super().__init__(config)
        self.asked: list[tuple[int, int, list[int]]] = []
        self.troubles: list[int] = []

    def leader(self, partition: TopicPartition) -> int:
        return partition.partition % 2

    def broker(self, broker_id: int) -> Any:
        cluster = self

        class Connection:
            def ask(self, _key: int, fields: dict[str, Any], _newest: int) -> Any:
                asked = [item for topic in fields["topics"] for item in topic.partitions]
                numbers = [item.partition_index for item in asked]
                cluster.asked.append((broker_id, fields["isolation_level"], numbers))
                error = cluster.troubles.pop() if cluster.troubles else 0
                items = [Found(item.partition_index, item.timestamp + 100, error) for item in asked]
                return Topics([Topic("t", items)])

        return Connection()

    def forget(self, partitions: Any = ()) -> None:
        """Does nothing, because nothing is cached."""


class Found:
    def __init__(self, partition_index: int, offset: int, error_code: int) -> None:
        self.partition_index = partition_index
        self.offset = offset
        self.error_code = error_code


class Topic:
    def __init__(self, name: str, partitions: list[Found]) -> None:
        self.name = name
        self.partitions = partitions


class Topics:
    def __init__(self, topics: list[Topic]) -> None:
        self.topics = topics


def test_offsets_are_asked_of_each_leader_once() -> None:
    cluster = Listing(ClientConfig((("h", 1),), isolation_level="read_committed"))
    times = {TopicPartition("t", number): number for number in range(4)}
    assert list_offsets(cluster, times) == {partition: at + 100 for partition, at in times.items()}
    assert cluster.asked == [(0, 1, [0, 2]), (1, 1, [1, 3])]


def test_offsets_are_asked_again_after_a_passing_error() -> None:
    cluster = Listing()
    cluster.troubles = [ErrorCode.LEADER_NOT_AVAILABLE]
    assert list_offsets(cluster, {TopicPartition("t", 0): 0}) == {TopicPartition("t", 0): 100}
    cluster.troubles = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(KafkaClientError, match="ListOffsets: TOPIC_AUTHORIZATION_FAILED: t-0"):
        list_offsets(cluster, {TopicPartition("t", 0): 0})


def test_retrying_ends() -> None:
    cluster = ClusterConnections(ClientConfig((("h", 1),), retry_backoff_ms=1, retry_backoff_max_ms=1))
    tries = []

    def fail() -> None:
        tries.append(1)
        raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "t-0")

    with pytest.raises(KafkaClientError, match=r"^Work: LEADER_NOT_AVAILABLE: t-0 \(tried for 500 ms\)"):
        cluster.retry("Work", fail, 500)
    assert len(tries) > 2
