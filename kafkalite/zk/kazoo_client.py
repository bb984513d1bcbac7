"""The ZooKeeper client on kazoo: paths, ACLs, sizes and states of the session. Reactor shell.

Answers to: ``kafka.zookeeper.ZooKeeperClient``. Only this module and ``kazoo_session``, which has the connection, know
kazoo.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from kazoo import exceptions, security
from kazoo.client import KazooState
from kazoo.protocol import serialization
from kazoo.protocol.states import WatchedEvent

from kafkalite.common.errors import StartupError
from kafkalite.common.tasks import Future, gather
from kafkalite.zk import zk_client
from kafkalite.zk.kazoo_session import Answer, KazooSession, zk_error
from kafkalite.zk.lane import ReactorLane
from kafkalite.zk.zk_client import MAX_PACKET, SessionState, Watch, WatchEvent, ZkError, ZnodeStat

log = logging.getLogger(__name__)
T = TypeVar("T")
_SENSITIVE = ("/config/users", "/config/brokers", "/delegation_token")


class KazooZkClient:
    """Implements :class:`kafkalite.zk.zk_client.ZkClient`. All methods and callbacks belong to the reactor's thread.

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
        self._kazoo = KazooSession(self._lane, hosts, session_timeout_ms / 1000, auth)
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

    def multi(self, ops: Sequence[zk_client.Op], *, session: int | None = None) -> Future[list[ZnodeStat | str | None]]:
        operations, size = [], 0
        for op in ops:
            full = self._full(op.path)
            size += len(full) + 64
            if isinstance(op, zk_client.Create):
                flags = int(op.ephemeral) + 2 * int(op.sequence)
                operations.append(serialization.Create(full, op.data, self._acl(op.path), flags))
                size += len(op.data)
            elif isinstance(op, zk_client.SetData):
                operations.append(serialization.SetData(full, op.data, op.version))
                size += len(op.data)
            elif isinstance(op, zk_client.Delete):
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
            future.errback(zk_client.SessionExpiredError(path))
        elif self.state is not SessionState.CONNECTED:
            future.errback(zk_client.ConnectionLostError(path))
        elif size + len(path) > MAX_PACKET:
            future.errback(ZkError(path, f"a request of {size} bytes, more than {MAX_PACKET} that ZooKeeper takes:"))
        else:
            self._kazoo.submit(request, Answer(self._lane, future, path, convert, session))
        return future

    def _multi_results(self, ops: Sequence[zk_client.Op], answer: list[object]) -> list[ZnodeStat | str | None]:
        results: list[ZnodeStat | str | None] = []
        for index, (op, result) in enumerate(zip(ops, answer, strict=True)):
            if isinstance(result, exceptions.RolledBackError | exceptions.RuntimeInconsistency):
                continue
            if isinstance(result, Exception):
                raise zk_client.MultiError(index, zk_error(result, op.path))
            if isinstance(op, zk_client.Create):
                results.append(str(result))  # without the chroot already: kazoo sees to it here, and here alone
            else:
                results.append(_stat(result) if isinstance(op, zk_client.SetData) else None)
        return results

    async def _create_chroot(self) -> None:
        parts = [part for part in self._chroot.split("/") if part]
        works = []
        for depth in range(1, len(parts) + 1):
            full = "/" + "/".join(parts[:depth])
            future: Future[None] = Future()
            request = serialization.Create(full, b"", self._acl("/"), 0)
            self._kazoo.submit(request, Answer(self._lane, future, full, lambda _: None, None))
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
        types = zk_client.EventType
        kinds = {"CREATED": types.CREATED, "DELETED": types.DELETED, "CHANGED": types.CHANGED, "CHILD": types.CHILD}
        self.watch(WatchEvent(kinds.get(str(event.type), types.LOST), self.path))


async def _unless_exists(work: Future[None]) -> None:
    try:
        await work
    except zk_client.NodeExistsError:
        return


def _watcher(watch: Watch | None, path: str) -> _Watcher | None:
    return None if watch is None else _Watcher(watch, path)


def _stat(stat: Any) -> ZnodeStat:
    return ZnodeStat(stat.czxid, stat.mzxid, stat.version, stat.ephemeralOwner, stat.cversion, stat.ctime, stat.mtime)
