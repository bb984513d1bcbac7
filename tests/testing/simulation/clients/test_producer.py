"""Producers against brokers that fail them: what is sent again, with which sequence, and what is noted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.produce import decode_produce
from kafkalite.record.batch import read_header
from kafkalite.testing.history.events import Acked, Failed, Led, Sent, Unknown
from kafkalite.testing.simulation.clients.cluster import ClusterClient
from kafkalite.testing.simulation.clients.producer import Producer, ProducerSettings
from kafkalite.testing.simulation.clients.sender import SenderSettings
from kafkalite.testing.simulation.workload import CLIENTS
from tests.testing.simulation.clients.brokers import (
    Brokers,
    Call,
    Fault,
    Wire,
    lose_answer,
    lose_request,
    once,
    refuse_produce,
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


def settings(**changes: object) -> ProducerSettings:
    values: dict[str, object] = {"name": "p", "topics": (TOPIC,), "rate": 20.0, "most": 60}
    return ProducerSettings(**(values | changes))  # type: ignore[arg-type]


KINDS = [
    pytest.param({"idempotent": True}, id="idempotent"),
    pytest.param({"idempotent": False}, id="plain"),
    pytest.param({"idempotent": False, "sender": SenderSettings(in_flight=1)}, id="one at a time"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_all_is_acknowledged_where_nothing_fails(brokers: Brokers, kind: dict[str, object]) -> None:
    producer = Producer(brokers.host, settings(**kind))
    ended = brokers.start(producer)
    brokers.run(10)
    assert producer.acknowledged == 60
    assert [event.record for event in brokers.of(Acked)] != []
    assert len(brokers.of(Acked)) == len(brokers.of(Sent)) == 60
    assert ended == [None]
    assert brokers.found() == []
    assert brokers.violations == []


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lose_request, id="request lost"),
        pytest.param(lose_answer, id="answer lost"),
        pytest.param(swallow, id="no answer"),
        *(
            pytest.param(refuse_produce(code), id=code.name)
            for code in (
                E.NOT_LEADER_OR_FOLLOWER,
                E.NOT_ENOUGH_REPLICAS,
                E.UNKNOWN_TOPIC_OR_PARTITION,
                E.REQUEST_TIMED_OUT,
                E.KAFKA_STORAGE_ERROR,
                E.LEADER_NOT_AVAILABLE,
            )
        ),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", [0, 3])
def test_an_attempt_that_fails_is_made_again(
    brokers: Brokers, kind: dict[str, object], fault: Fault, after: int
) -> None:
    brokers.faults.append(once(ApiKey.PRODUCE, fault, after))
    producer = Producer(brokers.host, settings(**kind))
    ended = brokers.start(producer)
    brokers.run(30)
    assert producer.acknowledged == 60
    assert ended == [None]
    assert brokers.found() == []
    assert brokers.violations == []


@pytest.mark.parametrize("in_flight", [1, 5])
@pytest.mark.parametrize("acks", [0, 1])
def test_less_than_all_promises_nothing(brokers: Brokers, acks: int, in_flight: int) -> None:
    sender = SenderSettings(acks=acks, in_flight=in_flight)
    producer = Producer(brokers.host, settings(idempotent=False, sender=sender))
    brokers.start(producer)
    brokers.run(10)
    assert brokers.of(Acked) == []
    assert len(brokers.of(Sent)) == 60
    assert brokers.count(ApiKey.PRODUCE) > 5
    assert sum(log.log_end_offset for log in brokers[1].logs.logs.values()) == 60
    assert brokers.found() == []


@pytest.mark.parametrize("codec", [0, 1, 3])
def test_compressed_batches(brokers: Brokers, codec: int) -> None:
    producer = Producer(brokers.host, settings(sender=SenderSettings(codec=codec), padding=50, keys=3))
    brokers.start(producer)
    brokers.run(10)
    assert producer.acknowledged == 60
    assert brokers.found() == []


def sequences(brokers: Brokers, tp: TopicPartition) -> list[tuple[int, int, int]]:
    """Epoch, first sequence and size of every batch that arrived."""
    found = []
    for call in brokers.calls:
        if call.key is ApiKey.PRODUCE:
            for place, records in decode_produce(call.version, memoryview(bytearray(call.body))).partitions:
                if place == tp:
                    header = read_header(records)
                    found.append((header.producer_epoch, header.base_sequence, header.record_count))
    return found


@pytest.mark.parametrize("code", [E.OUT_OF_ORDER_SEQUENCE_NUMBER, E.INVALID_PRODUCER_EPOCH])
@pytest.mark.parametrize("after", [0, 3])
def test_a_gap_in_the_sequences_begins_a_new_epoch(brokers: Brokers, code: ErrorCode, after: int) -> None:
    """The broker says that there is one, though nothing is missing: all that may be sent again is."""
    brokers.faults.append(once(ApiKey.PRODUCE, refuse_produce(code), after))
    producer = Producer(brokers.host, settings())
    ended = brokers.start(producer)
    brokers.run(30)
    assert ended == [None]
    assert len(brokers.of(Acked)) + len(brokers.of(Failed)) == 60
    assert bool(brokers.of(Failed)) is (code is E.INVALID_PRODUCER_EPOCH)
    assert max(epoch for tp in PARTITIONS for epoch, _, _ in sequences(brokers, tp)) == 1
    assert brokers.found() == []
    assert brokers.violations == []


def test_a_retry_keeps_its_sequence_and_comes_before_what_follows(brokers: Brokers) -> None:
    brokers.faults.append(once(ApiKey.PRODUCE, refuse_produce(E.NOT_ENOUGH_REPLICAS), 1))
    producer = Producer(brokers.host, settings(rate=100.0, most=200))
    brokers.start(producer)
    brokers.run(20)
    assert producer.acknowledged == 200
    for tp in PARTITIONS:
        sent = sequences(brokers, tp)
        assert {epoch for epoch, _, _ in sent} == {0}
        sizes = {first: size for _, first, size in sent}
        assert len(sent) >= len(sizes)
        # Without gaps: every batch begins where another ends.
        assert set(sizes) - {0} == {first + size for first, size in sizes.items()} - {max(sizes) + sizes[max(sizes)]}
    assert sum(len(sequences(brokers, tp)) - len(set(sequences(brokers, tp))) for tp in PARTITIONS) >= 1
    assert brokers.found() == []


def test_news_of_a_leader_with_a_failure_does_not_change_the_order(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metadata that a failure asks for are there at once: the failed batch goes before the one that waits."""
    request_update = ClusterClient.request_update

    def at_once(cluster: ClusterClient) -> None:
        request_update(cluster)
        cluster.changed()

    monkeypatch.setattr(ClusterClient, "request_update", at_once)
    brokers.faults.append(once(ApiKey.PRODUCE, refuse_produce(E.NOT_LEADER_OR_FOLLOWER), 3))
    producer = Producer(
        brokers.host,
        settings(
            idempotent=False, sender=SenderSettings(in_flight=1, batch_records=2, linger=0.0), rate=4000.0, most=2000
        ),
    )
    brokers.start(producer)
    brokers.run(30)
    assert producer.acknowledged == 2000
    assert brokers.found() == []


def test_a_leader_dies_and_another_takes_over(brokers: Brokers) -> None:
    producer = Producer(brokers.host, settings(rate=15.0, most=400))
    brokers.start(producer)
    brokers.run(2)
    assert 20 < producer.acknowledged < 300
    brokers[1].crash()
    brokers.run(1)
    brokers.elect(2, (2, 3))
    brokers.elect(2, (2, 3), PARTITIONS[1])
    brokers.run(60)
    assert producer.acknowledged == 400
    assert brokers.found() == []
    assert brokers.violations == []


def test_a_leader_that_finds_a_duplicate_did_not_write_it(brokers: Brokers) -> None:
    """One leader writes, another acknowledges: the history does not say that the second led in the first's epoch."""
    cut = True

    def keep_away(wire: Wire, call: Call) -> bool:
        return call.key is ApiKey.PRODUCE and cut and len(seen) > 1 and lose_request(wire, call)

    def count(wire: Wire, call: Call) -> bool:
        del wire
        if call.key is ApiKey.PRODUCE:
            seen.append(call)
        return False

    seen: list[Call] = []
    brokers.events += [Led(str(tp), brokers.states[tp].leader, 0) for tp in PARTITIONS]
    brokers.faults += [count, once(ApiKey.PRODUCE, lose_answer), keep_away]
    producer = Producer(brokers.host, settings())
    brokers.start(producer)
    brokers.run(2)
    assert brokers.of(Acked) == []
    for tp in PARTITIONS:
        brokers.elect(3, (1, 2, 3), tp)
    cut = False
    brokers.run(10)
    assert producer.acknowledged == 60
    assert brokers.found() == []


def test_a_late_batch_is_given_up_and_the_others_continue_in_a_new_epoch(brokers: Brokers) -> None:
    """Four answers stay out, and the batches with them; what follows begins at sequence 0 again."""
    for after in range(4):
        brokers.faults.append(once(ApiKey.PRODUCE, swallow, after))
    sender = SenderSettings(delivery_timeout=2.0, request_timeout=1.5)
    producer = Producer(brokers.host, settings(rate=6.0, most=200, sender=sender))
    ended = brokers.start(producer)
    brokers.run(60)
    assert ended == [None]
    unknown = len(brokers.of(Unknown)) + len(brokers.of(Failed))
    assert unknown > 0
    assert producer.acknowledged == 200 - unknown
    assert producer.acknowledged > 100
    assert max(epoch for tp in PARTITIONS for epoch, _, _ in sequences(brokers, tp)) >= 1
    assert brokers.found() == []
    assert brokers.violations == []


def test_a_producer_to_topics_that_are_deleted_records_what_it_gave_up(brokers: Brokers) -> None:
    """Seed 50325: the broker wrote such records after later ones, and the checker took that for a lost order."""
    brokers.create(TopicPartition("spare-1", 0), (1, 2, 3))
    brokers.faults.append(lambda _, call: call.key is ApiKey.PRODUCE)
    producer = CLIENTS["to-spare-topics"].make(brokers.host, "to-spare-topics-1", random.Random(1))
    brokers.start(producer)
    brokers.run(8)
    brokers.faults.clear()
    brokers.run(4)
    assert brokers.of(Unknown) != []
    assert len(brokers.of(Sent)) > len(brokers.of(Unknown)) + len(brokers.of(Failed))
    assert brokers.of(Acked) == []


@pytest.mark.parametrize("code", [E.MESSAGE_TOO_LARGE, E.INVALID_RECORD])
def test_a_finally_refused_record_is_recorded_as_failed(brokers: Brokers, code: ErrorCode) -> None:
    brokers.faults.append(once(ApiKey.PRODUCE, refuse_produce(code), 1))
    producer = Producer(brokers.host, settings(rate=20.0, most=100))
    brokers.start(producer)
    brokers.run(30)
    assert brokers.of(Failed) != []
    assert producer.acknowledged == 100 - len(brokers.of(Failed))
    assert len(brokers.violations) == 1
    assert code.name in brokers.violations[0]
    assert brokers.found() == []


def test_an_answer_that_no_broker_may_give_is_a_violation(brokers: Brokers) -> None:
    brokers.faults.append(once(ApiKey.PRODUCE, refuse_produce(E.UNKNOWN_SERVER_ERROR), 1))
    brokers.start(Producer(brokers.host, settings(rate=20.0)))
    brokers.run(30)
    assert [text for text in brokers.violations if "UNKNOWN_SERVER_ERROR" in text]


def test_a_killed_producer_says_nothing_more(brokers: Brokers) -> None:
    producer = Producer(brokers.host, settings(rate=50.0, most=10_000))
    ended = brokers.start(producer)
    brokers.run(2)
    producer.kill()
    noted = len(brokers.events)
    brokers.run(5)
    assert len(brokers.events) == noted
    assert ended == [None]
    assert brokers.found() == []
