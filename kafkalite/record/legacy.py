"""Message formats 0 and 1: single messages, and compressed wrappers that hold a message set.

Answers to: ``org.apache.kafka.common.record.{LegacyRecord,AbstractLegacyRecordBatch}``. Pure.

A wrapper's offset is that of its last inner message. Inner offsets are absolute in magic 0, and relative to the
wrapper's first message in magic 1.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import Buffer
from kafkalite.record.batch import (
    COMPRESSION_MASK,
    LEGACY_CRC_START,
    LEGACY_MIN_SIZE,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    CorruptRecordError,
    iter_headers,
)
from kafkalite.record.compression import MAX_DECOMPRESSED_BYTES, compress, decompress
from kafkalite.record.faults import InvalidRecordsError, RecordFault
from kafkalite.record.records import Record

_PREFIX = struct.Struct(">qiI")
_BODY_0 = struct.Struct(">BB")
_BODY_1 = struct.Struct(">BBq")
_LENGTH = struct.Struct(">i")


@dataclass(slots=True, eq=False)
class Message:
    """One message: its header, ``key`` and ``value`` (of a wrapper: the compressed set), and whether its CRC holds."""

    header: BatchHeader
    key: memoryview | None
    value: memoryview | None
    valid: bool


def read_message(buf: Buffer, header: BatchHeader, pos: int = 0) -> Message:
    """The message at ``pos`` with its parsed header. Raises ``CorruptRecordError`` if its fields do not fill it."""
    view = memoryview(buf)[pos : pos + header.size]
    if len(view) < header.size:
        raise CorruptRecordError(f"message of {header.size} bytes at {pos} is cut short")
    at = LEGACY_MIN_SIZE[header.magic] - 8
    key, at = _read_bytes(view, at)
    value, at = _read_bytes(view, at)
    if at != header.size:
        raise CorruptRecordError(f"message of {header.size} bytes at {pos} ends at {at}")
    return Message(header, key, value, zlib.crc32(view[LEGACY_CRC_START:]) == header.crc)


def _read_bytes(view: memoryview, at: int) -> tuple[memoryview | None, int]:
    if at + 4 > len(view):
        raise CorruptRecordError("a message is cut short")
    length = _LENGTH.unpack_from(view, at)[0]
    at += 4
    if length < 0:
        return None, at
    if at + length > len(view):
        raise CorruptRecordError(f"a field of {length} bytes does not fit into its message")
    return view[at : at + length], at + length


def unwrap(
    buf: Buffer, header: BatchHeader, pos: int = 0, max_size: int = MAX_DECOMPRESSED_BYTES
) -> list[tuple[Record, Message]]:
    """The records of the message at ``pos``: itself, or the messages in it with final offsets and timestamps.

    CRCs are reported, not checked. Raises ``CorruptRecordError`` for malformed bytes, ``ApiError`` with
    INVALID_RECORD for sets that no producer may write (nested, mixed or empty), and as ``decompress`` does.
    """
    outer = read_message(buf, header, pos)
    if not header.compression:
        return [(_record(outer, header.base_offset, header.max_timestamp), outer)]
    if outer.value is None:
        raise _invalid(f"Found invalid compressed record set with null value (magic = {header.magic})")
    plain = decompress(header.compression, outer.value, max_size, magic=header.magic)
    inner = [read_message(plain, each, at) for at, each in iter_headers(plain, allow_partial_tail=True)]
    if not inner:
        raise _invalid("Found invalid compressed record set without messages")
    for message in inner:
        if message.header.magic != header.magic:
            raise InvalidRecordsError(
                ErrorCode.INVALID_RECORD,
                f"Compressed message magic {message.header.magic} does not match wrapper magic {header.magic}",
                RecordFault.MAGIC_NUMBER,
            )
        if message.header.compression:
            raise _invalid("Inner message must not be compressed")
    base = header.base_offset - inner[-1].header.base_offset if header.magic == 1 else 0
    append_time = header.timestamp_type == LOG_APPEND_TIME
    return [
        (
            _record(
                message,
                base + message.header.base_offset,
                header.max_timestamp if append_time else message.header.max_timestamp,
            ),
            message,
        )
        for message in inner
    ]


def _record(message: Message, offset: int, timestamp: int) -> Record:
    key, value = message.key, message.value
    return Record(offset, timestamp, None if key is None else bytes(key), None if value is None else bytes(value))


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, text)


def encode_message(
    offset: int, magic: int, attributes: int, timestamp: int, key: Buffer | None, value: Buffer | None
) -> bytes:
    """One message of ``magic`` 0 or 1; ``timestamp`` is left out of magic 0."""
    body = _BODY_1.pack(1, attributes, timestamp) if magic else _BODY_0.pack(0, attributes)
    parts: list[Buffer] = [body]
    for field in (key, value):
        parts.append(_LENGTH.pack(-1 if field is None else len(field)))
        parts.append(b"" if field is None else field)
    rest = b"".join(parts)
    return _PREFIX.pack(offset, len(rest) + 4, zlib.crc32(rest)) + rest


def encode_message_set(records: Sequence[Record], magic: int, *, codec: int = 0, timestamp_type: int = 0) -> bytes:
    """``records`` (at least one, offsets ascending) as messages of ``magic`` 0 or 1; with a codec, as one wrapper.

    Record headers, which these formats lack, are dropped; with LogAppendTime the records must carry that time
    already. Raises ``ApiError`` (UNSUPPORTED_COMPRESSION_TYPE) for zstd.
    """
    attributes = TIMESTAMP_TYPE_MASK if timestamp_type == LOG_APPEND_TIME and magic else 0
    base = records[0].offset if codec and magic == 1 else 0
    # Only the outer message's timestamp type has a meaning; Kafka writes it on the inner ones, too.
    inner = b"".join(
        encode_message(record.offset - base, magic, attributes, record.timestamp, record.key, record.value)
        for record in records
    )
    if not codec:
        return inner
    timestamp = max(record.timestamp for record in records) if magic else NO_TIMESTAMP
    value = compress(codec & COMPRESSION_MASK, inner, magic=magic)
    return encode_message(records[-1].offset, magic, attributes | codec, timestamp, None, value)
