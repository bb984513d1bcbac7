"""What compaction makes of one batch, and which transactions it believes to see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kafkalite.common.errors import ApiError
from kafkalite.log.cleaner.batch_filter import BatchFilter, CleanedTransactions, control_kind, note_batch
from kafkalite.log.cleaner.job import CleanerStats, LastRecord
from kafkalite.log.cleaner.offset_map import OffsetMap
from kafkalite.log.values import AbortedTxn
from kafkalite.record.batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptRecordError,
    check_crc,
    iter_headers,
    read_any_header,
)
from kafkalite.record.compression import CODECS
from kafkalite.record.legacy import encode_message_set, unwrap
from kafkalite.record.records import ABORT, COMMIT, Record, encode_batch, iter_records
from tests.log.fixtures import NOW, marker

LATER = NOW + 1_000_000
RETENTION = 60_000


def batch(records: Sequence[Record], **more: Any) -> bytes:
    return encode_batch(records, leader_epoch=3, **more)


def puts(*keys: str, base: int = 0, values: Sequence[bytes | None] = ()) -> list[Record]:
    return [
        Record(base + n, NOW + n, key.encode(), values[n] if values else b"v%d" % (base + n))
        for n, key in enumerate(keys)
    ]


class Filtering:
    """A filter over a map of what ``latest`` says, up to offset ``up_to``."""

    def __init__(
        self,
        latest: dict[str, int] | None = None,
        *,
        up_to: int = 1000,
        end: int = 10_000,
        aborted: Sequence[AbortedTxn] = (),
        last: dict[int, LastRecord] | None = None,
        now: int = LATER,
    ) -> None:
        self.offsets = OffsetMap(1 << 20)
        for key, offset in (latest or {}).items():
            self.offsets.put(key.encode(), offset)
        self.offsets.update_latest(up_to)
        self.stats = CleanerStats()
        self.kept: list[AbortedTxn] = []
        self.filter = BatchFilter(
            self.offsets,
            CleanedTransactions(aborted, self.kept.append),
            last or {},
            now,
            RETENTION,
            self.stats,
        )
        self.filter.end = end

    def __call__(self, data: bytes | memoryview) -> tuple[BatchHeader, bytes] | None:
        """What became of a batch; the header that is told is the one that stands in the bytes."""
        result = self.filter.apply(read_any_header(data), memoryview(data))
        if result is None:
            return None
        made = bytes(result[1])
        header = read_any_header(made)
        assert header.size == len(made) == result[0].size
        assert check_crc(made, 0, header)
        for field in BatchHeader.__slots__:
            if field != "crc":
                assert getattr(header, field) == getattr(result[0], field), field
        return header, made


def keys(result: tuple[BatchHeader, bytes] | None) -> list[bytes | None] | None:
    return None if result is None else [record.key for record in iter_records(result[1], result[0])]


# -- data


@pytest.mark.parametrize("codec", range(5), ids=list(CODECS)[:5])
@pytest.mark.parametrize(
    ("latest", "left"),
    [
        ({}, "abc"),
        ({"a": 0, "b": 1, "c": 2}, "abc"),
        ({"a": 7}, "bc"),
        ({"b": 7}, "ac"),
        ({"c": 7}, "ab"),
        ({"a": 7, "c": 7}, "b"),
        ({"a": 7, "b": 7, "c": 7}, None),
    ],
)
def test_records_that_newer_ones_replace_go(latest: dict[str, int], left: str | None, codec: int) -> None:
    original = batch(puts("a", "b", "c"), codec=codec)
    result = Filtering(latest)(original)
    if left is None:
        assert result is None
        return
    assert result is not None
    header, data = result
    before = read_any_header(original)
    kept = [record for record in iter_records(original, before) if record.key and record.key.decode() in left]
    assert list(iter_records(data, header)) == kept
    assert (data == original) == (left == "abc"), "what loses nothing is not touched"
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (0, 2, 3)
    assert header.compression == codec
    assert header.max_timestamp == max(record.timestamp for record in kept)


def test_records_that_stay_are_the_same_bytes() -> None:
    original = batch(puts("a", "b", "c"))
    result = Filtering({"a": 7})(original)
    assert result is not None
    first = original[HEADER_SIZE] // 2 + 1
    assert result[1][HEADER_SIZE:] == original[HEADER_SIZE + first :]


def test_a_batch_above_the_map_is_not_even_looked_at() -> None:
    original = batch([Record(50, NOW, None, b"v"), *puts("a", base=51)])
    assert keys(Filtering({"a": 99}, up_to=49)(original)) == [None, b"a"]
    assert keys(Filtering({}, up_to=50)(original)) == [b"a"]


def test_records_without_a_key_go() -> None:
    assert Filtering()(batch([Record(0, NOW, None, b"v")])) is None


def test_append_times_stay() -> None:
    original = batch(puts("a", "b"), timestamp_type=1, log_append_time=NOW + 500)
    result = Filtering({"b": 7})(original)
    assert result is not None
    assert (result[0].timestamp_type, result[0].max_timestamp) == (1, NOW + 500)
    assert [record.timestamp for record in iter_records(result[1], result[0])] == [NOW + 500]


@pytest.mark.parametrize("producer", [{}, {"producer_id": 5, "producer_epoch": 2, "base_sequence": 30}])
def test_what_a_producer_wrote_stays_his(producer: dict[str, int]) -> None:
    result = Filtering({"a": 7})(batch(puts("a", "b"), **producer))
    assert result is not None
    told = {name: getattr(result[0], name) for name in ("producer_id", "producer_epoch", "base_sequence")}
    assert told == (producer or {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1})


# -- tombstones


def test_a_tombstone_is_kept_until_its_deadline() -> None:
    original = batch(puts("a", "b", values=[None, b"v"]), codec=4)
    filtering = Filtering({"a": 0, "b": 1})
    result = filtering(original)
    assert result is not None
    header, data = result
    assert header.delete_horizon_ms == LATER + RETENTION
    before = read_any_header(original)
    assert list(iter_records(data, header)) == list(iter_records(original, before)), "time stamps and all"
    assert (header.max_timestamp, header.compression, header.last_offset) == (before.max_timestamp, 4, 1)

    again = Filtering({"a": 0, "b": 1}, now=LATER + RETENTION - 1)(data)
    assert again is not None
    assert again[1] == data, "the deadline is set once"
    after = Filtering({"a": 0, "b": 1}, now=LATER + RETENTION)(data)
    assert after is not None
    assert keys(after) == [b"b"]
    assert after[0].delete_horizon_ms == LATER + RETENTION
    assert [record.timestamp for record in iter_records(after[1], after[0])] == [NOW + 1]
    assert after[0].max_timestamp == NOW + 1


def test_a_batch_of_tombstones_goes_at_its_deadline() -> None:
    first = Filtering()(batch(puts("a", "b", values=[None, None])))
    assert first is not None
    assert Filtering(now=LATER + RETENTION)(first[1]) is None


def test_a_tombstone_that_a_newer_record_replaces_goes_at_once() -> None:
    result = Filtering({"a": 7})(batch(puts("a", "b", values=[None, b"v"])))
    assert keys(result) == [b"b"]
    assert result is not None
    assert result[0].delete_horizon_ms is None


def test_a_deadline_beside_append_times() -> None:
    original = batch(puts("a", values=[None]), timestamp_type=1, log_append_time=NOW + 500)
    result = Filtering()(original)
    assert result is not None
    assert result[0].delete_horizon_ms == LATER + RETENTION
    assert result[0].max_timestamp == NOW + 500
    assert [record.timestamp for record in iter_records(result[1], result[0])] == [NOW + 500]


# -- producers, the end of the round


@pytest.mark.parametrize(
    ("last", "stays"),
    [
        ({}, False),
        ({5: LastRecord(1, 2)}, True),
        ({5: LastRecord(2, 2)}, False),
        ({6: LastRecord(1, 2)}, False),
        ({5: LastRecord(-1, 2)}, False),
    ],
)
def test_the_last_batch_of_a_producer_stays_empty(last: dict[int, LastRecord], stays: bool) -> None:
    original = batch(puts("a", "b"), producer_id=5, producer_epoch=2, base_sequence=30, codec=1, is_transactional=True)
    result = Filtering({"a": 7, "b": 7}, last=last)(original)
    if not stays:
        assert result is None
        return
    assert result is not None
    header, data = result
    assert len(data) == HEADER_SIZE
    assert (header.record_count, header.base_offset, header.last_offset, header.leader_epoch) == (0, 0, 1, 3)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (5, 2, 30, 31)
    assert (header.is_transactional, header.is_control, header.compression) == (True, False, 0)
    assert (header.base_timestamp, header.max_timestamp) == (-1, NOW + 1)
    again = Filtering(last=last)(data)
    assert again is not None
    assert again[1] == data
    assert Filtering()(data) is None


def test_the_last_batch_of_a_segment_stays() -> None:
    result = Filtering({"a": 7, "b": 7}, end=2)(batch(puts("a", "b")))
    assert result is not None
    assert (result[0].record_count, result[0].next_offset) == (0, 2)
    assert Filtering({"a": 7, "b": 7}, end=3)(batch(puts("a", "b"))) is None


def test_a_batch_without_a_producer_is_no_producers_last_record() -> None:
    assert Filtering({"a": 7}, last={-1: LastRecord(0, -1)})(batch(puts("a"))) is None


# -- transactions


def txn(first: int, last: int, pid: int = 5) -> AbortedTxn:
    return AbortedTxn(pid, first, last, last + 1)


def data(base: int, *names: str, pid: int = 5) -> bytes:
    return batch(puts(*names, base=base), producer_id=pid, producer_epoch=0, base_sequence=0, is_transactional=True)


def test_records_of_an_aborted_transaction_are_removed_regardless_of_their_keys() -> None:
    filtering = Filtering(aborted=[txn(10, 14)])
    assert filtering(data(10, "a", "b")) is None
    assert filtering(batch(puts("z", base=12))) is not None, "not his"
    assert filtering(data(13, "c", pid=6)) is not None, "another's"
    first = filtering(marker(5, commit=False, base=14))
    assert first is not None
    assert first[0].delete_horizon_ms is None, "data of it was still there"
    assert filtering.kept == [txn(10, 14)]
    assert filtering(data(15, "a")) is not None, "the next transaction"


def test_a_marker_without_data_waits_for_its_deadline_and_goes() -> None:
    filtering = Filtering(aborted=[txn(10, 14)])
    first = filtering(marker(5, commit=False, base=14))
    assert first is not None
    assert first[0].delete_horizon_ms == LATER + RETENTION
    assert first[0].is_control
    assert control_kind(first[0], memoryview(first[1])) == ABORT
    assert filtering.kept == []
    second = Filtering(aborted=[txn(10, 14)], now=LATER + RETENTION - 1)(first[1])
    assert second is not None
    assert second[1] == first[1]
    assert Filtering(aborted=[txn(10, 14)], now=LATER + RETENTION)(first[1]) is None


@pytest.mark.parametrize("commit", [True, False])
def test_the_marker_of_a_fenced_producer_stays_empty(commit: bool) -> None:
    """A producer that is known by nothing but its marker: its epoch must survive."""
    first = Filtering()(marker(5, commit=commit, epoch=4, base=14))
    assert first is not None
    result = Filtering(last={5: LastRecord(-1, 4)}, now=LATER + RETENTION)(first[1])
    assert result is not None
    assert (result[0].record_count, result[0].is_control, result[0].producer_epoch) == (0, True, 4)
    assert control_kind(result[0], memoryview(result[1])) is None
    assert Filtering(last={5: LastRecord(-1, 5)}, now=LATER + RETENTION)(first[1]) is None


def test_a_commit_stays_as_long_as_its_data() -> None:
    filtering = Filtering({"a": 10})
    assert filtering(data(10, "a")) is not None
    original = marker(5, commit=True, base=11)
    result = filtering(original)
    assert result is not None
    assert result[1] == bytes(original)
    alone = Filtering({"a": 99})
    assert alone(marker(5, commit=True, base=11)) is not None
    assert control_kind(read_any_header(original), original) == COMMIT


def test_a_commit_whose_data_goes_in_this_round_stays_until_the_next() -> None:
    filtering = Filtering({"a": 99})
    assert filtering(data(10, "a")) is None
    result = filtering(marker(5, commit=True, base=11))
    assert result is not None
    assert result[0].delete_horizon_ms is None


def test_a_transaction_that_began_before_what_is_shown() -> None:
    filtering = Filtering(aborted=[txn(2, 14), txn(20, 25)])
    assert filtering(data(10, "a")) is None
    assert filtering(marker(5, commit=False, base=14)) is not None
    assert filtering(data(16, "a")) is not None
    assert filtering(marker(5, commit=True, base=17)) is not None
    assert filtering(data(20, "a")) is None


# -- formats 0 and 1


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 3])
def test_old_formats(magic: int, codec: int) -> None:
    records = puts("a", "b", "c", base=40)
    stored = encode_message_set(records, magic, codec=codec)
    filtering = Filtering({"b": 99})
    left: list[tuple[int, bytes | None]] = []
    for position, header in iter_headers(stored):
        result = filtering.filter.apply(header, memoryview(stored)[position : position + header.size])
        if result is not None:
            left += [(record.offset, record.key) for record, _ in unwrap(result[1], result[0])]
            assert result[0].base_offset == left[-1][0]
    assert left == [(40, b"a"), (42, b"c")]
    noted = OffsetMap(1 << 20)
    for position, header in iter_headers(stored):
        note_batch(header, memoryview(stored)[position : position + header.size], 41, noted, CleanerStats())
    assert noted.offsets == {b"b": 41, b"c": 42}


def test_the_last_old_record_of_a_segment_stays() -> None:
    stored = encode_message_set(puts("a", "b", base=40), 1, codec=1)
    result = Filtering({"a": 99, "b": 99}, end=42)(stored)
    assert result is not None
    assert [record.offset for record, _ in unwrap(result[1], result[0])] == [41]
    assert Filtering({"a": 99, "b": 99}, end=43)(stored) is None


@pytest.mark.parametrize("keep", [True, False])
def test_old_tombstones_go_by_the_age_of_their_segment(keep: bool) -> None:
    stored = encode_message_set(puts("a", values=[None]), 1)
    filtering = Filtering()
    filtering.filter.keep_legacy_tombstones = keep
    assert (filtering(stored) is not None) == keep


# -- bad bytes


def test_what_does_not_unfold_is_told() -> None:
    good = bytearray(batch(puts("a", "b"), codec=4))
    good[HEADER_SIZE : HEADER_SIZE + 4] = bytes(4)
    with pytest.raises((CorruptRecordError, ApiError)):
        Filtering({"a": 7})(bytes(good))
