"""The surroundings of brokers' containers: their networks, their ZooKeeper, start and end of all.

Answers to: nothing in Kafka; ``docker compose``. Blocking.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from kafkalite.common.errors import StartupError
from kafkalite.embedded.probe import POLL_INTERVAL, ask
from kafkalite.testing.ends import ZOOKEEPER, End
from kafkalite.testing.machines import Machine, NetworkLink

LOOK_INTERVAL = 0.5
"""Seconds between two checks that a container still runs."""
TO_BROKERS, TO_ZOOKEEPER = "brokers", "zookeeper"


class Site:
    """``brokers`` and their ``zookeeper``: a container to be started with them, or a connection string."""

    def __init__(self, brokers: Mapping[int, Machine], zookeeper: Machine | str) -> None:
        self._brokers = dict(brokers)
        self._zookeeper = zookeeper
        # Brokers that are alone have no others to be cut off from.
        self._links = {name: NetworkLink() for name in self._link_names(zookeeper)}
        self._cut: set[tuple[int, str]] = set()

    @property
    def zookeeper_inside(self) -> str:
        """The connection string for brokers."""
        return self._zookeeper if isinstance(self._zookeeper, str) else f"{ZOOKEEPER}:{self._zookeeper.port}"

    @property
    def zookeeper_here(self) -> str:
        """The connection string for this process."""
        return self._zookeeper if isinstance(self._zookeeper, str) else self._zookeeper.address

    def machine(self, end: End) -> Machine:
        """The container of a broker, or of ZooKeeper. Raises ``KeyError``."""
        if end != ZOOKEEPER:
            return self._brokers[end]
        if isinstance(self._zookeeper, str):
            raise KeyError("this ZooKeeper was not started here")
        return self._zookeeper

    def start(self, timeout: float) -> None:
        """Start all at the same time; returns when every broker serves and knows of the others.

        Raises ``StartupError``, or Docker's own error; nothing is left then.
        """
        try:
            for link in self._links.values():
                link.create()
            for broker in self._brokers.values():
                broker.links = self._links
            if isinstance(self._zookeeper, Machine):
                self._zookeeper.links = {TO_ZOOKEEPER: self._links[TO_ZOOKEEPER]}
            self._together(Machine.launch)
            self.wait_until_serving(self._brokers, set(self._brokers), timeout)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Remove all containers, their data and networks."""
        self._together(Machine.discard)
        for link in self._links.values():
            link.discard()
        self._cut.clear()

    def wait_until_serving(self, asked: Iterable[int], expected: set[int], timeout: float) -> None:
        """Wait until each of the brokers ``asked`` answers, and knows of those ``expected`` and of a live controller.

        Raises ``StartupError`` with what it and ZooKeeper wrote, after ``timeout`` seconds or when its container ends.
        """
        deadline = time.monotonic() + timeout
        for broker_id in asked:
            machine = self._brokers[broker_id]
            look_at = time.monotonic() + LOOK_INTERVAL
            while not _serves(machine, expected):
                now = time.monotonic()
                if now > deadline:
                    raise StartupError(
                        f"broker {broker_id} does not serve after {timeout:g} s:\n{self._wrote(machine)}"
                    )
                if now > look_at:
                    look_at = now + LOOK_INTERVAL
                    if machine.state == "exited":
                        raise StartupError(f"broker {broker_id} has ended:\n{self._wrote(machine)}")
                time.sleep(POLL_INTERVAL)

    def partition(self, broker_id: int, others: Collection[End]) -> None:
        """Cut ``broker_id`` off from ``others``, from all where there are none. Raises ``ValueError``."""
        brokers = set(self._brokers) - {broker_id}
        named = set(others) or {*brokers, *({ZOOKEEPER} if TO_ZOOKEEPER in self._links else ())}
        links = {TO_ZOOKEEPER if end == ZOOKEEPER else TO_BROKERS for end in named}
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

    def _wrote(self, broker: Machine) -> str:
        if isinstance(self._zookeeper, str):
            return broker.last_lines()
        return f"{broker.last_lines()}\nIts ZooKeeper:\n{self._zookeeper.last_lines()}"

    def _link_names(self, zookeeper: Machine | str) -> Iterator[str]:
        if isinstance(zookeeper, Machine):
            yield TO_ZOOKEEPER
        if len(self._brokers) > 1:
            yield TO_BROKERS

    def _together(self, action: Callable[[Machine], None]) -> None:
        machines = [*([self._zookeeper] if isinstance(self._zookeeper, Machine) else []), *self._brokers.values()]
        with ThreadPoolExecutor(len(machines)) as pool:
            list(pool.map(action, machines))


def _serves(machine: Machine, expected: set[int]) -> bool:
    try:
        view = ask(machine.host, machine.host_port)
    except OSError:
        return False
    return expected <= set(view.brokers) and view.controller in view.brokers
