"""Batches of transactions: each is verified to belong to one that is open, unless the log knows that already.

Answers to: ``kafka.server.ReplicaManager.{handleProduceAppend,maybeStartTransactionVerificationForPartitions}``.
Reactor shell.

A producer pipelines its requests: while one waits for ZooKeeper, those behind it wait with it, or they would reach the
log out of order.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kafkalite.apis.services import BrokerServices
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import spawn
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch
from kafkalite.log.producer_entry import ProducerEntry
from kafkalite.record.batch import (
    ATTRIBUTES_POSITION,
    PRODUCER_POSITION,
    SEQUENCE_POSITION,
    TRANSACTIONAL_MASK,
)

log = logging.getLogger(__name__)

_PRODUCER: Final = struct.Struct(">qh")
_SEQUENCE: Final = struct.Struct(">i")
_REMEMBERED: Final = 10_000
_ATTEMPTS: Final = 5
_ABORTABLE_FROM: Final = 11
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

Refusals = dict[TopicPartition, tuple[ErrorCode, str | None]]
Entries = Sequence[tuple[TopicPartition, memoryview]]
Then = Callable[[Refusals], object]


def producer_of(entries: Entries) -> ProducerIdAndEpoch | None:
    """The one producer whose transactional batches these are; ``None`` where there are several."""
    producers = {
        _PRODUCER.unpack_from(records, PRODUCER_POSITION)
        for _, records in entries
        if records[ATTRIBUTES_POSITION] & TRANSACTIONAL_MASK
    }
    return ProducerIdAndEpoch(*producers.pop()) if len(producers) == 1 else None


class TransactionalProduce:
    """Calls back with what is refused, at once or later, but in order; the rest is to be appended in that very call."""

    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._busy: dict[int, deque[_Job]] = {}
        self._lowest: dict[tuple[TopicPartition, int], tuple[int, int]] = {}

    def verify(
        self, version: int, transactional_id: str, producer: ProducerIdAndEpoch, entries: Entries, then: Then
    ) -> None:
        """``entries`` of a request of ``version``; ``then`` must not raise."""
        named: dict[TopicPartition, int] = {
            tp: _SEQUENCE.unpack_from(records, SEQUENCE_POSITION)[0]
            for tp, records in entries
            if records[ATTRIBUTES_POSITION] & TRANSACTIONAL_MASK
        }
        job = _Job(version, transactional_id, producer, named, then)
        waiting = self._busy.get(producer.producer_id)
        if waiting is not None:
            waiting.append(job)
        elif not self._unverified(job):
            then({})
        else:
            self._busy[producer.producer_id] = deque((job,))
            spawn(self._work_off(producer.producer_id), "verifying transactions")

    async def _work_off(self, producer_id: int) -> None:
        waiting = self._busy[producer_id]
        while waiting:
            job = waiting[0]
            try:
                refused = await self._verified(job)
            except Exception:
                log.exception("%s could not be verified", job.transactional_id)
                refused = dict.fromkeys(job.partitions, (ErrorCode.UNKNOWN_SERVER_ERROR, None))
            job.then(refused)
            waiting.popleft()
        del self._busy[producer_id]

    async def _verified(self, job: _Job) -> Refusals:
        refused = self._out_of_order(job)
        for _ in range(_ATTEMPTS):
            before = self._unverified(job)
            for tp in refused:
                before.pop(tp, None)
            if not before:
                return refused
            epoch = job.producer.producer_epoch
            ended = [tp for tp, entry in before.items() if entry is not None and entry.producer_epoch == epoch]
            errors = await self._services.transactions.verifier.verify(
                job.transactional_id, job.producer, list(before), ended
            )
            refused.update({tp: _error_for(error, job.version) for tp, error in errors.items() if error})
            if all(self._entry(tp, job.producer) is entry for tp, entry in before.items()):
                return refused
            # The log has had a batch or a marker of this producer meanwhile: what was verified may be over.
        unsure = _error_for(ErrorCode.CONCURRENT_TRANSACTIONS, job.version)
        return {**dict.fromkeys(self._unverified(job), unsure), **refused}

    def _out_of_order(self, job: _Job) -> Refusals:
        """Batches behind one that was refused and will come again: a log that knows nothing of the producer takes any.

        Kafka's ``VerificationStateEntry`` remembers the lowest sequence for the same reason.
        """
        refused: Refusals = {}
        epoch = job.producer.producer_epoch
        for tp, sequence in job.partitions.items():
            key = tp, job.producer.producer_id
            known = self._lowest.pop(key, None)
            if self._entry(tp, job.producer) is not None:
                continue
            if known is not None and known[0] == epoch and known[1] < sequence:
                refused[tp] = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"sequence {known[1]} comes first"
                sequence = known[1]
            if len(self._lowest) >= _REMEMBERED:
                del self._lowest[next(iter(self._lowest))]
            self._lowest[key] = epoch, sequence
        return refused

    def _unverified(self, job: _Job) -> dict[TopicPartition, ProducerEntry | None]:
        """Partitions in whose logs the producer has no transaction open, with what those know of it."""
        if not self._services.transactions.verifier.is_enabled:
            return {}
        partitions = self._services.replicas.partitions
        found = {tp: self._entry(tp, job.producer) for tp in job.partitions if tp in partitions}
        return {
            tp: entry
            for tp, entry in found.items()
            if entry is None
            or entry.producer_epoch != job.producer.producer_epoch
            or entry.current_txn_first_offset < 0
        }

    def _entry(self, tp: TopicPartition, producer: ProducerIdAndEpoch) -> ProducerEntry | None:
        # Every batch or marker of a transaction gives the log a new entry: the same one means that nothing happened.
        partition = self._services.replicas.partitions.get(tp)
        return None if partition is None else partition.log.producer_state.entries.get(producer.producer_id)


@dataclass(slots=True, eq=False)
class _Job:
    """One request's partitions, with the sequence number that each begins with."""

    version: int
    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: dict[TopicPartition, int]
    then: Then


def _error_for(error: ErrorCode, version: int) -> tuple[ErrorCode, str | None]:
    """``error`` as a producer understands it."""
    if error in _RETRIABLE:
        # Older clients do not try again after these; after this one they do, and without asking for metadata first.
        return (
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}",
        )
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH, None
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction"
    return error, None
