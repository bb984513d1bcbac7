"""A muted connection takes no request for the throttle time, answers those that it has, and leaves nothing behind."""

from __future__ import annotations

from kafkalite.network.limits import NetworkLimits
from kafkalite.network.request import Request

from .fakes import Harness, answers, echo, frame


def throttled_echo(milliseconds: int, only: int) -> Harness:
    """A server whose answer to the request number ``only`` throttles for that time."""
    harness = Harness()

    def answer(request: Request) -> None:
        if request.header.correlation_id == only:
            request.throttle(milliseconds)
        echo(request)

    harness.handler.answer = answer
    return harness


def test_the_answer_goes_at_once_and_the_next_request_waits_for_the_throttle_time() -> None:
    harness = throttled_echo(2000, only=1)
    sock, connection = harness.client()
    harness.receive(sock, connection, frame(1, b"a"))
    assert answers(sock.sent) == [(1, b"a")]
    harness.receive(sock, connection, frame(2, b"b"))
    assert sock.incoming, "nothing is read"
    harness.reactor.advance(1.9)
    assert connection not in harness.reactor.readers
    harness.reactor.advance(0.2)
    harness.receive(sock, connection, b"")
    assert answers(sock.sent) == [(1, b"a"), (2, b"b")]


def test_requests_that_came_in_the_same_read_wait_too() -> None:
    harness = throttled_echo(2000, only=2)
    sock, connection = harness.client()
    harness.receive(sock, connection, b"".join(frame(number, b"x") for number in range(1, 5)))
    assert [number for number, _ in answers(sock.sent)] == [1, 2]
    harness.reactor.advance(2.1)
    harness.reactor.turn()
    assert [number for number, _ in answers(sock.sent)] == [1, 2, 3, 4]
    assert connection in harness.reactor.readers
    assert harness.server.memory.held == 0


def test_requests_before_the_throttled_one_are_answered_while_the_connection_is_muted() -> None:
    harness = Harness()
    sock, connection = harness.client()
    harness.receive(sock, connection, frame(1) + frame(2))
    first, second = harness.handler.requests
    second.throttle(5000)
    second.respond([b"two"])
    assert answers(sock.sent) == []
    first.respond([b"one"])
    harness.reactor.turn()
    assert answers(sock.sent) == [(1, b"one"), (2, b"two")]
    assert connection not in harness.reactor.readers


def test_the_longest_of_several_throttles_counts() -> None:
    harness = Harness()
    sock, connection = harness.client()
    harness.receive(sock, connection, frame(1) + frame(2) + frame(3))
    for request, milliseconds in zip(harness.handler.requests, (1000, 3000, 500), strict=True):
        request.throttle(milliseconds)
        request.respond([b""])
    harness.reactor.advance(2.5)
    assert connection not in harness.reactor.readers
    harness.reactor.advance(0.6)
    harness.reactor.turn()
    assert connection in harness.reactor.readers
    assert harness.reactor.getDelayedCalls() == []


def test_a_muted_connection_is_not_idle() -> None:
    harness = Harness(NetworkLimits(idle_timeout=10.0))
    harness.server._plan_sweep()
    sock, connection = harness.client()
    harness.receive(sock, connection, frame(1))
    harness.handler.requests[0].throttle(30_000)
    harness.handler.requests[0].respond([b""])
    for _ in range(38):
        harness.reactor.advance(1)
    assert not sock.closed, "its idle time begins when it may speak again"
    for _ in range(5):
        harness.reactor.advance(1)
    assert sock.closed


def test_a_muted_connection_that_is_closed_leaves_no_timer() -> None:
    harness = throttled_echo(60_000, only=1)
    sock, connection = harness.client()
    harness.receive(sock, connection, frame(1) + frame(2))
    connection.close("the test says so")
    assert harness.reactor.getDelayedCalls() == []
    assert harness.server.memory.held == 0
    harness.handler.requests[0].throttle(1000)
    assert harness.reactor.getDelayedCalls() == []
