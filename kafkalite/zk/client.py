"""The ZooKeeper client on kazoo; the only module that imports it. Reactor shell.

Answers to: ``kafka.zookeeper.ZooKeeperClient`` and ``org.apache.zookeeper.ClientCnxn``.

kazoo keeps the connection in a thread of its own; of the rest only its codec is used. Requests go to that thread in
batches (kazoo itself writes one a turn and wakes the thread with a byte for each, which blocks the caller once some
hundreds wait), and everything comes back by one lane.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from kazoo import exceptions, security
from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol import serialization
from kazoo.protocol.connection import ConnectionDropped, ConnectionHandler
from kazoo.protocol.states import KeeperState, WatchedEvent
from kazoo.retry import KazooRetry

from kafkalite.common.errors import StartupError
from kafkalite.common.tasks import Future, gather
from kafkalite.zk import port
from kafkalite.zk.lane import ReactorLane
from kafkalite.zk.port import SessionState, Watch, WatchEvent, ZkError, ZnodeStat

log = logging.getLogger(__name__)
T = TypeVar("T")
MAX_PACKET = 1_000_000
"""Bytes of one request; ZooKeeper drops the connection, and all outstanding requests, past 1,048,575."""
MAX_ANSWER = 64 << 20
_WRITE_SIZE = _READ_SIZE = 256 << 10
_SENSITIVE = ("/config/users", "/config/brokers", "/delegation_token")

_ERRORS: tuple[tuple[type[Exception], type[ZkError]], ...] = (
    (exceptions.NoNodeError, port.NoNodeError),
    (exceptions.NodeExistsError, port.NodeExistsError),
    (exceptions.BadVersionError, port.BadVersionError),
    (exceptions.NotEmptyError, port.NotEmptyError),
    (exceptions.SessionExpiredError, port.SessionExpiredError),
    (exceptions.ConnectionLoss, port.ConnectionLostError),
    (exceptions.ConnectionClosedError, port.ConnectionLostError),
)


class KazooZkClient:
    """Implements :class:`kafkalite.zk.port.ZkClient`. All methods and callbacks belong to the reactor's thread.

    ``call_from_thread``: the reactor's ``callFromThread``. ``hosts``: ``host:port,host:port/chroot``.
    ``digest``: ``user:password`` for ZooKeeper's digest scheme. ``set_acl``: what is created can be written by its
    creator alone (``zookeeper.set.acl``), which needs ``digest``. While not connected every request fails at once
    with ``ConnectionLostError``.
    """

    def __init__(
        self,
        call_from_thread: Callable[..., object],
        hosts: str,
        session_timeout_ms: int = 18_000,
        connection_timeout_ms: int = 18_000,
        digest: str | None = None,
        set_acl: bool = False,
    ) -> None:
        self.hosts = hosts
        self.session = 0
        self.password = b""
        self.state = SessionState.SUSPENDED
        self.session_timeout_ms = session_timeout_ms
        self._connection_timeout = connection_timeout_ms / 1000
        self._set_acl = set_acl
        self._call_from_thread = call_from_thread
        self._lane = ReactorLane(call_from_thread)
        self._listeners: list[Callable[[SessionState], None]] = []
        self._started: Future[None] | None = None
        auth = [("digest", digest)] if digest else None
        self._kazoo = _Client(self._lane, hosts, session_timeout_ms / 1000, auth)
        self._kazoo.add_listener(self._on_kazoo_state)
        self._chroot = str(self._kazoo.chroot)

    async def start(self) -> None:
        """Connect, and create the chroot where it is missing. Raises :class:`StartupError` when nobody answers."""
        self._started = Future()
        timer = threading.Timer(self._connection_timeout, self._lane.put, (self._start_timed_out,))
        timer.daemon = True
        timer.start()
        self._kazoo.start_async()
        try:
            await self._started
            await self._create_chroot()
        except BaseException:
            await self.close()
            raise
        finally:
            timer.cancel()

    async def close(self) -> None:
        """End the session in order: what is ephemeral goes at once. Listeners hear nothing of it."""
        self._listeners.clear()
        self.state = SessionState.SUSPENDED
        done: Future[None] = Future()

        def stop() -> None:
            try:
                self._kazoo.stop()
                self._kazoo.close()
            except Exception:
                log.warning("closing the ZooKeeper session failed", exc_info=True)
            self._call_from_thread(done.callback, None)

        threading.Thread(target=stop, name="zookeeper-close", daemon=True).start()
        await done

    def add_listener(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    def get(self, path: str, watch: Watch | None = None) -> Future[tuple[bytes, ZnodeStat]]:
        request = serialization.GetData(self._full(path), _watcher(watch, path))
        return self._submit(path, request, lambda answer: (answer[0] or b"", _stat(answer[1])))

    def exists(self, path: str, watch: Watch | None = None) -> Future[ZnodeStat | None]:
        request = serialization.Exists(self._full(path), _watcher(watch, path))
        return self._submit(path, request, lambda answer: None if answer is None else _stat(answer))

    def get_children(self, path: str, watch: Watch | None = None) -> Future[list[str]]:
        request = serialization.GetChildren(self._full(path), _watcher(watch, path))
        return self._submit(path, request, lambda answer: cast("list[str]", answer))

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        session: int | None = None,
    ) -> Future[tuple[str, ZnodeStat]]:
        flags = int(ephemeral) + 2 * int(sequence)
        request = serialization.Create2(self._full(path), data, self._acl(path), flags)
        return self._submit(path, request, lambda answer: (self._own(answer[0]), _stat(answer[1])), session, len(data))

    def set(self, path: str, data: bytes, version: int = -1, *, session: int | None = None) -> Future[ZnodeStat]:
        return self._submit(path, serialization.SetData(self._full(path), data, version), _stat, session, len(data))

    def delete(self, path: str, version: int = -1, *, session: int | None = None) -> Future[None]:
        return self._submit(path, serialization.Delete(self._full(path), version), lambda _: None, session)

    def multi(self, ops: Sequence[port.Op], *, session: int | None = None) -> Future[list[ZnodeStat | str | None]]:
        operations, size = [], 0
        for op in ops:
            full = self._full(op.path)
            size += len(full) + 64
            if isinstance(op, port.Create):
                flags = int(op.ephemeral) + 2 * int(op.sequence)
                operations.append(serialization.Create(full, op.data, self._acl(op.path), flags))
                size += len(op.data)
            elif isinstance(op, port.SetData):
                operations.append(serialization.SetData(full, op.data, op.version))
                size += len(op.data)
            elif isinstance(op, port.Delete):
                operations.append(serialization.Delete(full, op.version))
            else:
                operations.append(serialization.CheckVersion(full, op.version))
        request = serialization.Transaction(operations)
        path = ops[0].path if ops else ""
        return self._submit(path, request, lambda answer: self._multi_results(ops, answer), session, size)

    # inside

    def _full(self, path: str) -> str:
        return (self._chroot + path if path != "/" else self._chroot) or "/"

    def _own(self, path: str) -> str:
        return path[len(self._chroot) :]

    def _acl(self, path: str) -> Sequence[object]:
        if not self._set_acl or path.startswith("/consumers"):
            return cast("Sequence[object]", security.OPEN_ACL_UNSAFE)
        if path.startswith(_SENSITIVE):
            return cast("Sequence[object]", security.CREATOR_ALL_ACL)
        return cast("Sequence[object]", security.CREATOR_ALL_ACL + security.READ_ACL_UNSAFE)

    def _submit(
        self, path: str, request: object, convert: Callable[[Any], T], session: int | None = None, size: int = 0
    ) -> Future[T]:
        future: Future[T] = Future()
        if session is not None and session != self.session:
            future.errback(port.SessionExpiredError(path))
        elif self.state is not SessionState.CONNECTED:
            future.errback(port.ConnectionLostError(path))
        elif size + len(path) > MAX_PACKET:
            future.errback(ZkError(path, f"a request of {size} bytes, more than {MAX_PACKET} that ZooKeeper takes:"))
        else:
            self._kazoo.submit(request, _Answer(self._lane, future, path, convert, session))
        return future

    def _multi_results(self, ops: Sequence[port.Op], answer: list[object]) -> list[ZnodeStat | str | None]:
        results: list[ZnodeStat | str | None] = []
        for index, (op, result) in enumerate(zip(ops, answer, strict=True)):
            if isinstance(result, exceptions.RolledBackError | exceptions.RuntimeInconsistency):
                continue
            if isinstance(result, Exception):
                raise port.MultiError(index, _error(result, op.path))
            if isinstance(op, port.Create):
                results.append(str(result))  # without the chroot already: kazoo sees to it here, and here alone
            else:
                results.append(_stat(result) if isinstance(op, port.SetData) else None)
        return results

    async def _create_chroot(self) -> None:
        parts = [part for part in self._chroot.split("/") if part]
        works = []
        for depth in range(1, len(parts) + 1):
            full = "/" + "/".join(parts[:depth])
            future: Future[None] = Future()
            request = serialization.Create(full, b"", self._acl("/"), 0)
            self._kazoo.submit(request, _Answer(self._lane, future, full, lambda _: None, None))
            works.append(_unless_exists(future))
        await gather(works)

    def _on_kazoo_state(self, state: object) -> None:
        # in kazoo's thread: what belongs to the event is captured now
        session, password = self._kazoo.client_id or (0, b"")
        self._lane.put(self._on_state, state, session, password, self._kazoo.negotiated_ms)

    def _on_state(self, state: object, session: int, password: bytes, timeout_ms: int) -> None:
        if state == KazooState.CONNECTED:
            if session != self.session and self.session and self.state is not SessionState.EXPIRED:
                self._tell(SessionState.EXPIRED)
            self.session, self.password, self.session_timeout_ms = session, password, timeout_ms
            self._tell(SessionState.CONNECTED)
            if self._started is not None and not self._started.called:
                self._started.callback(None)
        elif state == KazooState.SUSPENDED:
            self._tell(SessionState.SUSPENDED)
        else:
            self._tell(SessionState.EXPIRED)

    def _tell(self, state: SessionState) -> None:
        self.state = state
        for listener in list(self._listeners):
            try:
                listener(state)
            except Exception:
                log.exception("listener %r failed at %s", listener, state)

    def _start_timed_out(self) -> None:
        if self._started is not None and not self._started.called:
            text = f"cannot reach ZooKeeper at {self.hosts} within {self._connection_timeout:g} s"
            self._started.errback(StartupError(f"{text}; is it running, and is zookeeper.connect right?"))


class _Answer:
    """Where kazoo puts the answer to one request, in its own thread."""

    __slots__ = ("_convert", "_future", "_lane", "_path", "session")

    def __init__(
        self, lane: ReactorLane, future: Future[Any], path: str, convert: Callable[[Any], Any], session: int | None
    ) -> None:
        self._lane = lane
        self._future = future
        self._path = path
        self._convert = convert
        self.session = session

    def set(self, value: object) -> None:
        self._lane.put(self._succeed, value)

    def set_exception(self, error: Exception) -> None:
        self._lane.put(self._future.errback, _error(error, self._path))

    def _succeed(self, value: object) -> None:
        try:
            result = self._convert(value)
        except ZkError as error:
            self._future.errback(error)
        else:
            self._future.callback(result)


class _Watcher:
    """A one-shot watch; the same one set twice on a path is one, and fires once."""

    __slots__ = ("path", "watch")

    def __init__(self, watch: Watch, path: str) -> None:
        self.watch = watch
        self.path = path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Watcher) and (self.watch, self.path) == (other.watch, other.path)

    def __hash__(self) -> int:
        return hash((self.watch, self.path))

    def __call__(self, event: WatchedEvent) -> None:
        types = port.EventType
        kinds = {"CREATED": types.CREATED, "DELETED": types.DELETED, "CHANGED": types.CHANGED, "CHILD": types.CHILD}
        self.watch(WatchEvent(kinds.get(str(event.type), types.LOST), self.path))


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads without its two queues."""

    def __init__(self, lane: ReactorLane, connect_timeout: float) -> None:
        super().__init__()
        self._lane = lane
        self._connect_timeout = connect_timeout

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def dispatch_callback(self, callback: Any) -> None:
        self._lane.put(callback.func, *callback.args)

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        # a host that swallows packets must leave time for the others within the session timeout
        kwargs["timeout"] = min(kwargs.get("timeout") or self._connect_timeout, self._connect_timeout)
        return super().create_connection(*args, **kwargs)


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """kazoo's connection, writing all that waits at once, and each request only in the session it was meant for."""

    _xid: int

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        answer = super()._invoke(timeout, request, xid)
        if isinstance(request, serialization.Connect):
            self.client.negotiated_ms = answer[0].time_out
        return answer

    def _send_request(self, _: float, connect_timeout: float) -> None:
        client = self.client
        self._read_sock.recv(4096)
        client.awake = False  # cleared before the queue is looked at: see _Client.submit
        queue = client._queue
        out = bytearray()
        while queue and len(out) < _WRITE_SIZE:
            request, answer = queue.popleft()
            if answer is not None and answer.session not in (None, client._session_id):
                answer.set_exception(exceptions.SessionExpiredError())
                continue
            self._xid = int(self._xid) % 2147483647 + 1
            body = request.serialize()
            out += serialization.int_int_struct.pack(len(body) + 8, self._xid)
            out += serialization.int_struct.pack(request.type)
            out += body
            client._pending.append((request, answer, self._xid))
        if queue:
            client.wake()
        self._write(out, connect_timeout)

    def _connect(self, *address: Any) -> Any:
        self._received = bytearray()
        self._frame: bytes | None = None
        return super()._connect(*address)

    def _read_socket(self, read_timeout: float) -> Any:
        # all that has come in one call, where kazoo makes four system calls for each answer
        try:
            chunk = self._socket.recv(_READ_SIZE)
        except BlockingIOError:
            return None
        if not chunk:
            raise ConnectionDropped("ZooKeeper closed the connection")
        received = self._received
        received += chunk
        position = 0
        closed = None
        while closed is None and len(received) - position >= 4:
            (length,) = serialization.int_struct.unpack_from(received, position)
            if not 0 <= length <= MAX_ANSWER:
                raise ConnectionDropped(f"an answer of {length} bytes")
            if len(received) - position - 4 < length:
                break
            self._frame = bytes(received[position + 4 : position + 4 + length])
            position += 4 + length
            closed = super()._read_socket(read_timeout)
        del received[:position]
        return closed

    def _read_header(self, timeout: float) -> Any:
        frame, self._frame = self._frame, None
        if frame is None:  # while connecting
            return super()._read_header(timeout)
        header, offset = serialization.ReplyHeader.deserialize(frame, 0)
        return header, frame, offset


class _Client(KazooClient):  # type: ignore[misc]
    """kazoo's session."""

    def __init__(self, lane: ReactorLane, hosts: str, timeout: float, auth: list[tuple[str, str]] | None) -> None:
        count = hosts.partition("/")[0].count(",") + 1
        retry = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=0.5)
        logger = logging.getLogger("kafkalite.zk.kazoo")
        logger.setLevel(logging.WARNING)
        super().__init__(
            hosts,
            timeout,
            handler=_Handler(lane, max(0.3, timeout / 3 / count)),
            auth_data=auth,
            connection_retry=retry,
            logger=logger,
        )
        self._connection = _Connection(self, self._conn_retry.copy(), logger=logger)
        self.awake = False
        self.negotiated_ms = int(timeout * 1000)

    def wake(self) -> None:
        """Make the connection's thread look at the queue."""
        if not self.awake:
            self.awake = True
            socket = self._connection._write_sock
            if socket is not None:
                socket.send(b"\0")

    def submit(self, request: object, answer: _Answer) -> None:
        """Queue ``request``; it is sent while connected, or fails."""
        queue: deque[Any] = self._queue
        queue.append((request, answer))
        if self._state != KeeperState.CONNECTED or self._queue is not queue:
            # The connection went between the reactor's look at it and now, and its thread may have emptied the
            # queue before this came in. Whoever takes an entry answers it, so that it is answered once.
            while queue:
                try:
                    entry = queue.popleft()
                except IndexError:
                    return
                if entry[1] is not None:
                    entry[1].set_exception(exceptions.ConnectionLoss())
            return
        self.wake()


async def _unless_exists(work: Future[None]) -> None:
    try:
        await work
    except port.NodeExistsError:
        return


def _watcher(watch: Watch | None, path: str) -> _Watcher | None:
    return None if watch is None else _Watcher(watch, path)


def _stat(stat: Any) -> ZnodeStat:
    return ZnodeStat(stat.czxid, stat.mzxid, stat.version, stat.ephemeralOwner, stat.cversion, stat.ctime)


def _error(error: Exception, path: str) -> ZkError:
    for theirs, ours in _ERRORS:
        if isinstance(error, theirs):
            return ours(path)
    return ZkError(path, f"{type(error).__name__} {error}".strip() + ":")
