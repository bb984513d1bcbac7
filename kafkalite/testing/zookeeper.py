"""A ZooKeeper in memory, and clients of it: sessions, watches, transactions and all failures. Deterministic.

Answers to: ``org.apache.zookeeper.server.ZooKeeperServer`` as far as kafkalite uses it.

Without a clock every answer arrives before the call returns (watches first, as in ZooKeeper); with a clock and a
latency each arrives so much later, in order. Nothing else happens by itself: sessions expire only by a call.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kafkalite.common.clock import Clock
from kafkalite.common.tasks import Future
from kafkalite.testing.znodes import ZnodeTree
from kafkalite.zk.zk_client import (
    ConnectionLostError,
    Create,
    Delete,
    EventType,
    MultiError,
    Op,
    SessionExpiredError,
    SessionState,
    SetData,
    Watch,
    WatchEvent,
    ZkError,
    ZnodeStat,
)

T = TypeVar("T")
_DATA = (EventType.CREATED, EventType.CHANGED, EventType.DELETED)
_CHILD = (EventType.CHILD, EventType.DELETED)


class MemoryZooKeeper:
    """The server. Tests may read ``tree``; ``client()`` opens a new session."""

    def __init__(self, clock: Clock | None = None, latency: float = 0.0) -> None:
        self._clock = clock
        self._latency = latency
        self.tree = ZnodeTree(clock.time_ms if clock is not None else lambda: 0)
        self.clients: list[MemoryZkClient] = []
        self.sessions: set[int] = set()
        self._next_session = 0x1000
        self._outbox: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._delivering = False

    def client(self) -> MemoryZkClient:
        """A connected client with a new session."""
        client = MemoryZkClient(self)
        self.clients.append(client)
        return client

    def data(self, path: str) -> bytes:
        """The data of the znode at ``path``. Raises ``NoNodeError``."""
        return self.tree.node(path).data

    def paths(self, under: str = "/") -> list[str]:
        """All paths that begin with ``under``, sorted."""
        return sorted(path for path in self.tree.nodes if path.startswith(under))

    def open_session(self) -> int:
        """A new session's id."""
        self._next_session += 1
        self.sessions.add(self._next_session)
        return self._next_session

    def expire(self, session: int) -> None:
        """End a session: its ephemerals are deleted now; its client learns it when it is (or gets) connected."""
        if session not in self.sessions:
            return
        self.sessions.discard(session)
        events = self.tree.close_session(session).events()
        for client in self.clients:
            if client.session == session and client.state is SessionState.CONNECTED:
                client.lose_connection()
                client.reconnect()
        self.fire(events)

    def fire(self, events: Sequence[WatchEvent]) -> None:
        """Fire the watches of connected clients for ``events``."""
        for event in events:
            for client in self.clients:
                client.take_watches(event)

    def deliver(self, call: Callable[..., object], *args: object) -> None:
        """Call ``call(*args)`` after all earlier deliveries."""
        if self._clock is not None:
            self._clock.call_later(self._latency, call, *args)
            return
        self._outbox.append((call, args))
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._outbox:
                call, args = self._outbox.popleft()
                call(*args)
        finally:
            self._delivering = False


class MemoryZkClient:
    """A :class:`kafkalite.zk.zk_client.ZkClient` whose connection tests can cut.

    ``before(name, path)`` is called before each request: it may raise a ``ZkError`` instead of the request, or make
    another client act first (a race). Without a connection requests fail with ``ConnectionLostError``.
    """

    def __init__(self, server: MemoryZooKeeper) -> None:
        self.server = server
        self.session = server.open_session()
        self.state = SessionState.CONNECTED
        self.before: Callable[[str, str], None] | None = None
        self.requests = 0
        self._listeners: list[Callable[[SessionState], None]] = []
        self._data_watches: defaultdict[str, dict[Watch, None]] = defaultdict(dict)
        self._child_watches: defaultdict[str, dict[Watch, None]] = defaultdict(dict)
        self._events_under_way: list[tuple[str, Watch]] = []
        self._outstanding: dict[Future[Any], str] = {}
        self._connection = 0
        self._hole: bool | None = None

    # the port

    def add_listener(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    def get(self, path: str, watch: Watch | None = None) -> Future[tuple[bytes, ZnodeStat]]:
        def read() -> tuple[bytes, ZnodeStat]:
            node = self.server.tree.node(path)
            self._watch(self._data_watches, path, watch)
            return node.data, node.stat()

        return self._request("get", path, read)

    def exists(self, path: str, watch: Watch | None = None) -> Future[ZnodeStat | None]:
        def read() -> ZnodeStat | None:
            node = self.server.tree.find(path)
            self._watch(self._data_watches, path, watch)
            return None if node is None else node.stat()

        return self._request("exists", path, read)

    def get_children(self, path: str, watch: Watch | None = None) -> Future[list[str]]:
        def read() -> list[str]:
            names = sorted(self.server.tree.node(path).children)
            self._watch(self._child_watches, path, watch)
            return names

        return self._request("get_children", path, read)

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        session: int | None = None,
    ) -> Future[tuple[str, ZnodeStat]]:
        def write() -> tuple[str, ZnodeStat]:
            results, stats = self._write([Create(path, data, ephemeral, sequence)], single=True)
            assert isinstance(results[0], str)
            return results[0], stats[0]

        return self._request("create", path, write, session)

    def set(self, path: str, data: bytes, version: int = -1, *, session: int | None = None) -> Future[ZnodeStat]:
        def write() -> ZnodeStat:
            return self._write([SetData(path, data, version)], single=True)[1][0]

        return self._request("set", path, write, session)

    def delete(self, path: str, version: int = -1, *, session: int | None = None) -> Future[None]:
        def write() -> None:
            self._write([Delete(path, version)], single=True)

        return self._request("delete", path, write, session)

    def multi(self, ops: Sequence[Op], *, session: int | None = None) -> Future[list[ZnodeStat | str | None]]:
        path = ops[0].path if ops else ""
        return self._request("multi", path, lambda: self._write(ops)[0], session)

    # faults, called by tests

    def lose_connection(self) -> None:
        """Cut the connection: outstanding requests fail, watches get LOST, the session stays alive."""
        if self.state is not SessionState.CONNECTED:
            return
        self._hole = None
        outstanding, self._outstanding = self._outstanding, {}
        self._become(SessionState.SUSPENDED)
        for future, path in outstanding.items():
            self.server.deliver(future.errback, ConnectionLostError(path))
        self._drop_watches()

    def reconnect(self) -> None:
        """Connect again, in a new session if the old one has expired."""
        if self.state is SessionState.CONNECTED:
            return
        if self.session not in self.server.sessions:
            self._become(SessionState.EXPIRED)
            self.session = self.server.open_session()
        self._become(SessionState.CONNECTED)

    def expire_session(self) -> None:
        """The server ends this session; a connected client gets a new one at once."""
        self.server.expire(self.session)

    def black_hole(self, *, apply: bool) -> None:
        """Give requests no answer until the connection is lost; with ``apply`` they take effect."""
        self._hole = apply

    def close(self) -> None:
        """Close the session: as with kazoo listeners are not called, and watches get LOST.

        Watches for the deletions by the end of the session get no event, because kazoo drops those events.
        """
        self._listeners.clear()
        self.state = SessionState.SUSPENDED
        if self.session in self.server.sessions:
            self.server.sessions.discard(self.session)
            events = self.server.tree.close_session(self.session).events()
            for event in events:
                self._pop_watches(event)
            self.server.fire(events)
        self._drop_watches()

    # internals

    def take_watches(self, event: WatchEvent) -> None:
        """Deliver ``event`` to its watches."""
        for watch in self._pop_watches(event):
            self._events_under_way.append((event.path, watch))
            self.server.deliver(self._fire, self._connection, watch, event)

    def _pop_watches(self, event: WatchEvent) -> list[Watch]:
        watches: list[Watch] = []
        if event.type in _DATA:
            watches += self._data_watches.pop(event.path, {})
        if event.type in _CHILD:
            watches += self._child_watches.pop(event.path, {})
        return watches

    def _drop_watches(self) -> None:
        self._connection += 1
        watches = [*self._events_under_way]
        for kind in (self._data_watches, self._child_watches):
            watches += [(path, watch) for path, found in kind.items() for watch in found]
            kind.clear()
        self._events_under_way.clear()
        for path, watch in watches:
            self.server.deliver(watch, WatchEvent(EventType.LOST, path))

    def _fire(self, connection: int, watch: Watch, event: WatchEvent) -> None:
        if connection == self._connection:
            self._events_under_way.remove((event.path, watch))
            watch(event)

    def _watch(self, kind: defaultdict[str, dict[Watch, None]], path: str, watch: Watch | None) -> None:
        if watch is not None:
            kind[path][watch] = None

    def _write(self, ops: Sequence[Op], single: bool = False) -> tuple[list[ZnodeStat | str | None], list[ZnodeStat]]:
        try:
            results, stats, events = self.server.tree.multi(ops, self.session)
        except MultiError as error:
            raise (error.cause if single else error) from None
        self.server.fire(events)
        return results, stats

    def _request(self, name: str, path: str, act: Callable[[], T], session: int | None = None) -> Future[T]:
        future: Future[T] = Future()
        self.requests += 1
        try:
            if self.before is not None:
                self.before(name, path)
            if session is not None and session != self.session:
                raise SessionExpiredError(path)
            if self.state is not SessionState.CONNECTED:
                raise ConnectionLostError(path)
            self._outstanding[future] = path
            if self._hole is None:
                self.server.deliver(self._answer, self._connection, future, act())
            elif self._hole:
                act()
        except ZkError as error:
            self._outstanding[future] = path
            if self._hole is None:
                self.server.deliver(self._fail, future, error)
        return future

    def _answer(self, connection: int, future: Future[T], value: T) -> None:
        if connection == self._connection and self._outstanding.pop(future, None) is not None:
            future.callback(value)

    def _fail(self, future: Future[T], error: ZkError) -> None:
        if self._outstanding.pop(future, None) is not None:
            future.errback(error)

    def _become(self, state: SessionState) -> None:
        self.state = state
        for listener in list(self._listeners):
            self.server.deliver(listener, state)
