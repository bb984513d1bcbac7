"""The broker's socket server: accepts connections, reads requests, writes answers in order.

Answers to: ``kafka.network.SocketServer``. Reactor shell.

It uses no transports of Twisted, because they read 64 KB at a time into new byte strings and copy what they write.
Small requests are read many at a time into one buffer that all connections share, large ones into memory of their own;
many small answers are written in one call, and the kernel sends file regions.
"""

from __future__ import annotations

import ctypes
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count

from kafkalite.common.authentication import AuthenticationStep
from kafkalite.common.errors import StartupError
from kafkalite.common.events import EventRecorder, ignore_event
from kafkalite.common.one_at_a_time import OneAtATime
from kafkalite.common.tasks import Executor, Future, deferred
from kafkalite.common.types import FileRegion
from kafkalite.network.connection import Connection
from kafkalite.network.connection_quotas import ConnectionQuotas
from kafkalite.network.connection_totals import ConnectionTotals
from kafkalite.network.endpoint_security import PLAINTEXT, ListenerSecurity
from kafkalite.network.failed_authentications import FailedAuthentications
from kafkalite.network.handshakes import Handshakes
from kafkalite.network.limits import NetworkLimits
from kafkalite.network.listener import Listener
from kafkalite.network.output_queue import is_resident, read_ahead
from kafkalite.network.pending_step import PendingStep
from kafkalite.network.rate_limited_log import RateLimitedLog
from kafkalite.network.reactor import DelayedCall, ReactorSockets
from kafkalite.network.request import ConnectionInfo, RequestHandler
from kafkalite.network.request_memory import RequestMemory
from kafkalite.network.sockets import BoundSocket, OsSockets, Socket, Sockets
from kafkalite.network.tls_channel import TlsChannel
from kafkalite.network.tls_socket import TlsSocket
from kafkalite.network.unauthenticated_clients import UnauthenticatedClients
from kafkalite.protocol.memory import FramePool

log = logging.getLogger(__name__)

SCRATCH = 1 << 16
"""Bytes of the shared buffer: also a bound on how long one connection delays the others."""
POOL = 1 << 23
"""Most bytes of memory that are kept for the next large requests."""
SWEEP = 5.0
"""Most seconds between two searches for idle connections."""
MAX_REFUSED = 1000
"""Most sockets that are kept open although they are refused."""
BUSY = 200
"""More events than this in :data:`SWEEP` seconds are load; after it, free memory goes back to the system."""


class KafkaServer:
    """All listeners of one broker.

    ``reactor`` is Twisted's; ``executor`` reads cold files before they are sent, ``logins`` computes handshakes and
    passwords. ``login_reactor`` watches the sockets of clients that have not authenticated (``None``: ``reactor``).
    """

    def __init__(
        self,
        reactor: ReactorSockets,
        handler: RequestHandler,
        limits: NetworkLimits | None = None,
        executor: Executor | None = None,
        logins: Executor | None = None,
        now: Callable[[], float] = time.monotonic,
        sockets: Sockets | None = None,
        time_ms: Callable[[], int] = lambda: int(time.time() * 1000),
        record: EventRecorder = ignore_event,
        login_reactor: ReactorSockets | None = None,
    ) -> None:
        self.reactor = reactor
        self._login_reactor = reactor if login_reactor is None else login_reactor
        self.handler = handler
        self.limits = limits or NetworkLimits()
        self.quotas = ConnectionQuotas(self.limits)
        self.now = now
        self.time_ms = time_ms
        self.scratch = bytearray(SCRATCH)
        self.view = memoryview(self.scratch)
        self.pool = FramePool(POOL)
        self.complaints = RateLimitedLog(log, now)
        self.memory = RequestMemory(self.limits.max_inflight_bytes)
        self.is_stopping = False
        self._handshakes = Handshakes(logins)
        self.failed_authentications = FailedAuthentications(log, now, record=record)
        self.totals = ConnectionTotals()
        self._executor = executor
        self._authentications = None if logins is None else OneAtATime(logins)
        self._sockets = OsSockets(None) if sockets is None else sockets
        # A quarter, because a log directory goes offline when a segment cannot be opened.
        self.unauthenticated = UnauthenticatedClients(now, self._sockets.descriptors // 4)
        self._bound: list[tuple[BoundSocket, str, ListenerSecurity]] = []
        self._listeners: list[Listener] = []
        self._connections: dict[Connection, None] = {}
        self._refused: dict[Socket, DelayedCall] = {}
        """Sockets of addresses that connect too fast, until they are closed."""
        self._ids = count(1)
        self._depth = 0
        self._events = 0
        self._was_busy = False
        self._dirty: list[Connection] = []
        self._flush_planned = False
        self._sweeper: DelayedCall | None = None
        self._drained: Future[None] | None = None

    # Listeners and connections.

    def bind(self, host: str, port: int, listener: str = "PLAINTEXT", security: ListenerSecurity = PLAINTEXT) -> int:
        """Take a port (0: a free one) without listening yet, and return it. Raises :class:`StartupError`."""
        sock = self._sockets.bind(host, port)
        self._bound.append((sock, listener, security))
        return sock.getsockname()[1]

    def bind_all(self, addresses: Sequence[tuple[str, int, str, ListenerSecurity]]) -> dict[str, int]:
        """:meth:`bind` for several, or for none where one port cannot be had; ports by listener.

        Raises :class:`StartupError`.
        """
        before = len(self._bound)
        try:
            return {name: self.bind(host, port, name, security) for host, port, name, security in addresses}
        except StartupError:
            for sock, _, _ in self._bound[before:]:
                sock.close()
            del self._bound[before:]
            raise

    def queue(self) -> None:
        """Listen on all that :meth:`bind` took: connections wait until :meth:`open`. Raises :class:`StartupError`."""
        for sock, _, _ in self._bound:
            self._sockets.listen(sock, self.limits.backlog)

    def open(self) -> None:
        """Accept connections on all that :meth:`bind` took. Raises :class:`StartupError`."""
        self.queue()
        bound, self._bound = self._bound, []
        for sock, listener, security in bound:
            self._listeners.append(
                Listener(self.reactor, sock, listener, security, self.accepted, self.quotas.has_slot, self.complaints)
            )
        if self._sweeper is None:
            self._plan_sweep()

    def listen(self, host: str, port: int, listener: str = "PLAINTEXT", security: ListenerSecurity = PLAINTEXT) -> int:
        """:meth:`bind` and :meth:`open` in one."""
        bound = self.bind(host, port, listener, security)
        self.open()
        return bound

    def close_listener(self, name: str) -> None:
        """Stop accepting on a listener, and close the connections that it accepted."""
        for listener in [each for each in self._listeners if each.name == name]:
            listener.close()
            self._listeners.remove(listener)
        for connection in [each for each in self._connections if each.info.listener == name]:
            connection.close(f"listener {name} is removed")

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    @property
    def connections_by_listener(self) -> Counter[str]:
        """How many connections are open, by listener."""
        return Counter(connection.info.listener for connection in self._connections)

    @property
    def listener_names(self) -> list[str]:
        """The listeners that accept connections."""
        return [listener.name for listener in self._listeners]

    def reconfigure(self, limits: NetworkLimits) -> None:
        """Obey other limits from now on."""
        self.limits = self.quotas.limits = limits
        for listener in self._listeners:
            listener.resume()

    def accepted(self, sock: Socket, address: object, listener: str, security: ListenerSecurity = PLAINTEXT) -> float:
        """Take over or refuse a socket that a listener accepted; returns for how many seconds it accepts no other."""
        ip = address[0] if isinstance(address, tuple) else str(address)
        limits, quotas = self.limits, self.quotas
        if self.is_stopping:
            sock.close()
            return 0.0
        now = self.now()
        now_ms = int(now * 1000)
        pause = quotas.pause_ms(listener, now_ms) / 1000
        refused_ms = quotas.refused_ms(ip, now_ms)
        if refused_ms:
            self._refuse_later(sock, ip, refused_ms / 1000)
            return pause
        if quotas.per_ip[ip] >= quotas.max_of_ip(ip):
            self.complaints.warning(
                "refusing a connection from %s: max.connections.per.ip=%d are open from there", ip, quotas.max_of_ip(ip)
            )
            sock.close()
            return pause
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if limits.send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
        if limits.receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)
        peer = f"{ip}:{address[1]}" if isinstance(address, tuple) else ip
        info = ConnectionInfo(next(self._ids), peer, listener, ip, security.protocol, opened=now)
        reactor = self._login_reactor if security.begins_with_handshake else self.reactor
        if security.tls is None:
            connection = Connection(self, sock, ip, info, security, reactor)
        else:
            secure = TlsSocket(sock, security.tls(), is_server=True)
            channel = TlsChannel(reactor, secure, self._handshakes)
            connection = Connection(self, secure, ip, info, security, channel)
            channel.attach(connection)
        self._connections[connection] = None
        self.totals.created[listener] += 1
        if security.begins_with_handshake:
            self.unauthenticated.add(connection)
        quotas.opened(listener, ip)
        connection.start_reading()
        if quotas.is_above:
            self._make_room()
        return pause

    def _refuse_later(self, sock: Socket, ip: str, seconds: float) -> None:
        """Close a connection that came too fast, but not at once: its client would connect again at once."""
        self.complaints.warning("refusing a connection from %s: connection_creation_rate is exceeded", ip)
        if len(self._refused) >= MAX_REFUSED:
            sock.close()
            return

        def close() -> None:
            del self._refused[sock]
            sock.close()

        self._refused[sock] = self.reactor.callLater(seconds, close)

    def _make_room(self) -> None:
        """A broker has connected although there are max.connections: the client that was idle for longest goes."""
        clients = [each for each in self._connections if not self.quotas.is_protected(each.info.listener)]
        if clients:
            longest = min(clients, key=lambda connection: connection.last_active)
            self.complaints.warning("closing the connection of %s: max.connections are open", longest.info.peer)
            longest.close("a broker needs its place")

    def forget(self, connection: Connection) -> None:
        """``connection`` is closed."""
        self._connections.pop(connection, None)
        self.unauthenticated.remove(connection)
        self.quotas.closed(connection.info.listener, connection.ip)
        for listener in self._listeners:
            listener.resume()
        self._check_drained()

    def _plan_sweep(self) -> None:
        # One pass over all connections every few seconds is cheaper than a timer for each.
        idle = self.limits.idle_timeout
        self._sweeper = self.reactor.callLater(max(0.05, min(SWEEP, idle / 10)) if idle > 0 else SWEEP, self._sweep)

    def _sweep(self) -> None:
        self._tidy()
        idle = self.limits.idle_timeout
        before = self.now() - idle
        for connection in list(self._connections) if idle > 0 else ():
            waits_for_us = connection.is_muted or (connection.outstanding and not connection.output.size)
            # The controller's connection stays, because a new one would have no priority before its first request.
            if connection.last_active < before and not waits_for_us and not connection.info.is_of_controller:
                connection.close(f"idle for more than {idle:g} s")
        self._plan_sweep()

    def _tidy(self) -> None:
        self.failed_authentications.report()
        self.pool.trim()
        self.quotas.tidy(int(self.now() * 1000))
        busy = self._events > BUSY
        self._events = 0
        if self._was_busy and not busy:
            give_back()
        self._was_busy = busy

    # Answers are written after the event that caused them, so that many of them share one system call.

    def enter(self) -> None:
        """An event of one of the connections begins."""
        self._depth += 1
        self._events += 1

    def leave(self) -> None:
        """The event is over: settle the connections that were marked during it."""
        self._depth -= 1
        if self._dirty and not self._depth:
            self._flush()

    def mark(self, connection: Connection) -> None:
        """``connection`` has something to write, or may read again: settle it after the current event."""
        self._dirty.append(connection)
        if not self._depth and not self._flush_planned:
            # Called outside of any event of a connection (by a timer, a follower, ZooKeeper): settle in the next turn.
            self._flush_planned = True
            self.reactor.callLater(0, self._flush_later)

    def _flush_later(self) -> None:
        self._flush_planned = False
        self._flush()

    def _flush(self) -> None:
        self._depth += 1
        try:
            while self._dirty:
                dirty, self._dirty = self._dirty, []
                for connection in dirty:
                    connection.settle()
        finally:
            self._depth -= 1
        self._check_drained()

    def warm(self, region: FileRegion, done: Callable[[Exception | None], None]) -> None:
        """Bring ``region`` into memory off the reactor, then clear its ``cold`` and call ``done``."""

        def finished(_: object) -> None:
            region.cold = False
            done(None)

        if self._executor is None or is_resident(region):
            region.cold = False
            self.reactor.callLater(0, done, None)
            return
        deferred(self._executor.run(read_ahead, region)).addCallbacks(
            finished, lambda failure: done(failure.value)
        ).addErrback(lambda failure: log.error("reading ahead failed: %s", failure.value))

    def make_step(
        self, work: Callable[[], AuthenticationStep], done: Callable[[AuthenticationStep | None], None]
    ) -> PendingStep:
        """Make a step of an authentication off the reactor, then call ``done``, with ``None`` if that failed."""
        assert self._authentications is not None, "a server whose clients' logins block is given threads"
        return PendingStep(self._authentications.run(work), done)

    # The end.

    async def stop(self, grace: float = 1.0) -> None:
        """Stop accepting and reading, wait up to ``grace`` seconds for answers, close all connections."""
        self.is_stopping = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for sock, _, _ in self._bound:
            sock.close()
        for listener in self._listeners:
            listener.close()
        for refused, timer in self._refused.items():
            timer.cancel()
            refused.close()
        self._refused.clear()
        for connection in list(self._connections):
            connection.stop_reading()
            if not connection.outstanding and not connection.output.size:
                connection.close("the broker stops")
        if self._connections and grace > 0:
            self._drained = Future()
            timer = self.reactor.callLater(grace, self._drained.callback, None)
            await self._drained
            self._drained = None
            if timer.active():
                timer.cancel()
        for connection in list(self._connections):
            connection.close("the broker stops")

    def _check_drained(self) -> None:
        drained = self._drained
        if drained is None or drained.called:
            return
        if all(not connection.outstanding and not connection.output.size for connection in self._connections):
            drained.callback(None)


def give_back() -> None:
    """Return free memory to the system where the C library can (glibc); it would keep hundreds of megabytes otherwise.

    Takes milliseconds: not under load.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
