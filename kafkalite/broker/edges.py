"""The edges of a broker as one value: sockets, files, clocks, chance, ZooKeeper, child processes.

Answers to: nothing in Kafka, where ``kafka.server.KafkaServer`` makes these itself. Reactor shell: :meth:`Edges.real`
makes those of the operating system; a simulation hands in its own.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kafkalite.broker.cleaner import CleanerProcesses
from kafkalite.broker.config import BrokerConfig
from kafkalite.broker.guardian import Guardian
from kafkalite.broker.watchdog import Watchdog
from kafkalite.common.clock import Clock
from kafkalite.common.tasks import Executor
from kafkalite.log.cleaner.port import CleanerPool
from kafkalite.log.file_system import FileSystem, OsFileSystem
from kafkalite.network.reactor import ReactorClock, ThreadExecutor
from kafkalite.network.sockets import OsSockets, Sockets
from kafkalite.zk.kazoo_client import KazooZkClient
from kafkalite.zk.zk_client import ZkClient


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
        """Wait for the work under way; take no more."""


class SessionGuardian(Protocol):
    """Ends the broker's ZooKeeper session when the broker's process dies."""

    def watch(self, session: int, password: bytes, timeout_ms: int) -> None:
        """Guard this session from now on, instead of any other."""

    def release(self) -> None:
        """The session is closed, or about to be: guard nothing."""


class SessionWatchdog(Protocol):
    """Ends the broker's ZooKeeper session while the broker's reactor hangs."""

    def watch(self, session: int, password: bytes, timeout_ms: int) -> None:
        """From now on, give this session up if the reactor hangs longer than ``timeout_ms``."""

    def stop(self) -> None:
        """Stop watching."""


@dataclass(frozen=True, slots=True)
class Edges:
    """What a broker needs from outside. One value serves one run of one broker.

    ``reactor`` has the methods of Twisted's reactor that the network uses; ``clock`` tells the time of day as well;
    every random choice is drawn from ``rng``. Without ``guardian`` a session ends by its timeout. ``boot_id`` names
    the present boot of the machine, and is empty where it is unknown.
    """

    reactor: Any
    clock: Clock
    sockets: Sockets
    zk: ZkSession
    fs: FileSystem
    executor: WorkPool
    guardian: SessionGuardian | None
    watchdog: SessionWatchdog
    cleaners: CleanerPool
    rng: random.Random
    boot_id: str

    @classmethod
    def real(cls, reactor: Any, config: BrokerConfig) -> Edges:
        """Edges of the operating system: sockets, files, threads and child processes, with Twisted's ``reactor``."""
        values = config.values
        clock = ReactorClock(reactor)
        hosts = values["zookeeper.connect"]
        return cls(
            reactor=reactor,
            clock=clock,
            sockets=OsSockets(reactor),
            zk=KazooZkClient(
                reactor.callFromThread,
                hosts,
                values["zookeeper.session.timeout.ms"],
                config.zookeeper_connection_timeout_ms,
                values["zookeeper.auth.digest"],
                values["zookeeper.set.acl"],
            ),
            fs=OsFileSystem(),
            executor=ThreadExecutor(reactor, values["background.threads"]),
            guardian=Guardian(hosts, clock) if values["zookeeper.session.guardian.enable"] else None,
            watchdog=Watchdog(hosts, clock),
            cleaners=CleanerProcesses(reactor),
            rng=random.Random(),
            boot_id=read_boot_id(),
        )


def read_boot_id(path: str = "/proc/sys/kernel/random/boot_id") -> str:
    """Linux's id of the present boot; empty if unknown. In a container it is the id of the host's boot."""
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
