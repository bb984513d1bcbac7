"""Brokers in containers, for users' tests, in the style of testcontainers' own modules; faults by name.

Answers to: ``testcontainers.kafka.KafkaContainer``. Blocking.

ZooKeeper stands beside the brokers in a container of its own, not inside theirs: so a broker can be killed, cut off or
restarted without it, the images are those that people run, and both start at the same time.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Self

from kafkalite.testing.ends import ZOOKEEPER, End
from kafkalite.testing.machines import Machine
from kafkalite.testing.properties import DEFAULTS, SESSION_TIMEOUT_MS, ZOOKEEPER_DEFAULTS
from kafkalite.testing.sessions import expire_session
from kafkalite.testing.site import Site

IMAGE = os.environ.get("KAFKALITE_IMAGE", "kafkalite")
ZOOKEEPER_IMAGE = os.environ.get("ZOOKEEPER_IMAGE", "zookeeper:3.9")
"""The images; the environment may name others, as for the compose files."""
ZOOKEEPER_PORT = 2181
PORT = 9092
"""Port of the listener for clients on this machine."""
NETWORK_PORT = 19092
"""Port of the listener for containers on the network of ``with_network``."""
INSIDE_PORT = 9094
"""Port of the listener for the other brokers."""
START_TIMEOUT = 60.0
STOP_TIMEOUT = 60
_ZOOKEEPER_ENVIRONMENT = {
    "JVMFLAGS": "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xshare:auto",
    "ZOO_ADMINSERVER_ENABLED": "false",
    "ZOO_MAX_CLIENT_CNXNS": "0",
    "ZOO_TICK_TIME": "500",
    "ZOO_CFG_EXTRA": " ".join(
        f"{name}={value}" for name, value in {"maxSessionTimeout": "120000", **ZOOKEEPER_DEFAULTS}.items()
    ),
}
_SEPARATORS = str.maketrans({".": "_", "-": "__", "_": "___"})


class ZooKeeperContainer(Machine):
    """One ZooKeeper server, quick to start."""

    def __init__(self, image: str = ZOOKEEPER_IMAGE, **kwargs: Any) -> None:
        super().__init__(image, ZOOKEEPER_PORT, ZOOKEEPER, **kwargs)
        self.with_envs(**_ZOOKEEPER_ENVIRONMENT)

    def get_connection_string(self) -> str:
        """``host:port`` for clients on this machine."""
        return self.address


class Faults:
    """The faults of brokers, and of the ZooKeeper that was started for them."""

    _site: Site

    def kill(self, broker_id: End = 1) -> None:
        """SIGKILL for all processes in the container: the session ends only at its timeout (6 s)."""
        self._site.machine(broker_id).get_wrapped_container().kill()

    def pause(self, broker_id: End = 1) -> None:
        """The processes exist, but do not answer. After its session timeout other brokers replace it."""
        self._site.machine(broker_id).get_wrapped_container().pause()

    def resume(self, broker_id: End = 1) -> None:
        """It goes on after :meth:`pause`."""
        self._site.machine(broker_id).get_wrapped_container().unpause()

    def restart(self, broker_id: End = 1) -> None:
        """A controlled shutdown, if it is alive, and a start with the same data and port; returns when it serves."""
        machine = self._site.machine(broker_id)
        container = machine.get_wrapped_container()
        if machine.state == "paused":
            container.unpause()
        container.stop(timeout=STOP_TIMEOUT)
        container.start()
        if broker_id != ZOOKEEPER:
            self._site.wait_until_serving([broker_id], {broker_id}, START_TIMEOUT)

    def partition(self, broker_id: int = 1, *others: End) -> None:
        """Cut a broker off from ``others``: ``"zookeeper"``, or all other brokers; from both if nothing is named.

        Clients reach it still. Raises ``ValueError`` if only some of the other brokers are named, because they share a
        network.
        """
        self._site.partition(broker_id, others)

    def heal(self) -> None:
        """Undo all partitions of the network."""
        self._site.heal()

    def expire_session(self, broker_id: int = 1, timeout: float = 10.0) -> None:
        """Expire the broker's ZooKeeper session, as if the broker had been silent for too long.

        Raises ``TimeoutError`` if that fails for ``timeout`` seconds, for example because the broker has no session.
        """
        expire_session(self._site.zookeeper_here, broker_id, timeout, SESSION_TIMEOUT_MS)


class KafkaliteContainer(Faults, Machine):
    """One broker and its ZooKeeper; ``zookeeper`` is the connection string of one that is there already, as this
    container reaches it.

    .. code-block:: python

        with KafkaliteContainer() as kafka:
            producer = Producer({"bootstrap.servers": kafka.get_bootstrap_server()})
    """

    def __init__(
        self,
        image: str = IMAGE,
        port: int = PORT,
        *,
        zookeeper: str | None = None,
        zookeeper_image: str = ZOOKEEPER_IMAGE,
        broker_id: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(image, port, f"broker-{broker_id}", **kwargs)
        self.broker_id = broker_id
        self._properties: dict[str, str] = {}
        self._site = Site({broker_id: self}, zookeeper or ZooKeeperContainer(zookeeper_image))

    def with_property(self, name: str, value: str) -> Self:
        """Set a property of ``server.properties``, ``log.segment.bytes`` say."""
        self._properties[name] = value
        return self

    def with_rack(self, rack: str) -> Self:
        """Put it into ``rack``."""
        return self.with_property("broker.rack", rack)

    def in_site(self, site: Site) -> Self:
        """Make it one of the brokers of ``site``, which starts and ends it."""
        self._site = site
        return self

    def get_bootstrap_server(self) -> str:
        """``host:port`` for clients on this machine."""
        return self.address

    def get_network_bootstrap_server(self) -> str:
        """``host:port`` for containers on the network of ``with_network``. Raises ``RuntimeError`` without one."""
        if self._network is None:
            raise RuntimeError("without with_network there is no network to be reached on")
        return f"{self._network_host}:{NETWORK_PORT}"

    def get_zookeeper(self) -> str:
        """ZooKeeper's connection string, for clients on this machine."""
        return self._site.zookeeper_here

    def start(self, timeout: float = START_TIMEOUT) -> Self:
        """Start it, and its ZooKeeper; returns when it serves. Raises ``StartupError`` with what it wrote."""
        self._site.start(timeout)
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Remove everything at once, and the data."""
        del force, delete_volume
        self._site.stop()

    @property
    def _network_host(self) -> str:
        return str(self._network_aliases[0]) if self._network_aliases else f"kafkalite-{self.broker_id}"

    def _configure(self) -> None:
        listeners = {
            "INSIDE": (INSIDE_PORT, f"{self.name_among_brokers}:{INSIDE_PORT}"),
            "OUTSIDE": (self.port, self.get_bootstrap_server()),
        }
        if self._network is not None:
            self.with_network_aliases(self._network_host)
            listeners["NETWORK"] = (NETWORK_PORT, self.get_network_bootstrap_server())
        properties = {
            **DEFAULTS,
            **self._properties,
            "broker.id": str(self.broker_id),
            "zookeeper.connect": self._site.zookeeper_inside,
            "listeners": ",".join(f"{name}://:{port}" for name, (port, _) in listeners.items()),
            "advertised.listeners": ",".join(f"{name}://{address}" for name, (_, address) in listeners.items()),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
            "inter.broker.listener.name": "INSIDE",
        }
        self.with_envs(**{variable(name): value for name, value in properties.items()})
        self.with_kwargs(**{**self._kwargs, "hostname": self.name_among_brokers})


class KafkaliteClusterContainer(Faults):
    """Brokers 1…``brokers``, each in a rack of its own, and their ZooKeeper, or the one that ``zookeeper`` names.

    :attr:`brokers` are the containers of the single ones.
    """

    def __init__(
        self,
        brokers: int = 3,
        image: str = IMAGE,
        *,
        zookeeper: str | None = None,
        zookeeper_image: str = ZOOKEEPER_IMAGE,
        **kwargs: Any,
    ) -> None:
        self.brokers = {
            broker_id: KafkaliteContainer(image, broker_id=broker_id, **kwargs).with_rack(f"rack-{broker_id}")
            for broker_id in range(1, brokers + 1)
        }
        self._site = Site(self.brokers, zookeeper or ZooKeeperContainer(zookeeper_image))
        for broker in self.brokers.values():
            broker.in_site(self._site)

    def with_property(self, name: str, value: str) -> Self:
        """Set a property of every broker."""
        for broker in self.brokers.values():
            broker.with_property(name, value)
        return self

    def with_network(self, network: Any) -> Self:
        """Have containers on ``network`` reach the brokers, too (:meth:`get_network_bootstrap_server`)."""
        for broker in self.brokers.values():
            broker.with_network(network)
        return self

    def get_bootstrap_server(self) -> str:
        """``host:port,…`` of all brokers, for clients on this machine."""
        return ",".join(broker.get_bootstrap_server() for broker in self.brokers.values())

    def get_network_bootstrap_server(self) -> str:
        """The same for containers on the network of :meth:`with_network`."""
        return ",".join(broker.get_network_bootstrap_server() for broker in self.brokers.values())

    def get_zookeeper(self) -> str:
        """ZooKeeper's connection string, for clients on this machine."""
        return self._site.zookeeper_here

    def start(self, timeout: float = START_TIMEOUT) -> Self:
        """Start all; returns when each serves and knows of the others. Raises ``StartupError`` with what one wrote."""
        self._site.start(timeout)
        return self

    def stop(self) -> None:
        """Remove everything at once, and the data."""
        self._site.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def variable(name: str) -> str:
    """The environment variable by which the image takes the property ``name``."""
    return "KAFKALITE_" + name.translate(_SEPARATORS).upper()
