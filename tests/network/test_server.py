"""The server on sockets in memory: order, coalescing, back-pressure, limits, bad input."""

from __future__ import annotations

import logging
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kafkalite.common.errors import StartupError
from kafkalite.common.tasks import deferred
from kafkalite.common.types import FileRegion
from kafkalite.network import output_queue
from kafkalite.network.endpoint_security import PLAINTEXT
from kafkalite.network.limits import NetworkLimits
from kafkalite.network.request import Request
from kafkalite.network.request_memory import RESERVE
from kafkalite.network.sockets import OsSockets
from tests.network.fakes import FakeSocket, Harness, ManualExecutor, answers, echo, frame, memory_files


@pytest.fixture(autouse=True)
def files() -> Iterator[None]:
    with memory_files():
        yield


def test_pipelined_requests_are_answered_in_one_write() -> None:
    harness = Harness()
    harness.handler.answer = echo
    sock, connection = harness.client()
    harness.receive(sock, connection, b"".join(frame(i, b"b%d" % i) for i in range(5)))
    assert answers(sock.sent) == [(i, b"b%d" % i) for i in range(5)]
    assert sock.sends == 1
    assert harness.server.memory.held == 0


def test_bytes_may_come_one_at_a_time() -> None:
    harness = Harness()
    harness.handler.answer = echo
    sock, connection = harness.client()
    for byte in frame(1, b"one") + frame(2, b"two"):
        harness.receive(sock, connection, bytes((byte,)))
    assert answers(sock.sent) == [(1, b"one"), (2, b"two")]


def test_answers_leave_in_the_order_of_the_requests() -> None:
    harness = Harness()
    sock, connection = harness.client()
    harness.receive(sock, connection, frame(1) + frame(2) + frame(3) + frame(4))
    first, second, third, fourth = harness.handler.requests
    third.respond([b"3"])
    fourth.respond([b"4"])
    harness.reactor.turn()
    assert sock.sent == b""
    first.respond([b"1"])
    harness.reactor.turn()
    assert answers(sock.sent) == [(1, b"1")]
    second.respond_nothing()
    harness.reactor.turn()
    assert answers(sock.sent) == [(1, b"1"), (3, b"3"), (4, b"4")]
    assert harness.server.memory.outstanding == connection.outstanding == 0


def test_a_request_is_handled_although_its_client_has_closed_the_connection() -> None:
    """As Kafka's ``Selector`` does it, for producers with acks=0; also if it waited for the broker's start."""
    harness = Harness()
    sock, connection = harness.client()
    sock.ended = True
    harness.receive(sock, connection, frame(1) + frame(2))
    connection.doRead()
    assert [request.header.correlation_id for request in harness.handler.requests] == [1, 2]
    assert sock.closed


def test_a_second_answer_is_ignored() -> None:
    harness = Harness()
    sock, connection = harness.client()
    harness.receive(sock, connection, frame(1))
    harness.handler.requests[0].respond([b"1"])
    harness.handler.requests[0].respond([b"again"])
    harness.reactor.turn()
    assert answers(sock.sent) == [(1, b"1")]
    assert (harness.server.memory.held, harness.server.memory.outstanding) == (0, 0)


def test_flexible_answers_have_tagged_headers_but_api_versions_has_not() -> None:
    harness = Harness()
    harness.handler.answer = lambda request: request.respond([b"x"])
    sock, connection = harness.client()
    harness.receive(sock, connection, frame(7, version=9) + frame(8, api_key=18, version=3))
    assert answers(sock.sent) == [(7, b"\0x"), (8, b"x")]


@pytest.mark.parametrize("size", [10, 100_000], ids=["small", "large"])
def test_bodies_are_writable_and_never_reused(size: int) -> None:
    harness = Harness()
    sock, connection = harness.client()
    harness.receive(sock, connection, frame(1, b"a" * size) + frame(2, b"b" * size))
    harness.receive(sock, connection, frame(3, b"c" * size))
    bodies = [request.body for request in harness.handler.requests]
    bodies[0][0:1] = b"X"
    assert [bytes(body) for body in bodies] == [b"X" + b"a" * (size - 1), b"b" * size, b"c" * size]


def test_what_another_connection_is_answered_leaves_at_the_end_of_the_event() -> None:
    harness = Harness()
    producer, producer_connection = harness.client()
    follower, follower_connection = harness.client()
    harness.receive(producer, producer_connection, frame(1) + frame(2))
    waiting = list(harness.handler.requests)

    def replicated(request: Request) -> None:
        for produce in waiting:
            produce.respond([b"acknowledged"])
        request.respond([b"records"])

    harness.handler.answer = replicated
    harness.receive(follower, follower_connection, frame(9))
    assert answers(producer.sent) == [(1, b"acknowledged"), (2, b"acknowledged")]
    assert producer.sends == 1
    assert answers(follower.sent) == [(9, b"records")]


def test_a_slow_reader_gets_everything_in_the_end() -> None:
    harness = Harness()
    harness.handler.answer = echo
    sock, connection = harness.client()
    sock.room = 5
    harness.receive(sock, connection, b"".join(frame(i, b"x" * 50) for i in range(3)))
    assert connection in harness.reactor.writers
    while connection in harness.reactor.writers:
        sock.room = 7
        connection.doWrite()
    assert answers(sock.sent) == [(i, b"x" * 50) for i in range(3)]
    assert connection.output.size == 0


@pytest.mark.parametrize("room", [1, 3, 1000, 1 << 30])
def test_files_and_buffers_leave_in_order(tmp_path: Path, room: int) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(range(256)))
    harness = Harness()
    sock, connection = harness.client()
    with path.open("rb") as file:
        region = FileRegion(file.fileno(), 10, 100, file)
        harness.handler.answer = lambda request: request.respond([b"head", region, b"middle", region, b"", b"tail"])
        sock.room = room
        harness.receive(sock, connection, frame(1) + frame(2))
        while connection in harness.reactor.writers:
            sock.room = room
            connection.doWrite()
    body = b"head" + bytes(range(10, 110)) + b"middle" + bytes(range(10, 110)) + b"tail"
    assert answers(sock.sent) == [(1, body), (2, body)]


def test_large_buffers_are_not_joined() -> None:
    harness = Harness()
    sock, connection = harness.client()
    large = bytes(1_000_000)
    harness.handler.answer = lambda request: request.respond([b"head", large, b"tail"])
    harness.receive(sock, connection, frame(1) + frame(2))
    while connection in harness.reactor.writers:
        connection.doWrite()
    assert answers(sock.sent) == [(1, b"head" + large + b"tail"), (2, b"head" + large + b"tail")]


# trap: kafkalite/network/output_queue.py: Reads of files that are not in the page cache hold up the reactor: a thread
# reads ahead.
def test_cold_files_are_read_ahead_off_the_reactor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_queue, "WINDOW", 60)
    monkeypatch.setattr("kafkalite.network.server.is_resident", lambda _: False)
    path = tmp_path / "segment"
    path.write_bytes(bytes(range(256)))
    executor = ManualExecutor()
    harness = Harness(executor=executor)
    sock, connection = harness.client()
    with path.open("rb") as file:
        cold = FileRegion(file.fileno(), 0, 100, file, True)
        harness.handler.answer = lambda request: request.respond([b"head", cold, b"tail"])
        harness.receive(sock, connection, frame(1))
        harness.handler.answer = echo
        harness.receive(sock, connection, frame(2, b"later"))
        assert len(sock.sent) == 12
        executor.do_one()
        harness.reactor.turn()
        assert len(sock.sent) == 72
        executor.do_one()
        harness.reactor.turn()
    assert answers(sock.sent) == [(1, b"head" + bytes(range(100)) + b"tail"), (2, b"later")]
    assert not executor.work


def test_a_file_that_ends_too_early_costs_the_connection(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"")
    harness = Harness()
    sock, connection = harness.client()
    with path.open("rb") as file:
        harness.handler.answer = lambda request: request.respond([FileRegion(file.fileno(), 0, 10, file)])
        output_queue.send_file = lambda *_: 0
        harness.receive(sock, connection, frame(1))
    assert sock.closed
    assert harness.server.connections == 0


def test_a_connection_with_too_many_requests_is_read_no_further() -> None:
    harness = Harness(NetworkLimits(max_inflight_requests=3))
    sock, connection = harness.client()
    harness.receive(sock, connection, b"".join(frame(i) for i in range(10)))
    assert len(harness.handler.requests) == 3
    assert connection not in harness.reactor.readers
    for number in range(10):
        harness.handler.requests[number].respond([b"%d" % number])
        harness.reactor.turn()
    assert answers(sock.sent) == [(i, b"%d" % i) for i in range(10)]
    assert connection in harness.reactor.readers


def test_requests_that_wait_are_given_up_when_their_client_goes() -> None:
    harness = Harness()
    given_up: list[str] = []
    sock, connection = harness.client()
    harness.receive(sock, connection, frame(0) + frame(1) + frame(2))
    for number, request in enumerate(harness.handler.requests):
        request.wait(lambda number=number: given_up.append(f"{number}"))  # type: ignore[misc]
    assert connection.info.waiting is not None
    connection.info.waiting.pop(1)  # it was answered meanwhile
    connection.close("gone")
    assert not given_up, "who closes may be in the middle of completing what waits"
    harness.reactor.turn()
    assert given_up == ["0", "2"]


def test_a_request_that_cannot_be_given_up_hinders_no_other(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness()
    given_up: list[int] = []
    sock, connection = harness.client()
    harness.receive(sock, connection, frame(0) + frame(1))
    harness.handler.requests[0].wait(lambda: 1 / 0)
    harness.handler.requests[1].wait(lambda: given_up.append(1))
    connection.close("gone")
    harness.reactor.turn()
    assert given_up == [1]
    assert "could not be given up" in caplog.text


@pytest.mark.parametrize("limits", [NetworkLimits(max_unsent_bytes=1000), NetworkLimits(max_unsent_memory=1000)])
def test_a_reader_that_takes_nothing_is_read_no_further(limits: NetworkLimits) -> None:
    harness = Harness(limits)
    harness.handler.answer = lambda request: request.respond([bytes(600)])
    sock, connection = harness.client()
    sock.room = 0
    harness.receive(sock, connection, b"".join(frame(i) for i in range(10)))
    assert len(harness.handler.requests) == 2
    assert connection not in harness.reactor.readers
    sock.room = 1 << 30
    while connection in harness.reactor.writers:
        connection.doWrite()
    assert [number for number, _ in answers(sock.sent)] == list(range(10))
    assert connection in harness.reactor.readers
    assert (connection.output.size, connection.output.memory) == (0, 0)


def test_memory_is_bounded_over_all_connections() -> None:
    harness = Harness(NetworkLimits(max_inflight_bytes=100_000))
    greedy, greedy_connection = harness.client()
    modest, modest_connection = harness.client()
    harness.receive(modest, modest_connection, frame(0))
    harness.receive(greedy, greedy_connection, frame(1, bytes(150_000)))
    assert harness.server.memory.is_exhausted
    harness.receive(modest, modest_connection, frame(2))
    assert len(harness.handler.requests) == 2
    assert modest_connection not in harness.reactor.readers
    harness.handler.requests[1].respond([b""])
    harness.reactor.turn()
    harness.receive(modest, modest_connection, b"")
    modest_connection.doRead()
    assert len(harness.handler.requests) == 3


def test_a_request_that_waits_without_its_body_takes_no_memory() -> None:
    """Else a follower would not be read while produces wait for it."""
    harness = Harness(NetworkLimits(max_inflight_bytes=100_000))
    producer, producer_connection = harness.client()
    follower, follower_connection = harness.client()
    harness.receive(follower, follower_connection, frame(0))
    harness.receive(producer, producer_connection, frame(1, bytes(150_000)))
    held = harness.server.memory.held
    harness.handler.requests[1].release_body()
    assert (held > 150_000, harness.server.memory.held < 1000) == (True, True)
    harness.receive(follower, follower_connection, frame(2))
    assert len(harness.handler.requests) == 3
    for request in harness.handler.requests:
        request.respond([b""])
    harness.reactor.turn()
    assert (harness.server.memory.held, harness.server.memory.outstanding) == (0, 0)
    assert [number for number, _ in answers(producer.sent)] == [1]


@pytest.mark.parametrize(
    ("held", "is_of_controller", "is_new", "is_read"),
    [
        (150_000, False, False, False),
        (150_000, True, False, True),
        (150_000, False, True, True),
        (101_000 + RESERVE, True, False, True),
        (101_000 + RESERVE, False, True, False),
    ],
)
def test_a_controller_is_heard_though_the_memory_for_requests_is_exhausted(
    held: int, is_of_controller: bool, is_new: bool, is_read: bool
) -> None:
    harness = Harness(NetworkLimits(max_inflight_bytes=100_000))
    greedy, greedy_connection = harness.client()
    sock, connection = harness.client()
    if not is_new:
        harness.receive(sock, connection, frame(0))
    connection.info.is_of_controller = is_of_controller
    harness.receive(greedy, greedy_connection, frame(1, bytes(held)))
    assert harness.server.memory.is_exhausted
    before = len(harness.handler.requests)
    harness.receive(sock, connection, frame(2))
    assert (len(harness.handler.requests) > before) is is_read


def test_memory_is_given_back_by_those_who_leave() -> None:
    harness = Harness(NetworkLimits(max_inflight_bytes=100_000))
    sock, connection = harness.client()
    harness.receive(sock, connection, frame(1, bytes(90_000)) + frame(2, bytes(80_000))[:70_000])
    harness.receive(sock, connection, b"")
    assert harness.server.memory.held > 150_000
    sock.ended = True
    harness.handler.requests[0].respond([b"x"])
    harness.reactor.turn()
    connection.doRead()
    assert sock.closed
    assert (harness.server.memory.held, harness.server.memory.outstanding, harness.server.connections) == (0, 0, 0)
    harness.handler.requests[0].respond([b"too late"])
    assert harness.server.memory.held == 0


@pytest.mark.parametrize("early", [False, True])
def test_a_client_may_leave_with_outstanding_requests(early: bool) -> None:
    harness = Harness()
    sock, connection = harness.client()
    harness.receive(sock, connection, frame(1) + frame(2))
    if early:
        harness.handler.requests[1].respond([b"2"])
    sock.ended = True
    connection.doRead()
    assert (harness.server.memory.held, harness.server.memory.outstanding) == (0, 0)
    for request in harness.handler.requests:
        request.respond([b"late"])
    assert (harness.server.memory.held, harness.server.memory.outstanding) == (0, 0)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (struct.pack(">i", -5), "-5"),
        (struct.pack(">i", 2_000_000), "2000000"),
        (struct.pack(">i", 0), "0 bytes has no header"),
        (b"GET / HTTP/1.1\r\n\r\n", "a frame of"),
        (struct.pack(">ihhih", 10, 0, 8, 1, 500), "client id"),
    ],
    ids=["negative", "too long", "empty", "http", "client id"],
)
def test_malformed_frames_close_the_connection_with_one_line(
    data: bytes, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    harness = Harness(NetworkLimits(max_request_bytes=1_000_000))
    harness.handler.answer = echo
    sock, connection = harness.client()
    with caplog.at_level(logging.WARNING):
        harness.receive(sock, connection, frame(1, b"good") + data)
    assert sock.closed
    assert harness.server.memory.held == 0
    assert len(caplog.records) == 1
    assert text in caplog.text
    assert "10.0.0.1" in caplog.text
    assert answers(sock.sent) == [(1, b"good")], "what was asked before the offence is answered"


def test_a_handler_may_close_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness()
    harness.handler.answer = lambda request: request.close_connection("unknown API key 999")
    sock, connection = harness.client()
    harness.receive(sock, connection, frame(1) + frame(2))
    assert sock.closed
    assert len(harness.handler.requests) == 1
    assert "unknown API key 999" in caplog.text


def test_a_handler_that_fails_costs_only_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness()

    def fail(_: Request) -> None:
        raise RuntimeError("boom")

    harness.handler.answer = fail
    sock, connection = harness.client()
    other, _ = harness.client()
    harness.receive(sock, connection, frame(1))
    assert (sock.closed, other.closed) == (True, False)
    assert "boom" in caplog.text


def test_the_log_is_not_flooded(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness()
    for _ in range(1000):
        sock, connection = harness.client()
        harness.receive(sock, connection, b"\xff" * 8)
        assert sock.closed
    assert len(caplog.records) == 10
    harness.reactor.advance(11)
    sock, connection = harness.client()
    harness.receive(sock, connection, b"\xff" * 8)
    assert "990 more" in caplog.text


def test_an_address_has_so_many_connections_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness(NetworkLimits(max_connections_per_ip=2, max_connections_per_ip_overrides={"10.0.0.2": 1}))
    first, connection = harness.client("10.0.0.1")
    harness.client("10.0.0.1")
    refused, nothing = harness.connect("10.0.0.1")
    assert (refused.closed, nothing) == (True, None)
    assert "max.connections.per.ip=2" in caplog.text
    harness.client("10.0.0.2")
    refused, nothing = harness.connect("10.0.0.2")
    assert refused.closed
    assert "max.connections.per.ip=1" in caplog.text
    connection.close("test")
    assert first.closed
    harness.client("10.0.0.1")


def test_idle_connections_are_closed_and_busy_ones_are_not() -> None:
    harness = Harness(NetworkLimits(idle_timeout=100.0))
    harness.server._plan_sweep()
    idle, _ = harness.client()
    controller, controllers_connection = harness.client()
    controllers_connection.info.is_of_controller = True
    half, half_connection = harness.client()
    waiting, waiting_connection = harness.client()
    stuck, stuck_connection = harness.client()
    busy, busy_connection = harness.client()
    harness.receive(half, half_connection, frame(1, bytes(100_000))[:5000])
    harness.receive(waiting, waiting_connection, frame(1))
    harness.handler.answer = echo
    stuck.room = 0
    harness.receive(stuck, stuck_connection, frame(1, b"x"))
    for _ in range(12):
        harness.reactor.advance(10)
        harness.receive(busy, busy_connection, frame(1))
    closed = [sock.closed for sock in (idle, half, waiting, stuck, busy, controller)]
    assert closed == [True, True, False, True, False, False]
    assert harness.server.memory.held == harness.handler.requests[0].size


def test_a_stop_sends_the_outstanding_answers() -> None:
    harness = Harness()
    quiet, _ = harness.client()
    sock, connection = harness.client()
    harness.receive(sock, connection, frame(1))
    stopped: Any = deferred(harness.server.stop(5.0))
    assert quiet.closed
    assert not stopped.called
    assert connection not in harness.reactor.readers
    harness.handler.requests[0].respond([b"bye"])
    harness.reactor.turn()
    assert answers(sock.sent) == [(1, b"bye")]
    assert stopped.called
    assert sock.closed


def test_stopping_waits_no_longer_than_its_grace() -> None:
    harness = Harness()
    sock, connection = harness.client()
    harness.receive(sock, connection, frame(1))
    stopped: Any = deferred(harness.server.stop(5.0))
    harness.reactor.advance(5.1)
    assert stopped.called
    assert sock.closed


def test_random_bytes_leave_no_memory_behind_and_disturb_no_other_client() -> None:
    rng = random.Random(3)
    harness = Harness(NetworkLimits(max_request_bytes=1_000_000))
    harness.handler.answer = echo
    healthy, healthy_connection = harness.client("10.0.0.9")
    for number in range(5_000):
        sock, connection = harness.client()
        data = bytearray(frame(1, rng.randbytes(rng.randrange(50))))
        for _ in range(rng.randrange(3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        harness.receive(sock, connection, bytes(data[: rng.randrange(len(data) + 1)]))
        sock.ended = True
        if connection in harness.reactor.readers:
            connection.doRead()
        if number % 100 == 0:
            harness.receive(healthy, healthy_connection, frame(number, b"ping"))
    assert answers(healthy.sent) == [(number, b"ping") for number in range(0, 5_000, 100)]
    assert (harness.server.memory.held, harness.server.memory.outstanding, harness.server.connections) == (0, 0, 1)


def test_memory_goes_back_to_the_system_once_the_load_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr("kafkalite.network.server.give_back", lambda: calls.append(1))
    harness = Harness()
    harness.handler.answer = echo
    harness.server._plan_sweep()
    sock, connection = harness.client()
    for _ in range(300):
        harness.receive(sock, connection, frame(1, bytes(70_000)))
    harness.reactor.advance(5.1)
    assert (calls, harness.server.pool.held > 0) == ([], True)
    harness.reactor.advance(5.1)
    harness.reactor.advance(5.1)
    assert (calls, harness.server.pool.held) == ([1], 0)


def test_a_listener_that_is_closed_takes_its_connections_with_it() -> None:
    harness = Harness()
    stays, _ = harness.client()
    goes = FakeSocket(77)
    harness.server.accepted(goes, ("10.0.0.2", 77), "EXTRA")
    harness.server.close_listener("EXTRA")
    assert (goes.closed, stays.closed) == (True, False)
    assert harness.server.connections == 1


def test_several_ports_are_taken_or_none() -> None:
    class BoundSocket(FakeSocket):
        def getsockname(self) -> tuple[str, int]:
            return "h", self.fileno()

    class Ports(OsSockets):
        taken: ClassVar[list[FakeSocket]] = []

        def bind(self, host: str, port: int) -> Any:
            if port == 9:
                raise StartupError(f"cannot listen on {host}:{port}")
            self.taken.append(BoundSocket(port))
            return self.taken[-1]

    harness = Harness()
    harness.server._sockets = Ports(harness.reactor)
    assert harness.server.bind_all([("h", 1, "A", PLAINTEXT), ("h", 2, "B", PLAINTEXT)]) == {"A": 1, "B": 2}
    with pytest.raises(StartupError, match="h:9"):
        harness.server.bind_all([("h", 3, "C", PLAINTEXT), ("h", 9, "D", PLAINTEXT)])
    assert [listener for _, listener, _ in harness.server._bound] == ["A", "B"]
    assert [sock.closed for sock in Ports.taken] == [False, False, True]
