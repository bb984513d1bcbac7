"""A lost connection to ZooKeeper does not end a start at once."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest
from twisted.python.failure import Failure

from kafkalite.broker.startup import StartSteps
from kafkalite.common.errors import StartupError
from kafkalite.common.tasks import deferred
from kafkalite.testing.clock import ManualClock
from kafkalite.zk.zk_client import ConnectionLostError, SessionExpiredError, ZkError


class Steps:
    """``fails`` says how the attempts end, one after the other; then they succeed."""

    def __init__(self, *fails: Exception) -> None:
        self.clock = ManualClock()
        self.fails = list(fails)
        self.attempts = 0
        self.results: list[str] = []
        self.failures: list[Failure] = []
        steps = StartSteps(self.clock, 6.0)
        deferred(steps.run("registering", self._attempt)).addCallbacks(self.results.append, self.failures.append)

    def _attempt(self) -> Awaitable[str]:
        async def attempt() -> str:
            self.attempts += 1
            if self.fails:
                raise self.fails.pop(0)
            return "done"

        return attempt()


@pytest.mark.parametrize("error", [ConnectionLostError("/brokers/ids"), SessionExpiredError("/brokers/ids")])
def test_a_step_is_tried_again_after_a_lost_connection(error: ZkError) -> None:
    steps = Steps(error, error)
    assert (steps.attempts, steps.results) == (1, [])
    steps.clock.advance(2.0)
    assert (steps.attempts, steps.results) == (3, ["done"])


def test_the_broker_says_so_when_the_connection_does_not_come_back() -> None:
    steps = Steps(*[ConnectionLostError("/brokers/ids")] * 100)
    steps.clock.advance(5.0)
    assert not steps.failures
    steps.clock.advance(2.0)
    error = steps.failures[0].value
    assert isinstance(error, StartupError)
    assert "registering: the connection to ZooKeeper was lost and did not come back within 6 s" in str(error)


def test_other_errors_end_the_start() -> None:
    steps = Steps(StartupError("broker id 1 is in use"))
    assert str(steps.failures[0].value) == "broker id 1 is in use"
    assert steps.attempts == 1
