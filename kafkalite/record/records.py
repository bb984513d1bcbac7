"""Records of a magic-2 batch: read one by one, and written as a batch; the markers that end transactions.

Answers to: ``org.apache.kafka.common.record.{DefaultRecord,DefaultRecordBatch,MemoryRecordsBuilder}`` and
``org.apache.kafka.common.record.{ControlRecordType,EndTransactionMarker}``. Pure.

The broker's hot path does not use this module; clients, conversion, compaction and the tools do.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import Buffer
from kafkalite.record.batch import (
    CONTROL_MASK,
    CRC_POSITION,
    CRC_START,
    DELETE_HORIZON_MASK,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAX_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    CorruptRecordError,
    crc32c,
)
from kafkalite.record.compression import MAX_DECOMPRESSED_BYTES, compress, decompress

_CRC = struct.Struct(">I")
_INT64_LIMIT = 1 << 63


class Record(NamedTuple):
    """One record. ``timestamp`` in milliseconds (-1: none); ``sequence`` is -1 without a producer id."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    sequence: int = -1


def read_varint(buf: Buffer, pos: int) -> tuple[int, int]:
    """The zig-zag varint at ``pos`` as (value, position after it). ``IndexError`` past the end."""
    byte = buf[pos]
    pos += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos
    value, shift = byte & 0x7F, 7
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), pos
        shift += 7
        if shift > 63:
            raise CorruptRecordError(f"a varint before {pos} does not end")


def varint(value: int) -> bytes:
    """``value`` as a zig-zag varint, the form of both Kafka's varints and its varlongs."""
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    if raw < 0x80:
        return bytes((raw,))
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def payload(buf: Buffer, header: BatchHeader, pos: int = 0, max_size: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
    """The records of the magic-2 batch at ``pos`` as bytes, decompressed. Raises as ``decompress`` does."""
    body = memoryview(buf)[pos + HEADER_SIZE : pos + header.size]
    if len(body) < header.size - HEADER_SIZE:
        raise CorruptRecordError(f"batch of {header.size} bytes at {pos} is cut short")
    return decompress(header.compression, body, max_size)


def iter_records(
    buf: Buffer, header: BatchHeader, pos: int = 0, max_size: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """The records of the magic-2 batch at ``pos``, decompressed (to at most ``max_size`` bytes).

    With LogAppendTime, the batch's time is every record's timestamp. Raises ``CorruptRecordError`` if the records
    do not fill the batch exactly, ``ApiError`` if they decompress to more than ``max_size``.
    """
    body = bytes(payload(buf, header, pos, max_size))
    append_time = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None
    at, end = 0, len(body)
    try:
        for _ in range(header.record_count):
            length, at = read_varint(body, at)
            stop = at + length
            if length < 0 or stop > end:
                raise CorruptRecordError(f"a record of {length} bytes does not fit into its batch")
            record, at = _read_record(body, at + 1, header, append_time)
            if at != stop:
                raise CorruptRecordError(f"a record of {length} bytes ends {at - stop} bytes off")
            yield record
    except (IndexError, UnicodeDecodeError) as error:
        raise CorruptRecordError(f"a record is cut short or no text where text should be: {error}") from error
    if at != end:
        raise CorruptRecordError(f"{end - at} bytes follow the last of {header.record_count} records")


def _read_record(body: bytes, at: int, header: BatchHeader, append_time: int | None) -> tuple[Record, int]:
    timestamp_delta, at = read_varint(body, at)
    offset_delta, at = read_varint(body, at)
    if not 0 <= offset_delta <= MAX_SEQUENCE:
        raise CorruptRecordError(f"a record is {offset_delta} away from its batch's offset")
    key, at = _read_bytes(body, at)
    value, at = _read_bytes(body, at)
    count, at = read_varint(body, at)
    headers: Sequence[tuple[str, bytes | None]] = ()
    if count:
        if count < 0 or count > len(body) - at:
            raise CorruptRecordError(f"a record claims {count} headers")
        headers = []
        for _ in range(count):
            name, at = _read_bytes(body, at)
            if name is None:
                raise CorruptRecordError("the key of a header is null")
            content, at = _read_bytes(body, at)
            headers.append((name.decode(), content))
    sequence = -1
    if header.base_sequence >= 0:
        sequence = header.base_sequence + offset_delta
        if sequence > MAX_SEQUENCE:
            sequence -= MAX_SEQUENCE + 1
    timestamp = append_time if append_time is not None else _wrap(header.base_timestamp + timestamp_delta)
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers, sequence), at


def _wrap(value: int) -> int:
    # Java's longs overflow silently, and so do out-of-range timestamps in the batches that Java clients write.
    return (
        value if -_INT64_LIMIT <= value < _INT64_LIMIT else (value + _INT64_LIMIT) % (2 * _INT64_LIMIT) - _INT64_LIMIT
    )


def _read_bytes(body: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = read_varint(body, at)
    if length < 0:
        return None, at
    if length > len(body) - at:
        raise CorruptRecordError(f"a field of {length} bytes does not fit into its record")
    return body[at : at + length], at + length


def check_keys(body: Buffer, record_count: int) -> list[int]:
    """The indexes of the records in an uncompressed ``body`` whose key is null. Raises ``CorruptRecordError``.

    Reads each record only as far as its key, for appends to compacted topics.
    """
    keyless: list[int] = []
    at, end = 0, len(body)
    try:
        for index in range(record_count):
            length, at = read_varint(body, at)
            stop = at + length
            if length < 0 or stop > end:
                raise CorruptRecordError(f"a record of {length} bytes does not fit into its batch")
            _, at = read_varint(body, at + 1)
            _, at = read_varint(body, at)
            key_length, at = read_varint(body, at)
            if at + max(key_length, 0) > stop:
                raise CorruptRecordError(f"a key of {key_length} bytes does not fit into its record")
            if key_length < 0:
                keyless.append(index)
            at = stop
    except IndexError as error:
        raise CorruptRecordError("a record is cut short") from error
    if at != end:
        raise CorruptRecordError(f"{end - at} bytes follow the last of {record_count} records")
    return keyless


def encode_record(record: Record, offset_delta: int, timestamp_delta: int) -> bytes:
    """One record in the magic-2 format, beginning with its length."""
    parts = [b"\x00", varint(timestamp_delta), varint(offset_delta)]
    _append_bytes(parts, record.key)
    _append_bytes(parts, record.value)
    parts.append(varint(len(record.headers)))
    for name, content in record.headers:
        _append_bytes(parts, name.encode())
        _append_bytes(parts, content)
    body = b"".join(parts)
    return varint(len(body)) + body


def _append_bytes(parts: list[bytes], field: bytes | None) -> None:
    if field is None:
        parts.append(b"\x01")
    else:
        parts.append(varint(len(field)))
        parts.append(field)


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    codec: int = 0,
    timestamp_type: int = 0,
    log_append_time: int = NO_TIMESTAMP,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    last_offset_delta: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """One magic-2 batch of ``records`` (at least one, offsets ascending; offset -1: the one after the previous).

    ``base_offset`` moves the batch (default: the first record's offset) and keeps gaps between records. With
    ``timestamp_type`` 1, ``log_append_time`` is the timestamp of all records. ``last_offset_delta`` is the end that a
    compacted batch had before. ``ValueError`` for an empty or descending sequence.
    """
    if not records:
        raise ValueError("a batch needs at least one record")
    first = max(records[0].offset, 0)
    base_timestamp = records[0].timestamp if delete_horizon_ms is None else delete_horizon_ms
    max_timestamp = NO_TIMESTAMP
    delta = -1
    parts: list[bytes] = []
    for record in records:
        previous, delta = delta, record.offset - first if record.offset >= 0 else delta + 1
        if delta <= previous:
            raise ValueError(f"offset {record.offset} does not ascend")
        parts.append(encode_record(record, delta, _wrap(record.timestamp - base_timestamp)))
        max_timestamp = max(max_timestamp, record.timestamp)
    attributes = codec | (TRANSACTIONAL_MASK if is_transactional else 0) | (CONTROL_MASK if is_control else 0)
    attributes |= DELETE_HORIZON_MASK if delete_horizon_ms is not None else 0
    if timestamp_type == LOG_APPEND_TIME:
        attributes |= TIMESTAMP_TYPE_MASK
        max_timestamp = log_append_time
    return assemble(
        BatchHeader(
            first if base_offset is None else base_offset,
            0,
            leader_epoch,
            2,
            0,
            attributes,
            delta if last_offset_delta is None else last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            len(records),
        ),
        compress(codec, b"".join(parts)),
    )


def assemble(header: BatchHeader, body: Buffer) -> bytes:
    """A batch of ``header`` and the (already compressed) ``body``; size and CRC are computed and set in ``header``."""
    header.size = HEADER_SIZE + len(body)
    out = bytearray(header.size)
    try:
        HEADER.pack_into(
            out,
            0,
            header.base_offset,
            header.size - LOG_OVERHEAD,
            header.leader_epoch,
            2,
            0,
            header.attributes,
            header.last_offset_delta,
            header.base_timestamp,
            header.max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.record_count,
        )
    except struct.error as error:
        raise ApiError(ErrorCode.INVALID_RECORD, f"a batch header does not hold its values: {error}") from error
    out[HEADER_SIZE:] = body
    header.crc = crc32c(memoryview(out)[CRC_START:])
    _CRC.pack_into(out, CRC_POSITION, header.crc)
    return bytes(out)


CONTROL_KEY: Final = struct.Struct(">hh")
"""Key of a control record: version and type."""
END_TXN_MARKER: Final = struct.Struct(">hi")
"""Value of a transaction marker: version and coordinator epoch."""
ABORT, COMMIT = 0, 1
"""Types of control records."""


def encode_marker(
    producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int, timestamp_ms: int
) -> bytes:
    """A transaction marker in the form in which a leader appends it."""
    key = CONTROL_KEY.pack(0, COMMIT if commit else ABORT)
    record = Record(-1, timestamp_ms, key, END_TXN_MARKER.pack(0, coordinator_epoch), ())
    return encode_batch(
        [record], producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True, is_control=True
    )
