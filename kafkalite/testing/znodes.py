"""The tree of znodes behind the ZooKeeper twin: operations, transactions, sessions. Deterministic.

Answers to: ``org.apache.zookeeper.server.{DataTree,PrepRequestProcessor}``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kafkalite.zk.port import (
    BadVersionError,
    Check,
    Create,
    Delete,
    EventType,
    MultiError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Op,
    SetData,
    WatchEvent,
    ZkError,
    ZnodeStat,
)


@dataclass(slots=True)
class Znode:
    """One znode."""

    data: bytes
    czxid: int
    mzxid: int
    ctime_ms: int
    owner: int = 0
    mtime_ms: int = 0
    version: int = 0
    children_version: int = 0
    sequence: int = 0
    children: set[str] = field(default_factory=set)

    def stat(self) -> ZnodeStat:
        return ZnodeStat(
            self.czxid, self.mzxid, self.version, self.owner, self.children_version, self.ctime_ms, self.mtime_ms
        )


class ZnodeTree:
    """Znodes by path. Every write returns its result and the events that watchers are to see."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.nodes: dict[str, Znode] = {"/": Znode(b"", 0, 0, 0)}
        self.zxid = 0x100000000
        self._now_ms = now_ms
        self._undo: list[Callable[[], object]] = []

    def node(self, path: str) -> Znode:
        """The znode at ``path``. Raises :class:`NoNodeError`."""
        try:
            return self.nodes[path]
        except KeyError:
            raise NoNodeError(path) from None

    def multi(
        self, ops: Sequence[Op], session: int
    ) -> tuple[list[ZnodeStat | str | None], list[ZnodeStat | None], list[WatchEvent]]:
        """All or nothing: results, stats of what was created or written, events. Raises :class:`MultiError`."""
        self.zxid += 1
        self._undo = []
        results: list[ZnodeStat | str | None] = []
        stats: list[ZnodeStat | None] = []
        events: list[WatchEvent] = []
        for index, op in enumerate(ops):
            try:
                result, stat = self._apply(op, session, events)
            except ZkError as error:
                for undo in reversed(self._undo):
                    undo()
                raise MultiError(index, error) from None
            results.append(result)
            stats.append(stat)
        return results, stats, events

    def close_session(self, session: int) -> list[WatchEvent]:
        """Remove what is ephemeral of ``session``."""
        paths = [path for path, node in self.nodes.items() if node.owner == session]
        return self.multi([Delete(path) for path in paths], session)[2]

    def _apply(self, op: Op, session: int, events: list[WatchEvent]) -> tuple[ZnodeStat | str | None, ZnodeStat | None]:
        if isinstance(op, Create):
            return self._create(op, session, events)
        if isinstance(op, SetData):
            return self._set(op, events)
        if isinstance(op, Delete):
            self._delete(op, events)
        else:
            self._versioned(op)
        return None, None

    def _versioned(self, op: SetData | Delete | Check) -> Znode:
        node = self.node(op.path)
        if op.version not in (-1, node.version):
            raise BadVersionError(op.path)
        return node

    def _create(self, op: Create, session: int, events: list[WatchEvent]) -> tuple[str, ZnodeStat]:
        parent_path = op.path.rpartition("/")[0] or "/"
        parent = self.node(parent_path)
        path = f"{op.path}{parent.sequence:010d}" if op.sequence else op.path
        if path in self.nodes:
            raise NodeExistsError(path)
        if parent.owner:
            raise ZkError(path, "an ephemeral znode has no children:")
        now = self._now_ms()
        node = Znode(op.data, self.zxid, self.zxid, now, session if op.ephemeral else 0, now)
        name = path.rpartition("/")[2]
        before = parent.sequence, parent.children_version

        def undo() -> None:
            del self.nodes[path]
            parent.children.discard(name)
            parent.sequence, parent.children_version = before

        self._undo.append(undo)
        self.nodes[path] = node
        parent.children.add(name)
        parent.sequence += 1
        parent.children_version += 1
        events += [WatchEvent(EventType.CREATED, path), WatchEvent(EventType.CHILD, parent_path)]
        return path, node.stat()

    def _set(self, op: SetData, events: list[WatchEvent]) -> tuple[ZnodeStat, ZnodeStat]:
        node = self._versioned(op)
        before = node.data, node.version, node.mzxid, node.mtime_ms

        def undo() -> None:
            node.data, node.version, node.mzxid, node.mtime_ms = before

        self._undo.append(undo)
        node.data, node.version, node.mzxid, node.mtime_ms = op.data, node.version + 1, self.zxid, self._now_ms()
        events.append(WatchEvent(EventType.CHANGED, op.path))
        return node.stat(), node.stat()

    def _delete(self, op: Delete, events: list[WatchEvent]) -> None:
        node = self._versioned(op)
        if node.children:
            raise NotEmptyError(op.path)
        parent_path, _, name = op.path.rpartition("/")
        parent = self.node(parent_path or "/")

        def undo() -> None:
            self.nodes[op.path] = node
            parent.children.add(name)
            parent.children_version -= 1

        self._undo.append(undo)
        del self.nodes[op.path]
        parent.children.discard(name)
        parent.children_version += 1
        events += [WatchEvent(EventType.DELETED, op.path), WatchEvent(EventType.CHILD, parent_path or "/")]
