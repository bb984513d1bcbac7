"""Stored records for consumers that are too old to read them as they are.

Answers to: ``org.apache.kafka.common.record.LazyDownConversionRecords``. Pure.

Versions before 4 get messages of magic 0 (up to version 1) or 1; versions before 10 must not meet zstd, and
get what stands before the first such batch, or UNSUPPORTED_COMPRESSION_TYPE where nothing does.
"""

from __future__ import annotations

import os
import struct

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import Buffer, FileRegion
from kafkalite.record.batch import CorruptRecordError
from kafkalite.record.convert import down_convert

_OVERHEAD = 12
_SIZE = struct.Struct(">i")
_HEAD = 23
_ZSTD = 4


def down_converted(version: int, records: FileRegion | Buffer, fetch_offset: int) -> bytes:
    """``records`` as messages for a Fetch of ``version`` 0 to 3. Raises :class:`ApiError`."""
    data = records.read() if isinstance(records, FileRegion) else records
    try:
        return down_convert(data, 0 if version <= 1 else 1, fetch_offset)
    except CorruptRecordError as error:
        # What a producer hid in a well-formed batch is found by whoever walks its records.
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def without_zstd(records: FileRegion | Buffer) -> FileRegion | Buffer:
    """``records`` up to the first zstd batch. Raises :class:`ApiError` where that is the first of all."""
    position = 0
    size = len(records)
    while position + _HEAD <= size:
        head = _read(records, position, _HEAD)
        if head[16] == 2 and head[22] & 7 == _ZSTD:
            if position == 0:
                raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
            return _first(records, position)
        position += _OVERHEAD + max(_SIZE.unpack_from(head, 8)[0], 0)
    return records


def _read(records: FileRegion | Buffer, position: int, count: int) -> Buffer:
    if isinstance(records, FileRegion):
        return os.pread(records.fd, count, records.position + position)
    return records[position : position + count]


def _first(records: FileRegion | Buffer, count: int) -> FileRegion | Buffer:
    if isinstance(records, FileRegion):
        return FileRegion(records.fd, records.position, count, records.owner, records.cold)
    return memoryview(records)[:count]
