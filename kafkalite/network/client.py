"""A connection to another broker, for followers, coordinators and tools.

Answers to: ``kafka.server.BrokerBlockingSender`` and ``org.apache.kafka.clients.NetworkClient``. Reactor shell.

Each answer is read into memory of its own, so that a follower appends the fetched bytes to its log without a copy.
"""

from __future__ import annotations

import os
import socket
import struct
from collections import deque
from collections.abc import Awaitable
from typing import Any

from kafkalite.common.tasks import Future, deferred
from kafkalite.common.types import Part
from kafkalite.network.output_queue import OutputQueue, WriteResult
from kafkalite.network.sockets import OsSockets, Sockets
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.frames import FrameParser, request_header, response_body_offset
from kafkalite.protocol.memory import FramePool

_INT32 = struct.Struct(">i")
_IN_PROGRESS = {0, 11, 36, 115}
"""Results of ``connect_ex`` that are no failure: done, EAGAIN, EINPROGRESS of BSD and of Linux."""

POOL = 1 << 22
"""Most bytes of memory that are kept for the next large answers."""
QUIET = 64
"""After this many small answers in a row the kept memory is released."""


class ConnectionLost(Exception):  # noqa: N818
    """There is no connection, or it was lost; whether the broker carried the request out is unknown."""


class _Pending:
    """A request without an answer yet."""

    __slots__ = ("api_key", "correlation_id", "deadline", "future", "version")

    def __init__(
        self, api_key: int, version: int, correlation_id: int, deadline: float, future: Future[memoryview]
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.deadline = deadline
        self.future = future


class BrokerConnection:
    """One connection, with pipelined requests. It is not opened again after it was lost or closed: make another."""

    def __init__(
        self,
        reactor: Any,
        host: str,
        port: int,
        client_id: str | None,
        max_response_bytes: int = 0x7FFFFFFF,
        sockets: Sockets | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        self._reactor = reactor
        self._sockets = sockets or OsSockets(reactor)
        self._sock: Any = None
        self._fd = -1
        self._pool = FramePool(POOL)
        # Brokers send as many bytes as they announce, so the memory for the whole answer is taken at once.
        self._parser = FrameParser(max_response_bytes, self._pool, trusted=True)
        self._small = 0
        self._scratch = bytearray(0)
        self._output = OutputQueue()
        self._pending: deque[_Pending] = deque()
        self._next_id = 0
        self._timer: Any = None
        self._connecting: Future[None] | None = None
        self._state = "new"
        self._blocked = False

    @property
    def connected(self) -> bool:
        """Whether requests can be sent."""
        return self._state == "open"

    async def connect(self, timeout: float = 10.0) -> None:
        """Open the connection. Raises :class:`ConnectionLost`, after ``timeout`` seconds at the latest."""
        if self._state != "new":
            raise ConnectionLost(f"the connection to {self} was opened before")
        self._state = "connecting"
        connecting: Future[None] = Future()
        self._connecting = connecting
        timer = self._reactor.callLater(timeout, self._lose, f"no connection within {timeout:g} s")
        deferred(self._sockets.resolve(self.host)).addCallbacks(
            self._resolved, lambda failure: self._lose(f"unknown host: {failure.value}")
        )
        try:
            await connecting
        finally:
            if timer.active():
                timer.cancel()

    def _resolved(self, address: str) -> None:
        if self._state == "connecting":
            sock, result = self._sockets.connect(address, self.port)
            self.attach(sock)
            if result not in _IN_PROGRESS:
                self._lose(os.strerror(result))

    def attach(self, sock: Any) -> None:
        """Use ``sock``, which is connected or connecting."""
        self._sock = sock
        self._fd = sock.fileno()
        self._scratch = bytearray(2 * FrameParser.LARGE)
        self._state = "connecting"
        self._reactor.addWriter(self)

    def send(
        self, api_key: int, version: int, body: list[Part] | bytes, timeout: float = 30.0
    ) -> Awaitable[memoryview]:
        """Send a request. The result is the body of its response, writable, in memory of its own.

        Fails with :class:`ConnectionLost`, also after ``timeout`` seconds without an answer, which closes the
        connection.
        """
        future: Future[memoryview] = Future()
        if self._state != "open":
            future.errback(ConnectionLost(f"not connected to {self}"))
            return future
        self._append(api_key, version, body)
        deadline = self._reactor.seconds() + timeout
        self._pending.append(_Pending(api_key, version, self._next_id, deadline, future))
        self._arm(deadline)
        if not self._blocked:
            self._write()
        return future

    def post(self, api_key: int, version: int, body: list[Part] | bytes) -> None:
        """Send a request that has no response: a Produce with ``acks`` 0. Does nothing if the connection is lost."""
        if self._state == "open":
            self._append(api_key, version, body)
            if not self._blocked:
                self._write()

    def _append(self, api_key: int, version: int, body: list[Part] | bytes) -> None:
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF
        parts: list[Part] = [body] if isinstance(body, bytes) else body
        head = request_header(api_key, version, self._next_id, self.client_id)
        self._output.append(_INT32.pack(len(head) + sum(map(len, parts))) + head, 4 + len(head))
        for part in parts:
            size = len(part)
            if size:
                self._output.append(part, size)

    def close(self) -> None:
        """Close the connection; requests without an answer fail with :class:`ConnectionLost`."""
        self._lose("closed")

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    # The methods that Twisted's reactor calls (IReadWriteDescriptor).

    def fileno(self) -> int:
        """The number of the descriptor, also after it was closed."""
        return self._fd

    def logPrefix(self) -> str:  # noqa: N802
        """For Twisted's own log."""
        return "kafka-client"

    def connectionLost(self, reason: Any) -> None:  # noqa: N802
        """The reactor saw the connection fail."""
        result = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if self._state != "closed" else 0
        self._lose(os.strerror(result) if result else str(getattr(reason, "value", reason)))

    def doWrite(self) -> None:  # noqa: N802
        """The socket is connected, or takes more bytes."""
        if self._state == "connecting":
            result = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if result:
                self._lose(os.strerror(result))
                return
            self._state = "open"
            self._reactor.removeWriter(self)
            self._reactor.addReader(self)
            connecting, self._connecting = self._connecting, None
            if connecting is not None:
                connecting.callback(None)
            return
        self._blocked = False
        self._write()
        if not self._blocked and self._state == "open":
            self._reactor.removeWriter(self)

    def doRead(self) -> None:  # noqa: N802
        """Bytes of an answer have come."""
        if self._state != "open":
            return
        target = self._parser.target(memoryview(self._scratch))
        try:
            count = self._sock.recv_into(target)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(str(error))
            return
        finally:
            del target
        if count == 0:
            self._lose("closed by the broker")
            return
        try:
            for frame in self._parser.received(self._scratch, count):
                self._answer(memoryview(frame))
            if self._parser.offence:
                raise ProtocolError(self._parser.offence)
        except ProtocolError as error:
            self._lose(str(error))

    def _answer(self, frame: memoryview) -> None:
        if not self._pending:
            raise ProtocolError("an answer that nobody asked for")
        pending = self._pending[0]
        offset = response_body_offset(pending.api_key, pending.version, frame)
        correlation_id = _INT32.unpack_from(frame)[0]
        if correlation_id != pending.correlation_id:
            raise ProtocolError(f"the answer {correlation_id} where {pending.correlation_id} was expected")
        self._pending.popleft()
        self._small = self._small + 1 if len(frame) <= FrameParser.LARGE else 0
        if self._small % QUIET == QUIET - 1:
            self._pool.trim()
        pending.future.callback(frame[offset:])

    def _write(self) -> None:
        try:
            written = self._output.write(self._sock)
            while written == WriteResult.COLD:
                self._output.cold_region().cold = False
                written = self._output.write(self._sock)
        except OSError as error:
            self._lose(str(error))
            return
        if written == WriteResult.BLOCKED:
            self._blocked = True
            self._reactor.addWriter(self)

    def _arm(self, deadline: float) -> None:
        if self._timer is not None and self._timer.active():
            if self._timer.getTime() <= deadline:
                return
            self._timer.cancel()
        self._timer = self._reactor.callLater(max(0.0, deadline - self._reactor.seconds()), self._expire)

    def _expire(self) -> None:
        if not self._pending:
            return
        deadline = min(pending.deadline for pending in self._pending)
        if deadline <= self._reactor.seconds():
            self._lose("no answer in time")
        else:
            self._arm(deadline)

    def _lose(self, why: str) -> None:
        if self._state == "closed":
            return
        self._state = "closed"
        if self._sock is not None:
            self._reactor.removeReader(self)
            self._reactor.removeWriter(self)
            self._sock.close()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._output.clear()
        self._parser = FrameParser(0)
        self._pool = FramePool(0)
        self._scratch = bytearray(0)
        error = ConnectionLost(f"{self}: {why}")
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.errback(error)
        pending, self._pending = self._pending, deque()
        for request in pending:
            request.future.errback(error)
