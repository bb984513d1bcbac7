"""The broker's socket server: accepts connections, reads requests, writes answers in order.

Answers to: ``kafka.network.{SocketServer,ConnectionQuotas}``. Reactor shell.

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
from typing import Any

from kafkalite.common.errors import StartupError
from kafkalite.common.tasks import Executor, Future, deferred
from kafkalite.common.types import FileRegion
from kafkalite.network.connection import Connection
from kafkalite.network.limits import NetworkLimits
from kafkalite.network.listener import Listener
from kafkalite.network.output_queue import is_resident, read_ahead
from kafkalite.network.rate_limited_log import RateLimitedLog
from kafkalite.network.request import ConnectionInfo, RequestHandler
from kafkalite.network.request_memory import RequestMemory
from kafkalite.network.sockets import OsSockets, Sockets
from kafkalite.protocol.memory import FramePool

log = logging.getLogger(__name__)

SCRATCH = 1 << 16
"""Bytes of the shared buffer: also a bound on how long one connection delays the others."""
POOL = 1 << 23
"""Most bytes of memory that are kept for the next large requests."""
SWEEP = 5.0
"""Most seconds between two searches for idle connections."""
BUSY = 200
"""More events than this in :data:`SWEEP` seconds are load; after it, free memory goes back to the system."""


class KafkaServer:
    """All listeners of one broker. ``reactor`` is Twisted's; ``executor`` reads cold files before they are sent."""

    def __init__(
        self,
        reactor: Any,
        handler: RequestHandler,
        limits: NetworkLimits | None = None,
        executor: Executor | None = None,
        now: Callable[[], float] = time.monotonic,
        sockets: Sockets | None = None,
    ) -> None:
        self.reactor = reactor
        self.handler = handler
        self.limits = limits or NetworkLimits()
        self.now = now
        self.scratch = bytearray(SCRATCH)
        self.view = memoryview(self.scratch)
        self.pool = FramePool(POOL)
        self.complaints = RateLimitedLog(log, now)
        self.memory = RequestMemory(self.limits.max_inflight_bytes)
        self.is_stopping = False
        self._executor = executor
        self._sockets = sockets or OsSockets(reactor)
        self._bound: list[tuple[Any, str]] = []
        self._listeners: list[Listener] = []
        self._connections: dict[Connection, None] = {}
        self._per_ip: Counter[str] = Counter()
        self._ids = count(1)
        self._depth = 0
        self._events = 0
        self._was_busy = False
        self._dirty: list[Connection] = []
        self._flush_planned = False
        self._sweeper: Any = None
        self._drained: Future[None] | None = None

    # Listeners and connections.

    def bind(self, host: str, port: int, listener: str = "PLAINTEXT") -> int:
        """Take a port (0: a free one) without listening yet, and return it. Raises :class:`StartupError`."""
        sock = self._sockets.bind(host, port)
        self._bound.append((sock, listener))
        bound: int = sock.getsockname()[1]
        return bound

    def bind_all(self, addresses: Sequence[tuple[str, int, str]]) -> dict[str, int]:
        """:meth:`bind` for several (host, port, listener), or for none where one port cannot be had; ports by listener.

        Raises :class:`StartupError`.
        """
        before = len(self._bound)
        try:
            return {listener: self.bind(host, port, listener) for host, port, listener in addresses}
        except StartupError:
            for sock, _ in self._bound[before:]:
                sock.close()
            del self._bound[before:]
            raise

    def open(self) -> None:
        """Accept connections on all that :meth:`bind` took. Raises :class:`StartupError`."""
        bound, self._bound = self._bound, []
        for sock, listener in bound:
            self._sockets.listen(sock, self.limits.backlog)
            self._listeners.append(Listener(self.reactor, sock, listener, self.accepted, self.complaints))
        if self._sweeper is None:
            self._plan_sweep()

    def listen(self, host: str, port: int, listener: str = "PLAINTEXT") -> int:
        """:meth:`bind` and :meth:`open` in one."""
        bound = self.bind(host, port, listener)
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

    def accepted(self, sock: Any, address: Any, listener: str) -> None:
        """Take over a socket that a listener accepted, or refuse it."""
        ip = address[0] if isinstance(address, tuple) else str(address)
        limits = self.limits
        why = ""
        if len(self._connections) >= limits.max_connections:
            why = f"max.connections={limits.max_connections} are open"
        elif self._per_ip[ip] >= limits.max_connections_per_ip:
            why = f"max.connections.per.ip={limits.max_connections_per_ip} are open from there"
        if why or self.is_stopping:
            if why:
                self.complaints.warning("refusing a connection from %s: %s", ip, why)
            sock.close()
            return
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if limits.send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
        if limits.receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)
        peer = f"{ip}:{address[1]}" if isinstance(address, tuple) else ip
        connection = Connection(self, sock, ip, ConnectionInfo(next(self._ids), peer, listener))
        self._connections[connection] = None
        self._per_ip[ip] += 1
        connection.start_reading()

    def forget(self, connection: Connection) -> None:
        """``connection`` is closed."""
        self._connections.pop(connection, None)
        self._per_ip[connection.ip] -= 1
        if self._per_ip[connection.ip] <= 0:
            del self._per_ip[connection.ip]
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
            waits_for_us = connection.outstanding and not connection.output
            if connection.last_active < before and not waits_for_us:
                connection.close(f"idle for more than {idle:g} s")
        self._plan_sweep()

    def _tidy(self) -> None:
        self.pool.trim()
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

    # The end.

    async def stop(self, grace: float = 1.0) -> None:
        """Stop accepting and reading, wait up to ``grace`` seconds for answers, close all connections."""
        self.is_stopping = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for sock, _ in self._bound:
            sock.close()
        for listener in self._listeners:
            listener.close()
        for connection in list(self._connections):
            connection.stop_reading()
            if not connection.outstanding and not connection.output:
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
        if all(not connection.outstanding and not connection.output for connection in self._connections):
            drained.callback(None)


def give_back() -> None:
    """Return free memory to the system where the C library can (glibc); it would keep hundreds of megabytes otherwise.

    Takes milliseconds: not under load.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
