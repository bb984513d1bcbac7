"""The small job of two labs: windows of event time, a delay after which they close, results as a table."""

from __future__ import annotations

import pytest

from kafkalite.learn.window_counts import WindowCounts, clock, minute_of, table
from kafkalite.record.records import Record


def test_each_event_gives_the_new_count_of_its_window() -> None:
    counts = WindowCounts(10)
    assert [counts.add(minute) for minute in (601, 609, 610, 612)] == [(600, 1), (600, 2), (610, 1), (610, 2)]


@pytest.mark.parametrize(("delay", "result", "late"), [(21, None, 1), (22, (600, 2), 0)])
def test_a_window_closes_once_an_event_is_the_delay_behind_its_end(
    delay: int, result: tuple[int, int] | None, late: int
) -> None:
    counts = WindowCounts(delay)
    counts.add(600)
    counts.add(631)
    assert counts.add(608) == result
    assert counts.late == late


def test_a_late_event_counts_in_its_own_window_while_that_is_open() -> None:
    counts = WindowCounts(30)
    counts.add(631)
    assert counts.add(608) == (600, 1)


def test_times_are_read_and_written() -> None:
    assert minute_of("10:08 eve") == 608
    assert clock(608) == "10:08"
    with pytest.raises(ValueError, match="invalid literal"):
        minute_of("eve")


def test_the_last_count_of_a_window_is_that_of_the_table() -> None:
    results = [(b"10:00", b"1"), (b"10:10", b"1"), (b"10:00", b"2")]
    records = [Record(offset, 0, key, value, []) for offset, (key, value) in enumerate(results)]
    assert table(records) == {"10:00": 2, "10:10": 1}
