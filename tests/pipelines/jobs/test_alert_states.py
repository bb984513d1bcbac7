"""The rules' memory from micro-batch to micro-batch."""

from __future__ import annotations

import json
from typing import Any

import pandas
import pytest

from kafkalite.pipelines.jobs.alert_rules import AlertRule
from kafkalite.pipelines.jobs.alert_states import observe

RULES = (AlertRule("high", "m", ">", 10, "3 seconds"), AlertRule("others", "m", ">", 0, process="web-*"))
FORGET_MS = 60_000
Sample = tuple[float, float]


class State:
    """Spark's GroupState, in memory; the watermark is the test's."""

    def __init__(self) -> None:
        self.value: tuple[str] | None = None
        self.watermark = 0
        self.timeout = -1
        self.hasTimedOut = False

    exists = property(lambda self: self.value is not None)
    get = property(lambda self: self.value)

    def update(self, value: tuple[str]) -> None:
        self.value = value

    def remove(self) -> None:
        self.value = None

    def getCurrentWatermarkMs(self) -> int:  # noqa: N802
        return self.watermark

    def setTimeoutTimestamp(self, at: int) -> None:  # noqa: N802
        assert at > self.watermark, "Spark refuses it"
        self.timeout = at


def told(state: Any, *frames: list[Sample], process: str = "db") -> list[tuple[str, str, float, float | None]]:
    """The alerts of one micro-batch: rule, state, time, value."""
    given = [
        pandas.DataFrame([{"at": at, "metrics": json.dumps({"m": value})} for at, value in frame]) for frame in frames
    ]
    found = observe(RULES, ("host", process), given, state, FORGET_MS)
    rows = [row for frame in found for row in frame.itertuples(index=False)]
    return [(row.alert, row.state, row.time, None if pandas.isna(row.value) else row.value) for row in rows]


def test_samples_are_taken_in_their_order_and_the_state_goes_on() -> None:
    state = State()
    assert told(state, [(3, 11), (1, 5)], [(2, 12)]) == []
    assert told(state, [(5, 13), (4, 12)]) == [("high", "raised", 5, 13)]
    assert told(state, [(6, 13)]) == []
    assert told(state, [(4.5, 1)]) == [], "too late"
    assert told(state, [(7, 1)]) == [("high", "resolved", 7, 1)]


def test_only_rules_that_concern_the_process() -> None:
    assert told(State(), [(1, 5)], process="web-1") == [("others", "raised", 1, 5)]


@pytest.mark.parametrize(("raised", "alerts"), [(True, [("high", "resolved", 65, None)]), (False, [])])
def test_a_process_of_which_nothing_is_heard(raised: bool, alerts: list[Any]) -> None:
    state = State()
    told(state, [(1, 11), (5, 11 if raised else 1)])
    assert state.timeout == 5_000 + FORGET_MS
    state.watermark, state.hasTimedOut = 65_000, True
    assert told(state) == alerts
    assert not state.exists


# trap: kafkalite/pipelines/jobs/alert_states.py: Spark refuses a state timeout in the past.
def test_samples_that_are_older_than_the_watermark() -> None:
    state = State()
    state.watermark = 500_000
    told(state, [(1, 11)])
    assert state.timeout == 500_000 + FORGET_MS
