"""Virtual time for tests: a clock that moves only when told. Deterministic.

Answers to: ``org.apache.kafka.common.utils.MockTime``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any


class ManualTimer:
    """A call that :class:`ManualClock` will make."""

    def __init__(self, call: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.call = call
        self.args = args
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """A :class:`kafkalite.common.clock.Clock` on which time passes by :meth:`advance`."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = start_ms
        self._now = 0.0
        self._calls: list[tuple[float, int, ManualTimer]] = []
        self._order = count()

    def monotonic(self) -> float:
        return self._now

    def time_ms(self) -> int:
        return self._start_ms + round(self._now * 1000)

    def call_later(self, delay: float, call: Callable[..., object], *args: Any) -> ManualTimer:
        timer = ManualTimer(call, args)
        heapq.heappush(self._calls, (self._now + delay, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass, making the calls that fall due, in order, each at its own time."""
        end = self._now + seconds
        while self._calls and self._calls[0][0] <= end:
            at, _, timer = heapq.heappop(self._calls)
            self._now = max(self._now, at)
            if not timer.cancelled:
                timer.call(*timer.args)
        self._now = end
