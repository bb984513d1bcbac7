"""The transitions of a transactional id: metadata and a request in, the metadata to write and the error out.

Answers to: ``kafka.coordinator.transaction.TransactionCoordinator`` (``prepareInitProducerIdTransit``,
``handleAddPartitionsToTransaction``, ``endTransaction``) and ``TransactionMetadata.prepare…``. Pure.

The checks come in Kafka's order, so that a request with two errors gets the same answer as from Kafka.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.transaction.states import AT_REST, DECIDED, transition
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch
from kafkalite.zk.znodes.offsets import TxnProducer
from kafkalite.zk.znodes.transactions import NO_PRODUCER_EPOCH, NO_TIMEOUT, TransactionMetadata, TransactionState

_MAX_EPOCH: Final = (1 << 15) - 1
_S = TransactionState


@dataclass(frozen=True, slots=True)
class Transition:
    """Make ``write`` durable (``None``: nothing to write), then answer the client ``error``."""

    error: ErrorCode = ErrorCode.NONE
    write: TransactionMetadata | None = None


def is_exhausted(producer_epoch: int) -> bool:
    """Whether the next InitProducerId needs a new producer id, because the last epoch is reserved for fencing."""
    return producer_epoch >= _MAX_EPOCH - 1


def timeout_is_legal(timeout_ms: int, max_timeout_ms: int, two_phase: bool) -> bool:
    """Whether a producer may ask for ``timeout_ms``; ``two_phase``: NO_TIMEOUT is legal, too."""
    return 0 < timeout_ms <= max_timeout_ms or (two_phase and timeout_ms == NO_TIMEOUT)


def begin_id(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> TransactionMetadata:
    """The metadata of an unused transactional id, as input of :func:`init_producer_id`. Do not write it as it is."""
    return TransactionMetadata(transactional_id, producer_id, timeout_ms=timeout_ms, update_ms=now_ms)


# InitProducerId


def wants_producer_id(metadata: TransactionMetadata, expected: ProducerIdAndEpoch | None) -> bool:
    """Whether :func:`init_producer_id` will need a new producer id."""
    return (
        metadata.state in AT_REST
        and is_exhausted(metadata.producer_epoch)
        and (expected is None or expected.producer_epoch == metadata.producer_epoch)
    )


def init_producer_id(
    metadata: TransactionMetadata,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    new_producer_id: int,
    now_ms: int,
) -> Transition:
    """Give the caller the id with the next epoch, or with ``new_producer_id`` if the epochs are exhausted.

    ``expected``: the id and epoch of a producer that continues after an error (KIP-360). An open transaction is aborted
    first, under an epoch that no producer gets, and the client retries.
    """
    if expected is not None and not _may_go_on(metadata, expected):
        return Transition(ErrorCode.PRODUCER_FENCED)
    if metadata.state in DECIDED:
        return Transition(ErrorCode.CONCURRENT_TRANSACTIONS)
    if metadata.state is _S.ONGOING:
        return Transition(ErrorCode.CONCURRENT_TRANSACTIONS, fence(metadata, now_ms))
    if wants_producer_id(metadata, expected):
        last = NO_PRODUCER_EPOCH if expected is None else metadata.producer_epoch
        return _initialised(metadata, new_producer_id, 0, last, timeout_ms, now_ms)
    producer_id, epoch = metadata.producer_id, metadata.producer_epoch
    if expected is None:
        return _initialised(metadata, producer_id, epoch + 1, NO_PRODUCER_EPOCH, timeout_ms, now_ms)
    if epoch in (NO_PRODUCER_EPOCH, expected.producer_epoch):
        return _initialised(metadata, producer_id, epoch + 1, epoch, timeout_ms, now_ms)
    if expected.producer_epoch == metadata.last_producer_epoch:
        # The producer was given its next epoch by an earlier request, whose answer was lost.
        return Transition(
            write=transition(
                metadata,
                _S.EMPTY,
                timeout_ms=timeout_ms,
                partitions=frozenset(),
                groups=frozenset(),
                start_ms=-1,
                update_ms=now_ms,
            )
        )
    return Transition(ErrorCode.PRODUCER_FENCED)


def _may_go_on(metadata: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    return (
        metadata.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == metadata.producer_id
        or (expected.producer_id == metadata.last_producer_id and is_exhausted(expected.producer_epoch))
    )


def _initialised(
    metadata: TransactionMetadata, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
) -> Transition:
    return Transition(
        write=transition(
            metadata,
            _S.EMPTY,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_id=metadata.producer_id if metadata.producer_epoch != NO_PRODUCER_EPOCH else -1,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            groups=frozenset(),
            start_ms=-1,
            update_ms=now_ms,
        )
    )


# Requests of a producer in a transaction


def _check(metadata: TransactionMetadata, producer: ProducerIdAndEpoch) -> ErrorCode:
    if metadata.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if metadata.producer_epoch != producer.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def add(
    metadata: TransactionMetadata,
    producer: ProducerIdAndEpoch,
    partitions: Collection[TopicPartition],
    groups: Collection[str],
    now_ms: int,
) -> Transition:
    """Add ``partitions`` and the offsets of ``groups`` to the transaction; the first ones begin it."""
    error = _check(metadata, producer)
    if error is not ErrorCode.NONE:
        return Transition(error)
    if metadata.state in DECIDED:
        return Transition(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_open = metadata.state is _S.ONGOING
    if is_open and metadata.partitions.issuperset(partitions) and metadata.groups.issuperset(groups):
        return Transition()
    return Transition(
        write=transition(
            metadata,
            _S.ONGOING,
            partitions=metadata.partitions.union(partitions),
            groups=metadata.groups.union(groups),
            start_ms=metadata.start_ms if is_open else now_ms,
            update_ms=now_ms,
        )
    )


def verify(
    metadata: TransactionMetadata, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """NONE for each partition in the open transaction, TRANSACTION_ABORTABLE for each other one (KIP-890)."""
    error = _check(metadata, producer)
    if error is ErrorCode.NONE and metadata.state in DECIDED:
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    if error is not ErrorCode.NONE:
        return dict.fromkeys(partitions, error)
    # The set of partitions is empty once the transaction has ended, as in Kafka.
    return {tp: ErrorCode.NONE if tp in metadata.partitions else ErrorCode.TRANSACTION_ABORTABLE for tp in partitions}


def end(metadata: TransactionMetadata, producer: ProducerIdAndEpoch, commit: bool, now_ms: int) -> Transition:
    """Commit or abort the transaction; a repeated request is answered with its progress."""
    error = _check(metadata, producer)
    if error is not ErrorCode.NONE:
        return Transition(error)
    prepared, completed = _ends(commit)
    if metadata.state is _S.ONGOING:
        return Transition(write=transition(metadata, prepared, update_ms=now_ms))
    if metadata.state is completed:
        return Transition()
    if metadata.state is prepared:
        return Transition(ErrorCode.CONCURRENT_TRANSACTIONS)
    return Transition(ErrorCode.INVALID_TXN_STATE)


def _ends(commit: bool) -> tuple[TransactionState, TransactionState]:
    return (_S.PREPARE_COMMIT, _S.COMPLETE_COMMIT) if commit else (_S.PREPARE_ABORT, _S.COMPLETE_ABORT)


# Transitions that the coordinator starts


def fence(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """The open transaction, aborted under a greater epoch, so that all leaders refuse its producer."""
    epoch = min(metadata.producer_epoch + 1, _MAX_EPOCH)
    # Keep the former epoch, because offsets may be staged under it until they are discarded.
    fencing = transition(
        metadata, _S.PREPARE_EPOCH_FENCE, producer_epoch=epoch, last_producer_epoch=metadata.producer_epoch
    )
    return transition(fencing, _S.PREPARE_ABORT, update_ms=now_ms)


def complete(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """The decided transaction, complete: offsets and markers are written."""
    aborted = metadata.state is _S.PREPARE_ABORT
    return transition(
        metadata,
        _S.COMPLETE_ABORT if aborted else _S.COMPLETE_COMMIT,
        # After a fence no producer may continue from the fenced epoch.
        last_producer_epoch=NO_PRODUCER_EPOCH if aborted else metadata.last_producer_epoch,
        partitions=frozenset(),
        groups=frozenset(),
        update_ms=now_ms,
    )


def stagers(metadata: TransactionMetadata) -> list[TxnProducer]:
    """The producers under which its offsets may be staged: the current epoch and, after a fence, the former one."""
    producer = TxnProducer(metadata.transactional_id, metadata.producer_id, metadata.producer_epoch)
    was_fenced = 0 <= metadata.last_producer_epoch == metadata.producer_epoch - 1
    if metadata.state is not _S.PREPARE_ABORT or not was_fenced:
        return [producer]
    return [producer, replace(producer, producer_epoch=metadata.last_producer_epoch)]


def has_timed_out(metadata: TransactionMetadata, now_ms: int) -> bool:
    """Whether the transaction has been open for longer than its producer allowed."""
    return metadata.state is _S.ONGOING and not metadata.two_phase and metadata.start_ms + metadata.timeout_ms < now_ms


def has_expired(metadata: TransactionMetadata, expiration_ms: int, now_ms: int) -> bool:
    """Whether the transactional id has been idle for ``expiration_ms``."""
    return metadata.state in AT_REST and metadata.update_ms + expiration_ms <= now_ms


def bury(metadata: TransactionMetadata) -> TransactionMetadata:
    """The id, dead, while its znode is being removed."""
    return transition(metadata, _S.DEAD)
