"""What clients that share a quota used of it, and for how long they are throttled.

Answers to: ``kafka.server.ClientSensors`` and ``ClientQuotaManager.recordAndGetThrottleTimeMs``. Pure.
"""

from __future__ import annotations

from typing import Final

from kafkalite.common.quota_rates import WindowedRate

_NOTHING_WAITS: Final = -1.0


class QuotaUsage:
    """A rate and its bound. Most requests only add to a number, which the rate gets when it may matter.

    It may matter at the end of the rate's present window, and when the sum could exceed what may be used. Times are
    in ms of a monotonic clock.
    """

    __slots__ = (
        "_bound",
        "_last_ms",
        "_max_delay_ms",
        "_pending",
        "_rate",
        "_room",
        "_throttled_at_ms",
        "_throttled_ms",
        "_until_ms",
        "most_in_windows",
    )

    def __init__(self, rate: WindowedRate, max_delay_ms: int | None) -> None:
        self._rate = rate
        self._max_delay_ms = max_delay_ms
        self._pending = 0.0
        self._last_ms = _NOTHING_WAITS
        self._throttled_ms = 0
        self._throttled_at_ms = 0.0
        self.limit(0.0)

    def limit(self, bound: float) -> None:
        """Throttle above ``bound`` a second."""
        self._bound = bound
        self.most_in_windows = self._rate.most_in_windows(bound)
        """The largest value that is not throttled for sure: a fetch is answered with no more bytes."""
        self._until_ms = self._room = 0.0

    @property
    def last_ms(self) -> int | None:
        """When something was recorded last."""
        return self._rate.last_ms if self._last_ms == _NOTHING_WAITS else int(self._last_ms)

    def record(self, value: float, now_ms: float) -> int:
        """Record ``value`` (bytes, or percent of a second; at least 0); returns the throttle time in ms."""
        pending = self._pending + value
        if now_ms < self._until_ms and pending <= self._room:
            self._pending = pending
            self._last_ms = now_ms
            return 0
        recorded = self._pass_on(value, int(now_ms))
        if recorded <= self.most_in_windows:
            return 0
        delay_ms = self._rate.delay_ms(self._bound, int(now_ms))
        if self._max_delay_ms is not None:
            delay_ms = min(delay_ms, self._max_delay_ms)
        if delay_ms:
            self._throttled_ms, self._throttled_at_ms = delay_ms, now_ms
        return delay_ms

    def measure(self, now_ms: float) -> tuple[float, int]:
        """The rate a second, and the throttle time in ms of the latest request that was throttled.

        The throttle time is 0 once the rate's windows since then are over.
        """
        rate = self._rate.measure(int(now_ms))
        if self._last_ms != _NOTHING_WAITS and (window_ms := self._rate.window_ms(int(now_ms))):
            rate += self._pending * 1000 / window_ms
        is_recent = now_ms - self._throttled_at_ms < self._rate.windows.number * self._rate.windows.size_ms
        return rate, self._throttled_ms if is_recent else 0

    def take_back(self, value: float, now_ms: float) -> None:
        """A throttled fetch, whose answer is empty, has recorded ``value``."""
        self._pass_on(-value, int(now_ms))

    def _pass_on(self, value: float, now_ms: int) -> float:
        rate = self._rate
        if self._last_ms != _NOTHING_WAITS:
            # At the time of the last one of them: all were recorded in the window that began before.
            rate.record(self._pending, int(self._last_ms))
            self._pending = 0.0
            self._last_ms = _NOTHING_WAITS
        recorded = rate.record(value, now_ms)
        self._until_ms = rate.until_ms
        self._room = self.most_in_windows - recorded
        return recorded
