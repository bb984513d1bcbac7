"""Sequences of idempotent producers, step by step."""

from __future__ import annotations

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.record.records import Record
from kafkalite.testing.history.events import RecordId
from kafkalite.testing.simulation.clients.sequences import ProducerBatch, ProducerId, Sequences

E = ErrorCode
TP = TopicPartition("t", 0)
FIRST = ProducerId(7, 0)
RECORD = RecordId("p", 1), Record(-1, 0, None, b"")


def sequences(transactional: bool = False) -> Sequences:
    found = Sequences(transactional)
    found.begin(FIRST)
    return found


def sent(found: Sequences, *sizes: int) -> list[ProducerBatch]:
    """Batches of these sizes, in flight."""
    batches = [ProducerBatch(TP, 0.0, records=[RECORD] * size) for size in sizes]
    for batch in batches:
        assert found.may_send(batch)
        found.assign(batch)
        batch.attempts = 1
    return batches


def numbers(batches: list[ProducerBatch]) -> list[tuple[int, int]]:
    return [(batch.producer.epoch, batch.sequence) for batch in batches]


def test_sequences_follow_one_another_and_a_retry_keeps_its_own() -> None:
    found = sequences()
    batches = sent(found, 3, 2, 1)
    assert numbers(batches) == [(0, 0), (0, 3), (0, 5)]
    found.assign(batches[1])
    assert numbers(batches) == [(0, 0), (0, 3), (0, 5)]


def test_a_retry_waits_for_those_before_it() -> None:
    found = sequences()
    first, second = sent(found, 3, 2)
    assert found.may_send(first)
    assert not found.may_send(second)
    found.acknowledged(first, 2)
    assert found.may_send(second)


def test_after_one_that_was_given_up_nothing_new_is_sent_until_that_is_resolved() -> None:
    found = sequences()
    first, second = sent(found, 3, 2)
    first.maybe_written = True
    found.failed(first, None, adjust=False)
    new = ProducerBatch(TP, 0.0, records=[RECORD])
    assert not found.may_send(new)
    assert found.may_send(second)
    # The batch was written, because the next one was accepted.
    found.acknowledged(second, 4)
    assert found.resolve()
    assert found.may_send(new)
    assert not found.bump_required


def test_after_all_were_given_up_a_new_epoch_begins() -> None:
    found = sequences()
    for batch in sent(found, 3, 2):
        found.failed(batch, None, adjust=False)
    assert found.resolve()
    assert found.bump_required
    assert found.bump() == []
    assert numbers(sent(found, 4)) == [(1, 0)]


def test_a_transactional_producer_must_abort_instead() -> None:
    found = sequences(transactional=True)
    for batch in sent(found, 3):
        found.failed(batch, None, adjust=False)
    assert not found.resolve()
    assert not found.bump_required


def test_batches_after_a_refused_one_are_renumbered_in_a_new_epoch() -> None:
    found = sequences()
    first, second, third = sent(found, 3, 2, 1)
    found.failed(first, E.INVALID_RECORD, adjust=True)
    second.on_wire = True
    assert found.bump() == []
    assert found.bump_required, "the answer of one on the wire is awaited"
    second.on_wire = False
    assert found.bump() == []
    assert numbers([second, third]) == [(1, 0), (1, 2)]
    assert second.renumbered


def test_a_batch_that_may_have_been_written_is_given_up_and_not_renumbered() -> None:
    found = sequences()
    first, second, third = sent(found, 3, 2, 1)
    second.maybe_written = True
    found.failed(first, E.INVALID_RECORD, adjust=True)
    assert found.bump() == [second]
    assert numbers([third]) == [(1, 0)]


def test_other_partitions_take_the_new_epoch_when_nothing_is_in_flight_there() -> None:
    found = sequences()
    (batch,) = sent(found, 3)
    other = ProducerBatch(TopicPartition("t", 1), 0.0, records=[RECORD])
    found.assign(other)
    found.failed(batch, E.INVALID_RECORD, adjust=True)
    found.bump()
    new = ProducerBatch(other.partition, 0.0, records=[RECORD])
    assert not found.may_send(new)
    found.acknowledged(other, 0)
    assert found.may_send(new)
    found.assign(new)
    assert numbers([new]) == [(1, 0)]


@pytest.mark.parametrize("transactional", [False, True])
def test_out_of_order_behind_another_is_sent_again(transactional: bool) -> None:
    found = sequences(transactional)
    _, second = sent(found, 3, 2)
    assert found.may_retry(second, E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1) is True
    assert not found.bump_required


@pytest.mark.parametrize(("transactional", "retry"), [(False, True), (True, None)])
def test_out_of_order_as_the_next_is_a_gap(transactional: bool, retry: bool | None) -> None:
    found = sequences(transactional)
    first, second = sent(found, 3, 2)
    found.acknowledged(first, 2)
    assert found.may_retry(second, E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1) is retry
    assert found.bump_required is not transactional


@pytest.mark.parametrize(
    ("transactional", "log_start", "retry", "bumps"),
    [
        (False, -1, False, False),
        (False, 0, True, True),
        (True, 0, None, False),
        # The last acknowledged record was deleted, and the producer's state with it.
        (True, 10, True, False),
    ],
)
def test_an_unknown_producer(transactional: bool, log_start: int, retry: bool | None, bumps: bool) -> None:
    found = sequences(transactional)
    first, second = sent(found, 3, 2)
    found.acknowledged(first, 2)
    assert found.may_retry(second, E.UNKNOWN_PRODUCER_ID, log_start) is retry
    assert found.bump_required is bumps
