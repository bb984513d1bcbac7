"""Walking over the batches of a segment file without reading their records.

Answers to: ``org.apache.kafka.common.record.{FileLogInputStream,FileRecords}``. Deterministic.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kafkalite.log.file_system import FileSystem
from kafkalite.record.batch import (
    HEADER_SIZE,
    LEGACY_MIN_SIZE,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    BatchHeader,
    CorruptRecordError,
    check_crc,
    read_any_header,
)

_CHUNK = 4096
_RECOVERY_CHUNK = 1 << 20
_START = struct.Struct(">qiiBIhi")
"""Of a batch of magic 2: base offset, length, leader epoch, magic, CRC, attributes, last offset delta."""
_LENGTH = struct.Struct(">i")


def find_batch(fs: FileSystem, fd: int, position: int, end: int, offset: int) -> tuple[int, int, int, int] | None:
    """The first batch from ``position`` on whose last offset is not below ``offset``.

    Returns (position, size, base offset, last offset), or ``None`` when ``end`` comes first.
    """
    chunk = b""
    chunk_start = position
    while position + LEGACY_MIN_SIZE[0] <= end:
        at = position - chunk_start
        if at + _START.size > len(chunk):
            chunk = fs.pread(fd, min(_CHUNK, end - position), position)
            chunk_start, at = position, 0
            if len(chunk) < LEGACY_MIN_SIZE[0]:
                return None
            if len(chunk) < _START.size:
                # A message of magic 0 or 1 may be shorter than ``_START``. Only magic 2 uses the bytes added here.
                chunk = chunk.ljust(_START.size, b"\0")
        base, length, _, magic, _, _, delta = _START.unpack_from(chunk, at)
        last = base + delta if magic >= 2 else base
        if last >= offset:
            return position, length + LOG_OVERHEAD, base, last
        if length <= 0:
            return None
        position += length + LOG_OVERHEAD
    return None


def begins_batch(fs: FileSystem, fd: int, position: int, end: int, lowest: int, highest: int) -> bool:
    """Whether the header at ``position`` is one of a whole batch with a base offset from ``lowest`` to ``highest``."""
    if not 0 <= position <= end - LEGACY_MIN_SIZE[0]:
        return False
    base, length, _, magic, *_ = _START.unpack(fs.pread(fd, _START.size, position).ljust(_START.size, b"\0"))
    return bool(lowest <= base <= highest and magic <= 2 and 0 < length <= end - position - LOG_OVERHEAD)


def is_unfinished(fs: FileSystem, fd: int, position: int, end: int) -> bool:
    """Whether the bytes from ``position`` to ``end`` are the beginning of one batch, which a killed process left."""
    remaining = end - position
    if remaining < LOG_OVERHEAD:
        return True
    length = _LENGTH.unpack(fs.pread(fd, LOG_OVERHEAD, position)[-_LENGTH.size :])[0]
    return bool(length > remaining - LOG_OVERHEAD)


def headers(fs: FileSystem, fd: int, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Every batch of a file from ``position`` on as (position, header); what ``end`` cuts is left out."""
    chunk = b""
    chunk_start = position
    while position + LEGACY_MIN_SIZE[0] <= end:
        at = position - chunk_start
        if at + HEADER_SIZE > len(chunk) and chunk_start + len(chunk) < end:
            chunk = fs.pread(fd, min(_CHUNK, end - position), position)
            chunk_start, at = position, 0
        if len(chunk) - at <= MAGIC_POSITION:
            return
        header = read_any_header(chunk, at)
        if position + header.size > end:
            return
        yield position, header
        position += header.size


def checked_batches(fs: FileSystem, fd: int, position: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Every whole and intact batch from ``position`` on as (position, header, bytes); ends at the first that is not."""
    chunk = memoryview(b"")
    chunk_start = position
    while position + LEGACY_MIN_SIZE[0] <= end:
        at = position - chunk_start
        if at + HEADER_SIZE > len(chunk):
            chunk = memoryview(fs.pread(fd, min(_RECOVERY_CHUNK, end - position), position))
            chunk_start, at = position, 0
        try:
            header = read_any_header(chunk, at)
        except CorruptRecordError:
            return
        if header.size > end - position or header.size < LEGACY_MIN_SIZE[0]:
            return
        if at + header.size > len(chunk):
            chunk = memoryview(fs.pread(fd, min(max(_RECOVERY_CHUNK, header.size), end - position), position))
            chunk_start, at = position, 0
            if header.size > len(chunk):
                return
        if not check_crc(chunk, at, header):
            return
        yield position, header, chunk[at : at + header.size]
        position += header.size
