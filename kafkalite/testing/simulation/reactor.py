"""Twisted's reactor for one simulated process: what the network room calls of it, on virtual time. Deterministic.

Answers to: ``twisted.internet.interfaces.{IReactorCore,IReactorTime,IReactorFDSet,IReactorTCP}`` in part.

Readiness is level-triggered, as with epoll: a watched socket that can be read or written is called
repeatedly. The control plane's transports are Twisted's own, on simulated sockets.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet import address, defer, tcp
from twisted.internet import error as net_error
from twisted.python import failure as failures

from kafkalite.common.errors import StartupError
from kafkalite.testing.simulation.wires import SimSocket, SimSockets
from kafkalite.testing.simulation.world import Life, ScheduledCall

log = logging.getLogger(__name__)

error: Any = net_error
Failure: Any = failures.Failure

_NOTICE = 0.00005
"""Most seconds until a process comes back to a socket that still has something for it."""


class SimReactor:
    """The reactor of ``life``."""

    running = True

    def __init__(self, life: Life, sockets: SimSockets) -> None:
        self.sockets = sockets
        self._life = life
        self._rng = life.world.rng(f"reactor {life.name}")
        life.keep.append(self)

    # Time

    def seconds(self) -> float:
        """Virtual seconds."""
        return self._life.world.now

    def callLater(  # noqa: N802
        self, delay: float, call: Callable[..., object], *args: Any, **named: Any
    ) -> ScheduledCall:
        """Make the call after ``delay`` seconds."""
        return self._life.call_later(delay, partial(call, **named) if named else call, *args)

    def callFromThread(self, call: Callable[..., object], *args: Any) -> None:  # noqa: N802
        """Make the call soon."""
        self._life.call_later(0, call, *args)

    def callWhenRunning(self, call: Callable[..., object], *args: Any) -> None:  # noqa: N802
        """Make the call soon."""
        self._life.call_later(0, call, *args)

    def addSystemEventTrigger(self, *_: Any) -> None:  # noqa: N802
        """A simulated process is stopped by who runs it."""

    # Descriptors

    def addReader(self, reader: Any) -> None:  # noqa: N802
        """Call ``reader.doRead`` whenever its socket can be read."""
        sock = self._socket(reader)
        if sock is not None and sock.reader is not reader:
            sock.reader = reader
            self._look(sock)

    def addWriter(self, writer: Any) -> None:  # noqa: N802
        """Call ``writer.doWrite`` whenever its socket can be written."""
        sock = self._socket(writer)
        if sock is not None and sock.writer is not writer:
            sock.writer = writer
            self._look(sock)

    def removeReader(self, reader: Any) -> None:  # noqa: N802
        """Call it no more."""
        sock = self._socket(reader)
        if sock is not None and sock.reader is reader:
            sock.reader = None

    def removeWriter(self, writer: Any) -> None:  # noqa: N802
        """Call it no more."""
        sock = self._socket(writer)
        if sock is not None and sock.writer is writer:
            sock.writer = None

    def _socket(self, descriptor: Any) -> SimSocket | None:
        sock = self.sockets.network.sockets.get(descriptor.fileno())
        if sock is not None and sock.woken is None:
            sock.woken = self._woken
        return sock

    def _woken(self, sock: SimSocket) -> None:
        """The network did something to ``sock``: the process sees it at once, if it runs."""
        if not sock.has_turn and sock.is_ready:
            sock.has_turn = True
            self._life.run(self._take_turn, sock)

    def _look(self, sock: SimSocket) -> None:
        """The process asked for, or left, something that is there already: it comes back to it soon."""
        if not sock.has_turn and sock.is_ready:
            sock.has_turn = True
            self._life.call_later(_NOTICE * self._rng.random(), self._take_turn, sock)

    def _take_turn(self, sock: SimSocket) -> None:
        sock.has_turn = False
        reader = sock.reader
        if reader is not None and sock.readable:
            self._call(reader, reader.doRead)
        writer = sock.writer
        if writer is not None and sock.writable:
            self._call(writer, writer.doWrite)
        self._look(sock)

    def _call(self, descriptor: Any, call: Callable[[], Any]) -> None:
        try:
            why = call()
        except Exception as failure:
            log.exception("%s failed", descriptor)
            why = failure
        if why is not None:
            # What Twisted's own transports return when the connection is over.
            self.removeReader(descriptor)
            self.removeWriter(descriptor)
            descriptor.connectionLost(Failure(why))

    # The control plane's connections

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> _Port:  # noqa: N802
        """Listen. Raises ``CannotListenError``."""
        try:
            sock = self.sockets.bind(interface, port)
        except StartupError as taken:
            raise error.CannotListenError(interface, port, OSError(errno.EADDRINUSE, str(taken))) from None
        self.sockets.listen(sock, backlog)
        return _Port(self, sock, factory)

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float = 30.0) -> None:  # noqa: N802
        """Connect; the factory is told of the outcome within ``timeout`` seconds."""
        sock, _ = self.sockets.connect(host, port)
        _Dialing(self, sock, factory, timeout)


class _Transport(tcp.Connection):
    """Twisted's own transport, on a simulated socket."""

    def __init__(self, reactor: SimReactor, sock: SimSocket, protocol: Any) -> None:
        everything: Any = reactor
        handle: Any = sock
        super().__init__(handle, protocol, everything)
        self._local, self._remote = sock.getsockname(), sock.getpeername()
        self.logstr = "simulated"
        self.connected = 1

    def getHost(self) -> address.IPv4Address:  # noqa: N802
        """Own address."""
        return address.IPv4Address("TCP", *self._local)

    def getPeer(self) -> address.IPv4Address:  # noqa: N802
        """The other side's address."""
        return address.IPv4Address("TCP", *self._remote)


def _connect(reactor: SimReactor, sock: SimSocket, factory: Any) -> None:
    protocol = factory.buildProtocol(address.IPv4Address("TCP", *sock.getpeername()))
    if protocol is None:
        sock.close()
        return
    transport: Any = _Transport(reactor, sock, protocol)
    transport.startReading()
    protocol.makeConnection(transport)


class _Port:
    """A listening socket that makes transports."""

    def __init__(self, reactor: SimReactor, sock: SimSocket, factory: Any) -> None:
        self._reactor = reactor
        self._sock = sock
        self._factory = factory
        reactor.addReader(self)

    def fileno(self) -> int:
        return self._sock.fileno()

    def getHost(self) -> address.IPv4Address:  # noqa: N802
        """Where it listens."""
        return address.IPv4Address("TCP", *self._sock.getsockname())

    def doRead(self) -> None:  # noqa: N802
        """A connection came."""
        sock, _ = self._sock.accept()
        _connect(self._reactor, sock, self._factory)

    def connectionLost(self, _: Any) -> None:  # noqa: N802
        self._sock.close()

    def stopListening(self) -> defer.Deferred[None]:  # noqa: N802
        """Accept no more."""
        self._reactor.removeReader(self)
        self._sock.close()
        return defer.succeed(None)


class _Dialing:
    """A connection on its way."""

    def __init__(self, reactor: SimReactor, sock: SimSocket, factory: Any, timeout: float) -> None:
        self._reactor = reactor
        self._sock = sock
        self._factory = factory
        self._timer = reactor.callLater(timeout, self._failed, error.TimeoutError())
        reactor.addWriter(self)

    def fileno(self) -> int:
        return self._sock.fileno()

    def doWrite(self) -> None:  # noqa: N802
        """It stands, or was refused."""
        result = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if result:
            self._failed(error.ConnectError(result, os.strerror(result)))
            return
        self._timer.cancel()
        self._reactor.removeWriter(self)
        _connect(self._reactor, self._sock, self._factory)

    def connectionLost(self, reason: Any) -> None:  # noqa: N802
        self._failed(reason.value)

    def _failed(self, why: BaseException) -> None:
        self._timer.cancel()
        self._reactor.removeWriter(self)
        self._sock.close()
        self._factory.clientConnectionFailed(None, Failure(why))
