"""One server of the ensemble: its copy of the tree, its connections, their watches and their order. Deterministic.

Answers to: ``org.apache.zookeeper.server.{FinalRequestProcessor,NIOServerCnxn,WatchManager}`` and
``quorum.CommitProcessor``: reads are answered from this server's copy of the tree, writes go to the leader, and the
requests of one session are answered in their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeVarTuple, Unpack

from kafkalite.testing.ensemble.wire import (
    JUTE_MAX_BUFFER,
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
    ToServer,
    WriteRequest,
)
from kafkalite.testing.znodes import NodeTransaction, TransactionKind, ZnodeTree
from kafkalite.zk.zk_client import EventType, MultiError, NoNodeError, WatchEvent, ZkError

Ts = TypeVarTuple("Ts")
_DATA = (EventType.CREATED, EventType.CHANGED, EventType.DELETED)
_CHILD = (EventType.CHILD, EventType.DELETED)


class ServerRole(Enum):
    """The role of a server in the ensemble."""

    DOWN = "down"
    LOOKING = "looking"
    """The server knows no leader, and closes every connection."""
    FOLLOWING = "following"
    LEADING = "leading"


class SessionMovedError(ZkError):
    """The session has moved to another server; the request's connection is closed."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A request that a server passes to the leader for one of its connections."""

    server: int
    connection: int
    xid: int
    session: int
    request: WriteRequest | CloseSession | Attach


@dataclass(frozen=True, slots=True)
class TransactionLogEntry:
    """One entry of the log, and the server that answers its request."""

    transaction: NodeTransaction
    submission: Submission | None


class Quorum(Protocol):
    """The methods of the ensemble that a server uses."""

    @property
    def log(self) -> list[TransactionLogEntry]:
        """The committed log."""

    def submit(self, submission: Submission) -> None:
        """Send ``submission`` to the leader."""

    def touch(self, server: int, session: int) -> None:
        """A client of ``server`` sent a request or a ping."""


@dataclass(slots=True, eq=False)
class _Client:
    """A connection in the server's view."""

    connection: EnsembleConnection
    session: int = 0
    pending: deque[Frame] = field(default_factory=deque)
    done: dict[int, Reply] = field(default_factory=dict)


class WatchTable:
    """The one-shot watches of connections, in the order in which they were set."""

    def __init__(self) -> None:
        self._data: dict[str, dict[int, None]] = {}
        self._child: dict[str, dict[int, None]] = {}

    def add(self, kind: ReadKind, path: str, connection: int) -> None:
        """Set a watch of ``connection`` on the data (and existence) or the children of ``path``."""
        table = self._child if kind is ReadKind.GET_CHILDREN else self._data
        table.setdefault(path, {})[connection] = None

    def fire(self, event: WatchEvent) -> list[int]:
        """The connections that watch for ``event``, each once; their watches are removed."""
        found: dict[int, None] = {}
        if event.type in _DATA:
            found.update(self._data.pop(event.path, {}))
        if event.type in _CHILD:
            found.update(self._child.pop(event.path, {}))
        return list(found)

    def drop(self, connection: int) -> None:
        """Remove the watches of a connection."""
        for table in (self._data, self._child):
            for path in [path for path, waiting in table.items() if connection in waiting]:
                del table[path][connection]
                if not table[path]:
                    del table[path]

    def count(self) -> int:
        """Number of set watches."""
        return sum(len(waiting) for table in (self._data, self._child) for waiting in table.values())


class Server:
    """A server. ``applied``: entries of the log that are in its ``tree``; ``epoch``: that of the leader it follows."""

    def __init__(self, number: int, tree: ZnodeTree, quorum: Quorum) -> None:
        self.number = number
        self.tree = tree
        self.applied = 0
        self.role = ServerRole.LOOKING
        self.frozen = False
        self.isolated = False
        self.silent = False
        self.lag = 0.0
        self.epoch = 0
        self.watches = WatchTable()
        self._quorum = quorum
        self._clients: dict[int, _Client] = {}
        self._inbox: deque[Callable[[], None]] = deque()

    @property
    def serving(self) -> bool:
        """Whether it has a leader in its own view (which may be itself)."""
        return self.role in (ServerRole.FOLLOWING, ServerRole.LEADING)

    @property
    def in_touch(self) -> bool:
        """Whether the other servers can reach it."""
        return self.serving and not self.frozen and not self.isolated

    def receive(self, connection: EnsembleConnection, message: ToServer) -> None:
        """Process a client's message."""
        if self.role is ServerRole.DOWN:
            if not self.silent:
                connection.answers.send(Closed())
        elif isinstance(message, Dial):
            # The kernel accepts connections, also for a stopped process.
            connection.answers.send(Accepted())
            self.run(self._accept, connection)
        else:
            self.run(self._take, connection.number, message)

    def run(self, call: Callable[[Unpack[Ts]], None], *args: *Ts) -> None:
        """Call ``call(*args)``, after the thaw if the server is frozen."""
        if self.frozen:
            self._inbox.append(lambda: call(*args))
        else:
            call(*args)

    def catch_up(self) -> None:
        """End of the freeze: process the messages that arrived meanwhile."""
        while self._inbox:
            self._inbox.popleft()()

    def advance(self, index: int) -> None:
        """Apply the log up to ``index``."""
        log = self._quorum.log
        while self.applied < index:
            entry = log[self.applied]
            self.applied += 1
            self._apply(entry)

    def look(self) -> None:
        """The leader is lost: every connection is closed."""
        if self.role is not ServerRole.DOWN:
            self.role = ServerRole.LOOKING
            self._drop_all(silent=False)

    def die(self, silent: bool) -> None:
        """Kill the process; ``silent``: the machine, too, so that its clients do not notice."""
        self.role = ServerRole.DOWN
        self.silent = silent
        self.frozen = False
        self._inbox.clear()
        self._drop_all(silent)

    def end_connections(self, session: int) -> None:
        """Close every connection of ``session``."""
        for client in [found for found in self._clients.values() if found.session == session]:
            self._close(client)

    def attached(self, connection: int, session: int, timeout_ms: int) -> None:
        """The leader's answer about a session that a client wants to resume."""
        client = self._clients.get(connection)
        if client is not None:
            client.connection.answers.send(Attached(session if timeout_ms else 0, timeout_ms))
            if not timeout_ms:
                self._close(client)

    def _accept(self, connection: EnsembleConnection) -> None:
        self._clients[connection.number] = _Client(connection)

    def _take(self, number: int, message: ToServer) -> None:
        client = self._clients.get(number)
        if client is None:
            return
        if isinstance(message, Closed):
            self._forget(client)
        elif isinstance(message, Attach):
            self._attach(client, message)
        elif isinstance(message, Frame) and client.session:
            self._request(client, message)

    def _attach(self, client: _Client, attach: Attach) -> None:
        if not self.serving or attach.last_zxid > self.tree.zxid:
            # Close, because a client must not use a server that is behind the client's last zxid.
            self._close(client)
            return
        if attach.session:
            self.end_connections(attach.session)
            client.session = attach.session
        self._quorum.submit(Submission(self.number, client.connection.number, 0, attach.session, attach))

    def _request(self, client: _Client, frame: Frame) -> None:
        if frame.size > JUTE_MAX_BUFFER:
            self._close(client)
            return
        self._quorum.touch(self.number, client.session)
        client.pending.append(frame)
        if isinstance(frame.request, WriteRequest | CloseSession):
            number = client.connection.number
            self._quorum.submit(Submission(self.number, number, frame.xid, client.session, frame.request))
        self._drain(client)

    def _drain(self, client: _Client) -> None:
        while client.pending:
            frame = client.pending[0]
            if isinstance(frame.request, ReadRequest):
                reply = self._read(client, frame.xid, frame.request)
            elif isinstance(frame.request, Ping):
                reply = Reply(frame.xid, self.tree.zxid)
            elif frame.xid in client.done:
                reply = client.done.pop(frame.xid)
            else:
                return
            client.pending.popleft()
            client.connection.answers.send(reply)

    def _read(self, client: _Client, xid: int, read: ReadRequest) -> Reply:
        exists = read.kind is ReadKind.EXISTS
        try:
            node = self.tree.find(read.path) if exists else self.tree.nodes.get(read.path)
        except ZkError as error:
            return Reply(xid, self.tree.zxid, error=error)
        if read.watch and (node is not None or exists):
            self.watches.add(read.kind, read.path, client.connection.number)
        if node is None:
            return Reply(xid, self.tree.zxid, error=NoNodeError(read.path))
        if read.kind is ReadKind.GET:
            return Reply(xid, self.tree.zxid, (node.data, node.stat()))
        return Reply(xid, self.tree.zxid, node.stat() if exists else sorted(node.children))

    def _apply(self, entry: TransactionLogEntry) -> None:
        transaction, submission = entry.transaction, entry.submission
        self.tree.apply(transaction)
        for event in transaction.events():
            for number in self.watches.fire(event):
                self._clients[number].connection.answers.send(event)
        if submission is not None and submission.server == self.number:
            client = self._clients.get(submission.connection)
            if client is not None:
                self._answer(client, submission, transaction)
        if transaction.kind is TransactionKind.CLOSE_SESSION:
            self.end_connections(transaction.session)

    def _answer(self, client: _Client, submission: Submission, transaction: NodeTransaction) -> None:
        error = transaction.error
        if isinstance(submission.request, Attach):
            client.session = transaction.session
            self.attached(submission.connection, transaction.session, transaction.timeout_ms)
        elif isinstance(error, SessionMovedError):
            self._close(client)
        else:
            if (
                isinstance(submission.request, WriteRequest)
                and not submission.request.multi
                and isinstance(error, MultiError)
            ):
                error = error.cause
            client.done[submission.xid] = Reply(submission.xid, transaction.zxid, transaction, error)
            self._drain(client)

    def _close(self, client: _Client) -> None:
        client.connection.answers.send(Closed())
        self._forget(client)

    def _forget(self, client: _Client) -> None:
        self._clients.pop(client.connection.number, None)
        self.watches.drop(client.connection.number)

    def _drop_all(self, silent: bool) -> None:
        clients, self._clients = self._clients, {}
        self.watches = WatchTable()
        if not silent:
            for client in clients.values():
                client.connection.answers.send(Closed())
