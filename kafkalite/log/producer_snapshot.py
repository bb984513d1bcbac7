"""The ``.snapshot`` file: producers of a partition as they stood at an offset.

Answers to: ``org.apache.kafka.storage.internals.log.ProducerStateManager``'s snapshot format, version 1. Pure.

Layout: version (2 bytes), CRC-32C of all that follows it (4), number of entries (4), entries of 46 bytes. Of a
producer's batches only the last is kept.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from kafkalite.log.producer_entry import BatchMetadata, ProducerEntry
from kafkalite.record.batch import CorruptRecordError, crc32c

_VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The file's bytes."""
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
