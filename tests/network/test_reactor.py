"""Twisted's time and threads behind the ports."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.task import Clock

from kafkalite.common.tasks import deferred
from kafkalite.network.reactor import ReactorClock, ThreadExecutor


def test_calls_are_made_in_time_and_may_be_cancelled_at_any_time() -> None:
    reactor = Clock()
    clock = ReactorClock(reactor)
    calls: list[str] = []
    kept = clock.call_later(1.0, calls.append, "kept")
    cancelled = clock.call_later(1.0, calls.append, "cancelled")
    clock.call_later(-5.0, calls.append, "at once")
    cancelled.cancel()
    cancelled.cancel()
    reactor.advance(0)
    reactor.advance(1.5)
    assert calls == ["at once", "kept"]
    kept.cancel()


def test_time_goes_on() -> None:
    clock = ReactorClock(Clock())
    assert clock.monotonic() <= clock.monotonic()
    assert clock.time_ms() > 1_700_000_000_000


class ThreadReactor:
    """Takes calls from threads and makes them when told."""

    def __init__(self) -> None:
        self.calls: queue.Queue[Callable[[], Any]] = queue.Queue()

    def callFromThread(self, call: Callable[..., Any], *args: Any) -> None:  # noqa: N802
        self.calls.put(lambda: call(*args))

    def addSystemEventTrigger(self, *_: Any) -> None:  # noqa: N802
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all threads of a process have one niceness")
@pytest.mark.parametrize(("computes", "more"), [(False, 0), (True, 10)])
def test_threads_that_compute_leave_the_core_to_the_reactor(computes: bool, more: int) -> None:
    reactor = ThreadReactor()
    executor = ThreadExecutor(reactor, 1, computes=computes)
    try:
        done = deferred(executor.run(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id())))
        reactor.calls.get(timeout=10)()
        assert done.result == min(19, os.getpriority(os.PRIO_PROCESS, 0) + more)
    finally:
        executor.close()


def test_work_is_done_in_a_thread_and_its_outcome_comes_back() -> None:
    reactor = ThreadReactor()
    executor = ThreadExecutor(reactor, 2)
    try:
        good = deferred(executor.run(lambda a, b: a + b, 1, 2))
        reactor.calls.get(timeout=10)()
        assert good.result == 3
        bad = deferred(executor.run(int, "x"))
        errors: list[object] = []
        bad.addErrback(lambda failure: errors.append(failure.type))
        reactor.calls.get(timeout=10)()
        assert errors == [ValueError]
    finally:
        executor.close()
    late: list[object] = []
    deferred(executor.run(int, "1")).addErrback(lambda failure: late.append(failure.type))
    assert late == [RuntimeError]
