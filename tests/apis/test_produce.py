"""Produce: what is refused at the door, who answers when, and what acks=0 means."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.network.request import Request
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.frames import RequestHeader
from kafkalite.protocol.produce import (
    ProducePartitionResponse,
    ProduceRequest,
    decode_produce_response,
    encode_produce,
)
from kafkalite.record.records import Record, encode_batch

from .helpers import FakeBroker

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def batch(codec: int = 0) -> bytes:
    return encode_batch([Record(0, 1000, b"k", b"v", (), -1)], codec=codec)


def send(
    broker: FakeBroker,
    version: int,
    partitions: list[tuple[TopicPartition, bytes]],
    acks: int = 1,
    transactional_id: str | None = None,
) -> None:
    request = ProduceRequest(transactional_id, acks, 500, [(tp, memoryview(data)) for tp, data in partitions])
    broker.send(ApiKey.PRODUCE, version, b"".join(bytes(part) for part in encode_produce(version, request)))


def answer(broker: FakeBroker, version: int) -> dict[TopicPartition, ProducePartitionResponse]:
    decoded = decode_produce_response(version, memoryview(broker.take()))
    return {TopicPartition(p.topic, p.partition): p for p in decoded}


@pytest.mark.parametrize("version", range(12))
def test_records_reach_the_replicas_as_they_came(version: int) -> None:
    broker = FakeBroker()
    data = batch()
    send(broker, version, [(T0, data), (T1, data)], acks=-1)
    assert broker.replicas.appended == [(500, -1, [(T0, data), (T1, data)])]
    found = answer(broker, version)
    assert [(p.error, p.base_offset) for p in found.values()] == [(0, 42), (0, 42)]


def test_the_answer_waits_for_the_replicas() -> None:
    broker = FakeBroker()
    broker.replicas.hold = True
    send(broker, 9, [(T0, batch())], acks=-1)
    assert not broker.connection.answers
    broker.replicas.held[0]()
    assert answer(broker, 9)[T0].base_offset == 42


def test_a_request_that_waits_for_the_replicas_holds_no_memory() -> None:
    broker = FakeBroker()
    broker.replicas.hold = True
    request = ProduceRequest(None, -1, 500, [(T0, memoryview(batch()))])
    frame = bytearray(b"".join(bytes(part) for part in encode_produce(9, request)))
    header = RequestHeader(ApiKey.PRODUCE, 9, 1, "client")
    broker.dispatcher.handle(Request(header, memoryview(frame), cast("Any", broker.connection), 0.0))
    frame.append(0)  # BufferError while any view of it is alive
    broker.replicas.held[0]()
    assert answer(broker, 9)[T0].base_offset == 42


@pytest.mark.parametrize(
    ("version", "data", "error"),
    [
        (3, b"", ErrorCode.INVALID_RECORD),
        (9, b"\0" * 60, ErrorCode.INVALID_RECORD),
        (9, b"\0" * 100, ErrorCode.INVALID_RECORD),
        (9, batch() + batch(), ErrorCode.INVALID_RECORD),
        (6, batch(codec=4), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_partitions_with_wrong_bytes_are_refused_and_the_others_appended(
    version: int, data: bytes, error: ErrorCode
) -> None:
    broker = FakeBroker()
    send(broker, version, [(T0, batch()), (T1, data), (U0, batch())])
    assert [tp for tp, _ in broker.replicas.appended[0][2]] == [T0, U0]
    found = answer(broker, version)
    assert [found[tp].error for tp in (T0, T1, U0)] == [0, error, 0]
    if version >= 8:
        assert found[T1].error_message


def test_zstd_is_taken_from_version_7_on() -> None:
    broker = FakeBroker()
    send(broker, 7, [(T0, batch(codec=4))])
    assert answer(broker, 7)[T0].error == 0


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_refused(acks: int) -> None:
    broker = FakeBroker()
    send(broker, 9, [(T0, batch())], acks=acks)
    assert answer(broker, 9)[T0].error == ErrorCode.INVALID_REQUIRED_ACKS
    assert not broker.replicas.appended


def test_a_transactional_producer_may_send_batches_outside_transactions() -> None:
    broker = FakeBroker()
    send(broker, 9, [(T0, batch())], acks=-1, transactional_id="tx")
    assert answer(broker, 9)[T0].error == ErrorCode.NONE


def test_acks_0_gets_no_answer() -> None:
    broker = FakeBroker()
    send(broker, 9, [(T0, batch())], acks=0)
    assert broker.connection.answers == [None]
    assert not broker.connection.closed


@pytest.mark.parametrize("data", [batch(), b""])
def test_acks_0_with_an_error_closes_the_connection(data: bytes) -> None:
    broker = FakeBroker()
    broker.replicas.produce_errors[T0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    send(broker, 9, [(T0, data)], acks=0)
    assert len(broker.connection.closed) == 1
    assert not broker.connection.answers


def test_a_client_that_asks_the_wrong_broker_is_told_the_right_one() -> None:
    broker = FakeBroker()
    broker.replicas.produce_errors[T1] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    send(broker, 10, [(T1, batch())])
    found = answer(broker, 10)[T1]
    assert found.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert found.current_leader == (2, 4)


def test_a_failure_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    broker = FakeBroker()
    broker.replicas.broken = True
    send(broker, 9, [(T0, batch())])
    assert answer(broker, 9)[T0].error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "broken" in caplog.text


def test_partitions_of_one_topic_stand_together_in_the_answer() -> None:
    broker = FakeBroker()
    send(broker, 9, [(T0, batch()), (U0, batch()), (T1, batch())])
    assert list(answer(broker, 9)) == [T0, T1, U0]
