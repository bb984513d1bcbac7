"""A record that a compaction has removed or changed wrongly is reported at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.log.values import AbortedTxn
from kafkalite.record.batch import BatchHeader
from kafkalite.testing.simulation.compaction import (
    Bounds,
    CompactedRecord,
    Compactions,
    Content,
    checked_compactions,
    round_faults,
)
from tests.log.cleaner_fixtures import clean
from tests.log.fixtures import LogFixture, batch, fill

NOT_ABORTED: tuple[AbortedTxn, ...] = ()
ABORTED = (AbortedTxn(7, 2, 4, 2),)


def value(offset: int, key: bytes = b"k", *, pid: int = -1) -> CompactedRecord:
    return CompactedRecord(offset, key, b"v", pid, pid >= 0, None)


def tombstone(offset: int, horizon_ms: int | None) -> CompactedRecord:
    return CompactedRecord(offset, b"k", None, -1, False, horizon_ms)


def faults(
    old: tuple[CompactedRecord, ...],
    new: tuple[CompactedRecord, ...],
    later: tuple[CompactedRecord, ...] = (),
    aborted: tuple[AbortedTxn, ...] = NOT_ABORTED,
    stable: int = 100,
) -> list[str]:
    bounds = Bounds(stable, {}, 1000)
    return list(round_faults(Content((), old), Content((), new), lambda: later, aborted, bounds))


@pytest.mark.parametrize(
    ("old", "new", "later", "aborted"),
    [
        ((value(1), value(2)), (value(2),), (), NOT_ABORTED),
        ((value(1),), (), (value(12),), NOT_ABORTED),
        ((tombstone(1, 1000),), (), (), NOT_ABORTED),
        ((value(2, pid=7),), (), (), ABORTED),
        ((CompactedRecord(1, None, b"v", -1, False, None),), (), (), NOT_ABORTED),
    ],
    ids=["superseded", "superseded later", "its time is over", "aborted", "without a key"],
)
def test_allowed_removals_are_not_reported(
    old: tuple[CompactedRecord, ...],
    new: tuple[CompactedRecord, ...],
    later: tuple[CompactedRecord, ...],
    aborted: tuple[AbortedTxn, ...],
) -> None:
    assert faults(old, new, later, aborted) == []


@pytest.mark.parametrize(
    ("old", "new", "aborted", "stable", "told"),
    [
        ((value(1),), (), NOT_ABORTED, 100, "offset 1, the last committed value of key b'k', is gone"),
        ((tombstone(1, None),), (), NOT_ABORTED, 100, "offset 1, the last committed tombstone of key b'k', is gone"),
        ((tombstone(1, 1001),), (), NOT_ABORTED, 100, "offset 1, the last committed tombstone of key b'k', is gone"),
        ((value(1), value(3, pid=7)), (), ABORTED, 100, "offset 1, the last committed value of key b'k', is gone"),
        ((value(1), value(5)), (value(5),), NOT_ABORTED, 4, "offset 1, the last committed value of key b'k', is gone"),
        ((value(1),), (value(1, b"other"),), NOT_ABORTED, 100, "another record stands at offset 1 now"),
        ((value(1),), (value(1), value(2)), NOT_ABORTED, 100, "another record stands at offset 2 now"),
    ],
    ids=["last value", "tombstone", "tombstone too soon", "aborted took its place", "uncommitted", "changed", "added"],
)
def test_wrong_removals_are_reported(
    old: tuple[CompactedRecord, ...],
    new: tuple[CompactedRecord, ...],
    aborted: tuple[AbortedTxn, ...],
    stable: int,
    told: str,
) -> None:
    assert faults(old, new, (), aborted, stable) == [told]


def test_the_last_batch_of_a_producer_stays() -> None:
    last = BatchHeader(4, 0, 0, 2, 0, 0, 1, 0, 0, 7, 0, 3, 0)
    bounds = Bounds(100, {7: 5, 8: 20}, 1000)
    assert list(round_faults(Content((last,), ()), Content((last,), ()), lambda: (), (), bounds)) == []
    assert list(round_faults(Content((last,), ()), Content((), ()), lambda: (), (), bounds)) == [
        "the last batch of producer 7, which ended at offset 5, is gone"
    ]


def test_a_start_finds_what_a_round_kept(tmp_path: Path) -> None:
    fixture = LogFixture(str(tmp_path), cleanup_policy=("compact",))
    log = fixture.create()
    fill(log, [batch(3), batch(1)])
    log.roll()
    fill(log, [batch(1)])
    told: list[str] = []
    with checked_compactions(told.append):
        clean(log)
    assert told == []
    compactions = Compactions(told.append)
    compactions.begun(log, 0)
    base, made = log.segments[0].base_offset, Path(log.segments[0].path)
    Path(f"{made}.cleaned").write_bytes(made.read_bytes())
    compactions.swap(log, log.segments[0].size, [base], lambda: None)
    compactions.loaded(log)
    assert told == []
    made.write_bytes(b"")
    log.segments[0].size = 0
    compactions.loaded(log)
    assert len(told) == 1
    assert "of the compacted segment 0 the offsets" in told[0]


def test_a_start_does_not_take_a_later_segment_for_the_first(tmp_path: Path) -> None:
    fixture = LogFixture(str(tmp_path), cleanup_policy=("compact",))
    log = fixture.create()
    fill(log, [batch(2)])
    log.roll()
    fill(log, [batch(1)])
    first = log.segments[0]
    told: list[str] = []
    compactions = Compactions(told.append)
    Path(f"{first.path}.cleaned").write_bytes(Path(first.path).read_bytes())
    compactions.begun(log, 0)
    compactions.swap(log, first.size, [0], lambda: None)
    first.mark_deleted()
    loaded = fixture.load()
    compactions.loaded(loaded)
    assert told == [
        f"{log.dir}: the log begins at 2 after a start, it began at 0",
        f"{log.dir}: of the compacted segment 0 the offsets 0 to 1 are gone after a start, the log ends at 3",
    ]
