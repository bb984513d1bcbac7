"""Rules for alerts about a figure of a process, and their state between two samples.

Answers to: nothing in Kafka; the alerting rules of Prometheus. Pure.

A rule and a process have three states: calm, waiting (the condition holds, but not yet for long enough), raised. An
alert is written twice: when it is raised and when it is resolved.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from kafkalite.pipelines.jobs.durations import seconds

Comparison = Literal[">", ">=", "<", "<="]
RAISED, RESOLVED = "raised", "resolved"
UP = "up"
"""The metric that is 0 once a process is gone."""
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


@dataclass(frozen=True)
class AlertRule:
    """``name``: ``metric`` ``comparison`` ``threshold``, without a break during ``lasting`` (``"30 seconds"``), of the
    processes whose names match ``process`` (``"broker-*"``). With ``rate``: not the metric's value, but how much it
    grew a second since the sample before (of counters)."""

    name: str
    metric: str
    comparison: Comparison
    threshold: float
    lasting: str = "0 seconds"
    process: str = "*"
    rate: bool = False

    def __post_init__(self) -> None:
        seconds(self.lasting)

    def concerns(self, process: str) -> bool:
        """Whether the rule is about a process of that name."""
        return fnmatchcase(process, self.process)


@dataclass(frozen=True)
class Watch:
    """The state of one rule and one process. Times in seconds since 1970.

    ``time`` and ``value``: of the metric's last sample; ``since``: of the first one of those for which the condition
    has held ever since, None where it does not hold; ``raised``: whether the alert was told and not yet resolved.
    """

    time: float
    value: float
    since: float | None = None
    raised: bool = False


@dataclass(frozen=True)
class Alert:
    """One alert: ``value`` is the value that the rule compared, None if the process has ended."""

    rule: AlertRule
    state: str
    since: float
    time: float
    value: float | None


def step(
    rule: AlertRule, watch: Watch | None, time: float, metrics: Mapping[str, float]
) -> tuple[Watch | None, Alert | None]:
    """Add a sample of a process; returns the new state instead of ``watch``, and the alert, if any.

    Samples that are no younger than the last one change nothing, nor does one without the metric, unless it says that
    the process is gone.
    """
    if watch is not None and time <= watch.time:
        return watch, None
    value = metrics.get(rule.metric)
    if value is None:
        return (None, end(rule, watch, time)) if metrics.get(UP) == 0 else (watch, None)
    compared = _rate(watch, time, value) if rule.rate else value
    if compared is None:
        return Watch(time, value, watch.since, watch.raised) if watch else Watch(time, value), None
    if not _COMPARE[rule.comparison](compared, rule.threshold):
        return Watch(time, value), end(rule, watch, time, compared)
    since = watch.since if watch and watch.since is not None else time
    was_raised = watch is not None and watch.raised
    is_raised = was_raised or time - since >= seconds(rule.lasting)
    alert = Alert(rule, RAISED, since, time, compared) if is_raised and not was_raised else None
    return Watch(time, value, since, is_raised), alert


def end(rule: AlertRule, watch: Watch | None, time: float, value: float | None = None) -> Alert | None:
    """The alert to write when the condition ends, or when no more samples of the process will come."""
    if watch is None or not watch.raised or watch.since is None:
        return None
    return Alert(rule, RESOLVED, watch.since, time, value)


def _rate(watch: Watch | None, time: float, value: float) -> float | None:
    """Growth a second; None for the first sample and for a counter that restarted."""
    if watch is None or value < watch.value:
        return None
    return (value - watch.value) / (time - watch.time)
