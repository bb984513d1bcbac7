"""The networks and the ZooKeeper of brokers' containers, and the start and stop of all of them.

Answers to: nothing in Kafka; ``docker compose``. Blocking.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from kafkalite.common.errors import StartupError
from kafkalite.embedded.probe import POLL_INTERVAL, ask
from kafkalite.spark.client.config import ClientConfig
from kafkalite.testing.container_security import ContainerSecurity, chroot
from kafkalite.testing.fault_targets import ZOOKEEPER, FaultTarget
from kafkalite.testing.fixed_port_container import FixedPortContainer, NetworkLink
from kafkalite.testing.zookeeper_container import ZooKeeperContainer

LOOK_INTERVAL = 0.5
"""Seconds between two checks that a container still runs."""
TO_BROKERS, TO_ZOOKEEPER = "brokers", "zookeeper"


class ContainerCluster:
    """``brokers`` and their ``zookeeper``: a container to be started with them, or a connection string.

    ``secure``: all connections are encrypted, and clients log in. Raises ``ValueError`` for that beside a connection
    string, because the ZooKeeper of a secured cluster trusts the cluster's own authority.
    """

    def __init__(
        self, brokers: Mapping[int, FixedPortContainer], zookeeper: ZooKeeperContainer | str, secure: bool = False
    ) -> None:
        if secure and isinstance(zookeeper, str):
            raise ValueError("a secured cluster has a ZooKeeper of its own: leave zookeeper out")
        self._brokers = dict(brokers)
        self._zookeeper = zookeeper
        self._secure = secure
        self.security: ContainerSecurity | None = None
        """Keys and users, while a secured cluster runs; ``None`` for an open one."""
        # No network for a single broker, because there is no other one to cut it off from.
        self._links = {name: NetworkLink() for name in self._link_names(zookeeper)}
        self._cut: set[tuple[int, str]] = set()

    @property
    def zookeeper_inside(self) -> str:
        """The connection string for brokers."""
        if isinstance(self._zookeeper, str):
            return self._zookeeper
        return self._with_chroot(f"{ZOOKEEPER}:{self._zookeeper.port}")

    @property
    def zookeeper_here(self) -> str:
        """The connection string for this process."""
        if isinstance(self._zookeeper, str):
            return self._zookeeper
        return self._with_chroot(self._zookeeper.address)

    def login_properties(self, user: str) -> dict[str, str]:
        """Properties by which ``user`` logs in; none for an open cluster. Raises ``RuntimeError`` before the start."""
        if self.security is not None:
            return self.security.login_properties(user)
        if self._secure:
            raise RuntimeError("the users of a secured cluster exist only while it runs")
        return {}

    def container(self, target: FaultTarget) -> FixedPortContainer:
        """The container of a broker, or of ZooKeeper. Raises ``KeyError``."""
        if target != ZOOKEEPER:
            return self._brokers[target]
        if isinstance(self._zookeeper, str):
            raise KeyError("this ZooKeeper was not started here")
        return self._zookeeper

    def start(self, timeout: float) -> None:
        """Start all, an open cluster at once; returns when every broker serves and has the others in its metadata.

        Raises ``StartupError``, or Docker's own error, after removing all containers.
        """
        try:
            for link in self._links.values():
                link.create()
            self.security = ContainerSecurity() if self._secure else None
            for broker in self._brokers.values():
                broker.links = self._links
            if isinstance(self._zookeeper, ZooKeeperContainer):
                self._zookeeper.links = {TO_ZOOKEEPER: self._links[TO_ZOOKEEPER]}
                if self.security is not None:
                    # ZooKeeper alone first, because a broker that has started hears of no user that is written there.
                    self._zookeeper.secure_by(self.security)
                    self._zookeeper.launch()
                    self.security.register_users(self.zookeeper_here)
            self._together(self._launch)
            self.wait_until_serving(self._brokers, set(self._brokers), timeout)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Remove all containers, their data and networks."""
        self._together(FixedPortContainer.discard)
        for link in self._links.values():
            link.discard()
        if self.security is not None:
            self.security.close()
            self.security = None
        self._cut.clear()

    def wait_until_serving(self, asked: Iterable[int], expected: set[int], timeout: float) -> None:
        """Wait until each of the brokers ``asked`` answers with the brokers ``expected`` and a live controller.

        A broker of a secured cluster answers once every user can log in. Raises ``StartupError`` with the broker's and
        ZooKeeper's output after ``timeout`` seconds, or when the broker's container ends.
        """
        deadline = time.monotonic() + timeout
        clients = [None] if self.security is None else self.security.client_configs
        for broker_id in asked:
            container = self._brokers[broker_id]
            look_at = time.monotonic() + LOOK_INTERVAL
            while not _serves(container, expected, clients):
                now = time.monotonic()
                if now > deadline:
                    raise StartupError(
                        f"broker {broker_id} does not serve after {timeout:g} s:\n{self._wrote(container)}"
                    )
                if now > look_at:
                    look_at = now + LOOK_INTERVAL
                    if container.state == "exited":
                        raise StartupError(f"broker {broker_id} has ended:\n{self._wrote(container)}")
                time.sleep(POLL_INTERVAL)

    def partition(self, broker_id: int, others: Collection[FaultTarget]) -> None:
        """Cut ``broker_id`` off from ``others``; from all if ``others`` is empty. Raises ``ValueError``."""
        brokers = set(self._brokers) - {broker_id}
        named = set(others) or {*brokers, *({ZOOKEEPER} if TO_ZOOKEEPER in self._links else ())}
        links = {TO_ZOOKEEPER if each == ZOOKEEPER else TO_BROKERS for each in named}
        if not links <= set(self._links) or (TO_BROKERS in links and not brokers <= named):
            raise ValueError(
                f"broker {broker_id} can be cut off from all other brokers or from a ZooKeeper started here"
            )
        for link in sorted(links):
            if (broker_id, link) not in self._cut:
                self._brokers[broker_id].leave(link)
                self._cut.add((broker_id, link))

    def heal(self) -> None:
        """Put every broker back on its networks."""
        for broker_id, link in sorted(self._cut):
            self._brokers[broker_id].join(link)
        self._cut.clear()

    def _with_chroot(self, address: str) -> str:
        # The root of a ZooKeeper's tree is open to all its clients.
        return chroot(address) if self._secure else address

    def _wrote(self, broker: FixedPortContainer) -> str:
        if isinstance(self._zookeeper, str):
            return broker.last_lines()
        return f"{broker.last_lines()}\nIts ZooKeeper:\n{self._zookeeper.last_lines()}"

    def _link_names(self, zookeeper: ZooKeeperContainer | str) -> Iterator[str]:
        if isinstance(zookeeper, ZooKeeperContainer):
            yield TO_ZOOKEEPER
        if len(self._brokers) > 1:
            yield TO_BROKERS

    def _launch(self, container: FixedPortContainer) -> None:
        if self.security is None or container is not self._zookeeper:
            container.launch()

    def _together(self, action: Callable[[FixedPortContainer], None]) -> None:
        containers = [*self._brokers.values()]
        if isinstance(self._zookeeper, ZooKeeperContainer):
            containers.insert(0, self._zookeeper)
        with ThreadPoolExecutor(len(containers)) as pool:
            list(pool.map(action, containers))


def _serves(container: FixedPortContainer, expected: set[int], clients: Sequence[ClientConfig | None]) -> bool:
    try:
        views = [ask(container.host, container.host_port, client=client) for client in clients]
    except OSError:
        return False
    return all(expected <= set(view.brokers) and view.controller in view.brokers for view in views)
