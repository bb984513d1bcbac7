"""What a partition knows of one producer, the checks that a batch of it has to pass, and the ``.snapshot`` file.

Answers to: ``org.apache.kafka.storage.internals.log.{ProducerStateEntry,ProducerAppendInfo,BatchMetadata}`` and
``org.apache.kafka.storage.internals.log.ProducerStateManager``'s snapshot format, version 1. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.record.batch import MAX_SEQUENCE, NO_SEQUENCE, BatchHeader, CorruptRecordError, crc32c

NO_EPOCH = -1
BATCHES_KEPT = 5
"""How many batches a producer may have in flight and still be recognised."""
_VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


def is_later(sequence: int, other: int) -> bool:
    """Whether ``sequence`` comes after ``other`` (-1: before the first), across the wrap at 2^31."""
    return 0 < (sequence - other) & MAX_SEQUENCE <= MAX_SEQUENCE >> 1


class BatchMetadata(NamedTuple):
    """One batch that was appended: last sequence, last offset, how many offsets before it the first is, timestamp."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """The first sequence, across the wrap at 2^31."""
        first = self.last_sequence - self.offset_delta
        return first if first >= 0 else first + MAX_SEQUENCE + 1

    @property
    def first_offset(self) -> int:
        """The offset of the batch's first record."""
        return self.last_offset - self.offset_delta


class StartedTxn(NamedTuple):
    """A transaction whose first batch in the partition was appended."""

    producer_id: int
    first_offset: int


class CompletedTxn(NamedTuple):
    """A transaction that a marker has ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class EndTxnMarker(NamedTuple):
    """What a control batch says."""

    commit: bool
    coordinator_epoch: int


class ProducerEntry:
    """The last batches of one producer in one partition, and its open transaction."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, producer_id: int, producer_epoch: int = NO_EPOCH) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.batches: list[BatchMetadata] = []
        self.coordinator_epoch = -1
        self.current_txn_first_offset = -1
        self.last_timestamp = -1

    def copy(self) -> ProducerEntry:
        """An entry that can be changed without this one."""
        entry = ProducerEntry(self.producer_id, self.producer_epoch)
        entry.batches = list(self.batches)
        entry.coordinator_epoch = self.coordinator_epoch
        entry.current_txn_first_offset = self.current_txn_first_offset
        entry.last_timestamp = self.last_timestamp
        return entry

    @property
    def last_sequence(self) -> int:
        """The last sequence, -1 without one."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """The last data offset, -1 without one."""
        return self.batches[-1].last_offset if self.batches else -1

    def is_next(self, sequence: int) -> bool:
        """Whether ``sequence`` follows the last one."""
        batches = self.batches
        last = batches[-1].last_sequence if batches else NO_SEQUENCE
        return sequence == (last + 1 if last != MAX_SEQUENCE else 0)

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """The remembered batch that ``header`` repeats."""
        if header.producer_epoch != self.producer_epoch:
            return None
        last = header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last and batch.first_sequence == header.base_sequence:
                return batch
        return None

    def check_epoch(self, header: BatchHeader) -> None:
        """Raises INVALID_PRODUCER_EPOCH for a producer that a newer one has fenced."""
        if header.producer_epoch < self.producer_epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {self.producer_id} sent epoch {header.producer_epoch}, but {self.producer_epoch} is current",
            )

    def check_sequence(self, header: BatchHeader) -> None:
        """Raises OUT_OF_ORDER_SEQUENCE_NUMBER where batches of the producer are missing before this one."""
        if header.producer_epoch != self.producer_epoch:
            # A new epoch begins with sequence 0; a producer that is not known may begin with any sequence.
            if header.base_sequence == 0 or self.producer_epoch == NO_EPOCH:
                return
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {self.producer_id} starts epoch {header.producer_epoch} with sequence "
                f"{header.base_sequence} instead of 0 (current epoch {self.producer_epoch})",
            )
        last = self.last_sequence
        expected = last + 1 if last != MAX_SEQUENCE else 0
        if header.base_sequence != expected:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {self.producer_id} sent sequence {header.base_sequence} where {expected} is next",
            )

    def append_data(self, header: BatchHeader) -> bool:
        """Take note of a data batch; returns whether it starts a transaction.

        Raises INVALID_TXN_STATE for a batch outside the transaction that is open.
        """
        if header.producer_epoch != self.producer_epoch:
            self.producer_epoch = header.producer_epoch
            self.batches.clear()
        delta = header.last_offset_delta
        last_offset = header.base_offset + delta
        batches = self.batches
        batches.append(BatchMetadata(header.last_sequence, last_offset, delta, header.max_timestamp))
        if len(batches) > BATCHES_KEPT:
            del batches[0]
        self.last_timestamp = header.max_timestamp
        if header.is_transactional:
            if self.current_txn_first_offset < 0:
                self.current_txn_first_offset = header.base_offset
                return True
        elif self.current_txn_first_offset >= 0:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {self.producer_id} sent a batch outside the transaction that it has open",
            )
        return False

    def append_marker(self, header: BatchHeader, marker: EndTxnMarker) -> CompletedTxn | None:
        """Take note of the end of a transaction; ``None`` where none was open."""
        if header.producer_epoch != self.producer_epoch:
            self.producer_epoch = header.producer_epoch
            self.batches.clear()
        self.coordinator_epoch = marker.coordinator_epoch
        self.last_timestamp = header.max_timestamp
        first = self.current_txn_first_offset
        self.current_txn_first_offset = -1
        if first < 0:
            return None
        return CompletedTxn(self.producer_id, first, header.base_offset, not marker.commit)


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The bytes of a ``.snapshot`` file.

    Layout: version (2 bytes), CRC-32C of all that follows it (4), number of entries (4), entries of 46 bytes. Of a
    producer's batches only the last is kept.
    """
    body = bytearray(_COUNT.size)
    count = 0
    for entry in entries:
        last = entry.batches[-1] if entry.batches else BatchMetadata(-1, -1, 0, -1)
        body += _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
        count += 1
    _COUNT.pack_into(body, 0, count)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The producers in a file's bytes. Raises :class:`CorruptRecordError`."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptRecordError("producer snapshot is cut short")
    version, crc = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if version != _VERSION:
        raise CorruptRecordError(f"producer snapshot has version {version}")
    if crc32c(body) != crc:
        raise CorruptRecordError("producer snapshot has a wrong CRC")
    count = _COUNT.unpack_from(body)[0]
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptRecordError(f"producer snapshot of {count} entries has {len(body)} bytes")
    entries = []
    for fields in _ENTRY.iter_unpack(body[_COUNT.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_first = fields
        entry = ProducerEntry(producer_id, epoch)
        if offset >= 0:
            entry.batches.append(BatchMetadata(sequence, offset, delta, timestamp))
        entry.last_timestamp = timestamp
        entry.coordinator_epoch = coordinator_epoch
        entry.current_txn_first_offset = txn_first
        entries.append(entry)
    return entries
