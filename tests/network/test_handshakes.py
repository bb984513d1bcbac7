"""Handshakes that a thread computes: their order, and failures."""

from __future__ import annotations

import pytest

from kafkalite.network.handshakes import BATCH, Handshakes
from tests.network.fakes import ManualExecutor


def test_handshakes_that_have_begun_go_on_before_others_begin() -> None:
    executor = ManualExecutor()
    handshakes = Handshakes(executor)
    done: list[str] = []

    def run(name: str, *, is_begun: bool) -> None:
        handshakes.run(lambda: True, lambda _: done.append(name), is_begun=is_begun)

    run("first", is_begun=False)
    for number in range(BATCH):
        run(f"new {number}", is_begun=False)
    run("begun", is_begun=True)
    executor.do_one()
    assert done == ["first"]
    executor.do_one()
    assert done[1:] == ["begun", *(f"new {number}" for number in range(BATCH - 1))]
    executor.do_one()
    assert done[-1] == f"new {BATCH - 1}"
    assert executor.work == []


def test_a_handshake_that_fails_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    executor = ManualExecutor()
    handshakes = Handshakes(executor)
    outcomes: list[object] = []

    def fail(outcome: object) -> None:
        outcomes.append(outcome)
        raise ZeroDivisionError

    handshakes.run(lambda: 1 / 0 > 0, outcomes.append, is_begun=False)
    handshakes.run(lambda: True, fail, is_begun=False)
    handshakes.run(lambda: False, outcomes.append, is_begun=False)
    while executor.work:
        executor.do_one()
    assert isinstance(outcomes[0], ZeroDivisionError)
    assert outcomes[1:] == [True, False]
    assert "could not be taken" in caplog.text
