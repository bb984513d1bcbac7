"""Record batches as headers over the caller's bytes: magic 2, and magic 0/1 messages in the same form.

Answers to: ``org.apache.kafka.common.record.{DefaultRecordBatch,ByteBufferLogInputStream}``. Pure.

Nothing here copies or walks records. A batch stays in its buffer; offset and leader epoch, the two fields that a broker
fills in, lie outside its CRC and are patched in place.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import crc32c as _crc32c

from kafkalite.common.types import Buffer

LOG_OVERHEAD = 12
"""Bytes before those that a batch's length counts: base offset and length."""
HEADER_SIZE = 61
"""Bytes of a magic-2 header; the records follow."""
CRC_POSITION = 17
CRC_START = 21
"""First byte (the attributes) that the CRC of a magic-2 batch covers."""
MAGIC_POSITION = 16
ATTRIBUTES_POSITION = 22
"""The low byte of a magic-2 batch's attributes; the high one is not used."""
PRODUCER_POSITION = 43
"""Producer id and producer epoch of a magic-2 batch."""
SEQUENCE_POSITION = 53
"""Base sequence of a magic-2 batch."""
LEGACY_CRC_START = 16
LEGACY_MIN_SIZE = (LOG_OVERHEAD + 14, LOG_OVERHEAD + 22)
"""Smallest message of magic 0 and 1, including offset and length."""

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40

LOG_APPEND_TIME = 1

HEADER = struct.Struct(">qiiBIhiqqqhii")
_LEGACY_HEADER = struct.Struct(">qiIBB")
_OFFSET_AND_SIZE = struct.Struct(">qi")
_INT64 = struct.Struct(">q")
MAX_SEQUENCE = 0x7FFFFFFF

crc32c = _crc32c.crc32c
"""CRC-32C (Castagnoli) of a buffer, by the processor's own instruction if it has one."""


class CorruptRecordError(Exception):
    """Malformed bytes. The one exception for bad bytes."""


class ChecksumError(CorruptRecordError):
    """Bytes whose CRC is wrong."""


class BatchHeader:
    """The header of a batch. Of a magic 0/1 message: the same fields, as far as that format has them.

    ``size`` is the whole batch in bytes, offset and length included; timestamps are milliseconds, -1 for none.
    A compressed magic 0/1 wrapper appears as one message at the offset of its last inner message.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size",
    )

    def __init__(
        self,
        base_offset: int,
        batch_length: int,
        leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        record_count: int,
    ) -> None:
        self.base_offset = base_offset
        self.size = batch_length + LOG_OVERHEAD
        self.leader_epoch = leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.record_count = record_count

    @property
    def last_offset(self) -> int:
        """Offset of the last record (kept by compaction even if that record is gone)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset that follows the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; -1 without one. Wraps to 0 after 2^31 - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        last = self.base_sequence + self.last_offset_delta
        return last if last <= MAX_SEQUENCE else last - MAX_SEQUENCE - 1

    @property
    def compression(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd (5 to 7 are undefined)."""
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> int:
        """0 CreateTime, 1 LogAppendTime."""
        return (self.attributes & TIMESTAMP_TYPE_MASK) >> 3

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction."""
        return self.attributes & TRANSACTIONAL_MASK != 0

    @property
    def is_control(self) -> bool:
        """A broker's marker (commit, abort), never given to applications."""
        return self.attributes & CONTROL_MASK != 0

    @property
    def has_producer_id(self) -> bool:
        """Sent by an idempotent or transactional producer."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the batch's tombstones may be compacted away (stored in place of the base timestamp)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_MASK else None

    def __repr__(self) -> str:
        return (
            f"BatchHeader(base_offset={self.base_offset}, last_offset={self.last_offset}, size={self.size}, "
            f"magic={self.magic}, leader_epoch={self.leader_epoch}, attributes={self.attributes}, "
            f"producer_id={self.producer_id}, base_sequence={self.base_sequence}, record_count={self.record_count})"
        )


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header of the magic-2 batch at ``pos``; the records need not be there. No CRC is checked.

    Raises :class:`CorruptRecordError` for another magic, a size below the header's, or too few bytes.
    """
    try:
        header = BatchHeader(*HEADER.unpack_from(buf, pos))
    except struct.error as error:
        raise CorruptRecordError(f"batch header at {pos} is cut short") from error
    if header.magic != 2:
        raise CorruptRecordError(f"magic {header.magic} where 2 was expected, at {pos}")
    if header.size < HEADER_SIZE:
        raise CorruptRecordError(f"record batch of {header.size} bytes at {pos} is smaller than its header")
    return header


def read_any_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header at ``pos`` of any magic (0, 1 or 2). Raises :class:`CorruptRecordError`."""
    if pos < 0 or len(buf) - pos <= MAGIC_POSITION:
        raise CorruptRecordError(f"batch header at {pos} is cut short")
    magic = buf[pos + MAGIC_POSITION]
    if magic == 2:
        return read_header(buf, pos)
    if magic > 2:
        raise CorruptRecordError(f"unknown magic {magic} at {pos}")
    try:
        offset, length, crc, _, attributes = _LEGACY_HEADER.unpack_from(buf, pos)
        timestamp = _INT64.unpack_from(buf, pos + 18)[0] if magic == 1 else NO_TIMESTAMP
    except struct.error as error:
        raise CorruptRecordError(f"message header at {pos} is cut short") from error
    if length + LOG_OVERHEAD < LEGACY_MIN_SIZE[magic]:
        raise CorruptRecordError(f"message of {length} bytes at {pos} is smaller than the least possible")
    # The upper bits mean nothing in these formats and must not be taken for transactional or control; magic 0 has no
    # timestamp type either.
    attributes &= COMPRESSION_MASK | TIMESTAMP_TYPE_MASK if magic else COMPRESSION_MASK
    return BatchHeader(offset, length, NO_LEADER_EPOCH, magic, crc, attributes, 0, timestamp, timestamp, -1, -1, -1, 1)


def iter_headers(buf: Buffer, *, allow_partial_tail: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """Every batch of ``buf`` as (position, header), any magic, without a check of CRCs or records.

    A last batch that is cut short is left out with ``allow_partial_tail``, else raises
    :class:`CorruptRecordError`, as does a malformed header.
    """
    pos, end = 0, len(buf)
    unpack = HEADER.unpack_from
    while pos < end:
        left = end - pos
        if left >= HEADER_SIZE and buf[pos + MAGIC_POSITION] == 2:
            header = BatchHeader(*unpack(buf, pos))
            if HEADER_SIZE <= header.size <= left:
                yield pos, header
                pos += header.size
                continue
        if left < LOG_OVERHEAD:
            if allow_partial_tail:
                return
            raise CorruptRecordError(f"{left} bytes at {pos} are too few for a batch")
        size = _OFFSET_AND_SIZE.unpack_from(buf, pos)[1] + LOG_OVERHEAD
        if size < LEGACY_MIN_SIZE[0]:
            raise CorruptRecordError(f"batch of {size} bytes at {pos} is smaller than the least possible")
        if left > MAGIC_POSITION and buf[pos + MAGIC_POSITION] > 2:
            raise CorruptRecordError(f"unknown magic {buf[pos + MAGIC_POSITION]} at {pos}")
        if size > left:
            if allow_partial_tail:
                return
            raise CorruptRecordError(f"batch of {size} bytes at {pos}, but only {left} are left")
        yield pos, read_any_header(buf, pos)
        pos += size


def compute_crc(buf: Buffer, pos: int, header: BatchHeader) -> int:
    """The CRC of the bytes of the batch at ``pos``: CRC-32C for magic 2, CRC-32 for magic 0 and 1."""
    start = pos + (CRC_START if header.magic >= 2 else LEGACY_CRC_START)
    body = memoryview(buf)[start : pos + header.size]
    return crc32c(body) if header.magic >= 2 else zlib.crc32(body)


def check_crc(buf: Buffer, pos: int, header: BatchHeader) -> bool:
    """Whether the CRC field of the batch at ``pos``, which must be complete, matches its bytes."""
    return len(buf) >= pos + header.size and compute_crc(buf, pos, header) == header.crc
