"""The edges of a broker as one value: sockets, files, clocks, chance, ZooKeeper, child processes.

Answers to: nothing in Kafka, where ``kafka.server.KafkaServer`` makes these itself. Reactor shell: :meth:`Edges.real`
makes those of the operating system; a simulation hands in its own.
"""

from __future__ import annotations

import random
import select
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from kafkalite.broker.cleaner import CleanerProcesses, ProcessSpawner
from kafkalite.broker.config import BrokerConfig
from kafkalite.broker.guardian import Guardian
from kafkalite.broker.guardian_process import close_session
from kafkalite.broker.watchdog import Watchdog
from kafkalite.common.clock import Clock
from kafkalite.common.recent_times import RecentTimes
from kafkalite.common.tasks import Executor
from kafkalite.log.cleaner.job import CleanerPool
from kafkalite.log.file_system import FileSystem
from kafkalite.network.bounded_poller import BoundedPoller
from kafkalite.network.reactor import Reactor, ReactorClock, ReactorNames, ReactorSockets, ThreadExecutor
from kafkalite.network.sockets import OsSockets, Sockets
from kafkalite.security.zookeeper_security import zookeeper_security
from kafkalite.zk.kazoo_client import KazooZkClient
from kafkalite.zk.zk_client import ZkClient
from kafkalite.zk.znode_acls import ZnodeAcls

_LOGIN_THREADS: Final = 2
"""One for handshakes, one for passwords."""


class ZkSession(ZkClient, Protocol):
    """A :class:`kafkalite.zk.zk_client.ZkClient` with a beginning and an end."""

    @property
    def password(self) -> bytes:
        """Password of the current session, with which another process may take it over."""

    @property
    def session_timeout_ms(self) -> int:
        """Session timeout in ms, as ZooKeeper has granted it."""

    def start(self) -> Awaitable[None]:
        """Connect. Raises :class:`kafkalite.common.errors.StartupError` where ZooKeeper cannot be reached."""

    def close(self) -> Awaitable[None]:
        """End the session in order: its ephemeral znodes go at once. Listeners are not called."""


class WorkPool(Executor, Protocol):
    """An executor of bounded size that can be ended."""

    def resize(self, size: int) -> None:
        """Run at most ``size`` pieces of work at a time from now on."""

    def close(self) -> None:
        """Wait for the running work; accept no more."""


class SessionGuardian(Protocol):
    """Ends the broker's ZooKeeper session when the broker's process dies."""

    def watch(self, session: int, password: bytes, timeout_ms: int) -> None:
        """Guard this session from now on, instead of any other."""

    def release(self) -> None:
        """The session is closed, or about to be: guard nothing."""

    @property
    def is_running(self) -> bool:
        """Whether the session is guarded now."""


class SessionWatchdog(Protocol):
    """Ends the broker's ZooKeeper session while the broker's reactor hangs."""

    def watch(self, session: int, password: bytes, timeout_ms: int) -> None:
        """From now on, give this session up if the reactor hangs longer than ``timeout_ms``."""

    @property
    def hangs(self) -> int:
        """How often the reactor hung for so long that the session was given up."""

    def stop(self) -> None:
        """Stop watching."""


class ProcessReactor(Reactor, ReactorNames, ProcessSpawner, Protocol):
    """What a broker that is a process of its own uses of Twisted's reactor."""

    running: bool

    def callWhenRunning(self, call: Callable[[], object], /) -> object: ...  # noqa: N802
    def run(self) -> None: ...
    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Edges:
    """What a broker needs from outside. One value serves one run of one broker.

    ``reactor`` has the methods of Twisted's reactor that the network uses; ``clock`` tells the time of day as well;
    every random choice is drawn from ``rng``, and those that must be unpredictable are from ``secrets``. ``executor``
    does what blocks. ``logins`` computes handshakes and passwords, also for clients that never log in, and
    ``login_reactor`` watches the sockets of clients until they have logged in (``None``: ``reactor`` does). Without
    ``guardian`` a session ends by its timeout. ``boot_id`` names the present boot of the machine, and is empty where it
    is unknown. ``znode_acls`` only where the broker protects the ZooKeeper tree (``zookeeper.set.acl``).
    """

    reactor: Reactor
    clock: Clock
    sockets: Sockets
    zk: ZkSession
    fs: FileSystem
    executor: WorkPool
    logins: WorkPool
    guardian: SessionGuardian | None
    watchdog: SessionWatchdog
    cleaners: CleanerPool
    rng: random.Random
    secrets: random.Random
    boot_id: str
    znode_acls: ZnodeAcls | None = None
    login_reactor: ReactorSockets | None = None
    zk_latency: RecentTimes = field(default_factory=RecentTimes)
    """How long ZooKeeper took to answer."""

    @classmethod
    def real(cls, reactor: ProcessReactor, config: BrokerConfig) -> Edges:
        """Edges of the operating system: sockets, files, threads and child processes, with Twisted's ``reactor``.

        Raises :class:`kafkalite.common.errors.ConfigError` where the security of ZooKeeper cannot be had.
        """
        values = config.values
        clock = ReactorClock(reactor)
        hosts = values["zookeeper.connect"]
        security = zookeeper_security(values, lambda path: Path(path).read_bytes())
        zk = KazooZkClient(
            reactor.callFromThread,
            hosts,
            values["zookeeper.session.timeout.ms"],
            config.zookeeper_connection_timeout_ms,
            security,
            values["zookeeper.set.acl"],
            create_chroot=True,
        )
        return cls(
            reactor=reactor,
            clock=clock,
            sockets=OsSockets(reactor),
            zk=zk,
            fs=FileSystem(),
            executor=ThreadExecutor(reactor, values["background.threads"]),
            logins=ThreadExecutor(reactor, _LOGIN_THREADS, "logins", computes=True),
            guardian=Guardian(hosts, clock, security) if values["zookeeper.session.guardian.enable"] else None,
            watchdog=Watchdog(hosts, clock, partial(close_session, security=security)),
            cleaners=CleanerProcesses(reactor),
            rng=random.Random(),
            secrets=random.SystemRandom(),
            boot_id=read_boot_id(),
            login_reactor=BoundedPoller(reactor, select.epoll()) if hasattr(select, "epoll") else None,
            zk_latency=zk.latency,
            znode_acls=zk if values["zookeeper.set.acl"] else None,
        )


def read_boot_id(path: str = "/proc/sys/kernel/random/boot_id") -> str:
    """Linux's id of the present boot; empty if unknown. In a container it is the id of the host's boot."""
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
