"""The messages between a client and a server of the ensemble, with their order and delays. Deterministic.

Answers to: ``org.apache.zookeeper.proto`` and the sockets below it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from kafkalite.common.clock import Clock
from kafkalite.zk.zk_client import Check, Create, Delete, Op, SetData, WatchEvent, ZkError

T = TypeVar("T")
JUTE_MAX_BUFFER = 0xFFFFF
"""Bytes of the largest request that a server reads; a larger one ends the connection."""
_HEADER = 8
_OPERATION_HEADER = 9
_ACL = 27
"""Bytes of the open ACL in every create."""


class ReadKind(Enum):
    """The kind of a read."""

    GET = "get"
    EXISTS = "exists"
    GET_CHILDREN = "get_children"


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A read, answered by the client's server from its own tree."""

    kind: ReadKind
    path: str
    watch: bool


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One operation, or (``multi``) several as a transaction, executed by the leader."""

    ops: tuple[Op, ...]
    multi: bool


@dataclass(frozen=True, slots=True)
class Ping:
    """A heartbeat of the client."""


@dataclass(frozen=True, slots=True)
class CloseSession:
    """The client ends its session."""


Request = ReadRequest | WriteRequest | Ping | CloseSession


@dataclass(frozen=True, slots=True)
class Frame:
    """A request with its number, which the answer repeats; ``size`` in bytes."""

    xid: int
    request: Request
    size: int


@dataclass(frozen=True, slots=True)
class Dial:
    """The client opens a connection (its SYN)."""


@dataclass(frozen=True, slots=True)
class Attach:
    """The first request on a connection: resume ``session``, or begin one if it is 0."""

    session: int
    last_zxid: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The sender closed the connection (its FIN or RST)."""


ToServer = Dial | Attach | Frame | Closed


@dataclass(frozen=True, slots=True)
class Accepted:
    """The server's machine accepts the connection (its SYN-ACK)."""


@dataclass(frozen=True, slots=True)
class Attached:
    """The session is attached; ``timeout_ms`` 0: the session has expired."""

    session: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to request ``xid``: ``value`` or ``error``. ``zxid``: the last entry that the server applied."""

    xid: int
    zxid: int
    value: object = None
    error: ZkError | None = None


ToClient = Accepted | Attached | Reply | WatchEvent | Closed


class Leg(Generic[T]):
    """One direction: messages arrive in the order in which they were sent, each after its own delay.

    ``clock`` is the receiver's: messages that arrive while it is paused wait. While the leg is held, messages wait in
    the network, as those of TCP do, and arrive after :meth:`release`.
    """

    def __init__(self, clock: Clock, delay: Callable[[], float], deliver: Callable[[T], None]) -> None:
        self._clock = clock
        self._delay = delay
        self._deliver = deliver
        self._messages: deque[T] = deque()
        self._due = 0.0
        self.held = False
        self._stuck = 0

    def send(self, message: T) -> None:
        """Send ``message``."""
        self._messages.append(message)
        self._schedule()

    def cut_short(self, message: T) -> None:
        """Lose all messages in flight, and send ``message``."""
        self._messages.clear()
        self._stuck = 0
        self.send(message)

    def hold(self) -> None:
        """Nothing arrives until :meth:`release`."""
        self.held = True

    def release(self) -> None:
        """Held messages arrive, in order, after newly drawn delays."""
        self.held = False
        stuck, self._stuck = self._stuck, 0
        for _ in range(stuck):
            self._schedule()

    def _schedule(self) -> None:
        now = self._clock.monotonic()
        self._due = max(self._due, now + self._delay())
        self._clock.call_later(self._due - now, self._arrive)

    def _arrive(self) -> None:
        # In the order of the queue, not of the timers, because a clock may make the calls of one moment in any order.
        if self.held:
            self._stuck += 1
        elif self._messages:
            self._deliver(self._messages.popleft())


class EnsembleConnection:
    """One connection: a request leg, an answer leg, and whether the client still reads."""

    def __init__(
        self,
        number: int,
        server_clock: Clock,
        client_clock: Clock,
        delay: Callable[[], float],
        serve: Callable[[EnsembleConnection, ToServer], None],
        receive: Callable[[EnsembleConnection, ToClient], None],
    ) -> None:
        self.number = number
        self.requests: Leg[ToServer] = Leg(server_clock, delay, lambda message: serve(self, message))
        self.answers: Leg[ToClient] = Leg(client_clock, delay, lambda message: receive(self, message))


def frame_size(request: Request) -> int:
    """Bytes of ``request`` on the wire, as ``jute.maxbuffer`` counts them."""
    if isinstance(request, ReadRequest):
        return _HEADER + _string(request.path) + 1
    if not isinstance(request, WriteRequest):
        return _HEADER
    if not request.multi:
        return _HEADER + _operation_size(request.ops[0])
    return _HEADER + sum(_OPERATION_HEADER + _operation_size(op) for op in request.ops) + _OPERATION_HEADER


def _operation_size(op: Op) -> int:
    match op:
        case Create():
            return _string(op.path) + 4 + len(op.data) + _ACL + 4
        case SetData():
            return _string(op.path) + 4 + len(op.data) + 4
        case Delete() | Check():
            return _string(op.path) + 4


def _string(text: str) -> int:
    return 4 + len(text.encode("utf-8", "surrogatepass"))
