"""The interface of the ZooKeeper client, with its values and errors.

Answers to: ``kafka.zookeeper.ZooKeeperClient`` and ``org.apache.zookeeper.{Op,Stat,WatchedEvent,KeeperException}``.
Implemented by ``zk/kazoo_client.py`` on kazoo and by ``testing/zookeeper.py`` in memory. Pure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

MAX_PACKET = 1_000_000
"""Bytes of one request that clients send; ZooKeeper drops the connection, and all outstanding requests, past 1,048,575.
"""


class ZkError(Exception):
    """Any failure of a ZooKeeper operation; ``path`` names the znode."""

    def __init__(self, path: str = "", message: str = "") -> None:
        super().__init__(" ".join(part for part in (message or type(self).__name__, path) if part))
        self.path = path


class NoNodeError(ZkError):
    """The znode does not exist."""


class NodeExistsError(ZkError):
    """The znode exists already."""


class BadVersionError(ZkError):
    """The znode's version is not the expected one: another client wrote it."""


class NotEmptyError(ZkError):
    """The znode still has children."""


class NotAuthorizedError(ZkError):
    """The ACL of the znode (for a creation or a deletion: of its parent) does not let this client."""


class NoIdentityError(ZkError):
    """An ACL names the client itself, and ZooKeeper knows no identity of it."""


class ConnectionLostError(ZkError):
    """The connection was lost while the request was outstanding: its outcome is unknown, so re-read."""


class SessionExpiredError(ZkError):
    """The session that the request was meant for is over; it was not and will not be applied."""


class MultiError(ZkError):
    """A transaction was refused as a whole. ``index`` is the operation at fault, ``cause`` what was wrong with it."""

    def __init__(self, index: int, cause: ZkError) -> None:
        super().__init__(cause.path, f"operation {index} of a multi: {type(cause).__name__}")
        self.index = index
        self.cause = cause


@dataclass(frozen=True, slots=True)
class ZnodeStat:
    """The part of a znode's ``Stat`` that kafkalite uses."""

    czxid: int
    mzxid: int
    version: int
    ephemeral_owner: int = 0
    children_version: int = 0
    ctime_ms: int = 0
    mtime_ms: int = 0


class EventType(Enum):
    """What a one-shot watch saw."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILD = "child"
    LOST = "lost"
    """The connection was lost and the watch with it: the znode must be read again."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A one-shot watch fired."""

    type: EventType
    path: str


class SessionState(Enum):
    """What the client knows of its session."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """The connection is lost; the session may be alive. Keep serving, change no ISR."""
    EXPIRED = "expired"
    """The session is over, its ephemeral znodes are gone. A new one follows as CONNECTED with another ``session``."""


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes
    version: int = -1


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = -1


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int


Op = Create | SetData | Delete | Check
Watch = Callable[[WatchEvent], None]


class ZkClient(Protocol):
    """Asynchronous operations on one session after another.

    Every method returns something that can be awaited and fails with a :class:`ZkError`. Watches are
    one-shot and called on the reactor, before the completion of any operation that ZooKeeper answered later.
    ``session`` on a write binds it to that session: once another one has begun it fails with
    :class:`SessionExpiredError` and is never sent.
    """

    @property
    def session(self) -> int:
        """Id of the current session, 0 before the first."""

    def add_listener(self, listener: Callable[[SessionState], None]) -> None:
        """Call ``listener`` on the reactor at every change of the session's state."""

    def get(self, path: str, watch: Watch | None = None) -> Awaitable[tuple[bytes, ZnodeStat]]:
        """Data and stat. Raises :class:`NoNodeError` (and then sets no watch)."""

    def exists(self, path: str, watch: Watch | None = None) -> Awaitable[ZnodeStat | None]:
        """The stat, or ``None``; the watch also sees a later creation."""

    def get_children(self, path: str, watch: Watch | None = None) -> Awaitable[list[str]]:
        """Names of the children. Raises :class:`NoNodeError`."""

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        session: int | None = None,
    ) -> Awaitable[tuple[str, ZnodeStat]]:
        """Create; returns the real path and the stat (its czxid above all).

        Raises :class:`NodeExistsError`, or :class:`NoNodeError` where the parent does not exist.
        """

    def set(self, path: str, data: bytes, version: int = -1, *, session: int | None = None) -> Awaitable[ZnodeStat]:
        """Write. Raises :class:`NoNodeError`, :class:`BadVersionError`."""

    def delete(self, path: str, version: int = -1, *, session: int | None = None) -> Awaitable[None]:
        """Delete. Raises :class:`NoNodeError`, :class:`BadVersionError`, :class:`NotEmptyError`."""

    def multi(self, ops: Sequence[Op], *, session: int | None = None) -> Awaitable[list[ZnodeStat | str | None]]:
        """All or nothing. Results in order: path of a Create, stat of a SetData, ``None`` otherwise.

        Raises :class:`MultiError`.
        """
