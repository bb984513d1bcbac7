"""Asking the controller to take the leaderships away, and what comes after it."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from kafkalite.broker.controlled_shutdown import FAREWELL, hand_over_leaderships, say_farewell
from kafkalite.cluster.control import ControlledShutdownRequest, ControlRequest, ControlResponse
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import Broker, Endpoint
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future, deferred
from kafkalite.common.types import TopicPartition
from kafkalite.network.client import ConnectionLost
from kafkalite.testing.clock import ManualClock

BACKOFF = 5.0
LEFT = ControlResponse(ErrorCode.NONE, ((TopicPartition("t", 0), ErrorCode.NONE),))
DONE = ControlResponse(ErrorCode.NONE, ())
REFUSED = ControlResponse(ErrorCode.NOT_CONTROLLER)


class Channel:
    """Answers with what it was given, one after the other; notes whom it was asked to reach, with which epoch."""

    def __init__(self, *answers: ControlResponse | Exception) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[int, int]] = []

    def send(self, broker: Broker, request: ControlRequest) -> Awaitable[ControlResponse]:
        assert isinstance(request, ControlledShutdownRequest)
        self.sent.append((broker.id, request.broker_epoch))
        answer = self.answers.pop(0)
        result: Future[ControlResponse] = Future()
        if isinstance(answer, Exception):
            result.errback(answer)
        else:
            result.callback(answer)
        return result


def metadata(controller: int) -> MetadataCache:
    cache = MetadataCache()
    cache.update_brokers({2: Broker(2, (Endpoint("PLAINTEXT", "PLAINTEXT", "localhost", 9092),))})
    cache.set_controller(controller)
    return cache


@pytest.mark.parametrize(
    ("answers", "controller", "seconds", "succeeds", "asked"),
    [
        ([DONE], 2, 0.0, True, 1),
        ([LEFT, DONE], 2, BACKOFF, True, 2),
        ([REFUSED, ConnectionLost("gone"), DONE], 2, 2 * BACKOFF, True, 3),
        ([LEFT] * 4, 2, 3 * BACKOFF, False, 4),
        ([], -1, 3 * BACKOFF, False, 0),
    ],
)
def test_leaderships_are_handed_over_by_repeated_requests_to_the_controller(
    answers: list[ControlResponse | Exception], controller: int, seconds: float, succeeds: bool, asked: int
) -> None:
    clock, channel = ManualClock(), Channel(*answers)
    epochs = iter((7, 8, 9, 10))
    outcome: list[bool] = []
    work = hand_over_leaderships(
        lambda: ControlledShutdownRequest(1, next(epochs)), metadata(controller), channel, clock, 3, BACKOFF
    )
    deferred(work).addCallback(outcome.append)
    if seconds:
        clock.advance(seconds - 0.1)
        assert outcome == []
        clock.advance(0.2)
    assert outcome == [succeeds]
    assert channel.sent == [(2, epoch) for epoch in range(7, 7 + asked)]


def test_the_farewell_ends_after_its_time() -> None:
    clock, over = ManualClock(), list[None]()
    deferred(say_farewell(clock)).addCallback(over.append)
    clock.advance(FAREWELL - 0.01)
    assert over == []
    clock.advance(0.02)
    assert over == [None]
