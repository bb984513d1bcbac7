"""Alerts: raised once, resolved once, for any order of samples."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkalite.pipelines.jobs.alert_rules import Alert, AlertRule, Watch, end, step
from kafkalite.pipelines.jobs.alert_states import read, write
from kafkalite.pipelines.jobs.durations import seconds

RULE = AlertRule("memory", "bytes", ">", 10, "3 seconds")
RATE = AlertRule("busy", "cpu", ">=", 0.5, rate=True)
Told = list[tuple[float, str, float, float | None]]
GONE = None


def tell(rule: AlertRule, samples: list[tuple[float, float | None]]) -> Told:
    """The alerts of ``rule`` for samples (time, value): time, state, since, value."""
    watch: Watch | None = None
    told: list[Alert] = []
    for time, value in samples:
        metrics = {"up": 0.0} if value is None else {"up": 1.0, rule.metric: value}
        watch, alert = step(rule, watch, time, metrics)
        told += [alert] if alert is not None else []
    return [(alert.time, alert.state, alert.since, alert.value) for alert in told]


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        ([(1, 5), (2, 11), (3, 11), (4, 11)], []),
        ([(1, 5), (2, 11), (3, 11), (5, 12), (6, 13)], [(5, "raised", 2, 12)]),
        ([(2, 11), (4, 10), (5, 11), (7, 11)], []),
        ([(2, 11), (9, 11), (10, 10), (11, 9)], [(9, "raised", 2, 11), (10, "resolved", 2, 10)]),
        ([(2, 11), (9, 11), (10, GONE), (11, GONE)], [(9, "raised", 2, 11), (10, "resolved", 2, None)]),
        ([(2, 11), (3, GONE), (9, 11)], []),
        ([(2, 11), (9, 11), (8, 1), (9, 1), (10, 11)], [(9, "raised", 2, 11)]),
        (
            [(0, 11), (3, 11), (4, 1), (5, 11), (8, 11)],
            [(3, "raised", 0, 11), (4, "resolved", 0, 1), (8, "raised", 5, 11)],
        ),
    ],
)
def test_a_gauge(samples: list[tuple[float, float | None]], told: Told) -> None:
    assert tell(RULE, samples) == told


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        ([(1, 100)], []),
        ([(1, 100), (3, 101)], [(3, "raised", 3, 0.5)]),
        ([(1, 100), (3, 101), (4, 101.25)], [(3, "raised", 3, 0.5), (4, "resolved", 3, 0.25)]),
        ([(1, 100), (3, 101), (4, 2), (5, 3), (6, 3)], [(3, "raised", 3, 0.5), (6, "resolved", 3, 0)]),
    ],
)
def test_the_rate_of_a_counter_that_may_restart(samples: list[tuple[float, float | None]], told: Told) -> None:
    assert tell(RATE, samples) == told


@pytest.mark.parametrize(("comparison", "breaking"), [(">", [3]), (">=", [2, 3]), ("<", [1]), ("<=", [1, 2])])
def test_comparisons(comparison: str, breaking: list[float]) -> None:
    rule = AlertRule("r", "m", comparison, 2)  # type: ignore[arg-type]
    assert [value for value in (1, 2, 3) if tell(rule, [(0, value)])] == breaking


def test_a_sample_without_the_metric_changes_nothing() -> None:
    watch = Watch(1, 11, 1, True)
    assert step(RULE, watch, 2, {"up": 1.0, "other": 0.0}) == (watch, None)


def test_a_process_that_is_not_heard_of_again() -> None:
    assert end(RULE, Watch(4, 11, 1, True), 9) == Alert(RULE, "resolved", 1, 9, None)
    assert end(RULE, Watch(4, 11, 1), 9) is None
    assert end(RULE, None, 9) is None


def test_rules_concern_processes_by_pattern() -> None:
    rule = replace(RULE, process="broker-*")
    assert rule.concerns("broker-1")
    assert not rule.concerns("web")


def test_the_state_is_read_as_it_was_written() -> None:
    watches = {"a": Watch(1.5, 2, 1.5, True), "b": Watch(0, 0)}
    assert read(write(watches)) == watches


@pytest.mark.parametrize(
    ("text", "length"), [("10 seconds", 10), ("1 minute", 60), ("250 milliseconds", 0.25), (" 2  days ", 172800)]
)
def test_lengths_of_time(text: str, length: float) -> None:
    assert seconds(text) == length


@pytest.mark.parametrize("text", ["10", "ten seconds", "-1 second", "3 weeks", ""])
def test_no_lengths_of_time(text: str) -> None:
    with pytest.raises(ValueError, match="is no length of time"):
        seconds(text)
    with pytest.raises(ValueError, match="is no length of time"):
        replace(RULE, lasting=text)
