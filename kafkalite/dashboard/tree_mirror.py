"""A live copy of the ZooKeeper tree: read once, and kept current by a watch on each znode.

Answers to: nothing in Kafka. Pure: it is handed the client.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kafkalite.common.tasks import gather_in_parts, spawn
from kafkalite.zk.zk_client import (
    EventType,
    NoNodeError,
    NotAuthorizedError,
    SessionState,
    WatchEvent,
    ZkClient,
    ZkError,
    ZnodeStat,
)

log = logging.getLogger(__name__)

_AT_ONCE = 500
"""Znodes that are read at the same time."""
_UNKNOWN = ZnodeStat(0, 0, 0)


@dataclass(frozen=True, slots=True)
class MirroredZnode:
    """One znode. ``data`` is ``None`` where its ACL does not let this client read it."""

    data: bytes | None
    stat: ZnodeStat


class Tree:
    """Znodes by their paths, with the names below each."""

    def __init__(self) -> None:
        self.znodes: dict[str, MirroredZnode] = {}
        self._names: dict[str, set[str]] = {}

    def get(self, path: str) -> MirroredZnode | None:
        """The znode at ``path``."""
        return self.znodes.get(path)

    def children(self, path: str) -> list[str]:
        """Names of the znodes below ``path``, sorted."""
        return sorted(self._names.get(path, ()))

    def set(self, path: str, znode: MirroredZnode) -> bool:
        """Put ``znode`` at ``path``; whether that changed anything."""
        if self.znodes.get(path) == znode:
            return False
        self.znodes[path] = znode
        if path != "/":
            parent, _, name = path.rpartition("/")
            self._names.setdefault(parent or "/", set()).add(name)
        return True

    def remove(self, path: str) -> list[str]:
        """Remove the znode and all below it; the paths of what was removed, those of children first."""
        removed = [gone for name in self.children(path) for gone in self.remove(f"{path.rstrip('/')}/{name}")]
        self._names.pop(path, None)
        parent, _, name = path.rpartition("/")
        self._names.get(parent or "/", set()).discard(name)
        return [*removed, path] if self.znodes.pop(path, None) is not None else removed


class TreeMirror:
    """All znodes at and below ``root``, except ZooKeeper's own.

    ``on_change`` is called with the path of each znode that was created, changed or deleted. A lost connection loses
    the watches, so that the whole tree is read again once the client is connected: ``on_change`` then hears of those
    znodes only that differ.
    """

    def __init__(self, client: ZkClient, on_change: Callable[[str], None], root: str = "/") -> None:
        self.tree = Tree()
        self._client = client
        self._on_change = on_change
        self._root = root
        client.add_listener(self._on_session)

    async def start(self) -> None:
        """Read the tree. Raises :class:`ZkError` if the connection is lost meanwhile."""
        await self._read_below(self._root)

    async def _read_below(self, path: str) -> None:
        """Read ``path`` and all that stands under it, level by level."""
        level = [path]
        while level:
            found = await gather_in_parts(self._read, level, _AT_ONCE)
            level = [child for children in found for child in children]

    async def _read(self, path: str) -> list[str]:
        """Read one znode with its watches; the paths of its children."""
        await self._read_data(path)
        znode = self.tree.get(path)
        return [] if znode is None or znode.stat.ephemeral_owner else await self._read_children(path)

    async def _read_data(self, path: str) -> None:
        try:
            data, stat = await self._client.get(path, self._on_event)
        except NoNodeError:
            self._forget(path)
            return
        except NotAuthorizedError:
            self._keep(path, MirroredZnode(None, _UNKNOWN))
            return
        self._keep(path, MirroredZnode(data, stat))

    async def _read_children(self, path: str) -> list[str]:
        try:
            names = await self._client.get_children(path, self._on_event)
        except (NoNodeError, NotAuthorizedError):
            return []
        below = path.rstrip("/")
        known = set(self.tree.children(path))
        for gone in sorted(known - set(names)):
            self._forget(f"{below}/{gone}")
        return [f"{below}/{name}" for name in sorted(names) if below or name != "zookeeper"]

    def _keep(self, path: str, znode: MirroredZnode) -> None:
        if self.tree.set(path, znode):
            self._on_change(path)

    def _forget(self, path: str) -> None:
        for gone in self.tree.remove(path):
            self._on_change(gone)

    def _on_event(self, event: WatchEvent) -> None:
        if event.type is EventType.DELETED:
            self._forget(event.path)
        elif event.type is EventType.CHILD:
            self._spawn(self._children_changed(event.path), event.path)
        elif event.type is not EventType.LOST:
            self._spawn(self._read_data(event.path), event.path)

    async def _children_changed(self, path: str) -> None:
        children = await self._read_children(path)
        for child in children:
            if self.tree.get(child) is None:
                await self._read_below(child)

    def _on_session(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._spawn(self._read_below(self._root), self._root)

    def _spawn(self, work: Awaitable[object], path: str) -> None:
        spawn(work, f"reading {path}", _ignore_lost_connection)


def _ignore_lost_connection(error: BaseException) -> None:
    """Pass over an error of ZooKeeper's, because the tree is read again once the client is connected."""
    if not isinstance(error, ZkError):
        log.error("reading the ZooKeeper tree failed", exc_info=error)
