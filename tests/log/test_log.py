"""Appending, reading, marks and rolling of one log."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.log.cleaner.log_cleaner_manager import log_to_clean
from kafkalite.log.values import UnexpectedAppendOffsetError
from kafkalite.record.batch import iter_headers
from kafkalite.record.legacy import encode_message_set
from kafkalite.record.records import Record

from .fixtures import BROKEN, FULL, NOW, LogFixture, batch, fill, marker, read_all


@pytest.fixture
def fixture(tmp_path: Path) -> LogFixture:
    return LogFixture(str(tmp_path))


def test_offsets_before_are_where_segments_start(tmp_path: Path) -> None:
    fixture = LogFixture(str(tmp_path), segment_bytes=200)
    log = fixture.create()
    assert (log.offsets_before(-1, 5), log.offsets_before(-2, 5), log.offsets_before(NOW - 1, 5)) == ([0], [0], [])
    fill(log, [batch(2, size=40) for _ in range(3)])
    for number, segment in enumerate(log.segments):
        os.utime(segment.path, (1000 + number, 1000 + number))
    assert log.segments.bases == [0, 2, 4]
    cases = {
        (-1, 10): [6, 4, 2, 0],
        (-1, 2): [6, 4],
        (-1, 0): [],
        (-1, -1): [],
        (-2, 10): [0],
        (1_001_500, 10): [2, 0],
        (1_001_500, 1): [2],
        (5, 10): [],
        (fixture.clock.time_ms() + 5, 1): [6],
    }
    assert {asked: log.offsets_before(*asked) for asked in cases} == cases
    log.increment_log_start_offset(3)
    assert log.offsets_before(-1, 10) == [6, 4, 3, 3], "a start that was given up counts as the log's"


def test_leader_gives_offsets_and_epoch(fixture: LogFixture) -> None:
    log = fixture.create()
    first = log.append_as_leader(batch(3), 7, NOW)
    second = log.append_as_leader(batch(2), 7, NOW)
    assert (first.first_offset, first.last_offset) == (0, 2)
    assert (second.first_offset, second.last_offset) == (3, 4)
    assert log.log_end_offset == 5
    headers = [header for _, header in iter_headers(read_all(log))]
    assert [(h.base_offset, h.last_offset, h.leader_epoch) for h in headers] == [(0, 2, 7), (3, 4, 7)]
    assert log.latest_epoch == 7


def test_no_files_before_the_first_append(fixture: LogFixture) -> None:
    log = fixture.create()
    assert fixture.names() == []
    assert log.read(0, 100, 10, True).records is None
    log.append_as_leader(batch(), 0, NOW)
    assert fixture.names(".log") == ["00000000000000000000.log"]


@pytest.mark.parametrize("offset", [-1, 6])
def test_read_outside(fixture: LogFixture, offset: int) -> None:
    log = fixture.create()
    fill(log, [batch(5)])
    with pytest.raises(ApiError) as refused:
        log.read(offset, 100, 5, True)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_read_never_reaches_the_upper_bound(fixture: LogFixture) -> None:
    log = fixture.create()
    fill(log, [batch(3) for _ in range(200)])
    data = read_all(log)
    for start in (0, 1, 100, 450, 597):
        for upper in (*range(start, min(start + 8, 601)), 598, 599, 600):
            info = log.read(start, 1 << 20, upper, True)
            chunk = info.records.read() if info.records else b""
            offsets = [(h.base_offset, h.last_offset) for _, h in iter_headers(chunk)]
            assert all(last < upper for _, last in offsets), (start, upper)
            assert chunk in data
            first = start - start % 3
            wanted = [(o, o + 2) for o in range(first, upper - 2, 3)] if upper > start else []
            assert offsets == wanted, (start, upper)


def test_read_sizes(fixture: LogFixture) -> None:
    log = fixture.create()
    fill(log, [batch(1, size=1000) for _ in range(5)])
    whole = log.read(0, 1 << 20, 5, True).size
    one = whole // 5
    assert log.read(0, 10, 5, True).size == one
    assert log.read(0, 10, 5, False).size == 10
    assert log.read(0, one + 10, 5, True).size == one + 10
    assert log.read(2, whole, 4, True).size == 2 * one
    assert log.read(3, 0, 5, False).records is None


def test_reads_cross_segments(fixture: LogFixture) -> None:
    fixture.config = type(fixture.config)(segment_bytes=500, index_interval_bytes=64)
    fixture.pool_limit = 2
    log = fixture.create()
    fill(log, [batch(2, size=50) for _ in range(40)])
    assert len(log.segments) > 5
    headers = [header for _, header in iter_headers(read_all(log, max_bytes=300))]
    assert [h.base_offset for h in headers] == list(range(0, 80, 2))
    for segment in log.segments:
        assert segment.size <= 500


@pytest.mark.parametrize(
    ("settings", "advance", "rolls"),
    [
        ({"segment_bytes": 200}, 0, True),
        ({"segment_ms": 1000}, 0, False),
        ({"segment_ms": 1000}, 1001, True),
        ({"segment_index_bytes": 8, "index_interval_bytes": 0}, 0, True),
        ({}, 0, False),
    ],
)
def test_rolls(fixture: LogFixture, settings: dict[str, Any], advance: int, rolls: bool) -> None:
    fixture.config = type(fixture.config)(**settings)
    log = fixture.create()
    for _ in range(3):
        log.append_as_leader(batch(1, size=20), 0, NOW)
    log.append_as_leader(batch(1, size=20, timestamp=NOW + advance), 0, NOW + advance)
    assert (len(log.segments) > 1) is rolls
    assert [h.base_offset for _, h in iter_headers(read_all(log))] == [0, 1, 2, 3]
    if rolls:
        assert f"{log.segments[1].base_offset:020d}.snapshot" in fixture.names()


def test_the_age_of_a_segment_counts_from_its_first_record(fixture: LogFixture) -> None:
    fixture.config = type(fixture.config)(segment_ms=1000)
    log = fixture.create()
    log.append_as_leader(batch(1, timestamp=NOW + 5000), 0, NOW + 5000)
    log.append_as_leader(batch(1, timestamp=NOW + 6000), 0, NOW + 6000)
    assert log.segments.bases == [0]
    log.append_as_leader(batch(1, timestamp=NOW + 6001), 0, NOW + 6001)
    assert log.segments.bases == [0, 2]


def test_too_large_for_a_segment(fixture: LogFixture) -> None:
    fixture.config = type(fixture.config)(segment_bytes=100)
    log = fixture.create()
    with pytest.raises(ApiError) as refused:
        log.append_as_leader(batch(1, size=200), 0, NOW)
    assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_follower_takes_many_batches_as_they_are(fixture: LogFixture) -> None:
    log = fixture.create()
    sent = b"".join(batch(2, base=base, leader_epoch=base // 4) for base in range(0, 20, 2))
    info = log.append_as_follower(memoryview(sent + bytes(batch(2, base=20))[:-1]))
    assert (info.first_offset, info.last_offset, info.size) == (0, 19, len(sent))
    assert log.log_end_offset == 20
    assert read_all(log) == sent
    assert log.epochs.entries == [(0, 0), (1, 4), (2, 8), (3, 12), (4, 16)]
    assert log.end_offset_for_epoch(2) == (2, 12)
    assert log.end_offset_for_epoch(4) == (4, 20)
    assert log.end_offset_for_epoch(9) == (-1, -1)


def test_follower_refuses_what_is_wrong(fixture: LogFixture) -> None:
    log = fixture.create()
    log.append_as_follower(batch(5))
    with pytest.raises(UnexpectedAppendOffsetError) as below:
        log.append_as_follower(batch(5, base=3))
    assert (below.value.first_offset, below.value.last_offset) == (3, 7)
    bad = batch(1, base=5)
    bad[-1] ^= 1
    with pytest.raises(ApiError) as corrupt:
        log.append_as_follower(bad)
    assert corrupt.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 5


def test_high_watermark_stays_inside(fixture: LogFixture) -> None:
    log = fixture.create()
    fill(log, [])
    log.append_as_leader(batch(4), 0, NOW)
    assert log.high_watermark == 0
    assert log.update_high_watermark(3) and log.high_watermark == 3
    assert not log.update_high_watermark(3)
    assert log.update_high_watermark(99) and log.high_watermark == 4


def test_delete_records(fixture: LogFixture) -> None:
    fixture.config = type(fixture.config)(segment_bytes=300, file_delete_delay_ms=0)
    log = fixture.create()
    fill(log, [batch(1, size=50) for _ in range(20)])
    assert log.increment_log_start_offset(10)
    assert not log.increment_log_start_offset(4)
    with pytest.raises(ApiError):
        log.increment_log_start_offset(21)
    with pytest.raises(ApiError):
        log.read(9, 100, 20, True)
    before = len(log.segments)
    gone = log.delete_old_segments(NOW)
    assert gone and len(log.segments) == before - gone
    assert log.segments[0].base_offset <= 10 < log.segments[1].base_offset
    assert fixture.names(".deleted") == []


def test_retention_by_size_and_time(fixture: LogFixture) -> None:
    fixture.config = type(fixture.config)(segment_bytes=300, retention_bytes=700, file_delete_delay_ms=0)
    log = fixture.create()
    fill(log, [batch(1, size=50) for _ in range(20)])
    log.delete_old_segments(NOW)
    assert 700 <= log.size <= 1000 and log.log_start_offset == log.segments[0].base_offset > 0
    log.update_config(type(fixture.config)(segment_bytes=300, retention_ms=1000, file_delete_delay_ms=0))
    assert log.delete_old_segments(NOW + 1000) == 0
    assert log.delete_old_segments(NOW + 1001) > 0
    assert log.size == 0 and log.log_start_offset == log.log_end_offset == 20
    # The base offset must survive a restart though nothing is in the log.
    assert fixture.load().log_end_offset == 20


def test_nothing_above_the_high_watermark_is_deleted(fixture: LogFixture) -> None:
    fixture.config = type(fixture.config)(segment_bytes=300, retention_ms=1)
    log = fixture.create()
    fill(log, [batch(1, size=50) for _ in range(10)])
    log.high_watermark = 3
    log.delete_old_segments(NOW + 10_000)
    assert log.log_start_offset <= 3


@pytest.mark.parametrize("target", [0, 1, 3, 7, 30, 59, 60])
def test_truncation(fixture: LogFixture, target: int) -> None:
    fixture.config = type(fixture.config)(segment_bytes=600, index_interval_bytes=100)
    log = fixture.create()
    fill(log, [batch(1, size=50, timestamp=NOW + n) for n in range(60)])
    assert log.truncate_to(target) is (target < 60)
    assert log.log_end_offset == log.high_watermark == target
    assert [h.base_offset for _, h in iter_headers(read_all(log))] == list(range(target))
    log.append_as_leader(batch(1), 3, NOW)
    assert log.log_end_offset == target + 1
    assert log.epochs.entries[-1] == (3, target)
    log.close()
    again = fixture.load(clean=True, recovery_point=target + 1)
    assert again.log_end_offset == target + 1 and again.epochs.entries == log.epochs.entries


def test_truncate_fully(fixture: LogFixture) -> None:
    log = fixture.create()
    fill(log, [batch(1, pid=1, sequence=0)])
    log.truncate_fully_and_start_at(50)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (50, 50, 50)
    assert log.latest_epoch is None and not log.producer_state.entries
    log.append_as_follower(batch(2, base=50))
    assert fixture.load().log_end_offset == 52


def test_timestamps(fixture: LogFixture) -> None:
    fixture.config = type(fixture.config)(segment_bytes=400, index_interval_bytes=100)
    log = fixture.create()
    fill(log, [batch(2, size=20, timestamp=NOW + 10 * n) for n in range(30)], leader_epoch=5)
    for asked, offset in [(0, 0), (NOW, 0), (NOW + 1, 2), (NOW + 145, 30), (NOW + 290, 58)]:
        found = log.offset_for_timestamp(asked)
        assert found is not None and (found.offset, found.leader_epoch) == (offset, 5)
    assert log.offset_for_timestamp(NOW + 291) is None
    largest = log.offset_of_max_timestamp()
    assert largest is not None and (largest.timestamp, largest.offset) == (NOW + 290, 58)


# trap: kafkalite/log/producer_state.py: A follower receives the ends of several transactions at once, and a look-up of
# aborted ones stops too soon.
def test_aborted_transactions_of_one_fetch_are_all_found(fixture: LogFixture) -> None:
    """A follower that was away is sent the ends of transactions with the starts of later ones."""
    log = fixture.create()
    sent = b""
    for number in range(3):
        sent += bytes(batch(1, base=2 * number, pid=1, sequence=number, transactional=True))
        sent += bytes(marker(1, commit=False, base=2 * number + 1))
    sent += bytes(batch(1, base=6, pid=1, sequence=3, transactional=True))
    log.append_as_follower(memoryview(sent))
    log.update_high_watermark(7)
    assert log.last_stable_offset == 6
    for upper in (2, 4, 6):
        found = [txn.first_offset for txn in log.aborted_transactions(0, upper)]
        assert found[: upper // 2] == list(range(0, upper, 2)), upper


def test_full_disk_refuses_and_goes_on(fixture: LogFixture) -> None:
    log = fixture.create()
    fill(log, [batch(1)])
    before = read_all(log)
    fixture.fs.fail, fixture.fs.only, fixture.fs.torn = {"pwrite": FULL}, ".log", 30
    with pytest.raises(ApiError) as refused:
        log.append_as_leader(batch(1, pid=4, sequence=0), 0, NOW)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.log_end_offset == 1 and not fixture.failures and not log.producer_state.entries
    assert Path(fixture.path, "00000000000000000000.log").read_bytes() == before
    fixture.fs.fail = {}
    assert log.append_as_leader(batch(1), 0, NOW).first_offset == 1


# trap: kafkalite/log/indexes.py: A full disk refuses the index entry of an aborted transaction whose marker is already
# in the log; the directory goes offline, and its replicas count as if the machine had lost power.
def test_a_full_disk_keeps_an_aborted_transaction_in_memory(fixture: LogFixture) -> None:
    log = fixture.create()
    log.append_as_leader(batch(1, pid=1, sequence=0, transactional=True), 0, NOW)
    fixture.fs.fail, fixture.fs.only = {"pwrite": FULL}, ".txnindex"
    log.append_as_leader(marker(1, commit=False), 0, NOW, from_client=False)
    assert (log.log_end_offset, fixture.failures) == (2, [])
    assert [txn.first_offset for txn in log.aborted_transactions(0, 2)] == [0]
    with pytest.raises(ApiError):
        log.flush()
    assert log.recovery_point == 0, "a start would believe the index below the recovery point"
    with pytest.raises(OSError, match="No space left"):
        log_to_clean(log, None, NOW)
    fixture.fs.fail = {}
    log.flush()
    log.close()
    assert [txn.first_offset for txn in fixture.load(clean=True).aborted_transactions(0, 2)] == [0]


def test_a_truncation_forgets_an_aborted_transaction_that_a_full_disk_refused(fixture: LogFixture) -> None:
    log = fixture.create()
    for number in range(3):
        log.append_as_leader(batch(1, pid=1, sequence=number, transactional=True), 0, NOW)
        log.append_as_leader(marker(1, commit=False), 0, NOW, from_client=False)
        fixture.fs.fail, fixture.fs.only = {"pwrite": FULL}, ".txnindex"
    log.truncate_to(4)
    assert [txn.first_offset for txn in log.aborted_transactions(0, 6)] == [0, 2]
    log.truncate_to(1)
    assert log.aborted_transactions(0, 6) == []


@pytest.mark.parametrize("method", ["pwrite", "pread"])
def test_broken_disk_ends_the_log(fixture: LogFixture, method: str) -> None:
    log = fixture.create()
    fill(log, [batch(1) for _ in range(200)])
    fixture.fs.fail = {method: BROKEN}
    with pytest.raises(ApiError) as refused:
        log.append_as_leader(batch(1), 0, NOW) if method == "pwrite" else log.read(0, 10, 200, True)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert fixture.failures == [fixture.root]
    fixture.fs.fail = {}
    with pytest.raises(ApiError):
        log.read(0, 10, 1, True)


def test_flush_per_message(fixture: LogFixture) -> None:
    fixture.config = type(fixture.config)(flush_messages=1)
    log = fixture.create()
    log.append_as_leader(batch(3), 0, NOW)
    assert log.recovery_point == 3 and fixture.fs.synced


def test_a_flush_says_nothing_of_what_was_written_after_a_cut(fixture: LogFixture) -> None:
    log = fixture.create()
    fill(log, [batch(1) for _ in range(10)])
    work = log.prepare_flush()
    assert work is not None
    log.truncate_to(5)
    fill(log, [batch(1) for _ in range(10)])
    work.run()
    log.flushed(work)
    assert log.recovery_point == 0
    log.flush()
    assert log.recovery_point == 15 and log.prepare_flush() is None


def test_message_formats_0_and_1_on_the_disk(fixture: LogFixture) -> None:
    log = fixture.create()
    old = encode_message_set([Record(n, NOW + n, b"k", b"v" * 9) for n in range(40)], 1)
    Path(fixture.path, "00000000000000000000.log").write_bytes(old)
    log = fixture.load()
    log.update_high_watermark(40)
    assert log.log_end_offset == 40
    found = log.offset_for_timestamp(NOW + 7)
    assert found is not None and found.offset == 7
    assert [h.base_offset for _, h in iter_headers(read_all(log, 33))] == list(range(33, 40))
    assert log.append_as_leader(batch(1), 0, NOW).first_offset == 40


def test_regions_outlive_their_segment(fixture: LogFixture) -> None:
    fixture.config = type(fixture.config)(segment_bytes=300, retention_ms=1, file_delete_delay_ms=0)
    log = fixture.create()
    fill(log, [batch(1, size=50) for _ in range(10)])
    region = log.read(0, 100, 10, True).records
    assert region is not None
    before = region.read()
    log.delete_old_segments(NOW + 10_000)
    assert region.read() == before
