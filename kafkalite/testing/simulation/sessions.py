"""A simulated process's ZooKeeper client: what comes from ZooKeeper is an event of the process. Deterministic.

Answers to: :class:`kafkalite.zk.client.KazooZkClient`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kafkalite.common.tasks import Future
from kafkalite.testing.simulation.world import Life
from kafkalite.testing.zookeeper import MemoryZkClient
from kafkalite.zk.port import Op, SessionState, Watch, WatchEvent, ZnodeStat

T = TypeVar("T")


class _LifeWatch:
    """A watch of a process. Equal where process and watch are, for so clients recognise a watch set twice."""

    __slots__ = ("life", "watch")

    def __init__(self, life: Life, watch: Watch) -> None:
        self.life = life
        self.watch = watch

    def __call__(self, event: WatchEvent) -> None:
        self.life.run(self.watch, event)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _LifeWatch) and self.life is other.life and self.watch == other.watch

    def __hash__(self) -> int:
        return hash(self.watch)


class LifeZkClient:
    """A :class:`kafkalite.broker.edges.ZkSession` on a client of the ZooKeeper twin."""

    password = b"simulated"

    def __init__(self, life: Life, client: MemoryZkClient, session_timeout_ms: int) -> None:
        self.client = client
        self.session_timeout_ms = session_timeout_ms
        self._life = life
        life.keep.append(self)

    @property
    def session(self) -> int:
        """See :class:`ZkClient`."""
        return self.client.session

    async def start(self) -> None:
        """It is connected from the beginning."""

    async def close(self) -> None:
        """End the session in order."""
        self.client.close()

    def add_listener(self, listener: Callable[[SessionState], None]) -> None:
        """See :class:`ZkClient`."""
        self.client.add_listener(lambda state: self._life.run(listener, state))

    def get(self, path: str, watch: Watch | None = None) -> Future[tuple[bytes, ZnodeStat]]:
        """See :class:`ZkClient`."""
        return self._through(self.client.get(path, self._watch(watch)))

    def exists(self, path: str, watch: Watch | None = None) -> Future[ZnodeStat | None]:
        """See :class:`ZkClient`."""
        return self._through(self.client.exists(path, self._watch(watch)))

    def get_children(self, path: str, watch: Watch | None = None) -> Future[list[str]]:
        """See :class:`ZkClient`."""
        return self._through(self.client.get_children(path, self._watch(watch)))

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        session: int | None = None,
    ) -> Future[tuple[str, ZnodeStat]]:
        """See :class:`ZkClient`."""
        return self._through(self.client.create(path, data, ephemeral=ephemeral, sequence=sequence, session=session))

    def set(self, path: str, data: bytes, version: int = -1, *, session: int | None = None) -> Future[ZnodeStat]:
        """See :class:`ZkClient`."""
        return self._through(self.client.set(path, data, version, session=session))

    def delete(self, path: str, version: int = -1, *, session: int | None = None) -> Future[None]:
        """See :class:`ZkClient`."""
        return self._through(self.client.delete(path, version, session=session))

    def multi(self, ops: Sequence[Op], *, session: int | None = None) -> Future[list[ZnodeStat | str | None]]:
        """See :class:`ZkClient`."""
        return self._through(self.client.multi(ops, session=session))

    def _watch(self, watch: Watch | None) -> Watch | None:
        return None if watch is None else _LifeWatch(self._life, watch)

    def _through(self, inner: Future[T]) -> Future[T]:
        outer: Future[T] = Future()

        def done(value: Any) -> None:
            self._life.run(outer.callback, value)

        def failed(failure: Any) -> None:
            self._life.run(outer.errback, failure)

        inner.addCallbacks(done, failed)
        return outer
