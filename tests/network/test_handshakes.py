"""Handshakes that a thread computes: their order, and failures."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest

from kafkalite.network.handshakes import BATCH, Handshakes, Outcome
from tests.network.fakes import ManualExecutor


class Step:
    """A step of a handshake, which is noted once it is taken."""

    def __init__(
        self, taken: list[object], note: object, compute: Callable[[], bool] = lambda: True, *, received: bool = True
    ) -> None:
        self._taken = taken
        self._note = note
        self.compute = compute
        self._received = received

    def receive(self) -> bool:
        if not self._received:
            self._taken.append(self._note)
        return self._received

    def take(self, outcome: Outcome) -> None:
        self._taken.append(outcome if isinstance(outcome, Exception) else self._note)


def test_handshakes_that_have_begun_go_on_before_others_begin() -> None:
    executor = ManualExecutor()
    handshakes = Handshakes(executor)
    taken: list[object] = []
    handshakes.run(Step(taken, "first"), is_begun=False)
    for number in range(BATCH):
        handshakes.run(Step(taken, number), is_begun=False)
    handshakes.run(Step(taken, "begun"), is_begun=True)
    executor.do_one()
    assert taken == ["first"]
    executor.do_one()
    assert taken[1:] == ["begun", *range(BATCH - 1)]
    executor.do_one()
    assert taken[-1] == BATCH - 1
    assert executor.work == []


# trap: kafkalite/network/handshakes.py: Thousands of clients go in the middle of their handshakes, and keep all other
# clients waiting.
def test_few_handshakes_end_in_one_turn() -> None:
    executor = ManualExecutor()
    handshakes = Handshakes(executor)
    ended: list[object] = []
    for number in range(3 * BATCH):
        handshakes.run(Step(ended, number, received=False), is_begun=True)
    counts = [len(ended)]
    while executor.work:
        executor.do_one()
        counts.append(len(ended))
    assert counts == [1, 1 + BATCH, 1 + 2 * BATCH, 3 * BATCH, 3 * BATCH]


def test_a_handshake_that_fails_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    executor = ManualExecutor()
    handshakes = Handshakes(executor)
    taken: list[object] = []

    class Broken(Step):
        def receive(self) -> bool:
            raise ZeroDivisionError

    class Unwanted(Step):
        def take(self, outcome: Outcome) -> None:
            raise ZeroDivisionError(outcome)

    for step in (
        Step(taken, "fails", lambda: 1 / 0 > 0),
        Broken(taken, "broken"),
        Unwanted(taken, "unwanted"),
        Step(taken, "last", lambda: False),
    ):
        handshakes.run(step, is_begun=False)
    while executor.work:
        executor.do_one()
    assert isinstance(taken[0], ZeroDivisionError)
    assert taken[1:] == ["last"]
    assert caplog.text.count("a handshake could not go on") == 2


# trap: kafkalite/network/handshakes.py: A handshake that failed keeps its memory, and that of others, until the next
# garbage collection.
def test_a_handshake_that_failed_is_freed_at_once() -> None:
    def fail() -> bool:
        try:
            return 1 / 0 > 0
        except ZeroDivisionError:
            raise OSError from None

    executor = ManualExecutor()
    handshakes = Handshakes(executor)
    steps = [Step([], number, fail) for number in range(BATCH)]
    freed = [weakref.ref(step) for step in steps]
    gc.disable()
    try:
        while steps:
            handshakes.run(steps.pop(), is_begun=True)
        while executor.work:
            executor.do_one()
        assert [step() for step in freed] == [None] * BATCH
    finally:
        gc.enable()
