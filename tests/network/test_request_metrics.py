"""When a request was received, taken, answered and sent, with a clock that the handler turns on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkalite.network.request import Request
from kafkalite.network.request_metrics import MAX_STRIDE, MeasuredHandler, RequestChannelMetrics, RequestMetrics
from tests.network.fakes import Harness, frame


class MeasuredHarness(Harness):
    """A server that counts what it is asked: Produce and Fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.metrics = RequestChannelMetrics([(0, 11), (1, 17)])
        self.server.handler = MeasuredHandler(self.handler, self.metrics, self.server.now)

    @property
    def produce(self) -> RequestMetrics:
        return self.metrics.apis[0]


def taking(harness: MeasuredHarness, seconds: float) -> Callable[[Request], None]:
    """A handler that answers after ``seconds`` of work."""

    def answer(request: Request) -> None:
        harness.reactor.advance(seconds)
        request.respond([b"done"])

    return answer


def parts(metrics: RequestMetrics) -> list[tuple[float, ...]]:
    """Of each request: in the queue, in the handler, waiting, sending; its throttle time."""
    return [
        tuple(
            round(each, 6)
            for each in (
                times.started - times.received,
                times.processed - times.started,
                times.answered - times.processed,
                times.sent - times.answered,
                times.throttled,
            )
        )
        for times in metrics.latest
    ]


def test_a_request_waits_for_those_that_came_with_it() -> None:
    harness = MeasuredHarness()
    sock, connection = harness.client()
    harness.handler.answer = taking(harness, 0.5)
    harness.receive(sock, connection, frame(1) + frame(2, version=9))
    metrics = harness.produce
    assert [version for version, count in enumerate(metrics.versions) if count == 1] == [8, 9]
    # Both answers are written after the event.
    assert parts(metrics) == [(0, 0.5, 0, 0.5, 0), (0.5, 0.5, 0, 0, 0)]


def test_a_request_that_waits_for_others_is_answered_later() -> None:
    harness = MeasuredHarness()
    sock, connection = harness.client()
    harness.receive(sock, connection, frame(1, b"12345"))
    assert parts(harness.produce) == []
    harness.reactor.advance(2.0)
    (request,) = harness.handler.requests
    request.throttle(250)
    request.respond([b"done"])
    harness.reactor.advance(0)
    metrics = harness.produce
    assert parts(metrics) == [(0, 0, 2.0, 0, 0.25)]
    assert metrics.latest[0].size == len(frame(1, b"12345")) - 4


def test_a_request_without_an_answer_counts() -> None:
    harness = MeasuredHarness()
    sock, connection = harness.client()
    harness.handler.answer = Request.respond_nothing
    harness.receive(sock, connection, frame(1))
    assert parts(harness.produce) == [(0, 0, 0, 0, 0)]


def test_a_client_that_reads_slowly_is_seen() -> None:
    harness = MeasuredHarness()
    sock, connection = harness.client()
    sock.room = 3
    harness.handler.answer = taking(harness, 0.0)
    harness.receive(sock, connection, frame(1))
    assert parts(harness.produce) == []
    harness.reactor.advance(4.0)
    sock.room = 1000
    connection.doWrite()
    assert parts(harness.produce) == [(0, 0, 0, 4.0, 0)]


@pytest.mark.parametrize("follower", [True, False])
def test_fetches_of_followers_and_of_consumers_are_counted_apart(follower: bool) -> None:
    harness = MeasuredHarness()
    sock, connection = harness.client()

    def answer(request: Request) -> None:
        request.is_of_follower = follower
        harness.metrics.failed(request, [6, 6, 9])
        request.respond([b"done"])

    harness.handler.answer = answer
    harness.receive(sock, connection, frame(1, api_key=1, version=4))
    asked, other = harness.metrics.followers, harness.metrics.apis[1]
    if not follower:
        asked, other = other, asked
    assert (asked.count, asked.versions[4], len(asked.latest), asked.failed, asked.errors) == (1, 1, 1, 1, {6: 2, 9: 1})
    assert (other.count, len(other.latest), other.failed, other.errors) == (0, 0, 0, {})


def test_all_requests_are_counted_and_of_many_at_once_few_are_timed() -> None:
    harness = MeasuredHarness()
    sock, connection = harness.client()
    harness.handler.answer = Request.respond_nothing
    for number in range(1000):
        harness.receive(sock, connection, frame(number))
    assert harness.produce.count == 1000
    # The first two, then 3, 7, 15, 31, 63 requests apart, and from then on 127.
    assert len(harness.produce.latest) == 7 + (1000 - 121) // MAX_STRIDE
    harness.produce.latest.clear()
    for number in range(1000):
        harness.reactor.advance(1.0)
        harness.receive(sock, connection, frame(number))
    # When they come seldom, each is timed, but for some at first.
    assert 740 < len(harness.produce.latest) <= 1000


@pytest.mark.parametrize(("api_key", "version"), [(0, 12), (0, -1), (99, 0), (-1, 0)])
def test_a_request_that_is_not_served_is_handled_and_not_counted(api_key: int, version: int) -> None:
    harness = MeasuredHarness()
    sock, connection = harness.client()
    harness.receive(sock, connection, frame(1, api_key=api_key, version=version))
    assert len(harness.handler.requests) == 1
    assert sum(metrics.count for metrics in harness.metrics.apis.values()) == 0


def test_the_first_request_after_a_scrape_is_timed() -> None:
    harness = MeasuredHarness()
    sock, connection = harness.client()
    harness.handler.answer = Request.respond_nothing
    for number in range(130):
        harness.receive(sock, connection, frame(number))
    timed = len(harness.produce.latest)
    harness.produce.time_next()
    harness.receive(sock, connection, frame(131))
    assert len(harness.produce.latest) == timed + 1
