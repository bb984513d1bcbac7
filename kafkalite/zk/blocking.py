"""The ZooKeeper client without a reactor, for commands and tests: one thread that waits. Reactor shell.

Answers to: the synchronous half of ``org.apache.zookeeper.ZooKeeper``.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from twisted.python.failure import Failure

from kafkalite.common.tasks import deferred

T = TypeVar("T")


class BlockingLoop:
    """Makes the calls that other threads hand in, while :meth:`run` waits."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[..., object], tuple[object, ...]]] = queue.SimpleQueue()

    def call_from_thread(self, call: Callable[..., object], *args: object) -> None:
        """Make ``call(*args)`` in the thread of :meth:`run`."""
        self._calls.put((call, args))

    def run(self, work: Awaitable[T], timeout: float = 60.0) -> T:
        """The result of ``work``, or its exception. Raises ``TimeoutError`` after ``timeout`` seconds."""
        results: list[T] = []
        failures: list[Failure] = []
        deferred(work).addCallbacks(results.append, failures.append)
        self.wait(lambda: bool(results or failures), timeout)
        if failures:
            failures[0].raiseException()
        return results[0]

    def wait(self, until: Callable[[], bool], timeout: float = 60.0) -> None:
        """Make calls until ``until()``. Raises ``TimeoutError``."""
        deadline = time.monotonic() + timeout
        while not until():
            try:
                call, args = self._calls.get(timeout=max(0.0, min(0.05, deadline - time.monotonic())))
            except queue.Empty:
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"not within {timeout:g} s") from None
                continue
            call(*args)
