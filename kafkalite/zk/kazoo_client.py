"""The ZooKeeper client on kazoo: paths, ACLs, sizes and states of the session. Reactor shell.

Answers to: ``kafka.zookeeper.ZooKeeperClient``. Only this module and ``kazoo_session``, which has the connection, know
kazoo.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from kazoo import exceptions, security
from kazoo.client import KazooState
from kazoo.protocol import serialization
from kazoo.protocol.states import WatchedEvent

from kafkalite.common.errors import StartupError
from kafkalite.common.recent_times import RecentTimes
from kafkalite.common.tasks import Future, gather
from kafkalite.zk import zk_client
from kafkalite.zk.kazoo_session import Answer, KazooRequest, KazooSession, ReactorLane, zk_error
from kafkalite.zk.session_security import OPEN, ZkSecurity
from kafkalite.zk.zk_client import MAX_PACKET, SessionState, Watch, WatchEvent, ZkError, ZnodeStat
from kafkalite.zk.znode_acls import Access, Acl, access_to

log = logging.getLogger(__name__)
A = TypeVar("A")
T = TypeVar("T")


class KazooZkClient:
    """Implements :class:`kafkalite.zk.zk_client.ZkClient` and :class:`kafkalite.zk.znode_acls.ZnodeAcls`.

    All methods and callbacks belong to the reactor's thread. ``call_from_thread``: the reactor's ``callFromThread``.
    ``hosts``: ``host:port,host:port/chroot``. ``set_acl``: the znodes that this client creates are protected
    (``zookeeper.set.acl``); needs an identity in ``security``. ``create_chroot``: :meth:`start` creates the chroot if
    it is missing, as brokers do; other clients must not, because the name may be mistyped. While the client is not
    connected, every request fails at once with ``ConnectionLostError``.
    """

    def __init__(
        self,
        call_from_thread: Callable[..., object],
        hosts: str,
        session_timeout_ms: int = 18_000,
        connection_timeout_ms: int = 18_000,
        security: ZkSecurity = OPEN,
        set_acl: bool = False,
        latency: RecentTimes | None = None,
        *,
        create_chroot: bool = False,
    ) -> None:
        self.latency = RecentTimes() if latency is None else latency
        """How long ZooKeeper took to answer."""
        self.hosts = hosts
        self.session = 0
        self.password = b""
        self.state = SessionState.SUSPENDED
        self.session_timeout_ms = session_timeout_ms
        self._connection_timeout = connection_timeout_ms / 1000
        self._set_acl = set_acl
        self._create_chroot = create_chroot
        self._call_from_thread = call_from_thread
        self._lane = ReactorLane(call_from_thread)
        self._listeners: list[Callable[[SessionState], None]] = []
        self._started: Future[None] | None = None
        self._kazoo = KazooSession(self._lane, hosts, session_timeout_ms / 1000, security)
        self._kazoo.add_listener(self._on_kazoo_state)
        self._chroot = str(self._kazoo.chroot)

    async def start(self) -> None:
        """Connect. Raises :class:`StartupError` if no server answers, or if the chroot is missing."""
        self._started = Future()
        timer = threading.Timer(self._connection_timeout, self._lane.put, (self._start_timed_out,))
        timer.daemon = True
        timer.start()
        self._kazoo.start_async()
        try:
            await self._started
            if self._create_chroot:
                await self._ensure_chroot()
            elif self._chroot and await self.exists("/") is None:
                raise StartupError(
                    f"the chroot {self._chroot} does not exist in {self.hosts.partition('/')[0]}: correct its name, or "
                    "start a broker, which creates it"
                )
        except BaseException:
            await self.close()
            raise
        finally:
            timer.cancel()

    async def close(self) -> None:
        """Close the session, so that ZooKeeper removes its ephemeral znodes at once. No listener is called."""
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
        return self._submit(path, request, _data)

    def exists(self, path: str, watch: Watch | None = None) -> Future[ZnodeStat | None]:
        request = serialization.Exists(self._full(path), _watcher(watch, path))
        return self._submit(path, request, _stat_if_any)

    def get_children(self, path: str, watch: Watch | None = None) -> Future[list[str]]:
        request = serialization.GetChildren(self._full(path), _watcher(watch, path))
        return self._submit(path, request, _children)

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
        return self._submit(path, request, self._created, session, len(data))

    def set(self, path: str, data: bytes, version: int = -1, *, session: int | None = None) -> Future[ZnodeStat]:
        return self._submit(path, serialization.SetData(self._full(path), data, version), _stat, session, len(data))

    def delete(self, path: str, version: int = -1, *, session: int | None = None) -> Future[None]:
        return self._submit(path, serialization.Delete(self._full(path), version), _nothing, session)

    def get_acl(self, path: str) -> Future[tuple[Acl, ...]]:
        return self._submit(path, serialization.GetACL(self._full(path)), _acls)

    def set_acl(self, path: str, access: Access) -> Future[None]:
        return self._submit(path, serialization.SetACL(self._full(path), _acl(access), -1), _nothing)

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
        return self._submit(path, request, partial(self._multi_results, ops), session, size)

    def _full(self, path: str) -> str:
        return (self._chroot + path if path != "/" else self._chroot) or "/"

    def _created(self, answer: tuple[str, _KazooStat]) -> tuple[str, ZnodeStat]:
        return answer[0][len(self._chroot) :], _stat(answer[1])

    def _acl(self, path: str) -> Sequence[object]:
        return _acl(access_to(path) if self._set_acl else Access.OPEN)

    def _submit(
        self, path: str, request: KazooRequest, convert: Callable[[A], T], session: int | None = None, size: int = 0
    ) -> Future[T]:
        future: Future[T] = Future()
        if session is not None and session != self.session:
            future.errback(zk_client.SessionExpiredError(path))
        elif self.state is not SessionState.CONNECTED:
            future.errback(zk_client.ConnectionLostError(path))
        elif size + len(path) > MAX_PACKET:
            future.errback(ZkError(path, f"a request of {size} bytes, more than {MAX_PACKET} that ZooKeeper takes:"))
        else:
            began = time.monotonic()

            def converted(answer: A) -> T:
                self.latency.add(time.monotonic() - began)
                return convert(answer)

            self._kazoo.submit(request, Answer(self._lane, future, path, converted, session))
        return future

    def _multi_results(self, ops: Sequence[zk_client.Op], answer: list[Any]) -> list[ZnodeStat | str | None]:
        results: list[ZnodeStat | str | None] = []
        for index, (op, result) in enumerate(zip(ops, answer, strict=True)):
            if isinstance(result, exceptions.RolledBackError | exceptions.RuntimeInconsistency):
                continue
            if isinstance(result, Exception):
                raise zk_client.MultiError(index, zk_error(result, op.path))
            if isinstance(op, zk_client.Create):
                results.append(str(result))  # Only of this result kazoo removes the chroot itself.
            else:
                results.append(_stat(result) if isinstance(op, zk_client.SetData) else None)
        return results

    async def _ensure_chroot(self) -> None:
        parts = [part for part in self._chroot.split("/") if part]
        works = []
        for depth in range(1, len(parts) + 1):
            full = "/" + "/".join(parts[:depth])
            future: Future[None] = Future()
            request = serialization.Create(full, b"", self._acl("/"), 0)
            self._kazoo.submit(request, Answer(self._lane, future, full, _nothing, None))
            works.append(_unless_exists(future))
        await gather(works)

    def _on_kazoo_state(self, state: object) -> None:
        # This runs in kazoo's thread, so the session's data is read now and not on the reactor.
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
            why = self._kazoo.last_problem or "is it running, and is zookeeper.connect right?"
            self._started.errback(StartupError(f"{text}; {why}"))


class _KazooAcl(Protocol):
    """kazoo's entry of a list."""

    perms: int
    id: security.Id


class _KazooStat(Protocol):
    czxid: int
    mzxid: int
    version: int
    ephemeralOwner: int  # noqa: N815
    cversion: int
    ctime: int
    mtime: int


@dataclass(slots=True, unsafe_hash=True)
class _Watcher:
    """A one-shot watch. Set twice on a path, it counts as one watch and fires once."""

    watch: Watch
    path: str

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


def _data(answer: tuple[bytes | None, _KazooStat]) -> tuple[bytes, ZnodeStat]:
    return answer[0] or b"", _stat(answer[1])


def _stat_if_any(answer: _KazooStat | None) -> ZnodeStat | None:
    return None if answer is None else _stat(answer)


def _children(answer: list[str]) -> list[str]:
    return answer


def _acl(access: Access) -> Sequence[object]:
    if access is Access.OPEN:
        return cast("Sequence[object]", security.OPEN_ACL_UNSAFE)
    everyone = [security.make_acl("world", "anyone")._replace(perms=access.value)] if access.value else []
    return cast("Sequence[object]", security.CREATOR_ALL_ACL + everyone)


def _acls(answer: tuple[Sequence[_KazooAcl], object]) -> tuple[Acl, ...]:
    return tuple(Acl(each.perms, each.id.scheme, each.id.id) for each in answer[0])


def _nothing(answer: object) -> None:
    """For requests whose answer has no content."""


def _stat(stat: _KazooStat) -> ZnodeStat:
    return ZnodeStat(stat.czxid, stat.mzxid, stat.version, stat.ephemeralOwner, stat.cversion, stat.ctime, stat.mtime)
