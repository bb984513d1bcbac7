"""The dashboard of one cluster as a process, until SIGINT or SIGTERM. Reactor shell.

Answers to: nothing in Kafka.
"""

from __future__ import annotations

import ipaddress
import logging
import secrets
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

from twisted.internet.error import CannotListenError
from twisted.internet.threads import deferToThread

from kafkalite.common.errors import ConfigError, StartupError
from kafkalite.common.tasks import deferred, spawn
from kafkalite.dashboard.action_resource import Changes, Outcome
from kafkalite.dashboard.actions import ToolAccess
from kafkalite.dashboard.event_timeline import EventTimeline
from kafkalite.dashboard.live_state import LiveState
from kafkalite.dashboard.log_offsets import LogOffsets, address_of
from kafkalite.dashboard.page_login import PageLogin
from kafkalite.dashboard.site import site
from kafkalite.dashboard.tree_mirror import TreeMirror
from kafkalite.network.client import BrokerConnection
from kafkalite.network.endpoint_security import PLAINTEXT_CLIENT, ClientSecurity
from kafkalite.network.reactor import Reactor, ReactorClock, ReactorNames
from kafkalite.network.sockets import OsSockets
from kafkalite.zk.kazoo_client import KazooZkClient
from kafkalite.zk.session_security import OPEN, ZkSecurity
from kafkalite.zk.zk_client import ConnectionLostError

log = logging.getLogger(__name__)

_SESSION_TIMEOUT_MS = 10_000
_CLIENT_ID = "kafkalite-dashboard"
_COMMAND_TIMEOUT: Final = 50.0
"""Seconds after which a command of the page is killed."""
_MOST_OUTPUT: Final = 20_000
_TOKEN_BYTES: Final = 32
_LOCAL_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


class _Address(Protocol):
    port: int


class _Port(Protocol):
    def getHost(self) -> _Address: ...  # noqa: N802 - Twisted's name


class _Reactor(Reactor, ReactorNames, Protocol):
    """What the dashboard uses of Twisted's reactor."""

    def callWhenRunning(self, call: Callable[[], object], /) -> object: ...  # noqa: N802
    def listenTCP(self, port: int, factory: object, backlog: int, interface: str, /) -> _Port: ...  # noqa: N802
    def addSystemEventTrigger(self, phase: str, event: str, call: Callable[[], object], /) -> object: ...  # noqa: N802
    def run(self) -> None: ...
    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """How brokers are asked: on listeners with the security ``protocol``, in the way of ``security``.

    ``fetch`` gets the page of events at an address. It blocks, is called in threads, and may raise any exception.
    """

    fetch: Callable[[str], bytes]
    protocol: str = "PLAINTEXT"
    security: ClientSecurity = PLAINTEXT_CLIENT


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """A dashboard on ``host`` and ``port`` (0: a free one) of the cluster at ``zookeeper``.

    ``tools``: how the commands of the page reach the cluster; ``None``: the page changes nothing. ``login``: TLS and
    the users of the page; ``None``: the page is for everyone on this machine.
    """

    host: str
    port: int
    zookeeper: str
    brokers: BrokerAccess
    zookeeper_security: ZkSecurity = field(default=OPEN)
    tools: ToolAccess | None = None
    login: PageLogin | None = None


def serve(settings: DashboardSettings, announce: Callable[[str], None]) -> int:
    """Show the cluster until a signal comes, and ``announce`` the page's address.

    Returns the exit code: 1 where ZooKeeper cannot be reached or the port cannot be had. Raises :class:`ConfigError`
    for an address that other machines reach, if the page has no login.
    """
    host, port = settings.host, settings.port
    if settings.login is None and not is_loopback(host):
        raise ConfigError(
            f"--listen {host}: the page has no login, so it listens on a loopback address only; give --listen-config "
            f"with a certificate and users, or see it by ssh -L {port}:127.0.0.1:{port} THIS_MACHINE"
        )
    from twisted.internet import reactor

    return _Dashboard(cast("_Reactor", reactor), settings).run(announce)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Dashboard:
    def __init__(self, reactor: _Reactor, settings: DashboardSettings) -> None:
        clock = ReactorClock(reactor)
        sockets = OsSockets(reactor)
        brokers = settings.brokers
        self._reactor = reactor
        self._settings = settings
        self._zk = KazooZkClient(
            reactor.callFromThread,
            settings.zookeeper,
            _SESSION_TIMEOUT_MS,
            _SESSION_TIMEOUT_MS,
            settings.zookeeper_security,
        )
        self._state = LiveState(clock)
        self._mirror = TreeMirror(self._zk, lambda path: self._state.znode_changed(path, self._mirror.tree))

        def connect(host: str, port: int) -> BrokerConnection:
            return BrokerConnection(reactor, host, port, _CLIENT_ID, sockets=sockets, security=brokers.security)

        self._offsets = LogOffsets(self._state, connect, clock, brokers.protocol)
        self._timeline = EventTimeline(self._state, lambda address: deferToThread(brokers.fetch, address), clock)
        self._status = 0

    def run(self, announce: Callable[[str], None]) -> int:
        self._reactor.callWhenRunning(lambda: deferred(self._start(announce)))
        self._reactor.addSystemEventTrigger("before", "shutdown", lambda: deferred(self._zk.close()))
        self._reactor.run()
        return self._status

    async def _start(self, announce: Callable[[str], None]) -> None:
        host, login = self._settings.host, self._settings.login
        try:
            hosts: set[str] = set()
            number = self._listen(hosts)
            names = (*_LOCAL_NAMES, _in_url(host), *map(_in_url, () if login is None else login.names))
            hosts |= {f"{name}:{number}" for name in names}
            await self._zk.start()
            await self._mirror.start()
        except StartupError as error:
            self._fail(str(error))
        except ConnectionLostError:
            self._fail("the connection to ZooKeeper was lost while the tree was read; start the dashboard again")
        else:
            announce(f"{'http' if login is None else 'https'}://{_in_url(host)}:{number}/")
            spawn(self._offsets.run(), "asking for offsets")
            spawn(self._timeline.run(), "asking for events")

    def _listen(self, hosts: set[str]) -> int:
        host, port = self._settings.host, self._settings.port
        clock = ReactorClock(self._reactor)
        served = site(self._state, lambda: frozenset(hosts), clock, self._changes(), self._settings.login)
        try:
            listening = self._reactor.listenTCP(port, served, 50, host)
        except CannotListenError as error:
            raise StartupError(
                f"--listen: cannot listen on {host}:{port}: {error.socketError}; choose another port"
            ) from None
        return listening.getHost().port

    def _changes(self) -> Changes | None:
        tools = self._settings.tools
        if tools is None:
            return None
        return Changes(
            secrets.token_urlsafe(_TOKEN_BYTES), tools, self._bootstrap, lambda words: deferToThread(_run, words)
        )

    def _bootstrap(self) -> str:
        protocol = self._settings.brokers.protocol
        found = [address_of(broker, protocol) for broker in self._state.brokers()]
        return ",".join(f"{_in_url(each[0])}:{each[1]}" for each in found if each is not None)

    def _fail(self, text: str) -> None:
        log.critical("%s", text)
        self._status = 1
        self._reactor.stop()


def _run(words: Sequence[str]) -> Outcome:
    """Run ``kafkalite`` with ``words`` as a process of its own."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "kafkalite.cli.main", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_COMMAND_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(-1, f"the command was ended, because it took more than {_COMMAND_TIMEOUT:g} s")
    return Outcome(done.returncode, done.stdout.decode("utf-8", "replace")[-_MOST_OUTPUT:])


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
