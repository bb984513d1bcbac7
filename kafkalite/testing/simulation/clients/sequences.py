"""Sequence numbers of an idempotent producer: assigned, kept by retries, resolved after losses, restarted.

Answers to: ``org.apache.kafka.clients.producer.internals.{TxnPartitionMap,TxnPartitionEntry}`` and the part of
``TransactionManager`` that keeps sequences. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.record.records import Record
from kafkalite.testing.history.events import RecordId

NONE = -1


class ProducerId(NamedTuple):
    """Producer id and epoch of InitProducerId."""

    id: int
    epoch: int


NO_PRODUCER_ID = ProducerId(NONE, NONE)


@dataclass(eq=False, slots=True)
class ProducerBatch:
    """A batch of records for one partition."""

    partition: TopicPartition
    created: float
    transaction: int = NONE
    records: list[tuple[RecordId, Record]] = field(default_factory=list)
    attempts: int = 0
    not_before: float = 0.0
    sequence: int = NONE
    """Sequence of the first record; -1 until the batch is sent for the first time."""
    producer: ProducerId = NO_PRODUCER_ID
    renumbered: bool = False
    """Whether it got a new sequence after it had been sent."""
    on_wire: bool = False
    maybe_written: bool = False
    """Whether an attempt may have been written to a log."""
    done: bool = False
    data: memoryview | None = None

    @property
    def next_sequence(self) -> int:
        """The sequence after its last record's."""
        return self.sequence + len(self.records)


@dataclass(slots=True)
class _Entry:
    producer: ProducerId
    next_sequence: int = 0
    last_acked: int = NONE
    last_acked_offset: int = NONE
    in_flight: list[ProducerBatch] = field(default_factory=list)
    """Outstanding batches with a sequence, retried ones included; ascending."""
    unresolved: int = NONE
    """The next sequence if a batch that was given up after it was sent has been written; -1: there is no such batch."""


class Sequences:
    """The sequences of all partitions. ``transactional`` producers get a new epoch from their coordinator."""

    def __init__(self, transactional: bool) -> None:
        self.producer = NO_PRODUCER_ID
        self.transactional = transactional
        self._entries: dict[TopicPartition, _Entry] = {}
        self._to_rewrite: dict[TopicPartition, None] = {}

    @property
    def bump_required(self) -> bool:
        """Whether partitions wait for a new epoch."""
        return bool(self._to_rewrite)

    def begin(self, producer: ProducerId) -> None:
        """Start all sequences again with a producer id and epoch of InitProducerId."""
        self.producer = producer
        self._entries.clear()
        self._to_rewrite.clear()

    def _entry(self, partition: TopicPartition) -> _Entry:
        entry = self._entries.get(partition)
        if entry is None:
            entry = self._entries[partition] = _Entry(self.producer)
        return entry

    # Sending

    def may_send(self, batch: ProducerBatch) -> bool:
        """Whether ``batch``, the first that waits for its partition, may be sent now."""
        entry = self._entry(batch.partition)
        if batch.partition in self._to_rewrite:
            return False
        if batch.sequence != NONE:
            # A repeated batch waits until all batches before it are done.
            return entry.in_flight[0] is batch
        if entry.unresolved != NONE:
            return False
        return entry.producer == self.producer or not entry.in_flight

    def assign(self, batch: ProducerBatch) -> None:
        """Give ``batch`` its sequence, if it has none."""
        if batch.sequence != NONE:
            return
        entry = self._entry(batch.partition)
        if entry.producer != self.producer:
            self._restart(entry)
        batch.producer, batch.sequence = entry.producer, entry.next_sequence
        entry.next_sequence += len(batch.records)
        entry.in_flight.append(batch)

    # Outcomes

    def acknowledged(self, batch: ProducerBatch, offset: int) -> None:
        """``batch`` was written; ``offset`` is its last record's, -1 if unknown."""
        entry = self._entry(batch.partition)
        _remove(entry, batch)
        if batch.producer == entry.producer:
            entry.last_acked = max(entry.last_acked, batch.next_sequence - 1)
        entry.last_acked_offset = max(entry.last_acked_offset, offset)

    def may_retry(self, batch: ProducerBatch, code: ErrorCode, log_start_offset: int) -> bool | None:
        """Whether to send ``batch`` again after UNKNOWN_PRODUCER_ID or OUT_OF_ORDER_SEQUENCE_NUMBER; ``None``: the
        error alone decides. May ask for a new epoch."""
        entry = self._entry(batch.partition)
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            if log_start_offset == NONE:
                return False
            if batch.renumbered:
                return True
            if not self.transactional:
                self.require_bump(batch)
                return True
            if entry.last_acked_offset < log_start_offset:
                self._restart(entry)
                return True
            return None
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            is_next = self._is_next(entry, batch.sequence)
            if entry.unresolved == NONE and (batch.renumbered or not is_next):
                return True
            if not self.transactional:
                if entry.unresolved in (NONE, batch.sequence):
                    self.require_bump(batch)
                return True
        return None

    def failed(self, batch: ProducerBatch, code: ErrorCode | None, *, adjust: bool) -> None:
        """``batch`` was given up; ``code`` is ``None`` after the delivery timeout. ``adjust``: it was certainly not
        written, so that its sequences are free again."""
        entry = self._entry(batch.partition)
        _remove(entry, batch)
        if batch.sequence == NONE or batch.producer != entry.producer or batch.partition in self._to_rewrite:
            return
        if code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID) or (
            adjust and not self.transactional
        ):
            if not self.transactional:
                self.require_bump(batch)
        elif not adjust:
            entry.unresolved = max(entry.unresolved, batch.next_sequence)

    def require_bump(self, batch: ProducerBatch) -> None:
        """The sequences of this partition have a gap, and must start again in a new epoch."""
        if batch.producer == self._entry(batch.partition).producer:
            self._to_rewrite[batch.partition] = None

    def resolve(self) -> bool:
        """Settle the partitions where a batch was given up and no other is outstanding. Returns ``False`` if a
        transactional producer must abort."""
        for partition, entry in self._entries.items():
            if entry.unresolved == NONE or entry.in_flight:
                continue
            if self._is_next(entry, entry.next_sequence):
                entry.unresolved = NONE
            elif self.transactional:
                entry.unresolved = NONE
                return False
            else:
                self._to_rewrite[partition] = None
        return True

    def bump(self) -> list[ProducerBatch]:
        """Start the next epoch, once none of the partitions that wait for it has a batch on the wire.

        Their outstanding batches get the first sequences of the epoch. Batches that may have been written are returned
        instead, and the caller gives them up, because another sequence may write them twice.
        """
        if not self._to_rewrite or any(
            batch.on_wire for partition in self._to_rewrite for batch in self._entries[partition].in_flight
        ):
            return []
        given_up: list[ProducerBatch] = []
        self.producer = ProducerId(self.producer.id, self.producer.epoch + 1)
        for partition in self._to_rewrite:
            entry = self._entries[partition]
            given_up += [batch for batch in entry.in_flight if batch.maybe_written]
            entry.in_flight = [batch for batch in entry.in_flight if not batch.maybe_written]
            self._restart(entry)
        self._to_rewrite.clear()
        return given_up

    def _restart(self, entry: _Entry) -> None:
        sequence = 0
        for batch in entry.in_flight:
            batch.producer, batch.sequence, batch.renumbered, batch.data = self.producer, sequence, True, None
            sequence += len(batch.records)
        entry.producer, entry.next_sequence = self.producer, sequence
        entry.last_acked = entry.unresolved = NONE

    @staticmethod
    def _is_next(entry: _Entry, sequence: int) -> bool:
        return sequence - entry.last_acked == 1


def _remove(entry: _Entry, batch: ProducerBatch) -> None:
    if batch in entry.in_flight:
        entry.in_flight.remove(batch)
