"""What a scrape costs: its time, and for how long it held the reactor.

Answers to: ``jmx_scrape_duration_seconds`` of Prometheus's JMX exporter. Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Final

from kafkalite.metrics.definitions import MetricDefinition, MetricKind, MetricSample

DURATION: Final = MetricDefinition(
    "kafkalite_scrape_duration_seconds",
    MetricKind.GAUGE,
    "From the beginning of this scrape until its samples were read and rendered.",
    unit="seconds",
    remedy="Scrape less often, or spread the partitions over more brokers.",
)
LONGEST: Final = MetricDefinition(
    "kafkalite_scrape_longest_hold_seconds",
    MetricKind.GAUGE,
    "Longest time for which one piece of this scrape held the reactor.",
    unit="seconds",
)


class ScrapeTimes:
    """The times of the scrape that is being served; of one of them, if two are served at once. ``now``: in seconds."""

    def __init__(self, now: Callable[[], float] = perf_counter) -> None:
        self._now = now
        self._began = now()
        self.longest = 0.0

    def began(self) -> None:
        """A scrape begins."""
        self._began = self._now()
        self.longest = 0.0

    def held(self, seconds: float) -> None:
        """A piece held the reactor."""
        self.longest = max(self.longest, seconds)

    @property
    def duration(self) -> float:
        """Seconds since the scrape began."""
        return self._now() - self._began


class ScrapeMetricsCollector:
    """Reads :class:`ScrapeTimes`; the last of the collectors."""

    DEFINITIONS = (DURATION, LONGEST)

    def __init__(self, times: ScrapeTimes) -> None:
        self._times = times

    def collect(self) -> Iterator[list[MetricSample]]:
        """See :class:`kafkalite.metrics.definitions.Collector`."""
        yield [MetricSample(DURATION, (), self._times.duration), MetricSample(LONGEST, (), self._times.longest)]
