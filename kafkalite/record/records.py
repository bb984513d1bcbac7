"""Records of a magic-2 batch: read one by one, and written as a batch.

Answers to: ``org.apache.kafka.common.record.{DefaultRecord,DefaultRecordBatch,MemoryRecordsBuilder}``. Pure.

The broker's hot path never comes here; clients, conversion, compaction and the tools do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkalite.common.types import Buffer
from kafkalite.record.batch import BatchHeader


class Record(NamedTuple):
    """One record. ``timestamp`` in milliseconds (-1 none); header values may be null; ``sequence`` -1 without a producer."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    sequence: int = -1


def iter_records(buf: Buffer, header: BatchHeader, pos: int = 0) -> Iterator[Record]:
    """The records of the magic-2 batch at ``pos``, decompressed. Raises ``CorruptRecordError``."""
    raise NotImplementedError


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    codec: int = 0,
    timestamp_type: int = 0,
    log_append_time: int = -1,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """One magic-2 batch of ``records`` (at least one)."""
    raise NotImplementedError
