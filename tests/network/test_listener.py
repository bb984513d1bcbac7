"""Accepting connections from a listening socket in memory."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from kafkalite.common.errors import StartupError
from kafkalite.network.endpoint_security import PLAINTEXT
from kafkalite.network.listener import ACCEPT_PAUSE, Listener
from kafkalite.network.sockets import OsSockets
from tests.network.fakes import FakeSocket, Harness


class ListeningSocket(FakeSocket):
    """Connections and errors that ``accept`` gives, one after the other."""

    def __init__(self) -> None:
        super().__init__(5)
        self.arriving: list[Any] = []

    def getsockname(self) -> tuple[str, int]:
        return ("0.0.0.0", 9092)

    def accept(self) -> Any:
        if not self.arriving:
            raise BlockingIOError
        arrived = self.arriving.pop(0)
        if isinstance(arrived, OSError):
            raise arrived
        return arrived


def listener() -> tuple[Harness, ListeningSocket, Listener]:
    harness = Harness()
    sock = ListeningSocket()
    server = harness.server
    opened = Listener(
        server.reactor, sock, "EXTERNAL", PLAINTEXT, server.accepted, server.quotas.has_slot, server.complaints
    )
    return harness, sock, opened


def test_all_that_wait_are_accepted() -> None:
    harness, sock, opened = listener()
    sock.arriving = [(FakeSocket(number), ("10.0.0.1", number)) for number in range(10, 13)]
    opened.doRead()
    assert harness.server.connections == 3
    assert {connection.info.listener for connection in harness.server._connections} == {"EXTERNAL"}
    assert {connection.info.peer for connection in harness.server._connections} == {
        "10.0.0.1:10",
        "10.0.0.1:11",
        "10.0.0.1:12",
    }
    assert opened.port == 9092


def test_a_flood_does_not_keep_others_waiting() -> None:
    harness, sock, opened = listener()
    sock.arriving = [(FakeSocket(number), ("10.0.0.1", number)) for number in range(100, 400)]
    opened.doRead()
    assert harness.server.connections == Listener.AT_ONCE


def test_without_descriptors_it_waits_a_while(caplog: pytest.LogCaptureFixture) -> None:
    harness, sock, opened = listener()
    sock.arriving = [OSError(errno.EMFILE, "Too many open files"), (FakeSocket(10), ("10.0.0.1", 10))]
    opened.doRead()
    assert "Too many open files" in caplog.text
    assert opened not in harness.reactor.readers
    harness.reactor.advance(ACCEPT_PAUSE + 0.1)
    assert opened in harness.reactor.readers
    opened.doRead()
    assert harness.server.connections == 1


def test_one_that_left_already_does_no_harm() -> None:
    harness, sock, opened = listener()
    sock.arriving = [ConnectionAbortedError()]
    opened.doRead()
    assert opened in harness.reactor.readers


def test_closed_for_good() -> None:
    harness, sock, opened = listener()
    opened.close()
    opened.close()
    assert sock.closed
    assert opened not in harness.reactor.readers


def test_an_unknown_host_is_refused_with_its_name() -> None:
    with pytest.raises(StartupError, match=r"no\.such\.host\.invalid"):
        OsSockets(None).bind("no.such.host.invalid", 9092)
