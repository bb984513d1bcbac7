"""The tree of znodes behind the ZooKeeper twins: operations, transactions, ephemerals, paths. Deterministic.

Answers to: ``org.apache.zookeeper.server.{DataTree,PrepRequestProcessor}`` and ``common.PathUtils``.

A tree either decides on operations itself (:meth:`ZnodeTree.propose`: a leader) or repeats another tree's decisions
(:meth:`ZnodeTree.apply`: a follower). Its errors are those of the ZooKeeper client for the server's codes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from kafkalite.zk.zk_client import (
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

# Characters past U+FFFF are refused, too, because in Java they are surrogates.
_REFUSED = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")


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
    children: dict[str, None] = field(default_factory=dict)

    def stat(self) -> ZnodeStat:
        return ZnodeStat(
            self.czxid, self.mzxid, self.version, self.owner, self.children_version, self.ctime_ms, self.mtime_ms
        )


@dataclass(frozen=True, slots=True)
class NodeChange:
    """One executed operation of a transaction.

    ``op``: the operation, with the final path of a sequential znode. ``stat``: of the znode after a Create, SetData or
    Check, and of the znode that a Delete removed.
    """

    op: Op
    stat: ZnodeStat


class TransactionKind(Enum):
    """The kind of a transaction."""

    WRITE = "write"
    OPEN_SESSION = "open session"
    CLOSE_SESSION = "close session"


@dataclass(frozen=True, slots=True)
class NodeTransaction:
    """One entry of ZooKeeper's log.

    ``changes``: its changes in order (for a closed session the deleted ephemerals). ``error``: the reason for its
    refusal as a whole; then there are no changes, but it has a zxid.
    """

    zxid: int
    time_ms: int
    session: int
    kind: TransactionKind
    changes: tuple[NodeChange, ...] = ()
    error: ZkError | None = None
    timeout_ms: int = 0

    def events(self) -> list[WatchEvent]:
        """The watch events of the transaction, in order."""
        found: list[WatchEvent] = []
        for change in self.changes:
            path = change.op.path
            if isinstance(change.op, SetData):
                found.append(WatchEvent(EventType.CHANGED, path))
            elif isinstance(change.op, Create | Delete):
                kind = EventType.CREATED if isinstance(change.op, Create) else EventType.DELETED
                found += [WatchEvent(kind, path), WatchEvent(EventType.CHILD, parent_of(path))]
        return found

    def results(self) -> list[ZnodeStat | str | None]:
        """The answer to a multi."""
        return [
            change.op.path if isinstance(change.op, Create) else change.stat if isinstance(change.op, SetData) else None
            for change in self.changes
        ]


def parent_of(path: str) -> str:
    """Path of the parent; the parent of ``/`` is ``/``."""
    return path.rpartition("/")[0] or "/"


def is_valid_path(path: str) -> bool:
    """Whether ZooKeeper accepts ``path`` for a znode."""
    if path == "/":
        return True
    parts = path.split("/")
    return parts[0] == "" and len(parts) > 1 and not {"", ".", ".."} & {*parts[1:]} and not _REFUSED.search(path)


class ZnodeTree:
    """Znodes by path. Every write returns its result and the events for watchers."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.nodes: dict[str, Znode] = {"/": Znode(b"", 0, 0, 0)}
        self.zxid = 0x100000000
        self._ephemerals: dict[int, dict[str, None]] = {}
        self._now_ms = now_ms
        self._undo: list[Callable[[], object]] = []

    def copy(self) -> ZnodeTree:
        """A copy of the tree."""
        tree = ZnodeTree(self._now_ms)
        tree.nodes = {path: replace(node, children=dict(node.children)) for path, node in self.nodes.items()}
        tree.zxid = self.zxid
        tree._ephemerals = {session: dict(paths) for session, paths in self._ephemerals.items()}
        return tree

    def node(self, path: str) -> Znode:
        """The znode at ``path``. Raises :class:`NoNodeError`."""
        try:
            return self.nodes[path]
        except KeyError:
            raise NoNodeError(path) from None

    def find(self, path: str) -> Znode | None:
        """The znode at ``path``, ``None`` if there is none (for ``exists``). Raises :class:`ZkError` for a bad path."""
        if "\0" in path:
            raise _bad_arguments(path)
        return self.nodes.get(path)

    def ephemerals(self, session: int) -> list[str]:
        """Paths of the ephemerals of ``session``, in the order of creation."""
        return list(self._ephemerals.get(session, ()))

    def propose(
        self, ops: Sequence[Op], session: int, kind: TransactionKind = TransactionKind.WRITE, timeout_ms: int = 0
    ) -> NodeTransaction:
        """Execute all of ``ops``, or none; then ``error`` of the transaction is a :class:`MultiError`."""
        self.zxid += 1
        now_ms = self._now_ms()
        self._undo.clear()
        changes: list[NodeChange] = []
        for index, op in enumerate(ops):
            try:
                changes.append(self._carry_out(op, session, now_ms))
            except ZkError as error:
                for undo in reversed(self._undo):
                    undo()
                return NodeTransaction(self.zxid, now_ms, session, kind, (), MultiError(index, error), timeout_ms)
        return NodeTransaction(self.zxid, now_ms, session, kind, tuple(changes), None, timeout_ms)

    def refuse(self, session: int, error: ZkError) -> NodeTransaction:
        """A transaction that changes nothing because of ``error``."""
        self.zxid += 1
        return NodeTransaction(self.zxid, self._now_ms(), session, TransactionKind.WRITE, (), error)

    def apply(self, transaction: NodeTransaction) -> None:
        """Apply a transaction that another tree has decided."""
        self.zxid = transaction.zxid
        self._undo.clear()
        for change in transaction.changes:
            self._carry_out(change.op, transaction.session, transaction.time_ms)

    def multi(
        self, ops: Sequence[Op], session: int
    ) -> tuple[list[ZnodeStat | str | None], list[ZnodeStat], list[WatchEvent]]:
        """Execute all of ``ops`` or none: results, stats of the written znodes, events. Raises :class:`MultiError`."""
        transaction = self.propose(ops, session)
        if transaction.error is not None:
            raise transaction.error
        return transaction.results(), [change.stat for change in transaction.changes], transaction.events()

    def close_session(self, session: int) -> NodeTransaction:
        """Remove the ephemeral znodes of ``session``."""
        deletes = [Delete(path) for path in self.ephemerals(session)]
        return self.propose(deletes, session, TransactionKind.CLOSE_SESSION)

    def _carry_out(self, op: Op, session: int, now_ms: int) -> NodeChange:
        if isinstance(op, Create):
            return self._create(op, session, now_ms)
        if isinstance(op, Delete):
            return self._delete(op)
        if not is_valid_path(op.path):
            raise _bad_arguments(op.path)
        node = self._versioned(op)
        if isinstance(op, SetData):
            self._set(op, node, now_ms)
        return NodeChange(op, node.stat())

    def _versioned(self, op: SetData | Delete | Check) -> Znode:
        node = self.node(op.path)
        if op.version not in (-1, node.version):
            raise BadVersionError(op.path)
        return node

    def _create(self, op: Create, session: int, now_ms: int) -> NodeChange:
        if "/" not in op.path or "\0" in op.path:
            raise _bad_arguments(op.path)
        parent = self.nodes.get(parent_of(op.path))
        if parent is None:
            raise NoNodeError(op.path)
        path = f"{op.path}{parent.sequence:010d}" if op.sequence else op.path
        if not is_valid_path(path):
            raise _bad_arguments(op.path)
        if path in self.nodes:
            raise NodeExistsError(op.path)
        if parent.owner:
            raise ZkError(op.path, "NoChildrenForEphemeralsError:")
        node = Znode(op.data, self.zxid, self.zxid, now_ms, session if op.ephemeral else 0, now_ms)
        name = path.rpartition("/")[2]
        before = parent.sequence, parent.children_version

        def undo() -> None:
            self._forget(path)
            parent.children.pop(name)
            parent.sequence, parent.children_version = before

        self._undo.append(undo)
        self._keep(path, node)
        parent.children[name] = None
        parent.sequence += 1
        parent.children_version += 1
        return NodeChange(Create(path, op.data, op.ephemeral), node.stat())

    def _set(self, op: SetData, node: Znode, now_ms: int) -> None:
        before = node.data, node.version, node.mzxid, node.mtime_ms

        def undo() -> None:
            node.data, node.version, node.mzxid, node.mtime_ms = before

        self._undo.append(undo)
        node.data, node.version, node.mzxid, node.mtime_ms = op.data, node.version + 1, self.zxid, now_ms

    def _delete(self, op: Delete) -> NodeChange:
        if "/" not in op.path or "\0" in op.path or op.path == "/":
            raise _bad_arguments(op.path)
        node = self._versioned(op)
        if node.children:
            raise NotEmptyError(op.path)
        parent = self.node(parent_of(op.path))
        name = op.path.rpartition("/")[2]

        def undo() -> None:
            self._keep(op.path, node)
            parent.children[name] = None
            parent.children_version -= 1

        self._undo.append(undo)
        self._forget(op.path)
        parent.children.pop(name)
        parent.children_version += 1
        return NodeChange(op, node.stat())

    def _keep(self, path: str, node: Znode) -> None:
        self.nodes[path] = node
        if node.owner:
            self._ephemerals.setdefault(node.owner, {})[path] = None

    def _forget(self, path: str) -> None:
        node = self.nodes.pop(path)
        if node.owner:
            owned = self._ephemerals[node.owner]
            del owned[path]
            if not owned:
                del self._ephemerals[node.owner]


def _bad_arguments(path: str) -> ZkError:
    return ZkError(path, "BadArgumentsError:")
