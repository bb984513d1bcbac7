"""The ensemble: its leader, its log, its sessions, and all its faults. Deterministic.

Answers to: ``org.apache.zookeeper.server.quorum.{Leader,QuorumPeer}`` and ``server.SessionTrackerImpl``.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from kafkalite.common.clock import Clock
from kafkalite.testing.ensemble.client import EnsembleClient
from kafkalite.testing.ensemble.server import Server, ServerRole, SessionMovedError, Submission, TransactionLogEntry
from kafkalite.testing.ensemble.wire import Attach, Closed, CloseSession, EnsembleConnection, Leg, WriteRequest
from kafkalite.testing.znodes import NodeTransaction, TransactionKind, ZnodeTree
from kafkalite.zk.zk_client import Delete, SessionExpiredError

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations in seconds, as ranges from which each one is drawn at random.

    ``wire``: one way between a client and a server, and between a follower and the leader. ``quorum``: from a proposal
    to its commit. ``election``: from the loss of a leader to the next. ``tick``: ``tickTime``; sessions last between 2
    and 20 ticks and are checked once a tick. ``sync_limit``: after how many ticks without contact servers part.
    """

    wire: Range = (0.0001, 0.002)
    quorum: Range = (0.0005, 0.004)
    election: Range = (0.2, 2.0)
    tick: float = 2.0
    sync_limit: int = 5


@dataclass(slots=True)
class Session:
    """A session in the leader's view. ``owner``: the server that its client is connected to."""

    timeout_ms: int
    expires: float
    owner: int | None
    closing: bool = False


@dataclass(slots=True, eq=False)
class _Proposal:
    """An entry that no majority has written yet. ``reached``: whether it was sent to followers."""

    entry: TransactionLogEntry
    reached: bool


class _Wires:
    """The connections of one client, and their faults."""

    def __init__(self) -> None:
        self.extra = 0.0
        self.held_requests: set[int] = set()
        self.held_answers: set[int] = set()
        self.connections: list[tuple[int, EnsembleConnection]] = []

    def add(self, server: int, connection: EnsembleConnection) -> None:
        if not self.held_requests and not self.held_answers:
            self.connections.clear()
        self.connections.append((server, connection))
        self.settle()

    def settle(self) -> None:
        for server, connection in self.connections:
            for leg, held in (
                (connection.requests, server in self.held_requests),
                (connection.answers, server in self.held_answers),
            ):
                if held:
                    leg.hold()
                elif leg.held:
                    leg.release()


class Ensemble:
    """Several servers on ``clock`` (the world's). ``tree`` and ``log`` are the committed state; read only."""

    def __init__(self, clock: Clock, rng: random.Random, servers: int = 3, timing: Timing | None = None) -> None:
        self.clock = clock
        self.timing = timing or Timing()
        self.tree = ZnodeTree(clock.time_ms)
        self.log: list[TransactionLogEntry] = []
        self.sessions: dict[int, Session] = {}
        self.servers = [Server(number, ZnodeTree(clock.time_ms), self) for number in range(servers)]
        self.leader: Server | None = None
        self.clients: list[EnsembleClient] = []
        self._rng = rng
        self._head = ZnodeTree(clock.time_ms)
        self._proposals: deque[_Proposal] = deque()
        self._stalled = 0
        self._commit_due = 0.0
        self._epoch = 1
        self._electing = False
        self._to_expire: dict[int, None] = {}
        self._callbacks: list[Callable[[NodeTransaction], None]] = []
        self._wires: dict[EnsembleClient, _Wires] = {}
        self._touched: list[dict[int, None]] = [{} for _ in self.servers]
        self._out_of_touch: list[float | None] = [None for _ in self.servers]
        self._to_leader = [self._leg_to_leader() for _ in self.servers]
        self._next_session = 0
        self._next_connection = 0
        self._elected(self.servers[0])
        for server in self.servers[1:]:
            self._join(server)
        clock.call_later(self.timing.tick / 2, self._half_tick)

    # calls of a cluster

    def client(
        self,
        clock: Clock | None = None,
        name: str = "",
        session_timeout_ms: int = 18_000,
        connection_timeout_ms: int = 18_000,
        io_clock: Clock | None = None,
    ) -> EnsembleClient:
        """A client on the clock of its node, not started yet; ``name`` is for traces."""
        node_clock = self.clock if clock is None else clock
        rng = random.Random(self._rng.getrandbits(64))
        count = len(self.servers)
        client = EnsembleClient(self, count, node_clock, rng, name, session_timeout_ms, connection_timeout_ms, io_clock)
        self.clients.append(client)
        self._wires[client] = _Wires()
        return client

    def on_commit(self, callback: Callable[[NodeTransaction], None]) -> None:
        """Call ``callback`` with every transaction that changed something (also a session's start or end).

        It is called at the moment of the commit, in the order of the zxids; ``tree`` has the state just after it.
        Its exceptions are not caught.
        """
        self._callbacks.append(callback)

    def data(self, path: str) -> bytes:
        """The committed data and stat of ``path``. Raises ``NoNodeError``."""
        return self.tree.node(path).data

    def paths(self, under: str = "/") -> list[str]:
        """All committed paths that begin with ``under``, sorted."""
        return sorted(path for path in self.tree.nodes if path.startswith(under))

    # faults: one client

    def cut(
        self,
        client: EnsembleClient,
        *,
        requests: bool = True,
        answers: bool = True,
        servers: Collection[int] | None = None,
    ) -> None:
        """Cut ``client`` off from ``servers`` (default: all): its requests, its answers, or both.

        ``requests=False`` swallows answers: requests take effect, and the client does not know. Messages in flight are
        held, and arrive after :meth:`heal` if their connection still exists.
        """
        wires = self._wires[client]
        numbers = range(len(self.servers)) if servers is None else servers
        if requests:
            wires.held_requests.update(numbers)
        if answers:
            wires.held_answers.update(numbers)
        wires.settle()

    def heal(self, client: EnsembleClient, servers: Collection[int] | None = None) -> None:
        """Undo :meth:`cut`, for ``servers`` or all: held messages arrive."""
        wires = self._wires[client]
        numbers = range(len(self.servers)) if servers is None else servers
        wires.held_requests.difference_update(numbers)
        wires.held_answers.difference_update(numbers)
        wires.settle()

    def delay(self, client: EnsembleClient, seconds: float) -> None:
        """Delay each message from and to ``client`` by ``seconds`` more than usual, from now on."""
        self._wires[client].extra = seconds

    def drop_connection(self, client: EnsembleClient) -> None:
        """Reset the client's connection: both ends notice. Requests in flight arrive or not, at random."""
        for _, connection in self._wires[client].connections[-1:]:
            connection.answers.cut_short(Closed())
            if self._rng.random() < 0.5:
                connection.requests.cut_short(Closed())
            else:
                connection.requests.send(Closed())

    def expire(self, session: int) -> None:
        """End a session now, or as soon as there is a leader, as a guardian does with the session of a dead broker.

        A guardian takes the session over before it closes it, so the session's own connection ends first.
        """
        for server in self.servers:
            server.run(server.end_connections, session)
        self._to_expire[session] = None
        if self._able_to_lead():
            self._close_session(session)

    def remove(self, path: str) -> None:
        """Delete a znode without children by hand, as ``zookeeper-shell.sh delete`` does; not without a leader."""
        if self._able_to_lead() and path in self._head.nodes:
            self._propose(self._head.propose((Delete(path),), 0), None)

    # faults: servers

    def kill(self, number: int, *, silent: bool = False) -> None:
        """End server ``number``; ``silent``: with its machine, so that its clients do not notice."""
        server = self.servers[number]
        was_leader = server is self.leader
        server.die(silent)
        if was_leader:
            self._lose_leader()

    def restart(self, number: int) -> None:
        """Start server ``number`` again, with its disk's content."""
        server = self.servers[number]
        if server.role is ServerRole.DOWN:
            server.role = ServerRole.LOOKING
            server.isolated = False
            self._to_leader[number] = self._leg_to_leader()
            self._seek(server)

    def lag(self, number: int, seconds: float) -> None:
        """Server ``number`` applies each commit ``seconds`` later; ``math.inf``: none, until the next call."""
        server = self.servers[number]
        server.lag = seconds
        self._teach(server)

    def depose(self) -> None:
        """The leader steps down: all connections close, messages in flight are kept or lost, an election follows."""
        if self.leader is not None:
            self._lose_leader()

    def isolate(self, number: int) -> None:
        """Cut server ``number`` off from the other servers; its clients reach it, and read old data for a while."""
        self.servers[number].isolated = True
        self._to_leader[number].hold()

    def rejoin(self, number: int) -> None:
        """Undo :meth:`isolate`."""
        server = self.servers[number]
        server.isolated = False
        self._to_leader[number].release()
        self._reached(server)

    def freeze(self, numbers: Collection[int] | None = None) -> None:
        """Stop the processes of ``numbers``, or of all servers (SIGSTOP)."""
        for number in range(len(self.servers)) if numbers is None else numbers:
            if self.servers[number].role is not ServerRole.DOWN:
                self.servers[number].frozen = True

    def thaw(self, numbers: Collection[int] | None = None) -> None:
        """Undo :meth:`freeze`. It is random whether sessions expire before the servers read what arrived meanwhile."""
        chosen = [self.servers[number] for number in (range(len(self.servers)) if numbers is None else numbers)]
        servers = [server for server in chosen if server.frozen]
        for server in servers:
            server.frozen = False
        if self.leader in servers and self._rng.random() < 0.5:
            self._expire_due()
        for server in servers:
            server.catch_up()
            self._reached(server)

    # calls of clients and servers

    def dial(self, client: EnsembleClient, server: int) -> EnsembleConnection:
        """See :class:`kafkalite.testing.ensemble.client.Dialler`."""
        wires = self._wires[client]
        self._next_connection += 1
        connection = EnsembleConnection(
            self._next_connection,
            self.clock,
            client.io_clock,
            lambda: client.rng.uniform(*self.timing.wire) + wires.extra,
            self.servers[server].receive,
            client.receive,
        )
        wires.add(server, connection)
        return connection

    def submit(self, submission: Submission) -> None:
        """See :class:`kafkalite.testing.ensemble.server.Quorum`."""
        server = self.servers[submission.server]
        if server is self.leader:
            self._decide(submission)
        elif server.epoch == self._epoch:
            # A server that does not know of the new leader yet still sends to the old one.
            self._to_leader[submission.server].send(submission)

    def touch(self, server: int, session: int) -> None:
        """See :class:`kafkalite.testing.ensemble.server.Quorum`."""
        if self.servers[server] is self.leader:
            self._touch(session)
        else:
            self._touched[server][session] = None

    # the leader

    def _decide(self, submission: Submission) -> None:
        request = submission.request
        if isinstance(request, Attach) and submission.session:
            self._validate(submission)
        elif isinstance(request, Attach):
            self._open_session(submission, request)
        else:
            self._decide_write(submission, request)

    def _validate(self, submission: Submission) -> None:
        session = self.sessions.get(submission.session)
        timeout_ms = 0
        if session is not None and not session.closing:
            session.owner = submission.server
            timeout_ms = session.timeout_ms
            self._touch(submission.session)
        server = self.servers[submission.server]
        args = (submission.connection, submission.session, timeout_ms)
        if server is self.leader:
            server.attached(*args)
        else:
            self.clock.call_later(self._rng.uniform(*self.timing.wire), server.run, server.attached, *args)

    def _open_session(self, submission: Submission, attach: Attach) -> None:
        tick_ms = round(self.timing.tick * 1000)
        timeout_ms = min(max(attach.timeout_ms, 2 * tick_ms), 20 * tick_ms)
        self._next_session += 1
        number = ((submission.server + 1) << 56) + self._next_session
        self.sessions[number] = Session(timeout_ms, self._expiry(timeout_ms), submission.server)
        self._propose(self._head.propose((), number, TransactionKind.OPEN_SESSION, timeout_ms), submission)

    def _decide_write(self, submission: Submission, request: WriteRequest | CloseSession) -> None:
        session = self.sessions.get(submission.session)
        if session is None or session.closing:
            self._propose(self._head.refuse(submission.session, SessionExpiredError()), submission)
        elif session.owner not in (None, submission.server):
            self._propose(self._head.refuse(submission.session, SessionMovedError()), submission)
        elif isinstance(request, CloseSession):
            session.closing = True
            self._propose(self._head.close_session(submission.session), submission)
        else:
            self._propose(self._head.propose(request.ops, submission.session), submission)

    def _close_session(self, number: int) -> None:
        session = self.sessions.get(number)
        if session is not None and not session.closing:
            session.closing = True
            self._propose(self._head.close_session(number), None)

    def _propose(self, transaction: NodeTransaction, submission: Submission | None) -> None:
        self._proposals.append(_Proposal(TransactionLogEntry(transaction, submission), self._able_to_lead()))
        now = self.clock.monotonic()
        self._commit_due = max(self._commit_due, now + self._rng.uniform(*self.timing.quorum))
        self.clock.call_later(self._commit_due - now, self._commit_one, self._epoch)

    def _commit_one(self, epoch: int) -> None:
        if epoch != self._epoch:
            return
        if not self._able_to_lead():
            self._stalled += 1
            return
        self._commit(self._proposals.popleft().entry)
        for server in self.servers:
            self._teach(server)

    def _commit(self, entry: TransactionLogEntry) -> None:
        transaction = entry.transaction
        self.log.append(entry)
        self.tree.apply(transaction)
        if transaction.kind is TransactionKind.CLOSE_SESSION:
            self.sessions.pop(transaction.session, None)
            self._to_expire.pop(transaction.session, None)
        if transaction.error is None:
            for callback in self._callbacks:
                callback(transaction)

    def _teach(self, server: Server) -> None:
        """Let ``server`` apply the committed entries, with its lag."""
        if not server.in_touch or server.applied == len(self.log):
            return
        if server is self.leader and not server.lag:
            server.advance(len(self.log))
        elif server.lag < math.inf:
            delay = server.lag + (0.0 if server is self.leader else self._rng.uniform(*self.timing.wire))
            self.clock.call_later(delay, self._arrive_commit, server, len(self.log), self._epoch)

    def _arrive_commit(self, server: Server, index: int, epoch: int) -> None:
        if server.in_touch and epoch == self._epoch:
            server.advance(index)

    def _able_to_lead(self) -> bool:
        """Whether there is a leader that reaches a majority."""
        leader = self.leader
        return leader is not None and leader.in_touch and self._is_majority([s for s in self.servers if s.in_touch])

    def _is_majority(self, servers: Sequence[Server]) -> bool:
        return len(servers) > len(self.servers) // 2

    # sessions

    def _expiry(self, timeout_ms: int) -> float:
        tick = self.timing.tick
        return (math.floor((self.clock.monotonic() + timeout_ms / 1000) / tick) + 1) * tick

    def _touch(self, number: int) -> None:
        session = self.sessions.get(number)
        if session is not None and not session.closing:
            session.expires = self._expiry(session.timeout_ms)

    def _expire_due(self) -> None:
        now = self.clock.monotonic()
        for number in [number for number, session in self.sessions.items() if session.expires <= now]:
            self._close_session(number)

    def _half_tick(self) -> None:
        """Followers report sessions with pings, sessions expire, and servers notice peers that they no longer reach."""
        self.clock.call_later(self.timing.tick / 2, self._half_tick)
        if self._able_to_lead():
            for server, touched in zip(self.servers, self._touched, strict=True):
                if server.in_touch:
                    for session in touched:
                        self._touch(session)
                    touched.clear()
            self._expire_due()
        self._supervise()

    def _supervise(self) -> None:
        """End the contact between servers that have not reached each other for too long."""
        now = self.clock.monotonic()
        limit = self.timing.sync_limit * self.timing.tick
        if self.leader is not None and self.leader.in_touch and not self._able_to_lead():
            self._lose_leader()
        # The leader first, because followers that lost it elect no other one while it still leads them.
        for server in sorted(self.servers, key=lambda server: server is not self.leader):
            since = self._out_of_touch[server.number]
            if not server.serving or (server.in_touch and self._reaches()):
                self._out_of_touch[server.number] = None
            elif since is None:
                self._out_of_touch[server.number] = now
            elif now - since >= limit:
                self._give_up(server)
        for server in self.servers:
            if server.role is ServerRole.LOOKING and not server.isolated and not server.frozen:
                self._seek(server)

    def _reaches(self) -> bool:
        """Whether the leader can be reached."""
        return self.leader is not None and self.leader.in_touch

    def _give_up(self, server: Server) -> None:
        """``server`` and its leader have not reached each other for too long."""
        if server is self.leader:
            others = [s for s in self.servers if s.role is not ServerRole.DOWN and not s.frozen and not s.isolated]
            if self._is_majority(others):
                self._lose_leader()
            elif not server.frozen:
                server.look()
                self._lose_leader()
        elif not server.frozen:
            server.look()
            self._to_leader[server.number] = self._leg_to_leader()
            if server.isolated:
                self._to_leader[server.number].hold()

    # elections

    def _lose_leader(self) -> None:
        """All reachable servers look for a new leader; a leader that is cut off leads alone until it notices."""
        old = self.leader
        self.leader = None
        self._epoch += 1
        sent = [proposal for proposal in self._proposals if proposal.reached]
        self._proposals = deque(sent[: self._rng.randint(0, len(sent))])
        self._stalled = 0
        self._to_leader = [self._leg_to_leader() for _ in self.servers]
        for server in self.servers:
            if not server.isolated:
                server.run(server.look)
                continue
            self._to_leader[server.number].hold()
            if server is old:
                limit = self.timing.sync_limit * self.timing.tick
                late = self._rng.uniform(0, self.timing.tick)
                self._out_of_touch[server.number] = self.clock.monotonic() + late - limit
        self._elect_soon()

    def _seek(self, server: Server) -> None:
        """``server`` looks for a leader."""
        if self.leader is None:
            self._elect_soon()
        elif self._reaches():
            self.clock.call_later(self._rng.uniform(*self.timing.wire), self._join, server)

    def _elect_soon(self) -> None:
        if not self._electing and self._is_majority(self._electable()):
            self._electing = True
            self.clock.call_later(self._rng.uniform(*self.timing.election), self._elect)

    def _electable(self) -> list[Server]:
        return [s for s in self.servers if s.role is ServerRole.LOOKING and not s.frozen and not s.isolated]

    def _elect(self) -> None:
        self._electing = False
        electable = self._electable()
        if self.leader is not None or not self._is_majority(electable):
            return
        self._elected(self._rng.choice(electable))
        for server in electable:
            if server is not self.leader:
                self.clock.call_later(self._rng.uniform(*self.timing.wire), self._join, server)

    def _elected(self, leader: Server) -> None:
        """``leader`` leads, with the entries of the former leader; every session has its whole timeout again."""
        self.leader = leader
        while self._proposals:
            self._commit(self._proposals.popleft().entry)
        leader.advance(len(self.log))
        leader.role = ServerRole.LEADING
        leader.epoch = self._epoch
        self._head = self.tree.copy()
        self._head.zxid = self._epoch << 32
        self._commit_due = 0.0
        self.sessions = {
            number: Session(timeout_ms, self._expiry(timeout_ms), None)
            for number, timeout_ms in self._committed_sessions().items()
        }
        for number in self._to_expire:
            self._close_session(number)

    def _committed_sessions(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for entry in self.log:
            if entry.transaction.kind is TransactionKind.OPEN_SESSION:
                found[entry.transaction.session] = entry.transaction.timeout_ms
            elif entry.transaction.kind is TransactionKind.CLOSE_SESSION:
                found.pop(entry.transaction.session, None)
        return found

    def _join(self, server: Server) -> None:
        """``server`` follows the leader, and has all committed entries before it serves."""
        if server.role is ServerRole.LOOKING and not server.frozen and not server.isolated and self._reaches():
            server.advance(len(self.log))
            server.role = ServerRole.FOLLOWING
            server.epoch = self._epoch
            self._resume()

    def _reached(self, server: Server) -> None:
        """``server`` is reachable again: it catches up, or looks for the leader that the others have now."""
        self._out_of_touch[server.number] = None
        if server.serving and server.epoch != self._epoch:
            server.look()
        if server.role is ServerRole.LOOKING:
            self._seek(server)
        for each in self.servers:
            self._teach(each)
        self._resume()

    def _resume(self) -> None:
        """Continue the proposals that lacked a majority, once there is one again."""
        if self._able_to_lead():
            stalled, self._stalled = self._stalled, 0
            for _ in range(stalled):
                self.clock.call_later(self._rng.uniform(*self.timing.quorum), self._commit_one, self._epoch)

    def _leg_to_leader(self) -> Leg[Submission]:
        epoch = self._epoch

        def decide(submission: Submission) -> None:
            # Checked at the decision, because a leader that was frozen may no longer lead.
            if epoch == self._epoch:
                self._decide(submission)

        def deliver(submission: Submission) -> None:
            if self.leader is not None:
                self.leader.run(decide, submission)

        return Leg(self.clock, lambda: self._rng.uniform(*self.timing.wire), deliver)
