"""A connection to another broker, for followers, coordinators and tools.

Answers to: ``kafka.server.BrokerBlockingSender`` and ``org.apache.kafka.clients.NetworkClient``. Reactor shell.

Each answer is read into memory of its own, so that a follower appends the fetched bytes to its log without a copy.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections import deque
from collections.abc import Awaitable

from twisted.python.failure import Failure

from kafkalite.common.authentication import SaslClient, SaslError
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future, deferred, spawn
from kafkalite.common.types import Part
from kafkalite.network.endpoint_security import PLAINTEXT_CLIENT, ClientSecurity
from kafkalite.network.handshakes import Handshakes
from kafkalite.network.output_queue import OutputQueue, WriteResult
from kafkalite.network.reactor import DelayedCall, ReactorSockets
from kafkalite.network.sockets import Socket, Sockets
from kafkalite.network.tls_channel import TlsChannel
from kafkalite.network.tls_socket import TlsSocket
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_response, encode_request
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.frames import FrameParser, request_header, response_body_offset
from kafkalite.protocol.memory import FramePool

_INT32 = struct.Struct(">i")
_IN_PROGRESS = {0, errno.EAGAIN, errno.EINPROGRESS}
"""Results of ``connect_ex`` that are no failure."""

POOL = 1 << 22
"""Most bytes of memory that are kept for the next large answers."""
_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 2
_SESSION_SHARE = 0.85
"""The part of a session after which the client authenticates again; Kafka's clients wait for 85 to 95 %."""
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
        reactor: ReactorSockets,
        host: str,
        port: int,
        client_id: str | None,
        max_response_bytes: int = 0x7FFFFFFF,
        *,
        sockets: Sockets,
        security: ClientSecurity = PLAINTEXT_CLIENT,
    ) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        self._reactor = reactor
        self._security = security
        self._sockets = sockets
        self._sock: Socket | None = None
        self._fd = -1
        self._pool = FramePool(POOL)
        # Brokers send as many bytes as they announce, so the memory for the whole answer is taken at once.
        self._parser = FrameParser(max_response_bytes, self._pool, trusted=True)
        self._small = 0
        self._scratch = bytearray(0)
        self._output = OutputQueue()
        self._pending: deque[_Pending] = deque()
        self._next_id = 0
        self._timer: DelayedCall | None = None
        self._connecting: Future[None] | None = None
        self._state = "new"
        self._blocked = False
        self._held: list[tuple[int, int, list[Part] | bytes, float, Future[memoryview]]] | None = None
        """Requests that wait for the end of a re-authentication; ``None`` where none is running."""
        self._session_timer: DelayedCall | None = None

    @property
    def connected(self) -> bool:
        """Whether requests can be sent."""
        return self._state == "open"

    async def connect(self, timeout: float = 10.0) -> None:
        """Open the connection and log in. Raises :class:`ConnectionLost`, after ``timeout`` seconds at the latest."""
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
            if self._security.sasl is not None:
                await self._authenticate(self._security.sasl(), timeout)
        finally:
            if timer.active():
                timer.cancel()

    async def _authenticate(self, client: SaslClient, timeout: float) -> None:
        """One exchange. Raises :class:`ConnectionLost` if it fails; the connection is closed then."""
        try:
            lifetime_ms = await self._exchange(client, timeout)
        except (SaslError, ProtocolError) as error:
            self._lose(f"authentication failed: {error}")
            raise ConnectionLost(f"{self}: authentication failed: {error}") from None
        if lifetime_ms > 0 and self._state == "open":
            self._session_timer = self._reactor.callLater(
                lifetime_ms / 1000 * _SESSION_SHARE,
                lambda: spawn(self._authenticate_again(timeout), f"authentication at {self}"),
            )

    async def _exchange(self, client: SaslClient, timeout: float) -> int:
        """The length of the session in ms, 0 for one without an end."""
        version = _HANDSHAKE_VERSION
        handshake = messages.SaslHandshakeRequest(version=version, mechanism=client.mechanism)
        answer = await self._ask(ApiKey.SASL_HANDSHAKE, version, handshake, timeout)
        assert isinstance(answer, messages.SaslHandshakeResponse)
        if answer.error_code != ErrorCode.NONE:
            raise SaslError(f"the broker serves {', '.join(answer.mechanisms)}, not {client.mechanism}")
        token, lifetime_ms = await self._evaluate(client, None), 0
        version = _AUTHENTICATE_VERSION
        while token is not None:
            request = messages.SaslAuthenticateRequest(version=version, auth_bytes=token)
            step = await self._ask(ApiKey.SASL_AUTHENTICATE, version, request, timeout)
            assert isinstance(step, messages.SaslAuthenticateResponse)
            if step.error_code != ErrorCode.NONE:
                raise SaslError(step.error_message or f"error {step.error_code}")
            token = await self._evaluate(client, bytes(step.auth_bytes))
            lifetime_ms = step.session_lifetime_ms
        return lifetime_ms

    async def _evaluate(self, client: SaslClient, challenge: bytes | None) -> bytes | None:
        executor = self._security.executor
        if executor is None:
            return client.evaluate(challenge)
        return await executor.run(client.evaluate, challenge)

    async def _ask(self, key: ApiKey, version: int, request: messages.Message, timeout: float) -> object:
        return decode_response(
            key, version, await self._send(key, version, encode_request(key, version, request), timeout)
        )

    async def _authenticate_again(self, timeout: float) -> None:
        """Before the session ends; other requests wait meanwhile, because the broker would take them for tokens."""
        if self._state != "open" or self._security.sasl is None:
            return
        self._held = []
        try:
            await self._authenticate(self._security.sasl(), timeout)
        except ConnectionLost:
            return
        held, self._held = self._held, None
        for api_key, version, body, limit, future in held:
            deferred(self._send(api_key, version, body, limit)).chainDeferred(future)

    def _resolved(self, address: str) -> None:
        if self._state == "connecting":
            sock, result = self._sockets.connect(address, self.port)
            self.attach(sock)
            if result not in _IN_PROGRESS:
                self._lose(os.strerror(result))

    def attach(self, sock: Socket) -> None:
        """Use ``sock``, which is connected or connecting."""
        if self._security.tls is not None:
            sock = TlsSocket(sock, self._security.tls, is_server=False, server_name=self.host)
            channel = TlsChannel(self._reactor, sock, Handshakes(None))
            channel.attach(self)
            self._reactor = channel
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
        if self._held is not None:
            held: Future[memoryview] = Future()
            self._held.append((api_key, version, body, timeout, held))
            return held
        return self._send(api_key, version, body, timeout)

    def _send(self, api_key: int, version: int, body: list[Part] | bytes, timeout: float) -> Awaitable[memoryview]:
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
        self._output.extend((_INT32.pack(len(head) + sum(map(len, parts))) + head, *parts))

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

    def connectionLost(self, reason: Failure) -> None:  # noqa: N802
        """The reactor saw the connection fail."""
        sock, result = self._sock, 0
        if sock is not None and self._state != "closed":
            result = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self._lose(os.strerror(result) if result else str(getattr(reason, "value", reason)))

    def doWrite(self) -> None:  # noqa: N802
        """The socket is connected, or takes more bytes."""
        sock = self._sock
        if sock is not None and self._state == "connecting":
            result = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
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
        sock = self._sock
        if self._state != "open" or sock is None:
            return
        target = self._parser.target(memoryview(self._scratch))
        try:
            count = sock.recv_into(target)
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

    # Methods that a TlsChannel calls (TlsOwner).

    def tls_established(self) -> None:
        """The handshake is complete: the reactor will call :meth:`doWrite`."""

    def tls_holds(self, size: int) -> None:
        """The handshake goes on."""

    def tls_failed(self, why: str) -> None:
        """The handshake failed."""
        self._lose(f"no TLS: {why}")

    def _answer(self, frame: memoryview) -> None:
        if not self._pending:
            raise ProtocolError("an answer without a request")
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
        sock = self._sock
        assert sock is not None  # the state is "open"
        try:
            written = self._output.write(sock)
            while written == WriteResult.COLD:
                self._output.cold_region().cold = False
                written = self._output.write(sock)
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
        if self._session_timer is not None and self._session_timer.active():
            self._session_timer.cancel()
        pending, self._pending = self._pending, deque()
        for request in pending:
            request.future.errback(error)
        held, self._held = self._held or [], None
        for *_, future in held:
            future.errback(error)
