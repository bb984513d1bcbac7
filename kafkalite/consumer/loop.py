"""The consumer's own thread: ZooKeeper's events, timers and the reader's calls, one after another.

Answers to: ``org.I0Itec.zkclient.ZkEventThread`` and ``kafka.utils.KafkaScheduler``. Reactor shell (one thread).
"""

from __future__ import annotations

import heapq
import logging
import queue
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from itertools import count
from typing import TypeVar

from kafkalite.common.tasks import deferred

log = logging.getLogger(__name__)
T = TypeVar("T")
_Call = tuple[Callable[..., object], tuple[object, ...]]


class _Timer:
    """A scheduled call."""

    __slots__ = ("call", "cancelled")

    def __init__(self, call: _Call) -> None:
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class LoopThread:
    """Implements :class:`kafkalite.common.clock.Clock`; timers and calls are made in one daemon thread."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._order = count()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    # Any thread

    def call_from_thread(self, call: Callable[..., object], *args: object) -> None:
        """Make ``call(*args)`` in the loop's thread."""
        self._calls.put((call, args))

    def run(self, work: Callable[[], Awaitable[T]], timeout: float | None = None) -> T:
        """Begin ``work()`` in the loop's thread; its result or exception. Raises ``TimeoutError`` after ``timeout``
        seconds (the work goes on). Not for the loop's own thread."""
        result: Future[T] = Future()

        def begin() -> None:
            outcome = deferred(work())
            outcome.addCallbacks(result.set_result, lambda failure: result.set_exception(failure.value))

        self.call_from_thread(begin)
        return result.result(timeout)

    def stop(self) -> None:
        """End the thread; queued and scheduled calls are dropped."""
        self._calls.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(10)

    # The clock (the loop's own thread)

    def monotonic(self) -> float:
        return time.monotonic()

    def time_ms(self) -> int:
        return round(time.time() * 1000)

    def call_later(self, delay: float, call: Callable[..., object], *args: object) -> _Timer:
        timer = _Timer((call, args))
        heapq.heappush(self._timers, (time.monotonic() + delay, next(self._order), timer))
        return timer

    # Inside

    def _run(self) -> None:
        while True:
            while self._timers and self._timers[0][0] <= time.monotonic():
                timer = heapq.heappop(self._timers)[2]
                if not timer.cancelled:
                    self._make(timer.call)
            wait = max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None
            try:
                call = self._calls.get(timeout=wait)
            except queue.Empty:
                continue
            if call is None:
                return
            self._make(call)

    def _make(self, call: _Call) -> None:
        function, args = call
        try:
            function(*args)
        except Exception:
            log.exception("%r failed", function)
