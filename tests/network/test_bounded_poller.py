"""A reactor's part that serves few of the descriptors that are ready, on pipes."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

import pytest
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from kafkalite.network.bounded_poller import BoundedPoller
from tests.network.fakes import FakeReactor

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="only Linux has epoll")


class Pipe:
    """A pipe whose ends are watched; ``events`` are the calls of the reactor."""

    def __init__(self) -> None:
        self.output, self.input = os.pipe()
        self.events: list[str] = []
        self.reader = End(self, self.output)
        self.writer = End(self, self.input)
        self.fails = False

    def close(self) -> None:
        os.close(self.output)
        self.close_input()

    def close_input(self) -> None:
        if self.input >= 0:
            os.close(self.input)
            self.input = -1


class End:
    """One end: it takes a byte with each read."""

    def __init__(self, pipe: Pipe, fd: int) -> None:
        self._pipe = pipe
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def doRead(self) -> None:  # noqa: N802
        if self._pipe.fails:
            raise ValueError("a defect")
        self._pipe.events.append(f"read {os.read(self._fd, 1).decode()}")

    def doWrite(self) -> None:  # noqa: N802
        self._pipe.events.append("write")

    def connectionLost(self, reason: Failure) -> None:  # noqa: N802
        self._pipe.events.append(f"lost {reason.type.__name__}")  # type: ignore[union-attr]


@pytest.fixture
def pipes() -> Iterator[list[Pipe]]:
    made = [Pipe() for _ in range(10)]
    yield made
    for pipe in made:
        pipe.close()


@pytest.fixture
def reactor() -> FakeReactor:
    return FakeReactor()


@pytest.fixture
def poller(reactor: FakeReactor) -> Iterator[BoundedPoller]:
    made = BoundedPoller(reactor, select.epoll(), at_once=4)
    yield made
    made.connectionLost(Failure(ConnectionDone()))  # type: ignore[no-untyped-call]


def served(pipes: list[Pipe]) -> list[int]:
    """How many calls each pipe has had."""
    return [len(pipe.events) for pipe in pipes]


def test_sockets_that_are_ready_take_turns_and_few_are_served_at_once(poller: BoundedPoller, pipes: list[Pipe]) -> None:
    for pipe in pipes:
        os.write(pipe.input, b"abc")
        poller.addReader(pipe.reader)
    poller.doRead()
    assert sum(served(pipes)) == 4
    for _ in range(4):
        poller.doRead()
    assert served(pipes) == [2] * 10
    for _ in range(10):
        poller.doRead()
    assert [pipe.events for pipe in pipes] == [["read a", "read b", "read c"]] * 10


def test_the_reactor_learns_of_a_socket_that_is_ready_by_the_descriptor_of_the_poller(
    reactor: FakeReactor, poller: BoundedPoller, pipes: list[Pipe]
) -> None:
    assert reactor.readers == {poller}
    pipe = pipes[0]
    poller.addReader(pipe.reader)
    assert select.select([poller.fileno()], [], [], 0)[0] == []
    os.write(pipe.input, b"a")
    assert select.select([poller.fileno()], [], [], 0)[0] == [poller.fileno()]
    poller.doRead()
    assert select.select([poller.fileno()], [], [], 0)[0] == []


def test_a_socket_is_served_for_as_long_as_it_is_watched(poller: BoundedPoller, pipes: list[Pipe]) -> None:
    pipe = pipes[0]
    os.write(pipe.input, b"ab")
    poller.addReader(pipe.reader)
    poller.addReader(pipe.reader)
    poller.addWriter(pipe.writer)
    poller.doRead()
    assert sorted(pipe.events) == ["read a", "write"]
    poller.removeWriter(pipe.writer)
    poller.removeReader(pipe.reader)
    poller.removeReader(pipe.reader)
    poller.doRead()
    assert len(pipe.events) == 2
    poller.addReader(pipe.reader)
    poller.doRead()
    assert pipe.events[2:] == ["read b"]


def test_one_end_may_be_watched_for_reading_and_writing(poller: BoundedPoller, pipes: list[Pipe]) -> None:
    end = pipes[0].writer
    poller.addReader(end)
    poller.doRead()
    assert pipes[0].events == []
    poller.addWriter(end)
    poller.doRead()
    poller.removeReader(end)
    poller.doRead()
    assert pipes[0].events == ["write", "write"]


def test_the_end_of_the_stream_is_read(poller: BoundedPoller, pipes: list[Pipe]) -> None:
    poller.addReader(pipes[0].reader)
    pipes[0].close_input()
    poller.doRead()
    assert pipes[0].events == ["read "]


def test_a_failure_of_one_connection_ends_that_one_alone(
    poller: BoundedPoller, pipes: list[Pipe], caplog: pytest.LogCaptureFixture
) -> None:
    for pipe in pipes[:3]:
        os.write(pipe.input, b"a")
        poller.addReader(pipe.reader)
    pipes[1].fails = True
    poller.doRead()
    assert [pipe.events for pipe in pipes[:3]] == [["read a"], ["lost ValueError"], ["read a"]]
    assert "an event of a connection could not be handled" in caplog.text


def test_all_connections_end_with_the_reactor(reactor: FakeReactor, pipes: list[Pipe]) -> None:
    poller = BoundedPoller(reactor, select.epoll())
    poller.addReader(pipes[0].reader)
    poller.addWriter(pipes[1].writer)
    poller.connectionLost(Failure(ConnectionDone()))  # type: ignore[no-untyped-call]
    assert [pipe.events for pipe in pipes[:2]] == [["lost ConnectionDone"]] * 2


def test_time_is_that_of_the_reactor(reactor: FakeReactor, poller: BoundedPoller) -> None:
    calls: list[float] = []
    poller.callLater(1.0, lambda: calls.append(poller.seconds()))
    reactor.advance(2)
    assert calls == [2.0]
