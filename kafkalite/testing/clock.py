"""Virtual time for tests: a clock that moves only by calls; and an executor that blocks the caller. Deterministic.

Answers to: ``org.apache.kafka.common.utils.MockTime``.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar, cast

from twisted.internet import defer

T = TypeVar("T")


class ManualTimer:
    """A call that :class:`ManualClock` will make."""

    def __init__(self, call: Callable[..., object], args: tuple[object, ...]) -> None:
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

    def call_later(self, delay: float, call: Callable[..., object], *args: object) -> ManualTimer:
        timer = ManualTimer(call, args)
        heapq.heappush(self._calls, (self._now + delay, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass; makes the calls that become due, in order, each at its time."""
        end = self._now + seconds
        while self._calls and self._calls[0][0] <= end:
            at, _, timer = heapq.heappop(self._calls)
            self._now = max(self._now, at)
            if not timer.cancelled:
                timer.call(*timer.args)
        self._now = end


class InlineExecutor:
    """A :class:`kafkalite.common.tasks.Executor` that runs the work at once, in the caller's own thread."""

    def run(self, call: Callable[..., T], *args: object) -> Awaitable[T]:
        return cast("Awaitable[T]", defer.maybeDeferred(call, *args))
