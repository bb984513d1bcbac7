"""The control plane: requests between controller and brokers as msgpack frames, on a listener of their own.

Answers to: ``kafka.controller.ControllerChannelManager`` and the control-plane listener (KIP-291). Reactor shell.

A flood of Produce requests does not delay a leader change, because the two share neither a connection nor a queue.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, cast

from twisted.internet import error as net_error
from twisted.internet.protocol import ClientFactory, Factory, Protocol
from twisted.python.failure import Failure

from kafkalite.cluster.control import ControlRequest, ControlResponse
from kafkalite.cluster.model import Endpoint
from kafkalite.common.errors import ErrorCode, StartupError
from kafkalite.common.tasks import Future, Lane
from kafkalite.network.client import ConnectionLost
from kafkalite.network.control_codec import MAX_FRAME, decode, encode
from kafkalite.network.rate_limited_log import RateLimitedLog
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.frames import FrameParser

log = logging.getLogger(__name__)

ControlHandler = Callable[[ControlRequest], Awaitable[ControlResponse]]
Message = ControlRequest | ControlResponse

MAX_WAITING = 100
"""A connection with this many waiting requests is read no further."""


class ControlConnection(Protocol):
    """The frames of one connection, of either side; decoded messages go to ``on_message``.

    A peer that sends but does not read is read no further until it does: the transport calls :meth:`pauseProducing`.
    The server calls :meth:`hold` while too many requests of the peer wait.
    """

    def __init__(
        self, on_message: Callable[[int, Message], None], on_lost: Callable[[str], None], complaints: RateLimitedLog
    ) -> None:
        self._on_message = on_message
        self._on_lost = on_lost
        self._complaints = complaints
        self._parser = FrameParser(MAX_FRAME)
        self._unread = False
        self._held = False

    def connectionMade(self) -> None:  # noqa: N802
        """Send small messages at once (no Nagle), and detect a peer that has gone."""
        transport = cast(Any, self.transport)
        transport.registerProducer(self, True)
        if hasattr(transport, "setTcpNoDelay"):
            transport.setTcpNoDelay(True)
            transport.setTcpKeepAlive(True)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        """Bytes have come."""
        try:
            for frame in self._parser.feed(data):
                self._on_message(*decode(frame))
            if self._parser.offence:
                raise ProtocolError(self._parser.offence)
        except ProtocolError as error:
            self._complaints.warning("control plane: closing the connection of %s: %s", self.peer, error)
            cast(Any, self.transport).abortConnection()

    def pauseProducing(self) -> None:  # noqa: N802
        """The transport has more to send than the peer takes."""
        self._unread = True
        self._read_or_not()

    def resumeProducing(self) -> None:  # noqa: N802
        """The peer has taken what was to be sent."""
        self._unread = False
        self._read_or_not()

    def stopProducing(self) -> None:  # noqa: N802
        """The transport has failed; :meth:`connectionLost` follows."""

    def hold(self, held: bool) -> None:
        """Stop reading (``held``), or read again."""
        if held != self._held:
            self._held = held
            self._read_or_not()

    def _read_or_not(self) -> None:
        transport = cast(Any, self.transport)
        if transport is None or getattr(transport, "disconnected", False):
            return
        if self._unread or self._held:
            transport.pauseProducing()
        else:
            transport.resumeProducing()

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802
        """The connection is closed."""
        self._on_lost(str(getattr(reason, "value", "closed")))

    def send(self, correlation_id: int, message: Message) -> None:
        """Write a message."""
        cast(Any, self.transport).write(encode(correlation_id, message))

    def lose(self) -> None:
        """Close at once."""
        if self.transport is not None:
            cast(Any, self.transport).abortConnection()

    @property
    def peer(self) -> str:
        """Address of the peer."""
        address = cast(Any, self.transport).getPeer()
        return f"{getattr(address, 'host', address)}:{getattr(address, 'port', '')}"


class ControlServer:
    """Serves control requests. Those of one connection are handled one after the other, in their order."""

    def __init__(self, reactor: Any, handler: ControlHandler, now: Callable[[], float] = time.monotonic) -> None:
        self.handler = handler
        self._reactor = reactor
        self._complaints = RateLimitedLog(log, now)
        self._port: Any = None
        self._connections: dict[ControlConnection, None] = {}

    def listen(self, host: str, port: int) -> int:
        """Open the listener; ``port`` 0 takes a free one. Returns the port. Raises :class:`StartupError`."""
        server = self

        class Accepting(Factory):
            noisy = False

            def buildProtocol(self, _: Any) -> ControlConnection:  # noqa: N802
                return server.accept()

        try:
            self._port = self._reactor.listenTCP(port, Accepting(), interface=host)
        except net_error.CannotListenError as error:
            raise StartupError(
                f"cannot listen on {host or '0.0.0.0'}:{port} for the control plane: {error.socketError}; "
                "stop what uses the port or change 'control.plane.listener.name'"
            ) from None
        return int(self._port.getHost().port)

    def accept(self) -> ControlConnection:
        """The protocol that serves a new connection."""

        async def serve(event: tuple[int, Message]) -> None:
            await self._serve(connection, *event)
            if connection in self._connections:
                connection.hold(lane.depth >= MAX_WAITING)

        lane = Lane("control plane", serve)

        def lost(why: str) -> None:
            log.debug("control plane: %s", why)
            lane.close()
            self._connections.pop(connection, None)

        def put(number: int, message: Message) -> None:
            lane.put((number, message))
            connection.hold(lane.depth >= MAX_WAITING)

        connection = ControlConnection(put, lost, self._complaints)
        self._connections[connection] = None
        return connection

    async def _serve(self, connection: ControlConnection, correlation_id: int, request: Message) -> None:
        if isinstance(request, ControlResponse):
            self._complaints.warning("control plane: %s sent an answer where requests belong", connection.peer)
            connection.lose()
            return
        try:
            response = await self.handler(request)
        except Exception:
            log.exception("control plane: %s failed", type(request).__name__)
            response = ControlResponse(ErrorCode.UNKNOWN_SERVER_ERROR)
        if connection in self._connections:
            connection.send(correlation_id, response)

    async def stop(self) -> None:
        """Close everything."""
        if self._port is not None:
            port, self._port = self._port, None
            await port.stopListening()
        for connection in list(self._connections):
            connection.lose()


class _Waiting:
    """A request without an answer yet."""

    __slots__ = ("future", "request", "timer")

    def __init__(self, request: ControlRequest, future: Future[ControlResponse]) -> None:
        self.request = request
        self.future = future
        self.timer: Any = None


class ControlChannel:
    """One connection to one broker, which sends requests in the order of the calls. It is not opened again."""

    def __init__(
        self, reactor: Any, name: str, on_closed: Callable[[ControlChannel], None], complaints: RateLimitedLog
    ) -> None:
        self.name = name
        self.closed = False
        self._reactor = reactor
        self._on_closed = on_closed
        self._complaints = complaints
        self._connection: ControlConnection | None = None
        self._queue: deque[int] = deque()
        self._waiting: dict[int, _Waiting] = {}
        self._next_id = 0

    def build(self) -> ControlConnection:
        """A protocol for the channel's connection."""
        return ControlConnection(self._answered, self.lose, self._complaints)

    def connected(self, connection: ControlConnection) -> None:
        """The connection is established: send the requests that waited for it."""
        if self.closed:
            connection.lose()
            return
        self._connection = connection
        while self._queue and not self.closed:
            number = self._queue.popleft()
            if number in self._waiting:
                connection.send(number, self._waiting[number].request)

    def send(self, request: ControlRequest, timeout: float) -> Awaitable[ControlResponse]:
        """See :meth:`ControlClient.send`."""
        self._next_id += 1
        number = self._next_id
        waiting = _Waiting(request, Future())
        self._waiting[number] = waiting
        waiting.timer = self._reactor.callLater(timeout, self.lose, f"no answer within {timeout:g} s")
        if self._connection is not None:
            self._connection.send(number, request)
        else:
            self._queue.append(number)
        return waiting.future

    def _answered(self, number: int, message: Message) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is None or not isinstance(message, ControlResponse):
            raise ProtocolError("an answer that nobody asked for")
        waiting.timer.cancel()
        waiting.future.callback(message)

    def lose(self, why: str) -> None:
        """Close. Requests without an answer fail, because it is unknown whether the broker has carried them out."""
        if self.closed:
            return
        self.closed = True
        self._on_closed(self)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.lose()
        waiting, self._waiting = self._waiting, {}
        for entry in waiting.values():
            if entry.timer.active():
                entry.timer.cancel()
        for entry in waiting.values():
            entry.future.errback(ConnectionLost(f"control plane of {self.name}: {why}"))


class _Connecting(ClientFactory):
    noisy = False

    def __init__(self, channel: ControlChannel) -> None:
        self._channel = channel

    def buildProtocol(self, _: Any) -> ControlConnection:  # noqa: N802
        connection = self._channel.build()
        made = connection.connectionMade

        def connection_made() -> None:
            made()
            self._channel.connected(connection)

        connection.connectionMade = connection_made  # type: ignore[method-assign]
        return connection

    def clientConnectionFailed(self, _: Any, reason: Failure) -> None:  # noqa: N802
        self._channel.lose(str(reason.value))


class ControlClient:
    """Sends control requests, over one connection per broker that is made when needed."""

    def __init__(self, reactor: Any, connect_timeout: float = 5.0, now: Callable[[], float] = time.monotonic) -> None:
        self._reactor = reactor
        self._connect_timeout = connect_timeout
        self._complaints = RateLimitedLog(log, now)
        self._channels: dict[tuple[str, int], ControlChannel] = {}

    def send(self, endpoint: Endpoint, request: ControlRequest, timeout: float = 30.0) -> Awaitable[ControlResponse]:
        """Send a request; the broker handles requests to one endpoint in the order of the calls.

        Fails with :class:`kafkalite.network.client.ConnectionLost`, also after ``timeout`` seconds without an
        answer. Then the connection is closed, so that no later request overtakes one that the broker still handles.
        """
        key = (endpoint.host, endpoint.port)
        channel = self._channels.get(key)
        if channel is None:
            channel = ControlChannel(
                self._reactor, f"{endpoint.host}:{endpoint.port}", lambda _: self._forget(key), self._complaints
            )
            self._channels[key] = channel
            answer = channel.send(request, timeout)
            self._reactor.connectTCP(endpoint.host, endpoint.port, _Connecting(channel), timeout=self._connect_timeout)
            return answer
        return channel.send(request, timeout)

    def _forget(self, key: tuple[str, int]) -> None:
        self._channels.pop(key, None)

    def close(self) -> None:
        """Close all connections."""
        for channel in list(self._channels.values()):
            channel.lose("closed")
