"""The consumer's thread: calls and timers in order, results and errors brought back."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kafkalite.common.tasks import Future
from kafkalite.consumer.loop import LoopThread


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    loop = LoopThread("loop-under-test")
    yield loop
    loop.stop()


def test_work_is_done_in_its_thread(loop: LoopThread) -> None:
    async def name() -> str:
        return threading.current_thread().name

    assert loop.run(name, 10) == "loop-under-test"


def test_errors_come_back(loop: LoopThread) -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        loop.run(fail, 10)


def test_timers_in_order_of_their_time(loop: LoopThread) -> None:
    seen: list[str] = []

    async def wait() -> None:
        done: Future[None] = Future()
        loop.call_later(0.02, done.callback, None)
        loop.call_later(0.01, seen.append, "second")
        loop.call_later(0.0, seen.append, "first")
        loop.call_later(0.005, seen.append, "cancelled").cancel()
        await done

    loop.run(wait, 10)
    assert seen == ["first", "second"]


def test_a_call_that_fails_stops_nothing(loop: LoopThread, caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()
    loop.call_from_thread(int, "no number")
    loop.call_from_thread(done.set)
    assert done.wait(10)
    assert "no number" in caplog.text


def test_calls_do_not_starve_timers(loop: LoopThread) -> None:
    done = threading.Event()

    def again() -> None:
        if not done.is_set():
            loop.call_from_thread(again)

    loop.call_from_thread(again)
    loop.call_from_thread(loop.call_later, 0.0, done.set)
    assert done.wait(10)
