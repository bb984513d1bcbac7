"""The connection to another broker on a socket in memory."""

from __future__ import annotations

import errno
import struct
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from kafkalite.common.tasks import deferred
from kafkalite.network.client import BrokerConnection, ConnectionLost
from kafkalite.network.sockets import OsSockets
from tests.network.fakes import FakeReactor, FakeSocket


def open_connection() -> tuple[FakeReactor, FakeSocket, BrokerConnection]:
    reactor = FakeReactor()
    connection = BrokerConnection(reactor, "broker", 9092, "follower", sockets=OsSockets(reactor))
    sock = FakeSocket()
    connection.attach(sock)
    connection.doWrite()
    assert connection.connected
    return reactor, sock, connection


def receive(sock: FakeSocket, connection: BrokerConnection, data: bytes, step: int = 1 << 30) -> None:
    for pos in range(0, len(data), step):
        sock.incoming += data[pos : pos + step]
        while sock.incoming and connection.connected:
            connection.doRead()


def answer(correlation_id: int, body: bytes, flexible: bool = False) -> bytes:
    data = struct.pack(">i", correlation_id) + (b"\0" if flexible else b"") + body
    return struct.pack(">i", len(data)) + data


def failure_of(work: Deferred[Any]) -> str:
    errors: list[str] = []

    def failed(failure: Any) -> None:
        failure.trap(ConnectionLost)
        errors.append(str(failure.value))

    work.addErrback(failed)
    return errors[0] if errors else ""


@pytest.mark.parametrize("step", [1, 5, 1 << 30])
def test_requests_are_pipelined_and_answered_in_order(step: int) -> None:
    _, sock, connection = open_connection()
    first: Any = deferred(connection.send(1, 11, b"fetch"))
    second: Any = deferred(connection.send(1, 12, [b"fet", memoryview(b"ch")]))
    assert sock.sent.count(b"follower") == 2
    assert sock.sent.endswith(b"fetch")
    receive(sock, connection, answer(1, b"one") + answer(2, b"two", flexible=True), step)
    assert bytes(first.result) == b"one"
    assert bytes(second.result) == b"two"


def test_large_answers_are_writable_and_their_own() -> None:
    _, sock, connection = open_connection()
    bodies = []
    for number, letter in enumerate((b"a", b"b"), start=1):
        work: Any = deferred(connection.send(1, 11, b""))
        receive(sock, connection, answer(number, letter * 3_000_000))
        bodies.append(work.result)
    bodies[0][0:1] = b"X"
    assert bytes(bodies[0]) == b"X" + b"a" * 2_999_999
    assert bytes(bodies[1]) == b"b" * 3_000_000


def test_an_answer_that_does_not_come_closes_the_connection() -> None:
    reactor, sock, connection = open_connection()
    slow = deferred(connection.send(1, 11, b"", timeout=30.0))
    urgent = deferred(connection.send(1, 11, b"", timeout=5.0))
    reactor.advance(4.9)
    assert connection.connected
    reactor.advance(0.2)
    assert sock.closed
    assert "no answer in time" in failure_of(slow)
    assert "no answer in time" in failure_of(urgent)
    assert not reactor.getDelayedCalls()


def test_a_timer_outlives_no_answer() -> None:
    reactor, sock, connection = open_connection()
    for number in range(1, 4):
        deferred(connection.send(1, 11, b"", timeout=5.0))
        receive(sock, connection, answer(number, b""))
        reactor.advance(3)
    assert connection.connected


@pytest.mark.parametrize(
    "data",
    [answer(7, b"wrong id"), answer(1, b"") + answer(2, b"unasked"), struct.pack(">i", -1), struct.pack(">ih", 2, 1)],
    ids=["wrong id", "unasked", "negative", "short"],
)
def test_nonsense_closes_the_connection(data: bytes) -> None:
    _, sock, connection = open_connection()
    work = deferred(connection.send(1, 11, b""))
    receive(sock, connection, data)
    assert sock.closed
    work.addErrback(lambda _: None)


def test_a_lost_connection_fails_the_outstanding_requests() -> None:
    reactor, sock, connection = open_connection()
    work = deferred(connection.send(1, 11, b""))
    sock.ended = True
    connection.doRead()
    assert "broker:9092: closed by the broker" in failure_of(work)
    assert "not connected" in failure_of(deferred(connection.send(1, 11, b"")))
    assert not reactor.readers
    connection.close()


def test_a_slow_broker_gets_the_whole_request() -> None:
    reactor, sock, connection = open_connection()
    sock.room = 10
    deferred(connection.send(1, 11, b"x" * 100))
    deferred(connection.send(1, 11, b"y" * 100))
    while connection in reactor.writers:
        sock.room = 10
        connection.doWrite()
    assert sock.sent.endswith(b"y" * 100)
    assert sock.sent.count(b"x") == 100


def test_connecting_takes_no_longer_than_its_timeout() -> None:
    reactor = FakeReactor()
    connection = BrokerConnection(reactor, "nowhere", 9092, None, sockets=OsSockets(reactor))
    work = deferred(connection.connect(3.0))
    reactor.advance(3.1)
    assert "no connection within 3 s" in failure_of(work)
    assert not connection.connected


def test_a_refused_connection_says_so() -> None:
    reactor = FakeReactor()
    connection = BrokerConnection(reactor, "broker", 9092, None, sockets=OsSockets(reactor))
    work = deferred(connection.connect())
    sock = FakeSocket()
    sock.getsockopt = lambda *_: errno.ECONNREFUSED  # type: ignore[method-assign]
    connection.attach(sock)
    connection.connectionLost(Failure(ConnectionDone()))  # type: ignore[no-untyped-call]
    assert "Connection refused" in failure_of(work)
    assert sock.closed


def test_a_request_without_an_answer_is_followed_by_one_that_has_an_answer() -> None:
    _, sock, connection = open_connection()
    connection.post(0, 8, b"nobody answers this")
    asked: Any = deferred(connection.send(1, 11, b"fetch"))
    assert b"nobody answers this" in sock.sent
    receive(sock, connection, answer(2, b"one"))
    assert bytes(asked.result) == b"one"
    connection.close()
    connection.post(0, 8, b"nor this")
    assert b"nor this" not in sock.sent
