"""Sockets and a reactor in memory."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kafkalite.common.tasks import Future
from kafkalite.network import output_queue
from kafkalite.network.connection import Connection
from kafkalite.network.limits import NetworkLimits
from kafkalite.network.request import Request
from kafkalite.network.server import KafkaServer
from kafkalite.protocol.frames import request_header


class FakeSocket:
    """A non-blocking stream socket: ``incoming`` is read, ``sent`` was written, ``room`` is what it still takes."""

    family = socket.AF_INET

    def __init__(self, number: int = 1000) -> None:
        self.incoming = bytearray()
        self.ended = False
        self.sent = bytearray()
        self.room = 1 << 40
        self.sends = 0
        self.closed = False
        self.error: OSError | None = None
        self._number = number

    def fileno(self) -> int:
        return self._number

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def setsockopt(self, *_: Any) -> None:
        pass

    def getsockopt(self, *_: Any) -> int:
        return 0

    def recv_into(self, target: memoryview) -> int:
        if self.error is not None:
            raise self.error
        if not self.incoming and not self.ended:
            raise BlockingIOError
        count = min(len(target), len(self.incoming))
        target[:count] = self.incoming[:count]
        del self.incoming[:count]
        return count

    def send(self, data: Any, flags: int = 0) -> int:
        return self.sendmsg([data], (), flags)

    def sendmsg(self, buffers: list[Any], _: Any = (), __: int = 0) -> int:
        if self.error is not None:
            raise self.error
        data = b"".join(buffers)
        if self.room == 0:
            raise BlockingIOError
        self.sends += 1
        count = min(len(data), self.room)
        self.sent += data[:count]
        self.room -= count
        return count

    def close(self) -> None:
        self.closed = True


def fake_send_file(sock: Any, fd: int, position: int, count: int) -> int:
    """Stands in for ``sendfile``."""
    return int(sock.send(os.pread(fd, count, position)) if count else 0)


class FakeReactor(Clock):
    """Time that is told to pass, and the descriptors that it was asked to watch."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: set[Any] = set()
        self.writers: set[Any] = set()

    def addReader(self, reader: Any) -> None:  # noqa: N802
        self.readers.add(reader)

    def removeReader(self, reader: Any) -> None:  # noqa: N802
        self.readers.discard(reader)

    def addWriter(self, writer: Any) -> None:  # noqa: N802
        self.writers.add(writer)

    def removeWriter(self, writer: Any) -> None:  # noqa: N802
        self.writers.discard(writer)

    def resolve(self, name: str) -> Deferred[str]:  # noqa: ARG002
        return Deferred()

    def turn(self) -> None:
        """What is due now is called."""
        self.advance(0)


class ManualExecutor:
    """Work that is done when the test says so."""

    def __init__(self) -> None:
        self.work: list[tuple[Callable[[], Any], Future[Any]]] = []

    def run(self, call: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        future: Future[Any] = Future()
        self.work.append((lambda: call(*args), future))
        return future

    def do_one(self) -> None:
        call, future = self.work.pop(0)
        try:
            result = call()
        except Exception as error:
            future.errback(error)
        else:
            future.callback(result)


class Handler:
    """Keeps the requests; ``answer`` is what it does with each at once."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answer: Callable[[Request], None] = lambda _: None

    def handle(self, request: Request) -> None:
        self.requests.append(request)
        self.answer(request)


def echo(request: Request) -> None:
    request.respond([bytes(request.body)])


class Harness:
    """A server on fakes."""

    def __init__(
        self, limits: NetworkLimits | None = None, executor: Any = None, login_reactor: FakeReactor | None = None
    ) -> None:
        self.reactor = FakeReactor()
        self.handler = Handler()
        self.server = KafkaServer(
            self.reactor,
            self.handler,
            limits,
            executor,
            executor,
            self.reactor.seconds,
            login_reactor=login_reactor,
        )
        self._number = 1000

    def connect(self, ip: str = "10.0.0.1") -> tuple[FakeSocket, Connection | None]:
        self._number += 1
        sock = FakeSocket(self._number)
        before = set(self.server._connections)
        self.server.accepted(sock, (ip, self._number), "PLAINTEXT")
        new = self.server._connections.keys() - before
        return sock, new.pop() if new else None

    def client(self, ip: str = "10.0.0.1") -> tuple[FakeSocket, Connection]:
        sock, connection = self.connect(ip)
        assert connection is not None
        return sock, connection

    def receive(self, sock: FakeSocket, connection: Connection, data: bytes) -> None:
        """``data`` arrives and is read for as long as the server wants to."""
        sock.incoming += data
        while sock.incoming and connection in self.reactor.readers:
            connection.doRead()


def frame(correlation_id: int, body: bytes = b"", api_key: int = 0, version: int = 8) -> bytes:
    """A request with its length; a produce request (classic header) unless told otherwise."""
    data = request_header(api_key, version, correlation_id, "me") + body
    return struct.pack(">i", len(data)) + data


def answers(data: bytes | bytearray) -> list[tuple[int, bytes]]:
    """Correlation ids and bodies of what was sent."""
    out = []
    pos = 0
    while pos < len(data):
        size, correlation_id = struct.unpack_from(">ii", data, pos)
        out.append((correlation_id, bytes(data[pos + 8 : pos + 4 + size])))
        pos += 4 + size
    return out


@contextmanager
def memory_files() -> Iterator[None]:
    """File regions reach fake sockets."""
    original = output_queue.send_file
    output_queue.send_file = fake_send_file
    try:
        yield
    finally:
        output_queue.send_file = original
