"""The way of one record, from points of brokers whose clocks differ."""

from __future__ import annotations

import pytest

from kafkalite.cluster.record_story import CLIENT, ClockRange, RecordStory, tell
from kafkalite.common.trace_points import TracePoint

AHEAD = {1: 1000.0, 2: -50.0, 3: 7.0}


def story(delay: float = 0.0, spread: float = 0.001) -> RecordStory:
    """Broker 3's fetches need ``delay`` seconds more. Clocks are known to ``spread`` seconds before the record."""

    def at(broker: int, seconds: float, kind: str, reader: int = -1, *, whole: bool = False) -> TracePoint:
        return TracePoint(broker, kind, AHEAD[broker] + seconds, 0 if whole else 5, 6, reader)

    points = [
        TracePoint(1, "high-watermark", AHEAD[1] - 1, 0, 5),
        at(1, 0.001, "received"),
        at(1, 0.002, "appended"),
        at(1, 0.003, "sent", 2),
        at(1, 0.003, "sent", 3),
        at(2, 0.004, "arrived"),
        at(2, 0.005, "replicated"),
        at(2, 0.006, "asked", whole=True),
        at(3, 0.004, "arrived"),
        at(3, 0.005, "replicated"),
        at(3, 0.006, "asked", whole=True),
        at(1, 0.007, "acknowledged", 2, whole=True),
        at(1, 0.008 + delay, "acknowledged", 3, whole=True),
        at(1, 0.008 + delay, "high-watermark", whole=True),
        at(1, 0.009 + delay, "answered"),
        TracePoint(1, "sent", AHEAD[1] + 0.010 + delay, 5, 6, -1, "reader"),
    ]
    clocks = {broker: ClockRange(ahead - spread, ahead + spread) for broker, ahead in AHEAD.items()}
    return tell(5, 0.0, 0.010 + delay, 1, points, clocks)


def test_all_steps_stand_in_the_order_of_one_clock() -> None:
    told = story(0.2)
    assert [(step.broker, step.kind) for step in told.steps][:4] == [
        (CLIENT, "sent"), (1, "received"), (1, "appended"), (1, "sent")
    ]  # fmt: skip
    assert [step.kind for step in told.steps if step.follower == 3] == [
        "sent", "arrived", "replicated", "asked", "acknowledged"
    ]  # fmt: skip
    assert any("consumer reader" in step.text for step in told.steps if step.kind == "consumed")
    assert told.total_ms == pytest.approx(210)


def test_a_delay_is_put_at_the_follower_that_has_it() -> None:
    told = story(0.2)
    assert told.longest.broker == 3
    assert told.longest.ms == pytest.approx(205)
    assert sum(leg.ms for leg in told.legs) == pytest.approx(told.total_ms)
    assert sum(leg.ms for leg in told.legs if leg.broker != 3) == pytest.approx(5)


def test_the_record_bounds_clocks_that_are_hardly_known() -> None:
    told = story(0.0, spread=10.0)
    assert told.uncertainty_ms[1] == pytest.approx(1)
    assert [step.ms for step in told.steps] == sorted(step.ms for step in told.steps)
    followers = {step.broker: step.ms for step in told.steps if step.kind == "replicated"}
    assert followers == pytest.approx({2: 5.0, 3: 5.5})


def test_the_fastest_exchanges_bound_a_clock() -> None:
    found = ClockRange.of_exchanges([(0.0, 105.0, 10.0), (20.0, 120.5, 21.0)])
    assert (found.low, found.high, found.ahead, found.uncertainty) == (99.5, 100.5, 100.0, 0.5)
    assert found.narrowed(101.0, None) == ClockRange(101.0, 101.0)


def test_a_leader_without_a_trace_of_the_record_is_reported() -> None:
    with pytest.raises(ValueError, match="broker 1 has no trace of the record at offset 5"):
        tell(5, 0.0, 1.0, 1, [], {1: ClockRange(0, 0)})
