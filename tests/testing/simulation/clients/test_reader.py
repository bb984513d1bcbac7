"""Readers: sessions, new leaders, ranges, what is hidden from whom."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.fetch import decode_fetch
from kafkalite.protocol.fetch_response import FetchPartitionResponse, encode_fetch_response
from kafkalite.testing.history.breaches import Rule
from kafkalite.testing.history.events import Isolation, Positioned, Read
from kafkalite.testing.simulation.clients.fetcher import FetchSettings
from kafkalite.testing.simulation.clients.producer import Producer, ProducerSettings
from kafkalite.testing.simulation.clients.reader import Reader, ReaderSettings
from tests.testing.simulation.clients.brokers import (
    Brokers,
    Call,
    Fault,
    Wire,
    lose_answer,
    lose_request,
    once,
    swallow,
)

TOPIC = "t"
PARTITIONS = (TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1))
E = ErrorCode


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    found = Brokers(tmp_path)
    for number, tp in enumerate(PARTITIONS):
        found.create(tp, ((1, 2, 3), (2, 3, 1))[number])
    yield found
    found.finish()


def producer_of(brokers: Brokers, most: int = 100, rate: float = 10.0) -> Producer:
    producer = Producer(brokers.host, ProducerSettings("p", (TOPIC,), rate=rate, most=most))
    brokers.start(producer)
    return producer


def reader_of(brokers: Brokers, **fetch: object) -> Reader:
    reader = Reader(brokers.host, ReaderSettings("r", (TOPIC,), FetchSettings(**fetch)))  # type: ignore[arg-type]
    brokers.start(reader)
    return reader


def read(brokers: Brokers) -> list[object]:
    return [event.record for event in brokers.of(Read)]


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 16, 17])
@pytest.mark.parametrize("isolation", list(Isolation))
def test_every_record_is_read_once(brokers: Brokers, version: int, isolation: Isolation) -> None:
    producer = producer_of(brokers)
    reader_of(brokers, version=version, isolation=isolation)
    brokers.run(20)
    assert producer.acknowledged == 100
    assert len(read(brokers)) == len(set(read(brokers))) == 100
    assert brokers.found() == []
    assert brokers.violations == []


def fetches(brokers: Brokers) -> list[tuple[int, int, int]]:
    """Session, epoch and number of partitions of every fetch that arrived."""
    found = []
    for call in brokers.calls:
        if call.key is ApiKey.FETCH:
            request = decode_fetch(call.version, memoryview(call.body))
            found.append((request.session_id, request.session_epoch, len(request.partitions)))
    return found


def test_unchanged_partitions_are_not_sent_again(brokers: Brokers) -> None:
    producer_of(brokers)
    reader_of(brokers)
    brokers.run(20)
    sent = fetches(brokers)
    assert sum(epoch == 0 for _, epoch, _ in sent) == 2  # one a broker
    assert [size for _, epoch, size in sent if epoch > 0][-1] == 0


def refuse_fetch(code: ErrorCode) -> Fault:
    """A whole fetch is refused."""

    def act(wire: Wire, call: Call) -> bool:
        wire.answer(call, b"".join(bytes(part) for part in encode_fetch_response(call.version, code, 0, [])))  # type: ignore[arg-type]
        return True

    return act


def refuse_partition(brokers: Brokers, code: ErrorCode) -> Fault:
    """The session goes on, the first partition of the request is refused."""

    def act(wire: Wire, call: Call) -> bool:
        if call.key is not ApiKey.FETCH:
            return False
        request = decode_fetch(call.version, memoryview(call.body))
        if not request.session_id or not request.partitions:
            return False
        asked = request.partitions[0]
        entry = FetchPartitionResponse(asked.topic, asked.topic_id, asked.partition, code, records=b"")
        body = encode_fetch_response(call.version, 0, request.session_id, [entry])
        wire.answer(call, b"".join(bytes(part) for part in body))  # type: ignore[arg-type]
        brokers.faults.clear()
        return True

    return act


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lose_request, id="request lost"),
        pytest.param(lose_answer, id="answer lost"),
        pytest.param(swallow, id="no answer"),
        pytest.param(refuse_fetch(E.FETCH_SESSION_ID_NOT_FOUND), id="session gone"),
        pytest.param(refuse_fetch(E.INVALID_FETCH_SESSION_EPOCH), id="wrong epoch"),
        pytest.param(refuse_fetch(E.FETCH_SESSION_TOPIC_ID_ERROR), id="topic ids"),
    ],
)
@pytest.mark.parametrize("after", [0, 1, 5])
def test_a_new_session_follows_a_lost_one(brokers: Brokers, fault: Fault, after: int) -> None:
    brokers.faults.append(once(ApiKey.FETCH, fault, after))
    producer_of(brokers)
    reader_of(brokers)
    brokers.run(30)
    assert len(read(brokers)) == len(set(read(brokers))) == 100
    assert sum(epoch == 0 for _, epoch, _ in fetches(brokers)) == 3
    assert brokers.found() == []
    assert brokers.violations == []


@pytest.mark.parametrize(
    ("code", "reported"),
    [
        (E.NOT_LEADER_OR_FOLLOWER, False),
        (E.UNKNOWN_TOPIC_ID, False),
        (E.FENCED_LEADER_EPOCH, False),
        (E.UNKNOWN_LEADER_EPOCH, False),
        (E.OFFSET_NOT_AVAILABLE, False),
        (E.UNKNOWN_SERVER_ERROR, True),
        (E.TOPIC_AUTHORIZATION_FAILED, True),
    ],
)
def test_a_partition_that_is_refused_is_asked_for_again(brokers: Brokers, code: ErrorCode, reported: bool) -> None:
    producer_of(brokers)
    reader_of(brokers)
    brokers.run(1)
    brokers.faults.append(refuse_partition(brokers, code))
    brokers.run(20)
    assert brokers.faults == []
    assert len(read(brokers)) == len(set(read(brokers))) == 100
    assert brokers.found() == []
    assert bool(brokers.violations) is reported


def test_out_of_range_begins_at_the_start_of_the_log(brokers: Brokers) -> None:
    producer_of(brokers)
    reader_of(brokers)
    brokers.run(1)
    brokers.faults.append(refuse_partition(brokers, E.OFFSET_OUT_OF_RANGE))
    brokers.run(20)
    assert [event.offset for event in brokers.of(Positioned)] == [0, 0, 0]
    assert set(read(brokers)) == {event.record for event in brokers.of(Read)}
    assert brokers.count(ApiKey.LIST_OFFSETS) == 3
    assert brokers.found() == []


def test_a_new_leader_is_asked_whether_the_position_is_valid(brokers: Brokers) -> None:
    producer_of(brokers, most=300)
    reader_of(brokers)
    brokers.run(3)
    brokers.elect(3, (1, 2, 3))
    brokers.run(30)
    assert brokers.count(ApiKey.OFFSET_FOR_LEADER_EPOCH) == 1
    assert len(read(brokers)) == len(set(read(brokers))) == 300
    assert brokers.found() == []
    assert brokers.violations == []


def test_the_leader_dies(brokers: Brokers) -> None:
    producer_of(brokers, most=300)
    reader_of(brokers)
    brokers.run(2)
    brokers[1].crash()
    brokers.run(1)
    brokers.elect(2, (2, 3))
    brokers.elect(2, (2, 3), PARTITIONS[1])
    brokers.run(60)
    assert len(read(brokers)) == len(set(read(brokers))) == 300
    assert brokers.found() == []
    assert brokers.violations == []


def test_a_position_behind_the_end_of_its_epoch_is_lowered(brokers: Brokers) -> None:
    """An unclean election: what was read is not there any more, and the history says so."""
    producer = producer_of(brokers, most=60)
    reader_of(brokers)
    brokers.run(20)
    assert producer.acknowledged == 60
    log = brokers[3].logs.logs[PARTITIONS[0]]
    brokers[3].crash()
    end = log.log_end_offset
    log.truncate_to(end - 5)
    brokers.restart(3)
    brokers.elect(3, (3,))
    brokers.run(10)
    assert brokers.of(Positioned)[-1].partition == "t-0"
    assert brokers.of(Positioned)[-1].offset == end - 5
    assert Rule.KEPT in {breach.rule for breach in brokers.found()}


def test_records_above_the_high_watermark_are_a_violation(brokers: Brokers) -> None:
    """The answer's high watermark is made smaller than what it gives."""
    producer_of(brokers, most=50)
    brokers.run(10)
    reader_of(brokers, version=11)

    def edit(call: Call, body: bytes) -> bytes:
        # throttle, error, session, topics, name, partitions, number, error, then the high watermark
        at = 4 + 2 + 4 + 4 + 3 + 4 + 4 + 2
        changed = bytearray(body)
        if call.key is ApiKey.FETCH and len(body) > at + 40:
            struct.pack_into(">q", changed, at, 3)
        return bytes(changed)

    def lower(wire: Wire, call: Call) -> bool:
        del call
        wire.edit = edit
        return False

    brokers.faults.append(lower)
    brokers.run(3)
    assert any("ends for read_uncommitted at 3" in text for text in brokers.violations)


def test_a_wrong_checksum_is_a_violation(brokers: Brokers) -> None:
    producer_of(brokers, most=50)
    brokers.run(10)

    def edit(call: Call, body: bytes) -> bytes:
        changed = bytearray(body)
        if call.key is ApiKey.FETCH and len(body) > 200:
            changed[len(changed) // 2] ^= 1
        return bytes(changed)

    def flip(wire: Wire, call: Call) -> bool:
        del call
        wire.edit = edit
        return False

    brokers.faults.append(flip)
    reader_of(brokers, version=11)
    brokers.run(5)
    assert brokers.violations != []


def test_the_batches_before_a_wrong_checksum_are_given(brokers: Brokers) -> None:
    """A disk gives a bit of the last batch of each answer wrong, for a while; no record may be passed over."""
    producer = producer_of(brokers, most=50)
    brokers.run(10)
    brokers.host = replace(brokers.host, tolerated={E.CORRUPT_MESSAGE})
    damaged: list[Wire] = []

    def edit(call: Call, body: bytes) -> bytes:
        changed = bytearray(body)
        if call.key is ApiKey.FETCH and len(body) > 100:  # with records
            changed[-1] ^= 1  # in version 11 the records of the last partition are the end of the answer
        return bytes(changed)

    def damage(wire: Wire, call: Call) -> bool:
        if call.key is ApiKey.FETCH and wire not in damaged:
            wire.edit = edit
            damaged.append(wire)
        return False

    brokers.faults.append(damage)
    reader_of(brokers, version=11)
    brokers.run(5)
    before = read(brokers)
    assert 0 < len(before) < producer.acknowledged
    for wire in damaged:
        wire.edit = lambda _, body: body
    brokers.run(5)
    assert brokers.found() == []
    assert len(read(brokers)) == len(set(read(brokers))) == producer.acknowledged == 50
    assert brokers.violations == []
