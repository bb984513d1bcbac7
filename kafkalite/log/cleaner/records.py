"""The compactor's two loops over the records of a batch: noting keys, and choosing what stays.

Answers to: ``org.apache.kafka.storage.internals.log.Cleaner.{buildOffsetMapForSegment,shouldRetainRecord}``. Pure.

Both loops run once for each record, so each is one function that decodes only the lengths and the key. The result of
:func:`select_records` are ranges of the batch's bytes, so that the kept records need not be encoded again.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkalite.log.cleaner.offset_map import SHORT_KEY, digest
from kafkalite.record.batch import CorruptRecordError
from kafkalite.record.records import read_varint

_NULL = 0x01
"""The varint -1: a length of null."""


def note_keys(body: bytes, count: int, base_offset: int, start_offset: int, offsets: dict[bytes, int]) -> None:
    """Put the key of every record from ``start_offset`` on into ``offsets``; ``body``: the records, decompressed.

    Raises ``CorruptRecordError``.
    """
    at, end = 0, len(body)
    try:
        for _ in range(count):
            # Length, one byte of attributes, time stamp delta (stepped over), offset delta, key.
            byte = body[at]
            if byte < 0x80:
                stop = at + 1 + (byte >> 1)
                at += 2
            elif (high := body[at + 1]) < 0x80:
                stop = at + 2 + ((byte & 0x7F | high << 7) >> 1)
                at += 3
            else:
                length, at = read_varint(body, at)
                stop = at + length
                at += 1
            while body[at] > 0x7F:
                at += 1
            byte = body[at + 1]
            if byte < 0x80:
                delta = byte >> 1
                at += 2
            else:
                delta, at = read_varint(body, at + 1)
            length = body[at]
            at += 1
            if length > 0x7F:
                length, at = read_varint(body, at - 1)
            elif length & 1:
                at = stop
                continue
            else:
                length >>= 1
            offset = base_offset + delta
            if offset >= start_offset:
                key = body[at : at + length]
                offsets[key if length <= SHORT_KEY else digest(key)] = offset
            if not at <= at + length <= stop <= end:
                raise CorruptRecordError(f"a key of {length} bytes does not fit into its record")
            at = stop
    except IndexError as error:
        raise CorruptRecordError("a record is cut short") from error
    if at != end:
        raise CorruptRecordError(f"{end - at} bytes follow the last of {count} records")


class Selection(NamedTuple):
    """What stays of a batch: how many records, as which ranges of its bytes, and whether a tombstone is among them."""

    kept: int
    ranges: list[int]
    """Begin and end of each range, one after the other."""
    tombstones: bool


def select_records(  # noqa: PLR0915
    body: bytes,
    count: int,
    base_offset: int,
    latest_offset: int,
    offsets: dict[bytes, int],
    keep_tombstones: bool,
) -> Selection:
    """The records that are the last of their key, or lie above ``latest_offset``. Raises ``CorruptRecordError``.

    A record without a key is never the last of one. Without ``keep_tombstones`` records without a value go.
    """
    at, end = 0, len(body)
    kept = 0
    tombstones = False
    ranges: list[int] = []
    reached = -1
    find = offsets.get
    try:
        for _ in range(count):
            begin = at
            byte = body[at]
            if byte < 0x80:
                stop = at + 1 + (byte >> 1)
                at += 2
            elif (high := body[at + 1]) < 0x80:
                stop = at + 2 + ((byte & 0x7F | high << 7) >> 1)
                at += 3
            else:
                length, at = read_varint(body, at)
                stop = at + length
                at += 1
            while body[at] > 0x7F:
                at += 1
            byte = body[at + 1]
            if byte < 0x80:
                delta = byte >> 1
                at += 2
            else:
                delta, at = read_varint(body, at + 1)
            length = body[at]
            at += 1
            if length > 0x7F:
                length, at = read_varint(body, at - 1)
            elif length & 1:
                length = -1
            else:
                length >>= 1
            offset = base_offset + delta
            after = at + length if length > 0 else at
            if not at <= after < stop <= end:
                raise CorruptRecordError(f"a key of {length} bytes does not fit into its record")
            if offset <= latest_offset:
                if length < 0:
                    at = stop
                    continue
                key = body[at:after]
                if find(key if length <= SHORT_KEY else digest(key), -1) > offset or (
                    body[after] == _NULL and not keep_tombstones
                ):
                    at = stop
                    continue
            if body[after] == _NULL:
                tombstones = True
            kept += 1
            if begin == reached:
                ranges[-1] = stop
            else:
                ranges += (begin, stop)
            reached = at = stop
    except IndexError as error:
        raise CorruptRecordError("a record is cut short") from error
    if at != end:
        raise CorruptRecordError(f"{end - at} bytes follow the last of {count} records")
    return Selection(kept, ranges, tombstones)


def largest_timestamp_delta(body: bytes, ranges: list[int]) -> int:
    """The largest timestamp of the records in ``ranges``, relative to the batch's base."""
    largest: int | None = None
    for number in range(0, len(ranges), 2):
        at, end = ranges[number], ranges[number + 1]
        while at < end:
            length, at = read_varint(body, at)
            delta = read_varint(body, at + 1)[0]
            if largest is None or delta > largest:
                largest = delta
            at += length
    assert largest is not None
    return largest
