"""What the guardian says to ZooKeeper, against a server of a few lines."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from kafkalite.broker.guardian_process import addresses, close_session

PASSWORD = bytes(range(16))


class OneAnswer:
    """Takes one connection, answers what it asks, and keeps it."""

    def __init__(self, granted: int, *, closes: bool = True) -> None:
        self._granted = granted
        self._closes = closes
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _frame(self, connection: socket.socket) -> bytes:
        (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
        return connection.recv(length, socket.MSG_WAITALL)

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, self._listener:
            connect = self._frame(connection)
            self.requests += [connect, self._frame(connection)]  # both come before there is an answer to the first
            session = struct.unpack_from(">q", connect, 16)[0] if self._granted else 0
            answer = struct.pack(">iiqi16sB", 0, self._granted, session, 16, PASSWORD, 0)
            connection.sendall(struct.pack(">i", len(answer)) + answer)
            if self._granted and self._closes:
                connection.sendall(struct.pack(">iiqi", 16, 1, 5, 0))

    def finish(self) -> list[bytes]:
        self._thread.join(5)
        return self.requests


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ("a:1", [("a", 1)]),
        ("a:1,b:2/chroot/deep", [("a", 1), ("b", 2)]),
        ("a", [("a", 2181)]),
        ("[::1]:3,b", [("::1", 3), ("b", 2181)]),
    ],
)
def test_addresses(hosts: str, expected: list[tuple[str, int]]) -> None:
    assert addresses(hosts) == expected


def test_attaches_with_the_password_and_closes() -> None:
    server = OneAnswer(6000)
    assert close_session(server.address + "/chroot", 0x1234, PASSWORD, 6000)
    connect, close = server.finish()
    assert struct.unpack(">iqiqi16sB", connect) == (0, 0, 6000, 0x1234, 16, PASSWORD, 0)
    assert close == struct.pack(">ii", 1, -11)


def test_a_session_that_is_over_is_left_alone() -> None:
    server = OneAnswer(0)
    assert close_session(server.address, 0x1234, PASSWORD, 6000)
    server.finish()


def test_a_session_that_its_client_takes_back_is_not_over() -> None:
    """ZooKeeper drops our connection between the two requests."""
    server = OneAnswer(6000, closes=False)
    assert not close_session(server.address, 0x1234, PASSWORD, 6000)
    server.finish()


def test_every_host_is_tried() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{closed.getsockname()[1]}"
        server = OneAnswer(6000)
        assert close_session(f"{dead},{server.address}", 1, PASSWORD, 6000)
        server.finish()
        assert not close_session(dead, 1, PASSWORD, 6000)
