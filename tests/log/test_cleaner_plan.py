"""What is dirty, what is due, how it is cut into groups, and what is told of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkalite.common.types import TopicPartition
from kafkalite.log.cleaner.cleaner import Throttle, group_segments
from kafkalite.log.cleaner.job import (
    Abort,
    Cleaned,
    CleanerStats,
    CleaningAborted,
    CleaningDone,
    CleaningFailed,
    CleanJob,
    LastRecord,
    Order,
    Report,
    SegmentInfo,
    decode,
    encode,
)
from kafkalite.log.cleaner.log_cleaner_manager import (
    TRANSITIONS,
    CleanerCheckpoints,
    CleaningState,
    CleaningStates,
    cleanable_offsets,
    log_to_clean,
    make_job,
)
from kafkalite.log.log import Log
from kafkalite.testing.clock import ManualClock
from tests.log.cleaner_fixtures import clean, limits, updates
from tests.log.fixtures import NOW, LogFixture, batch, fill, marker

TP = TopicPartition("t", 0)


def dirty_log(tmp_path: Path, segments: int = 5, **settings: Any) -> Log:
    """Segments of ten offsets, a second between their time stamps; the last one is the active one."""
    log = LogFixture(str(tmp_path), **{"cleanup_policy": ("compact",), **settings}).create()
    for number in range(segments):
        if number:
            log.roll()
        fill(log, [updates(*(("k", "v") for _ in range(10)), timestamp=NOW + number * 1000)])
    return log


# -- offsets


@pytest.mark.parametrize(
    ("checkpoint", "first_dirty", "reset"),
    [(None, 0, False), (0, 0, False), (17, 17, False), (50, 50, False), (51, 0, True), (-1, 0, True)],
)
def test_where_the_dirty_part_begins(tmp_path: Path, checkpoint: int | None, first_dirty: int, reset: bool) -> None:
    found = cleanable_offsets(dirty_log(tmp_path), checkpoint, NOW)
    assert (found.first_dirty, found.reset) == (first_dirty, reset)
    assert found.first_uncleanable == max(40, first_dirty)


def test_a_checkpoint_before_the_start_of_the_log(tmp_path: Path) -> None:
    log = dirty_log(tmp_path)
    log.increment_log_start_offset(25)
    assert cleanable_offsets(log, 10, NOW)[:2] == (25, 40)
    assert cleanable_offsets(log, None, NOW)[:2] == (25, 40)


@pytest.mark.parametrize(
    ("lag", "age", "bound"),
    [(0, 0, 40), (1, 9, 0), (1000, 2000, 10), (1000, 2008, 10), (1000, 2009, 20), (5000, 100_000, 40)],
)
def test_young_records_wait(tmp_path: Path, lag: int, age: int, bound: int) -> None:
    log = dirty_log(tmp_path, min_compaction_lag_ms=lag)
    assert cleanable_offsets(log, None, NOW + age).first_uncleanable == bound
    assert log_to_clean(log, None, NOW + age)[0].first_uncleanable == bound


def test_nothing_above_the_high_watermark_or_in_a_transaction(tmp_path: Path) -> None:
    log = dirty_log(tmp_path)
    log.high_watermark = 33
    assert cleanable_offsets(log, None, NOW).first_uncleanable == 33
    assert log_to_clean(log, None, NOW)[0].first_uncleanable == 30, "whole segments"
    log.high_watermark = 50
    fill(log, [batch(1, pid=7, sequence=0, transactional=True)])
    log.roll()
    fill(log, [updates(("k", "v"))])
    log.roll()
    assert cleanable_offsets(log, None, NOW).first_uncleanable == 50
    log.append_as_leader(marker(7, commit=True), 0, NOW, from_client=False)
    log.update_high_watermark(log.log_end_offset)
    assert cleanable_offsets(log, None, NOW).first_uncleanable == 52


@pytest.mark.parametrize(
    ("checkpoint", "clean_segments", "dirty_segments"),
    [(None, 0, 4), (10, 1, 3), (20, 2, 2), (40, 4, 0), (45, 4, 0), (15, 2, 3)],
)
def test_how_dirty(tmp_path: Path, checkpoint: int | None, clean_segments: int, dirty_segments: int) -> None:
    log = dirty_log(tmp_path)
    size = log.segments[0].size
    found = log_to_clean(log, checkpoint, NOW)[0]
    assert (found.clean_bytes, found.cleanable_bytes) == (clean_segments * size, dirty_segments * size)
    assert found.ratio == pytest.approx(dirty_segments / (clean_segments + dirty_segments))


@pytest.mark.parametrize(("ratio", "due"), [(0.49, True), (0.5, False), (0.51, False), (0.0, True)])
def test_dirty_enough(tmp_path: Path, ratio: float, due: bool) -> None:
    assert log_to_clean(dirty_log(tmp_path, min_cleanable_dirty_ratio=ratio), 20, NOW)[0].is_due == due


@pytest.mark.parametrize(("age", "checkpoint", "due"), [
    (4000, 20, False), (7009, 20, False), (7010, 20, True), (7010, 40, False), (8000, 30, False), (8010, 30, True),
])  # fmt: skip
def test_overdue(tmp_path: Path, age: int, checkpoint: int, due: bool) -> None:
    log = dirty_log(tmp_path, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=5000)
    assert log_to_clean(log, checkpoint, NOW + age)[0].is_due == due


@pytest.mark.parametrize(
    ("policy", "lag", "age"),
    [(("compact",), 5000, 5000), (("delete",), 5000, 100_000), (("compact",), 1 << 62, 100_000)],
)
def test_a_compacted_log_rolls_in_time_to_be_compacted(
    tmp_path: Path, policy: tuple[str, ...], lag: int, age: int
) -> None:
    lhouse = LogFixture(str(tmp_path), cleanup_policy=policy, max_compaction_lag_ms=lag, segment_ms=100_000)
    log = lhouse.create()
    for timestamp in (NOW, NOW + age, NOW + age + 1):
        log.append_as_leader(updates(("k", "v"), timestamp=timestamp), 0, timestamp)
    assert log.segments.bases == [0, 2]


def test_the_whole_log_is_the_job(tmp_path: Path) -> None:
    log = dirty_log(tmp_path, delete_retention_ms=77, segment_bytes=5000)
    fill(log, [batch(3, pid=9, sequence=0)])
    log.roll()
    fill(log, [batch(3, pid=6, sequence=0)])
    log.producer_state.entries[8] = log.producer_state.entries[9].copy()
    log.producer_state.entries[8].producer_id = 8
    log.producer_state.entries[8].batches.clear()
    job = make_job(log_to_clean(log, 20, NOW)[0], 6, NOW, limits(1000))
    assert [segment.base_offset for segment in job.segments] == [0, 10, 20, 30, 40]
    assert [segment.size for segment in job.segments] == [log.segments[n].size for n in range(5)]
    assert (job.number, job.first_dirty_offset, job.upper_bound, job.folder) == (6, 20, 53, log.dir)
    # What is written above the bound is not touched.
    assert job.last_records == {9: LastRecord(52, 0), 8: LastRecord(-1, 0)}
    # It may yet be truncated: then the last batch below the bound is the producer's last again.
    fill(log, [batch(3, pid=9, sequence=3)])
    job = make_job(log_to_clean(log, 20, NOW)[0], 7, NOW, limits(1000))
    assert job.last_records == {9: LastRecord(52, 0), 8: LastRecord(-1, 0)}
    assert (job.delete_retention_ms, job.segment_bytes, job.now_ms) == (77, 5000, NOW)


def test_a_log_that_was_compacted_is_clean(tmp_path: Path) -> None:
    log = dirty_log(tmp_path)
    checkpoint = clean(log)
    found = log_to_clean(log, checkpoint, NOW)[0]
    assert (found.ratio, found.is_due) == (0.0, False)


# -- groups


def info(base: int, size: int = 10, index: int = 1, time_index: int = 1) -> SegmentInfo:
    return SegmentInfo(base, size, index, time_index)


@pytest.mark.parametrize(
    ("segments", "bases"),
    [
        ([], []),
        ([info(0)], [[0]]),
        ([info(0), info(10), info(20)], [[0, 10, 20]]),
        ([info(0, 99), info(10, 1), info(20, 1)], [[0, 10], [20]]),
        ([info(0, 101), info(10, 101)], [[0], [10]]),
        ([info(0, 60), info(10, 60), info(20, 40), info(30, 60)], [[0], [10, 20], [30]]),
        ([info(0, index=6), info(10, index=4), info(20, index=1)], [[0, 10], [20]]),
        ([info(0, time_index=6), info(10, time_index=5), info(20)], [[0], [10, 20]]),
        ([info(0, 0, 0, 0), info(10, 0, 0, 0), info(20, 0, 0, 0)], [[0, 10, 20]]),
        # Offsets that four bytes do not hold, unless there are none.
        ([info(0), info(1 << 31), info((1 << 31) + 5)], [[0], [1 << 31, (1 << 31) + 5]]),
        ([info(0), info((1 << 31) - 9), info((1 << 31) + 5)], [[0], [(1 << 31) - 9, (1 << 31) + 5]]),
        ([info(0), info((1 << 31) - 9), info(1 << 31)], [[0, (1 << 31) - 9], [1 << 31]]),
        ([info(0), info(1 << 32, 0), info(1 << 33)], [[0, 1 << 32], [1 << 33]]),
    ],
)
def test_groups(segments: list[SegmentInfo], bases: list[list[int]]) -> None:
    end = segments[-1].base_offset + 10 if segments else 0
    groups = group_segments(segments, 100, 10, end)
    assert [[segment.base_offset for segment in group] for group in groups] == bases


# -- messages


@pytest.mark.parametrize(
    "message",
    [
        CleanJob(
            1, "/d/t-0", (SegmentInfo(0, 1, 2, 3), SegmentInfo(5, 6, 7, 8)), 3, 9, (0, 5), {7: LastRecord(3, 1)},
            NOW, 100, 10, 1, 5, limits(9, 0.5, 8, float("inf")),
        ),
        Abort(3),
        Cleaned(2, 0, 100, (0, 5), (".log", ".index")),
        CleaningDone(2, 9, CleanerStats(1, 2, 3, 4, 5, 6, 8, 9.5, 1.5)),
        CleaningAborted(4),
        CleaningFailed(5, "a «reason»\nof two lines", 28),
    ],
    ids=lambda message: type(message).__name__,
)  # fmt: skip
def test_messages_are_lines(message: Order | Report) -> None:
    line = encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line) == message


@pytest.mark.parametrize("line", [b"", b"no json", b"[]", b"{}", b'{"kind":"Other"}', b'{"kind":"Abort"}'])
def test_other_lines_are_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        decode(line)


# -- states


@pytest.mark.parametrize("before", CleaningState)
@pytest.mark.parametrize("after", CleaningState)
def test_only_the_tables_transitions(before: CleaningState, after: CleaningState) -> None:
    states = CleaningStates()
    states._states = {} if before is CleaningState.NONE else {TP: before}
    if after in TRANSITIONS[before]:
        states.move(TP, after)
        assert states.get(TP) is after
    else:
        with pytest.raises(ValueError, match="cannot go"):
            states.move(TP, after)
        assert states.get(TP) is before


def test_checkpoints() -> None:
    other = TopicPartition("u", 1)
    checkpoints = CleanerCheckpoints()
    checkpoints.load({TP: 10, other: 20, TopicPartition("gone", 0): 5}, [TP, other])
    assert checkpoints.of([TP, other, TopicPartition("gone", 0)]) == {TP: 10, other: 20}
    assert not checkpoints.truncate(TP, 10)
    assert checkpoints.truncate(TP, 9)
    assert not checkpoints.truncate(TopicPartition("gone", 0), 0)
    assert checkpoints.get(TP) == 9
    assert checkpoints.remove(other)
    assert not checkpoints.remove(other)
    assert checkpoints.get(other) is None


# -- the bound on input and output


@pytest.mark.parametrize(("rate", "seconds"), [(1000.0, 10.0), (5000.0, 2.0), (float("inf"), 0.0)])
def test_a_rate_is_kept(rate: float, seconds: float) -> None:
    clock = ManualClock()
    throttle = Throttle(rate, clock.monotonic, clock.advance)
    for _ in range(1000):
        throttle.passed(10)
    # The last 0.3 seconds' worth is not waited for.
    assert max(0.0, seconds - 0.31) <= clock.monotonic() <= seconds


def test_slow_work_is_not_slowed() -> None:
    clock = ManualClock()
    throttle = Throttle(1000.0, clock.monotonic, lambda _: pytest.fail("no need to rest"))
    for _ in range(100):
        clock.advance(0.02)
        throttle.passed(10)
