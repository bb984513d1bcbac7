"""Conversion between message formats, for clients older than 0.11.

Answers to: ``org.apache.kafka.common.record.RecordsUtil`` and the converting half of ``LogValidator``. Pure.
"""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import Buffer
from kafkalite.record.batch import LOG_APPEND_TIME, BatchHeader, ChecksumError, CorruptRecordError, iter_headers
from kafkalite.record.compression import MAX_DECOMPRESSED_BYTES, ZSTD
from kafkalite.record.legacy import encode_message_set, unwrap
from kafkalite.record.records import Record, encode_batch, iter_records


class RecordConversionStats(NamedTuple):
    """What conversions cost: ``memory`` is in bytes, those of the unpacked records and of the batches made of them."""

    records: int
    memory: int
    seconds: float

    def plus(self, other: RecordConversionStats) -> RecordConversionStats:
        """The sum of both."""
        return RecordConversionStats(
            self.records + other.records, self.memory + other.memory, self.seconds + other.seconds
        )


class ConvertedRecords(NamedTuple):
    """``data`` is what to send; ``converted`` of its records had another format.

    ``next_offset`` follows the last batch that was looked at; -1 where there was no whole one.
    """

    data: bytes
    converted: int
    next_offset: int = -1


def records_of(buf: Buffer, header: BatchHeader, pos: int = 0, max_size: int = MAX_DECOMPRESSED_BYTES) -> list[Record]:
    """The records of the batch or message at ``pos``, of any magic.

    Inner messages of a magic 0/1 wrapper must have correct CRCs. Raises ``CorruptRecordError`` and ``ApiError``.
    """
    if header.magic == 2:
        return list(iter_records(buf, header, pos, max_size))
    pairs = unwrap(buf, header, pos, max_size)
    for record, message in pairs:
        if not message.valid:
            raise ChecksumError(f"Record is corrupt (stored crc = {message.header.crc}) at offset {record.offset}")
    return [record for record, _ in pairs]


def up_convert(buf: Buffer) -> bytes:
    """Messages of magic 0/1 as magic-2 batches with the same offsets, timestamps and codecs.

    Successive uncompressed messages share a batch; magic-2 batches are kept unchanged. A partial tail is left out.
    Raises as :func:`records_of`.
    """
    out: list[Buffer] = []
    view = memoryview(buf)
    headers = iter_headers(view, allow_partial_tail=True)
    for (magic, codec, timestamp_type), group in groupby(headers, key=lambda item: _kind(item[1])):
        batches = list(group)
        if magic == 2:
            out += [view[pos : pos + header.size] for pos, header in batches]
            continue
        runs = [[item] for item in batches] if codec else [batches]
        for run in runs:
            records = [record for pos, header in run for record in records_of(view, header, pos)]
            append_time = max(record.timestamp for record in records)
            try:
                out.append(
                    encode_batch(records, codec=codec, timestamp_type=timestamp_type, log_append_time=append_time)
                )
            except ValueError as error:
                raise CorruptRecordError(f"messages out of order: {error}") from error
    return b"".join(out)


def _kind(header: BatchHeader) -> tuple[int, int, int]:
    return header.magic, header.compression, header.timestamp_type


def down_convert(buf: Buffer, to_magic: int, first_offset: int) -> ConvertedRecords:
    """Batches as messages of ``to_magic`` (0 or 1), for a reader that asked from ``first_offset`` on.

    Batches of that magic or an older one are kept unchanged; control batches, record headers and uncompressed records
    before ``first_offset`` are dropped, as is a partial tail. Raises ``ApiError`` with UNSUPPORTED_COMPRESSION_TYPE at
    the first zstd batch, unless batches before it could be converted: the reader's next fetch begins there.
    """
    out: list[Buffer] = []
    converted = 0
    next_offset = -1
    view = memoryview(buf)
    for pos, header in iter_headers(view, allow_partial_tail=True):
        next_offset = header.next_offset
        if header.magic <= to_magic:
            out.append(view[pos : pos + header.size])
            continue
        if header.is_control:
            continue
        if header.compression == ZSTD:
            if out:
                break
            raise ApiError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                "Down-conversion of zstandard-compressed batches is not supported",
            )
        records = records_of(view, header, pos)
        if not header.compression:
            records = [record for record in records if record.offset >= first_offset]
        if records:
            append_time = header.timestamp_type == LOG_APPEND_TIME
            out.append(encode_message_set(records, to_magic, codec=header.compression, timestamp_type=int(append_time)))
            converted += len(records)
    return ConvertedRecords(b"".join(out), converted, next_offset)
