"""Waiting: done at once, when satisfied, or when time is up; exactly once, and never in the midst of a loop."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkalite.common.purgatory import DelayedOperation, Purgatory
from kafkalite.testing.clock import ManualClock


class Wait(DelayedOperation):
    """Waits until it is told that it is satisfied; notes what becomes of it."""

    def __init__(self, timeout: float = 10.0, done: Callable[[Wait], object] = lambda _: None) -> None:
        super().__init__(timeout)
        self.ready = False
        self.said: list[str] = []
        self._done = done

    def is_satisfied(self) -> bool:
        return self.ready

    def on_complete(self) -> None:
        self.said.append("done")
        self._done(self)

    def on_expiration(self) -> None:
        self.said.append("late")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def purgatory(clock: ManualClock) -> Purgatory:
    return Purgatory("test", clock)


def test_what_is_satisfied_already_does_not_wait(purgatory: Purgatory) -> None:
    wait = Wait()
    wait.ready = True
    assert purgatory.try_complete_else_watch(wait, ["a"])
    assert wait.said == ["done"] and len(purgatory) == 0


def test_an_operation_without_keys_is_delayed_until_it_is_complete(purgatory: Purgatory, clock: ManualClock) -> None:
    first, second = Wait(5), Wait()
    purgatory.try_complete_else_watch(first, ())
    purgatory.try_complete_else_watch(second, ["a"])
    assert purgatory.delayed == 2
    clock.advance(6)
    assert purgatory.delayed == 1
    second.complete()
    assert purgatory.delayed == 0


def test_any_of_its_keys_completes_it_once(purgatory: Purgatory, clock: ManualClock) -> None:
    wait = Wait()
    assert not purgatory.try_complete_else_watch(wait, ["a", "b"])
    assert purgatory.check_and_complete("a") == 0
    wait.ready = True
    assert purgatory.check_and_complete("other") == 0
    assert purgatory.check_and_complete("b") == 1
    assert purgatory.check_and_complete("a") == 0
    clock.advance(20)
    assert wait.said == ["done"] and not wait.complete() and len(purgatory) == 0


def test_time_runs_out_in_order(purgatory: Purgatory, clock: ManualClock) -> None:
    order: list[float] = []
    for timeout in (3.0, 1.0, 2.0):
        purgatory.try_complete_else_watch(Wait(timeout, lambda wait: order.append(wait.timeout)), ["a"])
    clock.advance(1.5)
    assert order == [1.0] and len(purgatory) == 2
    clock.advance(5)
    assert order == [1.0, 2.0, 3.0] and len(purgatory) == 0


def test_late_is_said_before_done(purgatory: Purgatory, clock: ManualClock) -> None:
    wait = Wait(1.0)
    purgatory.try_complete_else_watch(wait, ["a"])
    clock.advance(1.1)
    assert wait.said == ["late", "done"]


# trap: kafkalite/common/purgatory.py: A completed operation runs inside the loop that completed it.
def test_a_completed_wait_does_not_run_inside_the_loop(purgatory: Purgatory) -> None:
    """A completed operation may check the same key, or wait again; by then all others are removed from the
    purgatory."""
    found: list[tuple[int, int]] = []

    def again(_: Wait) -> None:
        follower = Wait()
        purgatory.try_complete_else_watch(follower, ["a"])
        found.append((purgatory.check_and_complete("a"), len(purgatory)))

    waits = [Wait(done=again) for _ in range(3)]
    for wait in waits:
        purgatory.try_complete_else_watch(wait, ["a"])
    for wait in waits:
        wait.ready = True
    assert purgatory.check_and_complete("a") == 3
    assert found == [(0, 1), (0, 2), (0, 3)]
    assert [wait.said for wait in waits] == [["done"]] * 3


def test_the_end(purgatory: Purgatory, clock: ManualClock) -> None:
    wait = Wait(1.0)
    purgatory.try_complete_else_watch(wait, ["a"])
    purgatory.shutdown()
    clock.advance(5)
    assert wait.said == [] and len(purgatory) == 0
