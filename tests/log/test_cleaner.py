"""Rounds of compaction on real files: what is left, what readers see, what a crash leaves behind."""

from __future__ import annotations

import contextlib
import errno
import os
import random
from bisect import bisect_left
from pathlib import Path

import pytest

from kafkalite.common.errors import ApiError
from kafkalite.log.cleaner.cleaner import Cleaner, RoundAborted, discard_cleaned
from kafkalite.log.cleaner.job import Cleaned
from kafkalite.log.cleaner.log_cleaner_manager import log_to_clean, make_job
from kafkalite.log.cleaner.offset_map import BYTES_PER_KEY
from kafkalite.log.file_system import FileSystem
from kafkalite.log.log import Log
from kafkalite.log.log_segment import LogSegment
from kafkalite.log.partition_folder import CLEANED_SUFFIX
from kafkalite.record.batch import CorruptRecordError, iter_headers
from kafkalite.record.records import Record, encode_batch
from tests.log.cleaner_fixtures import Update, clean, contents, limits, random_updates, table, updates
from tests.log.fixtures import NOW, LogFixture, batch, fill, marker, read_all

DAY = 86_400_000


def fixture(tmp_path: Path, **more: object) -> LogFixture:
    settings = {"cleanup_policy": ("compact",), "segment_bytes": 1000, "index_interval_bytes": 100, **more}
    return LogFixture(str(tmp_path), **settings)


def write(log: Log, items: list[Update], per_batch: int = 5, codec: int = 0) -> None:
    fill(log, [updates(*items[at : at + per_batch], codec=codec) for at in range(0, len(items), per_batch)])


def record_count(segment: LogSegment) -> int:
    return sum(header.record_count for _, header in iter_headers(segment.read(0, segment.size)))


def counted(names: int, times: int) -> list[Update]:
    return [(f"k{n % names}", f"v{n}") for n in range(names * times)]


# -- what is left


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_only_the_last_value_of_a_key_is_left(tmp_path: Path, codec: int) -> None:
    log = fixture(tmp_path).create()
    write(log, counted(10, 100), codec=codec)
    before = contents(log)
    active = log.segments.active.base_offset
    end = clean(log)
    assert end == active
    after = contents(log)
    assert table(after) == table(before)
    below = [record for record in after if record[0] < active]
    assert [key for _, key, _ in below] == sorted({key for _, key, _ in below}, key=[k for _, k, _ in below].index)
    assert len(below) == 10
    assert below == [record for record in before if record[0] in {offset for offset, _, _ in below}]
    assert [record for record in after if record[0] >= active] == [record for record in before if record[0] >= active]


def test_many_rounds_amount_to_the_same_as_none(tmp_path: Path) -> None:
    rng = random.Random(11)
    lhouse = fixture(tmp_path, delete_retention_ms=5000)
    log = lhouse.create()
    everything: list[Update] = []
    checkpoint, now = 0, NOW
    for _ in range(12):
        items = random_updates(rng, rng.randrange(20, 200), 30)
        everything += items
        write(log, items, rng.randrange(1, 12), rng.choice([0, 0, 1, 4]))
        if rng.random() < 0.3:
            log = lhouse.load(clean=rng.random() < 0.5)
            log.update_high_watermark(log.log_end_offset)
        now += rng.randrange(4000)
        memory = rng.choice([BYTES_PER_KEY * 3, BYTES_PER_KEY * 12, 1 << 20])
        checkpoint = clean(log, checkpoint, now_ms=now, config=limits(memory, 1.0, rng.choice([100, 1000, 1 << 20])))
        found = contents(log)
        expected = {key: value for key, value in dict(everything).items() if value is not None}
        assert table(found) == expected
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(offsets)
        keys = [key for offset, key, _ in found if offset < checkpoint]
        assert len(keys) == len(set(keys)), "what is clean holds no key twice"


def test_a_reader_may_ask_for_any_offset(tmp_path: Path) -> None:
    log = fixture(tmp_path).create()
    write(log, counted(10, 50))
    clean(log)
    everything = contents(log)
    for offset in range(log.log_end_offset):
        data = read_all(log, offset)
        first = next(iter_headers(data))[1]
        assert first.last_offset >= offset
        wanted = [record[0] for record in everything if record[0] >= offset]
        lasts = [header.last_offset for _, header in iter_headers(data)]
        assert lasts[-1] == log.log_end_offset - 1
        assert wanted[0] <= lasts[-1]


def test_a_small_map_takes_several_rounds_each_of_which_gets_on(tmp_path: Path) -> None:
    log = fixture(tmp_path).create()
    write(log, counted(50, 10), per_batch=10)
    before = contents(log)
    checkpoint, rounds = 0, 0
    while checkpoint < log.segments.active.base_offset:
        reached = clean(log, checkpoint, config=limits(BYTES_PER_KEY, 1.0))
        assert reached > checkpoint
        checkpoint, rounds = reached, rounds + 1
    assert rounds > 10
    assert table(contents(log)) == table(before)


def test_batches_larger_than_the_buffer(tmp_path: Path) -> None:
    log = fixture(tmp_path, segment_bytes=100_000).create()
    write(log, [(f"k{n % 7}", "v" * 9000) for n in range(70)], per_batch=3)
    before = contents(log)
    clean(log, config=limits(io_buffer_size=1))
    assert table(contents(log)) == table(before)


def test_tombstones_go_after_their_time(tmp_path: Path) -> None:
    log = fixture(tmp_path, delete_retention_ms=DAY).create()
    write(log, [*counted(10, 10), *((f"k{n}", None) for n in range(5))])
    write(log, [("x", "y")] * 60)
    clean(log, now_ms=NOW)
    assert [value for _, key, value in contents(log) if key in ("k0", "k4")] == [None, None]
    clean(log, now_ms=NOW + DAY - 1)
    assert len([1 for _, _, value in contents(log) if value is None]) == 5
    clean(log, now_ms=NOW + DAY)
    assert {key for _, key, _ in contents(log)} == {"k5", "k6", "k7", "k8", "k9", "x"}


def test_segments_are_merged_and_offsets_kept(tmp_path: Path) -> None:
    lhouse = fixture(tmp_path)
    log = lhouse.create()
    write(log, counted(10, 100))
    count = len(log.segments)
    end = log.log_end_offset
    checkpoint = clean(log)
    write(log, counted(10, 20))
    clean(log, checkpoint)
    assert len(log.segments) < count / 2
    assert log.segments[0].base_offset == 0
    assert log.log_end_offset == end + 200
    assert not lhouse.names(".cleaned")
    assert not lhouse.names(".swap")
    assert sum(segment.size for segment in log.segments) == sum(
        os.path.getsize(segment.path) for segment in log.segments
    )


def test_every_segment_ends_where_the_next_one_begins(tmp_path: Path) -> None:
    """A start takes a segment that ends earlier for one whose end lost power took."""
    lhouse = fixture(tmp_path, segment_bytes=600)
    log = lhouse.create()
    write(log, counted(3, 10))
    write(log, [("a", "1")])
    write(log, counted(3, 100))
    checkpoint = clean(log)
    write(log, counted(3, 100))
    clean(log, checkpoint)
    assert len(log.segments) > 2
    ends = [segment.tail()[0] for segment in log.segments][:-1]
    assert ends == [segment.base_offset for segment in log.segments][1:]
    end, kept = log.log_end_offset, contents(log)
    again = lhouse.load(recovery_point=0)
    assert (again.log_end_offset, contents(again)) == (end, kept)


def test_segments_without_records_are_merged(tmp_path: Path) -> None:
    """librdkafka fails after eleven answers without a record, and no answer goes over the end of a segment."""
    log = fixture(tmp_path).create()
    write(log, counted(10, 200))
    before = contents(log)
    clean(log)
    closed = list(log.segments)[:-1]
    assert [segment.base_offset for segment in closed if not record_count(segment)] == []
    assert table(contents(log)) == table(before)


@pytest.mark.parametrize(
    ("end", "bases"), [(1 << 31, [0, 1 << 31]), ((1 << 31) + 1, [0, 100])], ids=["just fit", "too far"]
)
def test_segments_without_records_are_merged_where_the_offsets_fit(tmp_path: Path, end: int, bases: list[int]) -> None:
    """Offsets in an index are four bytes, relative to the first one of the segment."""
    log = fixture(tmp_path).create()
    for base, following in ((0, 100), (100, end), (end, end + 1)):
        log.append_as_follower(batch(base=base, size=600))
        log.roll(following)
    log.update_high_watermark(log.log_end_offset)
    clean(log)
    assert [segment.base_offset for segment in log.segments] == [*bases, end + 1]


def test_the_new_segment_is_as_old_as_the_ones_before(tmp_path: Path) -> None:
    log = fixture(tmp_path).create()
    write(log, counted(10, 30))
    for number, segment in enumerate(log.segments):
        os.utime(segment.path, (1000 + number, 1000 + number))
    before = [segment.base_offset for segment in log.segments]
    clean(log)
    after = [segment.base_offset for segment in log.segments]
    last_merged = [bisect_left(before, following) - 1 for following in [*after[1:], log.log_end_offset]]
    assert [os.path.getmtime(segment.path) for segment in log.segments] == [1000.0 + number for number in last_merged]


def test_nothing_above_the_last_stable_offset_is_touched(tmp_path: Path) -> None:
    log = fixture(tmp_path).create()
    write(log, counted(5, 10))
    fill(log, [batch(1, pid=7, sequence=0, transactional=True)])
    write(log, counted(5, 40))
    before = [record for record in contents(log) if record[0] >= 50]
    end = clean(log)
    assert end <= 50
    assert [record for record in contents(log) if record[0] >= 50] == before


# -- transactions and producers


def test_aborted_records_go_and_the_index_with_the_last_marker(tmp_path: Path) -> None:
    lhouse = fixture(tmp_path, delete_retention_ms=1000, segment_bytes=600)
    log = lhouse.create()
    write(log, counted(3, 2))
    for number in range(6):
        fill(log, [batch(2, pid=7, sequence=number * 2, transactional=True)])
        log.append_as_leader(marker(7, commit=number % 2 == 1), 0, NOW, from_client=False)
        write(log, counted(3, 1))
    write(log, counted(3, 20))
    log.roll()
    aborted = log.aborted_transactions(0, log.log_end_offset)
    assert len(aborted) == 3
    checkpoint = clean(log, now_ms=NOW)
    keys = [key for _, key, _ in contents(log)]
    assert {"k0", "k1", "k2"} == set(keys)
    # The data went in this round: readers who have it need the index until the markers go.
    assert log.aborted_transactions(0, log.log_end_offset) == aborted
    log = lhouse.load(clean=True)
    log.update_high_watermark(log.log_end_offset)
    assert log.aborted_transactions(0, log.log_end_offset) == aborted
    clean(log, checkpoint, now_ms=NOW + 1)
    assert log.aborted_transactions(0, log.log_end_offset) == []
    markers = [header for _, header in iter_headers(read_all(log)) if header.is_control]
    assert markers
    # The end of a segment keeps a transaction for a round longer, and its marker gets its deadline then.
    clean(log, checkpoint, now_ms=NOW + 2000)
    clean(log, checkpoint, now_ms=NOW + 4000)
    left = [header for _, header in iter_headers(read_all(log)) if header.producer_id == 7]
    # His last sequence stays, and as long as a batch of the transaction is there, so does its end.
    assert [(header.is_control, header.record_count) for header in left] == [(False, 0), (True, 1)]


# trap: kafkalite/log/cleaner/batch_filter.py: Compaction loses the last sequence number of a producer.
@pytest.mark.parametrize("clean_shutdown", [True, False])
def test_sequences_survive(tmp_path: Path, clean_shutdown: bool) -> None:
    lhouse = fixture(tmp_path)
    log = lhouse.create()
    fill(log, [batch(2, pid=9, sequence=at) for at in range(0, 20, 2)])
    write(log, [*counted(2, 5), *((f"k{n % 2}", "v") for n in range(200))])
    clean(log)
    log.roll()
    clean(log, 20)
    for name in lhouse.names(".snapshot"):
        if not clean_shutdown:
            os.remove(f"{lhouse.path}/{name}")
    log = lhouse.load(clean=clean_shutdown)
    log.update_high_watermark(log.log_end_offset)
    assert log.producer_state.entries[9].last_sequence == 19
    end = log.log_end_offset
    assert log.append_as_leader(batch(2, pid=9, sequence=18), 0, NOW).last_offset < end
    assert log.log_end_offset == end, "a batch that was appended before is not written again"
    assert log.append_as_leader(batch(2, pid=9, sequence=20), 0, NOW).first_offset == end


def test_snapshots_of_merged_segments_go(tmp_path: Path) -> None:
    lhouse = fixture(tmp_path)
    log = lhouse.create()
    write(log, counted(10, 100))
    clean(log)
    write(log, counted(10, 100))
    clean(log)
    bases = {segment.base_offset for segment in log.segments}
    assert set(log.producer_state.snapshots) <= bases | {log.log_end_offset}


# -- readers and crashes


def test_a_running_fetch_continues_during_a_swap(tmp_path: Path) -> None:
    lhouse = fixture(tmp_path)
    log = lhouse.create()
    write(log, counted(10, 30))
    info = log.read(0, 1 << 20, log.log_end_offset, True)
    assert info.records is not None
    before = info.records.read()
    clean(log)
    assert info.records.read() == before
    assert not lhouse.names(".deleted"), "nobody waits here"


class CrashError(Exception):
    """The process is gone."""


class CrashingFileSystem(FileSystem):
    """Crashes before the ``left``-th rename or removal."""

    def __init__(self, left: int) -> None:
        self.left = left

    def _step(self) -> None:
        if not self.left:
            raise CrashError
        self.left -= 1

    def rename(self, source: str, target: str) -> None:
        self._step()
        super().rename(source, target)

    def remove(self, path: str, missing_ok: bool = True) -> bool:
        self._step()
        return super().remove(path, missing_ok)


# trap: kafkalite/log/log.py: A crash in the middle of the swap of compacted segments.
@pytest.mark.parametrize("twice", [False, True])
def test_a_crash_at_any_moment_of_the_swap(tmp_path: Path, twice: bool) -> None:
    """Also a second one, while the first is being put right."""
    steps = 0
    while True:
        folder = tmp_path / f"{steps}"
        folder.mkdir()
        lhouse = fixture(folder, segment_bytes=400)
        log = lhouse.create()
        write(log, [*counted(4, 4), *((f"k{n % 2}", None) for n in range(4))])
        write(log, counted(4, 2))
        log.roll()
        # A second round merges what the first has made small.
        checkpoint = clean(log)
        write(log, counted(4, 8))
        before = table(contents(log))
        lhouse.fs = crashing = CrashingFileSystem(10_000)  # type: ignore[assignment]
        log = lhouse.load()
        log.update_high_watermark(log.log_end_offset)
        crashing.left = steps
        try:
            clean(log, checkpoint)
        except CrashError:
            crashed = True
        else:
            crashed = False
        for left in (0, 1, 3, 6) if twice else ():
            crashing.left = left
            with contextlib.suppress(CrashError):
                lhouse.load()
        crashing.left = 10_000
        log = lhouse.load()
        log.update_high_watermark(log.log_end_offset)
        assert table(contents(log)) == before
        left_over = [name for name in lhouse.names() if name.endswith((".cleaned", ".swap", ".deleted"))]
        assert left_over == []
        assert table(contents(log)) == before
        if not crashed:
            break
        steps += 1
    assert steps > 20


# trap: kafkalite/log/cleaner/cleaner.py: A left-over `.cleaned` file makes the loader delete a valid `.swap` file: each
# cleaning first deletes what an earlier one left.
def test_what_an_earlier_round_left_is_thrown_away(tmp_path: Path) -> None:
    lhouse = fixture(tmp_path)
    log = lhouse.create()
    write(log, counted(10, 30))
    for name in ("00000000000000000000.log.cleaned", "00000000000000000007.index.cleaned"):
        Path(lhouse.path, name).write_bytes(b"rubbish")
    before = table(contents(log))
    clean(log)
    assert table(contents(log)) == before
    assert not lhouse.names(".cleaned")


# -- refusals


# trap: kafkalite/log/cleaner/cleaner.py: Compaction rewrites a batch with a wrong bit, and gives it a valid CRC.
def test_a_wrong_bit_is_found_and_not_made_right(tmp_path: Path) -> None:
    lhouse = fixture(tmp_path)
    log = lhouse.create()
    write(log, counted(10, 30))
    path = Path(log.segments[1].path)
    data = bytearray(path.read_bytes())
    data[150] ^= 1
    path.write_bytes(data)
    names = lhouse.names(".log")
    with pytest.raises(CorruptRecordError, match="wrong CRC"):
        clean(log)
    assert lhouse.names(".log") == names


@pytest.mark.parametrize("cut", [3, 40, 70])
def test_a_file_that_is_cut_short_is_refused(tmp_path: Path, cut: int) -> None:
    log = fixture(tmp_path).create()
    write(log, counted(10, 30))
    path = Path(log.segments[1].path)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(CorruptRecordError):
        clean(log)


def test_a_round_is_given_up_between_reads(tmp_path: Path) -> None:
    lhouse = fixture(tmp_path)
    log = lhouse.create()
    write(log, counted(10, 30))
    job = make_job(log_to_clean(log, 0, NOW)[0], 1, NOW, limits())
    stops = 0
    while True:
        left = [stops]

        def check() -> None:
            if not left[0]:  # noqa: B023
                raise RoundAborted
            left[0] -= 1  # noqa: B023

        try:
            Cleaner(FileSystem(), check, lambda: 0.0, lambda _: None).clean(job, lambda _: None)
        except RoundAborted:
            stops += 1
            continue
        break
    assert stops > 2 * len(job.segments)


def test_a_round_that_fails_leaves_the_segments_that_it_has_reported(tmp_path: Path) -> None:
    """The broker may not have put them in yet; without their files it would take the log directory offline."""
    lhouse = fixture(tmp_path)
    log = lhouse.create()
    write(log, [(f"k{number}", "v" * 50) for number in range(200)])
    job = make_job(log_to_clean(log, 0, NOW)[0], 1, NOW, limits())
    reported: list[str] = []

    class Full(FileSystem):
        def fsync(self, fd: int) -> None:
            if len(reported) == 2:
                raise OSError(errno.ENOSPC, "no space left on device")
            super().fsync(fd)

    def report(cleaned: Cleaned) -> None:
        reported.append(f"{cleaned.base_offset:020}")

    with pytest.raises(OSError, match="no space left"):
        Cleaner(Full(), lambda: None, lambda: 0.0, lambda _: None).clean(job, report)
    left = lhouse.names(".cleaned")
    assert sorted({name[:20] for name in left}) == reported
    assert {f"{base}.log.cleaned" for base in reported} <= set(left)


def test_a_compacted_log_takes_no_records_without_a_key(tmp_path: Path) -> None:
    log = fixture(tmp_path).create()
    with pytest.raises(ApiError, match="key"):
        log.append_as_leader(memoryview(bytearray(encode_batch([Record(0, NOW, None, b"v")]))), 0, NOW)
    log.append_as_leader(marker(5, commit=True), 0, NOW, from_client=False)


def test_a_broken_disk_does_not_end_the_compactor_that_gives_a_round_up(tmp_path: Path) -> None:
    """The files stay, and the next round removes them."""

    class Broken(FileSystem):
        def list_dir(self, path: str) -> list[str]:
            raise OSError(errno.EIO, f"{path} cannot be read")

    left = tmp_path / f"0.log{CLEANED_SUFFIX}"
    left.write_bytes(b"half")
    discard_cleaned(Broken(), str(tmp_path))
    assert left.exists()
    discard_cleaned(FileSystem(), str(tmp_path))
    assert not left.exists()
