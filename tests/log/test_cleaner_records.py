"""The two loops over records, against the decoder that clients use."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Sequence

import pytest

from kafkalite.log.cleaner.offset_map import BYTES_PER_KEY, SHORT_KEY, OffsetMap
from kafkalite.log.cleaner.records import largest_timestamp_delta, note_keys, select_records
from kafkalite.record.batch import HEADER_SIZE, BatchHeader, CorruptRecordError, read_header
from kafkalite.record.records import Record, encode_batch, iter_records

T = 1_700_000_000_000


def encoded(records: Sequence[Record]) -> tuple[BatchHeader, bytes]:
    raw = encode_batch(records)
    return read_header(raw), raw[HEADER_SIZE:]


def long_key(size: int) -> bytes:
    return (b"%d." % size) * size


SHAPES = {
    "one": [Record(0, T, b"k", b"v")],
    "an empty key": [Record(0, T, b"", b"v")],
    "no value": [Record(0, T, b"k", None)],
    "an empty value": [Record(0, T, b"k", b"")],
    "no key": [Record(0, T, None, b"v"), Record(1, T, b"k", b"v")],
    "headers": [Record(0, T, b"k", b"v", (("a", b"1"), ("b", None))), Record(1, T, b"l", None, (("a", b"1"),))],
    "lengths around a varint's bytes": [
        Record(n, T, b"k%d" % n, b"v" * size) for n, size in enumerate([40, 50, 60, 70, 8100, 8200, 1 << 20, 1 << 21])
    ],
    "keys around the short ones": [
        Record(n, T, long_key(size)[:size], b"v")
        for n, size in enumerate(
            [SHORT_KEY - 1, SHORT_KEY, SHORT_KEY + 1, SHORT_KEY + 2, 63, 64, 65, 8191, 8192, 70000]
        )
    ],
    "offsets far apart": [Record(n, T, b"k%d" % n, b"v") for n in (5, 68, 69, 70, 8196, 8197, 1 << 22)],
    "time stamps up and down": [
        Record(n, T + delta, b"k%d" % n, b"v")
        for n, delta in enumerate([0, -1, 63, 64, -65, 8192, 1 << 40, -(1 << 40)])
    ],
    "again and again": [Record(n, T + n, b"k%d" % (n % 3), b"v%d" % n) for n in range(200)],
}


@pytest.mark.parametrize("records", SHAPES.values(), ids=SHAPES)
def test_keys_are_noted_with_their_last_offsets(records: list[Record]) -> None:
    header, body = encoded(records)
    offsets = OffsetMap(1 << 20)
    note_keys(body, header.record_count, header.base_offset, 0, offsets.offsets)
    assert {record.key: offsets.get(record.key) for record in records if record.key is not None} == {
        record.key: record.offset for record in records if record.key is not None
    }
    assert len(offsets) == len({record.key for record in records if record.key is not None})


def test_keys_before_the_dirty_part_are_not_noted() -> None:
    header, body = encoded([Record(n, T, b"k%d" % n, b"v") for n in range(10, 20)])
    offsets = OffsetMap(1 << 20)
    note_keys(body, header.record_count, header.base_offset, 15, offsets.offsets)
    assert sorted(offsets.offsets.values()) == [15, 16, 17, 18, 19]


@pytest.mark.parametrize("records", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("keep_tombstones", [True, False])
@pytest.mark.parametrize("latest", [-1, 1, 1 << 40])
def test_what_stays(records: list[Record], keep_tombstones: bool, latest: int) -> None:
    header, body = encoded(records)
    offsets = OffsetMap(1 << 20)
    note_keys(body, header.record_count, header.base_offset, 0, offsets.offsets)
    for gone in list(offsets.offsets)[::2]:
        offsets.offsets[gone] = 1 << 50
    expected = [
        record
        for record in records
        if record.offset > latest
        or (
            record.key is not None
            and record.offset >= offsets.get(record.key)
            and (record.value is not None or keep_tombstones)
        )
    ]
    chosen = select_records(body, header.record_count, header.base_offset, latest, offsets.offsets, keep_tombstones)
    assert chosen.kept == len(expected)
    assert chosen.tombstones == any(record.value is None for record in expected)
    kept = b"".join(body[chosen.ranges[at] : chosen.ranges[at + 1]] for at in range(0, len(chosen.ranges), 2))
    header.record_count, header.size = chosen.kept, HEADER_SIZE + len(kept)
    read = list(iter_records(bytes(HEADER_SIZE) + kept, header))
    assert [(each.offset, each.timestamp, each.key, each.value) for each in read] == [
        (each.offset, each.timestamp, each.key, each.value) for each in expected
    ]
    if expected:
        largest = largest_timestamp_delta(body, chosen.ranges)
        assert header.base_timestamp + largest == max(record.timestamp for record in expected)


def test_neighbours_that_stay_are_one_range() -> None:
    header, body = encoded([Record(n, T, b"k%d" % n, b"v") for n in range(100)])
    chosen = select_records(body, header.record_count, 0, 99, {b"k50": 1000}, True)
    assert len(chosen.ranges) == 4
    assert chosen.ranges[0] == 0
    assert chosen.ranges[3] == len(body)


@pytest.mark.parametrize("records", [SHAPES["headers"], SHAPES["keys around the short ones"][:3]])
def test_records_cut_anywhere_are_refused(records: list[Record]) -> None:
    header, body = encoded(records)
    for end in range(len(body)):
        with pytest.raises(CorruptRecordError):
            note_keys(body[:end], header.record_count, 0, 0, {})
        with pytest.raises(CorruptRecordError):
            select_records(body[:end], header.record_count, 0, 1 << 40, {}, True)
    for more in (body + b"\0", body + body):
        with pytest.raises(CorruptRecordError):
            note_keys(more, header.record_count, 0, 0, {})
        with pytest.raises(CorruptRecordError):
            select_records(more, header.record_count, 0, 1 << 40, {}, True)


def test_changed_bytes_raise_nothing_else() -> None:
    rng = random.Random(4)
    header, body = encoded(SHAPES["headers"] + [Record(2, T, b"k" * 70, b"v" * 100)])
    for _ in range(3000):
        wrong = bytearray(body)
        wrong[rng.randrange(len(wrong))] = rng.randrange(256)
        for call in (
            lambda: note_keys(bytes(wrong), header.record_count, 0, 0, {}),  # noqa: B023
            lambda: select_records(bytes(wrong), header.record_count, 0, 1 << 40, {}, True),  # noqa: B023
        ):
            try:
                call()
            except CorruptRecordError:
                continue


# -- the map


def test_a_key_is_never_taken_for_another() -> None:
    offsets = OffsetMap(1 << 20)
    offsets.put(b"x" * 100, 1)
    # A long key is replaced by its digest, and a producer may send that digest as a key of its own.
    (stand_in,) = offsets.offsets
    offsets.put(stand_in, 2)
    assert (offsets.get(b"x" * 100), offsets.get(stand_in)) == (1, 2)
    assert offsets.get(b"other") == -1


def most_bytes(memory: int, key_size: int) -> int:
    """The most bytes that this process allocated while a map for ``memory`` bytes was filled."""
    offsets = OffsetMap(memory)
    tracemalloc.start()
    try:
        for number in range(offsets.capacity):
            offsets.put(b"%0*d" % (key_size, number), 1 << 40 | number)
            if not offsets.has_room(1):
                break
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("key_size", [1, 16, SHORT_KEY, 31, 200])
@pytest.mark.parametrize("memory", [100_000, 1_000_000, 5_000_000])
def test_memory_is_bounded(memory: int, key_size: int) -> None:
    # The map takes the same each time; other threads of the process, such as those of pytest-xdist, add to some.
    peak = min(most_bytes(memory, key_size) for _ in range(3))
    # What is smaller than a few hundred entries does not count.
    assert peak <= memory + 20_000, f"{peak:,} bytes for {memory:,} that were promised, {BYTES_PER_KEY} a key"


def test_room() -> None:
    offsets = OffsetMap(10 * BYTES_PER_KEY, 0.9)
    assert offsets.capacity == 9
    assert offsets.has_room(1000), "the first batch of a round always fits"
    for number in range(8):
        offsets.put(b"%d" % number, number)
    assert offsets.has_room(1)
    assert not offsets.has_room(2)


def test_the_latest_offset_never_goes_back() -> None:
    offsets = OffsetMap(1000)
    for latest in (5, 3):
        offsets.update_latest(latest)
    assert offsets.latest_offset == 5
