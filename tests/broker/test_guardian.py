"""What the guardian says to ZooKeeper, against a server of a few lines."""

from __future__ import annotations

import os
import socket
import struct
import threading
from typing import Any

import pytest

from kafkalite.broker.guardian import Guardian
from kafkalite.broker.guardian_process import MESSAGE, addresses, close_session
from kafkalite.testing.clock import ManualClock

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
def test_a_connection_string_is_split_into_addresses(hosts: str, expected: list[tuple[str, int]]) -> None:
    assert addresses(hosts) == expected


def test_attaches_with_the_password_and_closes() -> None:
    server = OneAnswer(6000)
    assert close_session(server.address + "/chroot", 0x1234, PASSWORD, 6000)
    connect, close = server.finish()
    assert struct.unpack(">iqiqi16sB", connect) == (0, 0, 6000, 0x1234, 16, PASSWORD, 0)
    assert close == struct.pack(">ii", 1, -11)


def test_a_session_that_has_ended_is_not_closed() -> None:
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


class Child:
    """In the place of the guardian's process: keeps its end of the pipe."""

    def __init__(self, _command: list[str], stdin: int, **_options: Any) -> None:
        self.pid = 1
        self.returncode: int | None = None
        self.pipe = os.dup(stdin)

    def poll(self) -> int | None:
        return self.returncode

    def wait(self) -> int:
        return 0


# trap: kafkalite/broker/guardian.py: Another child process holds the guardian's pipe open, so that the guardian does
# not see the broker die.
# trap: kafkalite/broker/guardian.py: The guardian has the credentials of an old session and could not end the new one:
# it gets those of each session.
def test_the_guardian_gets_each_session_and_no_other_process_holds_its_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[Child] = []

    def spawn(*arguments: Any, **options: Any) -> Child:
        children.append(Child(*arguments, **options))
        return children[-1]

    monkeypatch.setattr("kafkalite.broker.guardian.subprocess.Popen", spawn)
    clock = ManualClock()
    guardian = Guardian("localhost:1", clock)
    guardian.watch(1, PASSWORD, 6000)
    guardian.watch(2, PASSWORD[::-1], 7000)
    (child,) = children
    assert os.read(child.pipe, 1000) == MESSAGE.pack(1, 6000, PASSWORD) + MESSAGE.pack(2, 7000, PASSWORD[::-1])
    assert not os.get_inheritable(guardian._pipe)
    # A killed guardian is replaced; the new one gets the current session, and the old pipe is closed.
    child.returncode = -9
    clock.advance(6)
    assert os.read(child.pipe, 1000) == b""
    assert os.read(children[1].pipe, 1000) == MESSAGE.pack(2, 7000, PASSWORD[::-1])
    guardian.release()
    assert os.read(children[1].pipe, 1000) == MESSAGE.pack(0, 0, bytes(16))
    assert os.read(children[1].pipe, 1000) == b""
    for each in children:
        os.close(each.pipe)
