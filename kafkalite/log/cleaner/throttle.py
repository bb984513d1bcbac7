"""A bound on how many bytes go through in a second.

Answers to: ``org.apache.kafka.storage.internals.utils.Throttler``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable

_INTERVAL = 0.3
"""Seconds over which the rate is measured; Kafka's."""


class Throttle:
    """Rests by ``rest(seconds)`` as often as needed to stay below ``rate`` bytes a second, by the clock ``now``."""

    def __init__(self, rate: float, now: Callable[[], float], rest: Callable[[float], object]) -> None:
        self._rate = rate
        self._now = now
        self._rest = rest
        self._since = now()
        self._bytes = 0

    def passed(self, count: int) -> None:
        """``count`` bytes were read or written."""
        self._bytes += count
        elapsed = self._now() - self._since
        if elapsed < _INTERVAL and self._bytes < self._rate * _INTERVAL:
            return
        due = self._bytes / self._rate - elapsed
        if due > 0:
            self._rest(due)
        self._since = self._now()
        self._bytes = 0
