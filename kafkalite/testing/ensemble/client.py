"""A client of the ensemble: it connects, loses its connection and learns of its session as kazoo does. Deterministic.

Answers to: ``org.apache.zookeeper.ClientCnxn``, in the form of ``zk/kazoo_client.py`` and ``zk/kazoo_session.py``.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeVar, cast

from kafkalite.common.clock import Clock, Timer
from kafkalite.common.errors import StartupError
from kafkalite.common.tasks import Future
from kafkalite.testing.ensemble.wire import (
    Accepted,
    Attach,
    Attached,
    Closed,
    CloseSession,
    Dial,
    EnsembleConnection,
    Frame,
    Ping,
    ReadKind,
    ReadRequest,
    Reply,
    Request,
    ToClient,
    WriteRequest,
    frame_size,
)
from kafkalite.testing.session_password import session_password
from kafkalite.testing.znodes import NodeTransaction
from kafkalite.zk.zk_client import (
    MAX_PACKET,
    ConnectionLostError,
    Create,
    Delete,
    EventType,
    NoNodeError,
    Op,
    SessionExpiredError,
    SessionState,
    SetData,
    Watch,
    WatchEvent,
    ZkError,
    ZnodeStat,
)

log = logging.getLogger(__name__)
T = TypeVar("T")
_PING_XID = -2
_RETRY, _RETRY_MAX, _RETRY_JITTER = 0.05, 0.5, 0.4
_PING_JITTER = 0.4
_CLOSE_TIMEOUT = 10.0


class Dialler(Protocol):
    """The methods of the ensemble that a client uses."""

    def dial(self, client: EnsembleClient, server: int) -> EnsembleConnection:
        """A new connection of ``client`` to ``server``, without any message yet."""


class _Phase(Enum):
    """kazoo's ``KeeperState``."""

    CLOSED = "closed"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class _Pending:
    """A request without an answer, and where its answer goes. ``session``: the session that it is bound to."""

    future: Future[Any]
    path: str
    request: Request
    convert: Callable[[object], object]
    watch: Watch | None


class EnsembleClient:
    """Implements :class:`kafkalite.zk.zk_client.ZkClient`, with the attributes of ``KazooZkClient`` that a broker uses.

    All callbacks are made on ``clock``, the clock of the client's node. ``io_clock`` is the time of kazoo's own
    thread, which answers pings although the node's reactor hangs; it stops when the process is paused.
    """

    def __init__(
        self,
        ensemble: Dialler,
        servers: int,
        clock: Clock,
        rng: random.Random,
        name: str,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        io_clock: Clock | None,
    ) -> None:
        self.name = name
        self.session = 0
        self.password = b""
        self.state = SessionState.SUSPENDED
        self.suspended_at: float | None = None
        """Time at which the node learnt of its lost connection, in seconds of its clock; ``None`` while it has one."""
        self.session_timeout_ms = session_timeout_ms
        self.server: int | None = None
        self.io_clock = clock if io_clock is None else io_clock
        self._ensemble = ensemble
        self._servers = servers
        self._clock = clock
        self.rng = rng
        self._wanted_timeout_ms = session_timeout_ms
        self._connection_timeout = connection_timeout_ms / 1000
        self._listeners: list[Callable[[SessionState], None]] = []
        self._started: Future[None] | None = None
        self._ended: Future[None] | None = None
        self._lane: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._draining = False
        # state of kazoo's thread
        self._phase = _Phase.CLOSED
        self._told: SessionState = SessionState.EXPIRED
        self._stopped = False
        self._io_session = 0
        self._io_timeout_ms = session_timeout_ms
        self._last_zxid = 0
        self._xid = 0
        self._connection: EnsembleConnection | None = None
        self._hosts: deque[int] = deque()
        self._retry_delay = _RETRY
        self._timer: Timer | None = None
        self._pending: deque[tuple[int, _Pending | None]] = deque()
        self._data_watches: dict[str, dict[Watch, None]] = {}
        self._child_watches: dict[str, dict[Watch, None]] = {}
        self._never: object = None
        self._last_send = 0.0
        self._last_turn = 0.0
        self._answered = 0.0
        self._ping_jitter = 0.0
        self._ping_outstanding = False

    # the port

    def add_listener(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    def get(self, path: str, watch: Watch | None = None) -> Future[tuple[bytes, ZnodeStat]]:
        return self._read(ReadKind.GET, path, watch, lambda value: cast("tuple[bytes, ZnodeStat]", value))

    def exists(self, path: str, watch: Watch | None = None) -> Future[ZnodeStat | None]:
        return self._read(ReadKind.EXISTS, path, watch, lambda value: cast("ZnodeStat | None", value))

    def get_children(self, path: str, watch: Watch | None = None) -> Future[list[str]]:
        return self._read(ReadKind.GET_CHILDREN, path, watch, lambda value: list(cast("list[str]", value)))

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        session: int | None = None,
    ) -> Future[tuple[str, ZnodeStat]]:
        def convert(transaction: NodeTransaction) -> tuple[str, ZnodeStat]:
            [change] = transaction.changes
            return change.op.path, change.stat

        return self._write([Create(path, data, ephemeral, sequence)], convert, session, len(data))

    def set(self, path: str, data: bytes, version: int = -1, *, session: int | None = None) -> Future[ZnodeStat]:
        return self._write([SetData(path, data, version)], lambda done: done.changes[0].stat, session, len(data))

    def delete(self, path: str, version: int = -1, *, session: int | None = None) -> Future[None]:
        return self._write([Delete(path, version)], lambda _: None, session, 0)

    def multi(self, ops: Sequence[Op], *, session: int | None = None) -> Future[list[ZnodeStat | str | None]]:
        size = sum(len(op.path) + 64 + (len(op.data) if isinstance(op, Create | SetData) else 0) for op in ops)
        return self._write(ops, lambda done: done.results(), session, size, multi=True)

    def start(self) -> Future[None]:
        """Connect. Fails with :class:`StartupError` if no server answers within the connection timeout."""
        self._started = Future()
        self._clock.call_later(self._connection_timeout, self._start_timed_out)
        self._connect_next()
        return self._started

    def close(self) -> Future[None]:
        """Close the session: its ephemeral znodes are deleted at once. Listeners are not called."""
        self._listeners.clear()
        self.state = SessionState.SUSPENDED
        self._ended = Future()
        self._stopped = True
        if self._phase is _Phase.CONNECTED:
            self._send(CloseSession(), None)
            self.io_clock.call_later(_CLOSE_TIMEOUT, self._end)
        else:
            self._end()
        return self._ended

    def kill(self, silent: bool = False) -> None:
        """Kill the client's process; ``silent``: its machine, too, so that the server does not notice."""
        self._stopped = True
        self._phase = _Phase.CLOSED
        self._listeners.clear()
        # Kept, because freeing a request would run the finalizers of the coroutines that wait for it.
        self._never = (self._lane, self._pending)
        self._lane, self._pending = deque(), deque()
        if silent:
            self._cancel_timer()
            self._connection = None
        else:
            self._hang_up()

    # messages from the connection

    def receive(self, connection: EnsembleConnection, message: ToClient) -> None:
        """A server's message arrived."""
        if connection is not self._connection:
            return
        self._last_turn = self._answered = self.io_clock.monotonic()
        match message:
            case Accepted():
                attach = Attach(self._io_session, self._last_zxid, self._wanted_timeout_ms)
                connection.requests.send(attach)
                self._arm(self._wanted_timeout_ms / 1000 / self._servers, self._drop)
            case Attached():
                self._attached(message)
            case WatchEvent():
                self._fire(message)
            case Reply():
                self._reply(message)
            case Closed():
                self._drop()
        if self._phase is _Phase.CONNECTED and self._last_turn >= self._ping_due():
            self._ping()

    def _reply(self, reply: Reply) -> None:
        if reply.xid == _PING_XID:
            self._ping_outstanding = False
            return
        _, pending = self._pending.popleft()
        self._last_zxid = max(self._last_zxid, reply.zxid)
        if pending is None:
            self._end()
            return
        read = pending.request if isinstance(pending.request, ReadRequest) else None
        missing = isinstance(reply.error, NoNodeError) and read is not None and read.kind is ReadKind.EXISTS
        if reply.error is not None and not missing:
            self._put(pending.future.errback, reply.error)
            return
        self._put(pending.future.callback, pending.convert(reply.value))
        if read is not None and pending.watch is not None and not self._stopped:
            table = self._child_watches if read.kind is ReadKind.GET_CHILDREN else self._data_watches
            table.setdefault(pending.path, {})[pending.watch] = None

    def _fire(self, event: WatchEvent) -> None:
        watches: list[Watch] = []
        if event.type is not EventType.CHILD:
            watches += self._data_watches.pop(event.path, {})
        if event.type in (EventType.CHILD, EventType.DELETED):
            watches += self._child_watches.pop(event.path, {})
        if not self._stopped:
            for watch in watches:
                self._put(watch, event)

    def _attached(self, attached: Attached) -> None:
        if not attached.timeout_ms:
            self._retry_delay = _RETRY
            self._hang_up()
            self._change(_Phase.EXPIRED)
            self._connect_next()
            return
        self._retry_delay = _RETRY
        self._io_session, self._io_timeout_ms = attached.session, attached.timeout_ms
        self._xid = 0
        self._ping_outstanding = False
        self._last_send = self._last_turn
        self._ping_jitter = self.rng.uniform(0.01, _PING_JITTER)
        self._change(_Phase.CONNECTED)
        self._watch_idle()

    # requests

    def _read(self, kind: ReadKind, path: str, watch: Watch | None, convert: Callable[[object], T]) -> Future[T]:
        return self._submit(path, ReadRequest(kind, path, watch is not None), convert, watch=watch)

    def _write(
        self,
        ops: Sequence[Op],
        convert: Callable[[NodeTransaction], T],
        session: int | None,
        size: int,
        multi: bool = False,
    ) -> Future[T]:
        path = ops[0].path if ops else ""
        request = WriteRequest(tuple(ops), multi)
        return self._submit(path, request, lambda value: convert(cast("NodeTransaction", value)), session, size)

    def _submit(
        self,
        path: str,
        request: Request,
        convert: Callable[[object], T],
        session: int | None = None,
        size: int = 0,
        watch: Watch | None = None,
    ) -> Future[T]:
        future: Future[T] = Future()
        if session is not None and session != self.session:
            future.errback(SessionExpiredError(path))
        elif self.state is not SessionState.CONNECTED:
            future.errback(ConnectionLostError(path))
        elif size + len(path) > MAX_PACKET:
            future.errback(ZkError(path, f"a request of {size} bytes, more than {MAX_PACKET} that ZooKeeper takes:"))
        elif self._phase is not _Phase.CONNECTED:
            self._put(future.errback, ConnectionLostError(path))
        elif session is not None and session != self._io_session:
            self._put(future.errback, SessionExpiredError(path))
        else:
            self._send(request, _Pending(future, path, request, convert, watch))
        return future

    def _send(self, request: Request, pending: _Pending | None) -> None:
        assert self._connection is not None
        now = self.io_clock.monotonic()
        silent = bool(self._pending) and now - self._answered > self._io_timeout_ms * 2 / 3000
        if not self._pending:
            self._answered = now
        self._xid += 1
        self._pending.append((self._xid, pending))
        if silent:
            self.io_clock.call_later(0.0, self._give_up, self._connection)
            return
        self._last_send = self._last_turn = now
        self._connection.requests.send(Frame(self._xid, request, frame_size(request)))

    # the connection

    def _connect_next(self) -> None:
        self._cancel_timer()
        if self._stopped:
            self._end()
            return
        if not self._hosts:
            hosts = list(range(self._servers))
            self.rng.shuffle(hosts)
            self._hosts.extend(hosts)
            if self.server is not None:
                delay = self._retry_delay * self.rng.uniform(1 - _RETRY_JITTER, 1 + _RETRY_JITTER)
                self._retry_delay = min(delay * 2, _RETRY_MAX)
                self._arm(delay, self._dial)
                return
        self._dial()

    def _dial(self) -> None:
        if self._phase is not _Phase.CONNECTING:
            self._change(_Phase.CONNECTING)
        self.server = self._hosts.popleft()
        self._connection = self._ensemble.dial(self, self.server)
        self._connection.requests.send(Dial())
        self._arm(max(0.3, self._wanted_timeout_ms / 1000 / 3 / self._servers), self._drop)

    def _drop(self) -> None:
        """The connection is lost, or was never made."""
        self._hang_up()
        if self._phase is not _Phase.CONNECTING:
            self._change(_Phase.CONNECTING)
        self._connect_next()

    def _give_up(self, connection: EnsembleConnection) -> None:
        """The server has not answered on ``connection`` for too long."""
        if connection is self._connection:
            self._drop()

    def _hang_up(self) -> None:
        self._cancel_timer()
        if self._connection is not None:
            self._connection.requests.send(Closed())
            self._connection = None

    def _end(self) -> None:
        """End the client, also if the server has not got its close request."""
        if self._ended is not None and not self._ended.called:
            self._hang_up()
            self._change(_Phase.CLOSED)
            self._put(self._ended.callback, None)

    def _change(self, phase: _Phase) -> None:
        if phase is self._phase:
            return
        closed = self._phase in (_Phase.CLOSED, _Phase.EXPIRED)
        self._phase = phase
        if phase is _Phase.CONNECTED:
            self._tell(SessionState.CONNECTED)
        elif phase is not _Phase.CONNECTING:
            self._tell(SessionState.EXPIRED)
            self._fail_pending()
            self._lose_watches()
            self._io_session = self._last_zxid = 0
        elif not closed:
            self._fail_pending()
            self._tell(SessionState.SUSPENDED)
            self._lose_watches()

    def _tell(self, state: SessionState) -> None:
        if state is not self._told:
            self._told = state
            self._put(self._on_state, state, self._io_session, self._io_timeout_ms)

    def _fail_pending(self) -> None:
        while self._pending:
            _, pending = self._pending.popleft()
            if pending is not None:
                self._put(pending.future.errback, ConnectionLostError(pending.path))

    def _lose_watches(self) -> None:
        for table in (self._child_watches, self._data_watches):
            for path, watches in table.items():
                for watch in watches:
                    self._put(watch, WatchEvent(EventType.LOST, path))
            table.clear()

    # pings

    def _ping_due(self) -> float:
        return self._last_send + self._io_timeout_ms / 3000 - self._ping_jitter

    def _watch_idle(self) -> None:
        now = self.io_clock.monotonic()
        self._arm(max(self._ping_due(), self._last_turn + 0.01) - now, self._idle)

    def _idle(self) -> None:
        """kazoo's select timed out: nothing was received or sent."""
        now = self.io_clock.monotonic()
        if now >= max(self._ping_due(), self._last_turn + 0.01):
            if self._ping_outstanding:
                self._drop()
                return
            self._ping()
        self._watch_idle()

    def _ping(self) -> None:
        assert self._connection is not None
        self._ping_outstanding = True
        self._connection.requests.send(Frame(_PING_XID, Ping(), frame_size(Ping())))
        self._last_send = self.io_clock.monotonic()
        self._ping_jitter = self.rng.uniform(0.01, _PING_JITTER)

    def _arm(self, delay: float, call: Callable[[], None]) -> None:
        self._cancel_timer()
        self._timer = self.io_clock.call_later(max(0.0, delay), call)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # the lane from kazoo's thread to the reactor

    def _put(self, call: Callable[..., object], *args: object) -> None:
        self._lane.append((call, args))
        if not self._draining:
            self._draining = True
            if self.io_clock is self._clock:
                self._drain()
            else:
                self._clock.call_later(0.0, self._drain)

    def _drain(self) -> None:
        while self._lane:
            call, args = self._lane.popleft()
            try:
                call(*args)
            except Exception:
                log.exception("ZooKeeper callback %r failed", call)
        self._draining = False

    def _on_state(self, state: SessionState, session: int, timeout_ms: int) -> None:
        if state is SessionState.CONNECTED:
            if session != self.session and self.session and self.state is not SessionState.EXPIRED:
                self._notify(SessionState.EXPIRED)
            self.session, self.password, self.session_timeout_ms = session, session_password(session), timeout_ms
        self._notify(state)
        if state is SessionState.CONNECTED and self._started is not None and not self._started.called:
            self._started.callback(None)

    def _notify(self, state: SessionState) -> None:
        self.state = state
        self.suspended_at = self._clock.monotonic() if state is SessionState.SUSPENDED else None
        for listener in list(self._listeners):
            try:
                listener(state)
            except Exception:
                log.exception("listener %r failed at %s", listener, state)

    def _start_timed_out(self) -> None:
        if self._started is not None and not self._started.called:
            text = f"cannot reach ZooKeeper within {self._connection_timeout:g} s"
            self.close()
            self._started.errback(StartupError(f"{text}; is it running, and is zookeeper.connect right?"))
