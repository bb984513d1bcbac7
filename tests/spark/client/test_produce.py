"""Raw produces: order, sequences, what is sent again, and what a failure says. Brokers are stand-ins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.produce import (
    ProducePartitionResponse,
    ProduceRequest,
    decode_produce,
    encode_produce_response,
)
from kafkalite.spark.client import produce
from kafkalite.spark.client.cluster import ClusterConnections
from kafkalite.spark.client.errors import BrokerUnreachableError, KafkaClientError
from kafkalite.spark.client.produce import BatchSender
from kafkalite.spark.client.transactions import InitializedProducer
from tests.spark.client.stand_ins import CONFIG

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
LOST = BrokerUnreachableError("the connection was lost")
Outcome = ErrorCode | Exception | None
"""One answer of a broker that refuses a request; an exception: it executes the request, and the answer is lost."""


@dataclass
class Brokers:
    """Logs as (sequence, bytes) and what happens to the next requests of each broker."""

    leaders: dict[TopicPartition, int] = field(default_factory=dict)
    logs: dict[TopicPartition, list[tuple[int, bytes]]] = field(default_factory=dict)
    troubles: dict[int, list[Outcome]] = field(default_factory=dict)
    requests: list[tuple[int, ProduceRequest]] = field(default_factory=list)

    def handle(self, number: int, request: ProduceRequest) -> list[ProducePartitionResponse]:
        trouble = self.troubles.get(number, []).pop(0) if self.troubles.get(number) else None
        self.requests.append((number, request))
        answers = []
        for partition, data in request.partitions:
            log = self.logs.setdefault(partition, [])
            code = trouble if isinstance(trouble, ErrorCode) else ErrorCode.NONE
            if not code and self.leaders[partition] != number:
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            entry = (int(bytes(data).split(b":")[0]), bytes(data))
            offset = -1
            if not code and entry in log:
                code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
            elif not code:
                offset = 10 * len(log)
                log.append(entry)
            answers.append(ProducePartitionResponse(*partition, code, offset, error_message=None))
        if isinstance(trouble, Exception):
            raise trouble
        return answers


class BrokerConnection:
    """Stands for the sender's own connections; the port is the broker's id."""

    brokers: Brokers

    def __init__(self, host: str, port: int, _config: object) -> None:
        self.host, self.port, self.closed = host, port, False
        self.pending: list[list[ProducePartitionResponse] | Exception] = []

    def version(self, _key: int, newest: int) -> int:
        return newest

    def post(self, _key: int, version: int, *parts: Any) -> None:
        assert not self.pending, "one request at a time"
        body = memoryview(b"".join(bytes(part) for part in parts))
        try:
            self.pending.append(self.brokers.handle(self.port, decode_produce(version, body)))
        except BrokerUnreachableError as error:
            self.pending.append(error)

    def receive(self) -> memoryview:
        answer = self.pending.pop()
        if isinstance(answer, Exception):
            raise answer
        return memoryview(encode_produce_response(produce.PRODUCE_VERSION, answer))

    def close(self) -> None:
        self.closed = True


class LedCluster(ClusterConnections):
    """Knows leaders as they were last heard."""

    def __init__(self, brokers: Brokers) -> None:
        super().__init__(CONFIG)
        self.brokers_ = brokers
        self.known = dict(brokers.leaders)

    def leader(self, partition: TopicPartition) -> int:
        found = self.known.setdefault(partition, self.brokers_.leaders[partition])
        if found < 0:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
        return found

    def address(self, broker_id: int) -> tuple[str, int]:
        return "h", broker_id

    def forget(self, partitions: Any = ()) -> None:
        for partition in partitions:
            self.known.pop(partition, None)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    made = Brokers({T0: 1, T1: 2, U0: 1})
    monkeypatch.setattr(BrokerConnection, "brokers", made, raising=False)
    monkeypatch.setattr(produce, "SparkConnection", BrokerConnection)
    return made


def sender_of(
    brokers: Brokers, *, idempotent: bool = True, request_bytes: int = 1000, patience: int = 5000
) -> BatchSender:
    who = InitializedProducer("x", 7, 0) if idempotent else None
    return BatchSender(LedCluster(brokers), who, -1, request_bytes, patience)


def sealed(size: int = 20) -> Callable[[int], memoryview]:
    return lambda sequence: memoryview(b"%d:" % sequence + b"x" * size)


def test_batches_arrive_in_order_with_their_sequences(brokers: Brokers) -> None:
    sender = sender_of(brokers)
    for count in (10, 3, 5):
        sender.send(T0, count, sealed())
        sender.send(T1, count, sealed())
    sender.flush()
    for partition in (T0, T1):
        assert [sequence for sequence, _ in brokers.logs[partition]] == [0, 10, 13]
    assert sender.records == 36
    assert sender.end_offsets() == {T0: 25, T1: 25}
    assert {request.transactional_id for _, request in brokers.requests} == {"x"}
    assert {request.acks for _, request in brokers.requests} == {-1}


def test_sequences_wrap_around_after_the_last(brokers: Brokers) -> None:
    sender = sender_of(brokers)
    for count in ((1 << 31) - 3, 10, 1):
        sender.send(T0, count, sealed())
    sender.flush()
    assert [sequence for sequence, _ in brokers.logs[T0]] == [0, (1 << 31) - 3, 7]


def test_without_a_producer_there_is_no_sequence(brokers: Brokers) -> None:
    sender = sender_of(brokers, idempotent=False)
    sender.send(T0, 5, sealed())
    sender.flush()
    assert [sequence for sequence, _ in brokers.logs[T0]] == [-1]


def test_a_request_holds_what_it_may(brokers: Brokers) -> None:
    sender = sender_of(brokers, request_bytes=250)
    brokers.troubles[1] = [ErrorCode.NOT_ENOUGH_REPLICAS]
    sender.send(T0, 1, sealed(100))
    for partition in (T0, U0, T0, U0):
        sender.send(partition, 1, sealed(100))
    sender.flush()
    shapes = [[partition for partition, _ in request.partitions] for _, request in brokers.requests]
    assert [T0, U0] in shapes
    assert max(map(len, shapes)) == 2
    tight = sender_of(brokers, request_bytes=150)
    for _ in range(3):
        tight.send(T0, 1, sealed(101))
        tight.send(U0, 1, sealed(101))
    brokers.requests.clear()
    tight.flush()
    assert {len(request.partitions) for _, request in brokers.requests} == {1}


@pytest.mark.parametrize(
    "trouble",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        LOST,
    ],
)
def test_passing_errors_are_retried_with_the_same_bytes(brokers: Brokers, trouble: Outcome) -> None:
    brokers.troubles[1] = [trouble, trouble]
    sender = sender_of(brokers)
    for _ in range(3):
        sender.send(T0, 4, sealed())
    sender.flush()
    assert [sequence for sequence, _ in brokers.logs[T0]] == [0, 4, 8]
    assert len(set(brokers.logs[T0])) == 3
    assert sender.records == 12
    sent = [bytes(data) for _, request in brokers.requests for _, data in request.partitions]
    assert len(sent) == 5
    assert sent[0] == sent[1] == sent[2]


def test_a_leader_that_moves_is_found(brokers: Brokers) -> None:
    sender = sender_of(brokers)
    brokers.leaders[T0] = 2
    sender.send(T0, 1, sealed())
    sender.flush()
    assert [number for number, _ in brokers.requests] == [1, 2]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.MESSAGE_TOO_LARGE, "MESSAGE_TOO_LARGE; kafka.batch.size must stay below"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "TOPIC_AUTHORIZATION_FAILED"),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "acknowledged before are not there"),
        (ErrorCode.INVALID_PRODUCER_EPOCH, "INVALID_PRODUCER_EPOCH"),
    ],
)
def test_a_failure_names_topic_partition_and_offset(brokers: Brokers, code: ErrorCode, words: str) -> None:
    sender = sender_of(brokers)
    sender.send(T0, 5, sealed())
    sender.flush()
    brokers.troubles[1] = [code]
    sender.send(T0, 2, sealed())
    with pytest.raises(KafkaClientError, match=words) as caught:
        sender.flush()
    assert "topic t, partition 0: 2 records (22 bytes) cannot be written after offset 4: " in str(caught.value)


@pytest.mark.parametrize("leader", [-1, 1])
def test_patience_ends(brokers: Brokers, leader: int) -> None:
    brokers.leaders[T0] = leader
    brokers.troubles[1] = [ErrorCode.NOT_ENOUGH_REPLICAS] * 10_000
    sender = sender_of(brokers, patience=20)
    with pytest.raises(KafkaClientError, match=r"topic t, partition 0: 1 records .* \(tried for 20 ms\)"):
        sender.send(T0, 1, sealed())
        sender.flush()


def test_a_caller_that_is_too_fast_waits(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "QUEUED_BYTES", 50)
    sender = sender_of(brokers)
    for _ in range(6):
        sender.send(T0, 1, sealed())
    assert len(brokers.logs[T0]) >= 4
    sender.flush()
    assert len(brokers.logs[T0]) == 6
