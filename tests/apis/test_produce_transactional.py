"""Transactional batches: when they are verified, in which order they are appended, how a refusal is told."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

import pytest

from kafkalite.apis import produce_transactional
from kafkalite.apis.dispatch import Dispatcher
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch
from kafkalite.log.producer_entry import ProducerEntry
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.produce import (
    ProducePartitionResponse,
    ProduceRequest,
    decode_produce_response,
    encode_produce,
)
from kafkalite.record.records import Record, encode_batch

from .helpers import FakeBroker
from .test_transactions import FakeLog, FakePartition

E = ErrorCode
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ME = ProducerIdAndEpoch(1000, 7)


def batch(producer: ProducerIdAndEpoch = ME, sequence: int = 0, transactional: bool = True) -> bytes:
    return encode_batch(
        [Record(0, 1000, b"k", b"v")],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )


class FakeVerifier:
    """Says what ``errors`` say; while ``hold``, nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ProducerIdAndEpoch, list[TopicPartition], list[TopicPartition]]] = []
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.hold = False
        self.held: list[tuple[Future[dict[TopicPartition, ErrorCode]], list[TopicPartition]]] = []
        self.failure: Exception | None = None
        self.is_enabled = True

    def verify(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        ended: Collection[TopicPartition],
    ) -> Future[dict[TopicPartition, ErrorCode]]:
        self.asked.append((transactional_id, producer, list(partitions), list(ended)))
        future: Future[dict[TopicPartition, ErrorCode]] = Future()
        self.held.append((future, list(partitions)))
        if not self.hold:
            self.release()
        return future

    def release(self) -> None:
        held, self.held = self.held, []
        for future, partitions in held:
            if self.failure is not None:
                future.errback(self.failure)
            else:
                future.callback({tp: self.errors.get(tp, E.NONE) for tp in partitions})


class TransactionalProduceFixture:
    """A broker that leads T0 and T1, and its verifier."""

    def __init__(self) -> None:
        self.broker = FakeBroker()
        self.verifier = FakeVerifier()
        self.logs = {T0: FakeLog(), T1: FakeLog()}
        cast("Any", self.broker.replicas).partitions = {tp: FakePartition(log) for tp, log in self.logs.items()}
        self.broker.dispatcher = Dispatcher(replace(self.broker.services, transactions=cast("Any", self)))

    def opened(self, tp: TopicPartition, producer: ProducerIdAndEpoch = ME) -> ProducerEntry:
        """The log knows the producer's open transaction."""
        entry = ProducerEntry(producer.producer_id, producer.producer_epoch)
        entry.current_txn_first_offset = 5
        self.logs[tp].entries[producer.producer_id] = entry
        return entry

    def ended(self, tp: TopicPartition) -> ProducerEntry:
        """The log knows that the producer's last transaction has ended."""
        entry = self.opened(tp)
        entry.current_txn_first_offset = -1
        return entry

    def send(
        self, *batches: tuple[TopicPartition, bytes], version: int = 9, acks: int = -1, tid: str | None = "tx"
    ) -> None:
        request = ProduceRequest(tid, acks, 500, [(tp, memoryview(data)) for tp, data in batches])
        body = b"".join(bytes(part) for part in encode_produce(version, request))
        self.broker.send(ApiKey.PRODUCE, version, body)

    def answer(self, version: int = 9) -> dict[TopicPartition, ProducePartitionResponse]:
        decoded = decode_produce_response(version, memoryview(self.broker.take()))
        return {TopicPartition(p.topic, p.partition): p for p in decoded}

    @property
    def appended(self) -> list[list[tuple[TopicPartition, bytes]]]:
        return [entries for _, _, entries in self.broker.replicas.appended]


@pytest.mark.parametrize("version", range(3, 12))
def test_the_first_batch_is_verified(version: int) -> None:
    fixture = TransactionalProduceFixture()
    data = batch()
    fixture.send((T0, data), (T1, data), version=version)
    assert fixture.verifier.asked == [("tx", ME, [T0, T1], [])]
    assert fixture.appended == [[(T0, data), (T1, data)]]
    assert [answer.error for answer in fixture.answer(version).values()] == [0, 0]


def test_a_batch_of_a_transaction_that_the_log_has_open_is_not() -> None:
    fixture = TransactionalProduceFixture()
    fixture.opened(T0)
    fixture.send((T0, batch()), (T1, batch()))
    assert fixture.verifier.asked == [("tx", ME, [T1], [])]
    fixture.opened(T1)
    fixture.send((T0, batch()), (T1, batch()))
    assert len(fixture.verifier.asked) == 1 and len(fixture.appended) == 2


def test_an_open_transaction_of_another_epoch_proves_nothing() -> None:
    fixture = TransactionalProduceFixture()
    fixture.opened(T0, ProducerIdAndEpoch(ME.producer_id, ME.producer_epoch - 1))
    fixture.send((T0, batch()))
    assert fixture.verifier.asked == [("tx", ME, [T0], [])]


def test_where_one_has_ended_before_the_verifier_is_told() -> None:
    fixture = TransactionalProduceFixture()
    fixture.ended(T1)
    fixture.send((T0, batch()), (T1, batch()))
    assert fixture.verifier.asked == [("tx", ME, [T0, T1], [T1])]


def test_nothing_is_verified_where_that_is_switched_off() -> None:
    fixture = TransactionalProduceFixture()
    fixture.verifier.is_enabled = False
    fixture.send((T0, batch()))
    assert not fixture.verifier.asked and len(fixture.appended) == 1


def test_partitions_that_are_not_here_are_left_to_the_replicas() -> None:
    fixture = TransactionalProduceFixture()
    other = TopicPartition("t", 7)
    fixture.broker.replicas.produce_errors = {other: E.UNKNOWN_TOPIC_OR_PARTITION}
    fixture.send((other, batch()))
    assert not fixture.verifier.asked
    assert fixture.answer()[other].error == E.UNKNOWN_TOPIC_OR_PARTITION


def test_non_transactional_batches_are_never_verified() -> None:
    fixture = TransactionalProduceFixture()
    for tid in ("tx", None):
        fixture.send((T0, batch(transactional=False)), tid=tid)
    fixture.send((T0, batch(ProducerIdAndEpoch(-1, -1), -1, transactional=False)), tid=None)
    assert not fixture.verifier.asked and len(fixture.appended) == 3


@pytest.mark.parametrize(
    ("error", "version", "told"),
    [
        (E.TRANSACTION_ABORTABLE, 10, E.INVALID_TXN_STATE),
        (E.TRANSACTION_ABORTABLE, 11, E.TRANSACTION_ABORTABLE),
        (E.PRODUCER_FENCED, 11, E.INVALID_PRODUCER_EPOCH),
        (E.INVALID_PRODUCER_ID_MAPPING, 9, E.INVALID_PRODUCER_ID_MAPPING),
        (E.CONCURRENT_TRANSACTIONS, 9, E.NOT_ENOUGH_REPLICAS),
        (E.COORDINATOR_NOT_AVAILABLE, 11, E.NOT_ENOUGH_REPLICAS),
    ],
)
def test_a_refusal_in_the_producers_words_spares_the_others(error: ErrorCode, version: int, told: ErrorCode) -> None:
    fixture = TransactionalProduceFixture()
    fixture.verifier.errors = {T0: error}
    fixture.send((T0, batch()), (T1, batch()), version=version)
    assert [[tp for tp, _ in entries] for entries in fixture.appended] == [[T1]]
    answers = fixture.answer(version)
    assert (answers[T0].error, answers[T1].error) == (told, E.NONE)
    if told is E.NOT_ENOUGH_REPLICAS:
        assert error.name in str(answers[T0].error_message)


def test_all_refused() -> None:
    fixture = TransactionalProduceFixture()
    fixture.verifier.errors = {T0: E.PRODUCER_FENCED}
    fixture.send((T0, batch()))
    assert not fixture.appended and fixture.answer()[T0].error == E.INVALID_PRODUCER_EPOCH


def test_bad_bytes_beside_a_transaction() -> None:
    fixture = TransactionalProduceFixture()
    fixture.send((T0, b"\0" * 20), (T1, batch()))
    assert fixture.answer()[T0].error == E.INVALID_RECORD
    assert [[tp for tp, _ in entries] for entries in fixture.appended] == [[T1]]


def test_a_transaction_without_an_id_is_refused() -> None:
    fixture = TransactionalProduceFixture()
    fixture.send((T0, batch()), tid=None)
    assert fixture.answer()[T0].error == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert not fixture.appended


def test_two_producers_in_one_request() -> None:
    fixture = TransactionalProduceFixture()
    fixture.send((T0, batch()), (T1, batch(ProducerIdAndEpoch(1001, 7))))
    assert {answer.error for answer in fixture.answer().values()} == {E.INVALID_PRODUCER_ID_MAPPING}
    assert not fixture.appended


# trap: kafkalite/apis/produce_transactional.py: Pipelined batches overtake the one that is being verified.
def test_requests_behind_one_that_waits_keep_their_order() -> None:
    fixture = TransactionalProduceFixture()
    fixture.verifier.hold = True
    fixture.send((T0, batch(sequence=0)))
    fixture.send((T0, batch(sequence=1)))
    fixture.send((T1, batch(sequence=0)))
    other = ProducerIdAndEpoch(2000, 0)
    fixture.opened(T0, other)
    fixture.send((T0, batch(other)), tid="other")
    # Another producer does not wait for this one.
    assert [[tp for tp, _ in entries] for entries in fixture.appended] == [[T0]]
    fixture.opened(T0)  # what the first batch does to the log
    fixture.verifier.hold = False
    fixture.verifier.release()
    assert fixture.appended[1:] == [[(T0, batch(sequence=0))], [(T0, batch(sequence=1))], [(T1, batch(sequence=0))]]
    assert len(fixture.verifier.asked) == 2
    # and the way is free again
    fixture.send((T0, batch(sequence=2)))
    assert len(fixture.appended) == 5


def test_batches_behind_one_that_comes_again_wait_for_it() -> None:
    fixture = TransactionalProduceFixture()
    fixture.verifier.errors = {T0: E.CONCURRENT_TRANSACTIONS}
    fixture.send((T0, batch(sequence=0)))
    assert fixture.answer()[T0].error == E.NOT_ENOUGH_REPLICAS
    fixture.verifier.errors = {}
    # Already on its way behind it; the log, which knows nothing of the producer, would take it.
    fixture.send((T0, batch(sequence=1)), (T1, batch(sequence=0)))
    answers = fixture.answer()
    assert (answers[T0].error, answers[T1].error) == (E.OUT_OF_ORDER_SEQUENCE_NUMBER, E.NONE)
    fixture.send((T0, batch(sequence=0)))
    assert fixture.answer()[T0].error == E.NONE
    fixture.opened(T0)
    fixture.send((T0, batch(sequence=1)))
    assert fixture.answer()[T0].error == E.NONE


@pytest.mark.parametrize("successor", [ProducerIdAndEpoch(1000, 8), ProducerIdAndEpoch(1001, 7)])
def test_sequences_of_others_say_nothing(successor: ProducerIdAndEpoch) -> None:
    fixture = TransactionalProduceFixture()
    fixture.verifier.errors = {T0: E.CONCURRENT_TRANSACTIONS}
    fixture.send((T0, batch(sequence=0)))
    fixture.verifier.errors = {}
    fixture.answer()
    fixture.send((T0, batch(successor, sequence=5)))
    assert fixture.answer()[T0].error == E.NONE


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce_transactional, "_REMEMBERED", 3)
    fixture = TransactionalProduceFixture()
    for number in range(9):
        fixture.send((T0, batch(ProducerIdAndEpoch(number, 0))))
    transactional: Any = fixture.broker.dispatcher.produce._transactional
    assert [producer for _, producer in transactional._lowest] == [6, 7, 8]


# trap: kafkalite/apis/produce_transactional.py: A marker arrives while a batch of its transaction is being verified.
def test_a_marker_that_comes_between_makes_it_verify_again() -> None:
    fixture = TransactionalProduceFixture()
    fixture.verifier.hold = True
    fixture.send((T0, batch()))
    fixture.ended(T0)  # the transaction was ended while ZooKeeper was asked about it
    fixture.verifier.release()
    assert not fixture.appended
    assert [ended for *_, ended in fixture.verifier.asked] == [[], [T0]]
    fixture.verifier.errors = {T0: E.TRANSACTION_ABORTABLE}
    fixture.verifier.release()
    assert not fixture.appended and fixture.answer()[T0].error == E.INVALID_TXN_STATE


def test_a_log_that_never_rests_is_left_to_the_producers_patience() -> None:
    fixture = TransactionalProduceFixture()
    fixture.verifier.hold = True
    fixture.send((T0, batch()))
    for _ in range(5):
        fixture.ended(T0)
        fixture.verifier.release()
    assert not fixture.appended and fixture.answer()[T0].error == E.NOT_ENOUGH_REPLICAS


def test_another_batch_that_came_between_opened_it() -> None:
    fixture = TransactionalProduceFixture()
    fixture.verifier.hold = True
    fixture.send((T0, batch()))
    fixture.opened(T0)
    fixture.verifier.release()
    assert len(fixture.verifier.asked) == 1 and len(fixture.appended) == 1


def test_a_failure_is_answered_and_does_not_stop_the_next() -> None:
    fixture = TransactionalProduceFixture()
    fixture.verifier.failure = ZeroDivisionError()
    fixture.send((T0, batch()))
    assert fixture.answer()[T0].error == E.UNKNOWN_SERVER_ERROR
    fixture.verifier.failure = None
    fixture.send((T0, batch()))
    assert fixture.answer()[T0].error == E.NONE


def test_replicas_that_fail_are_answered_for() -> None:
    fixture = TransactionalProduceFixture()
    fixture.broker.replicas.broken = True
    fixture.send((T0, batch()))
    assert fixture.answer()[T0].error == E.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("error", [E.NONE, E.PRODUCER_FENCED])
def test_acks_0_is_answered_by_nothing_or_the_end(error: ErrorCode) -> None:
    fixture = TransactionalProduceFixture()
    fixture.verifier.errors = {T0: error}
    fixture.send((T0, batch()), acks=0)
    connection = fixture.broker.connection
    assert bool(connection.closed) is (error is not E.NONE)
    assert connection.answers == ([] if error else [None])
