"""Brokers in containers, for users' tests, in the style of testcontainers' own modules; faults by name.

Answers to: ``testcontainers.kafka.KafkaContainer``. Blocking.

ZooKeeper runs in a separate container, so that a broker can be killed, cut off or restarted without it, that the images
are those of real deployments, and that both start at the same time.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from types import TracebackType
from typing import Any, Self

from kafkalite.testing.client_properties import ClientProperties
from kafkalite.testing.container_cluster import ContainerCluster
from kafkalite.testing.container_security import ContainerSecurity
from kafkalite.testing.fault_targets import ZOOKEEPER, FaultTarget
from kafkalite.testing.fixed_port_container import FixedPortContainer
from kafkalite.testing.properties import DEFAULTS, SESSION_TIMEOUT_MS
from kafkalite.testing.sessions import expire_session
from kafkalite.testing.zookeeper_container import IMAGE as ZOOKEEPER_IMAGE
from kafkalite.testing.zookeeper_container import ZooKeeperContainer

IMAGE = os.environ.get("KAFKALITE_IMAGE", "kafkalite")
"""The image; an environment variable may name another one, as for the compose files."""
PORT = 9092
"""Port of the listener for clients on this machine."""
NETWORK_PORT = 19092
"""Port of the listener for containers on the network of ``with_network``."""
INSIDE, OUTSIDE, NETWORK = "INSIDE", "OUTSIDE", "NETWORK"
"""Names of the listeners: for the other brokers, for clients on this machine, for containers of ``with_network``."""
INSIDE_PORT = 9094
"""Port of the listener for the other brokers."""
START_TIMEOUT = 120.0
STOP_TIMEOUT = 60
_SEPARATORS = str.maketrans({".": "_", "-": "__", "_": "___"})


class Faults:
    """The faults of brokers, and of the ZooKeeper that was started for them."""

    _cluster: ContainerCluster

    def kill(self, broker_id: FaultTarget = 1) -> None:
        """Kill all processes in the container by SIGKILL; the session ends by its timeout (6 s)."""
        self._cluster.container(broker_id).get_wrapped_container().kill()

    def pause(self, broker_id: FaultTarget = 1) -> None:
        """Pause all processes in the container: they exist, but do not answer. The session expires after 6 s."""
        self._cluster.container(broker_id).get_wrapped_container().pause()

    def resume(self, broker_id: FaultTarget = 1) -> None:
        """Resume a container after :meth:`pause`."""
        self._cluster.container(broker_id).get_wrapped_container().unpause()

    def restart(self, broker_id: FaultTarget = 1) -> None:
        """Stop by a controlled shutdown, if alive, and start with the same data and port; returns when it serves."""
        container = self._cluster.container(broker_id)
        wrapped = container.get_wrapped_container()
        if container.state == "paused":
            wrapped.unpause()
        wrapped.stop(timeout=STOP_TIMEOUT)
        wrapped.start()
        if broker_id != ZOOKEEPER:
            self._cluster.wait_until_serving([broker_id], {broker_id}, START_TIMEOUT)

    def partition(self, broker_id: int = 1, *others: FaultTarget) -> None:
        """Cut a broker off from ``others``: ``"zookeeper"``, or all other brokers; from both if nothing is named.

        Clients can still reach it. Raises ``ValueError`` if only some of the other brokers are named, because they
        share a network.
        """
        self._cluster.partition(broker_id, others)

    def heal(self) -> None:
        """Undo all partitions of the network."""
        self._cluster.heal()

    def expire_session(self, broker_id: int = 1, timeout: float = 10.0) -> None:
        """Expire the broker's ZooKeeper session, as if the broker had been silent for too long.

        Raises ``TimeoutError`` if that fails for ``timeout`` seconds, for example because the broker has no session.
        """
        security = None if self._cluster.security is None else self._cluster.security.zookeeper
        expire_session(self._cluster.zookeeper_here, broker_id, timeout, SESSION_TIMEOUT_MS, security)


class KafkaliteContainer(Faults, ClientProperties, FixedPortContainer):
    """One broker and its ZooKeeper. ``zookeeper`` is the connection string of an existing ZooKeeper, for use inside the
    container.

    With ``secure`` all connections are encrypted, and clients log in, as :attr:`client` or :attr:`admin`, as with
    ``kafkalite cluster start --secure``. Raises ``ValueError`` for ``secure`` beside a ``zookeeper``.

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
        secure: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(image, port, f"broker-{broker_id}", **kwargs)
        self.broker_id = broker_id
        self._properties: dict[str, str] = {}
        self._cluster = ContainerCluster({broker_id: self}, zookeeper or ZooKeeperContainer(zookeeper_image), secure)

    def with_property(self, name: str, value: str) -> Self:
        """Set a property of ``server.properties``, for example ``log.segment.bytes``."""
        self._properties[name] = value
        return self

    def with_rack(self, rack: str) -> Self:
        """Put the broker into ``rack``."""
        return self.with_property("broker.rack", rack)

    def in_cluster(self, cluster: ContainerCluster) -> Self:
        """Make the container one of the brokers of ``cluster``, which starts and stops it."""
        self._cluster = cluster
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
        return self._cluster.zookeeper_here

    def start(self, timeout: float = START_TIMEOUT) -> Self:
        """Start broker and ZooKeeper; returns when the broker serves. Raises ``StartupError`` with its output."""
        self._cluster.start(timeout)
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Remove the containers at once, with their data."""
        del force, delete_volume
        self._cluster.stop()

    def _login_properties(self, user: str) -> dict[str, str]:
        return self._cluster.login_properties(user)

    @property
    def _network_host(self) -> str:
        return str(self._network_aliases[0]) if self._network_aliases else f"kafkalite-{self.broker_id}"

    def _configure(self) -> None:
        listeners = {
            INSIDE: (INSIDE_PORT, f"{self.name_among_brokers}:{INSIDE_PORT}"),
            OUTSIDE: (self.port, self.get_bootstrap_server()),
        }
        if self._network is not None:
            self.with_network_aliases(self._network_host)
            listeners[NETWORK] = (NETWORK_PORT, self.get_network_bootstrap_server())
        security = self._cluster.security
        properties = {
            **DEFAULTS,
            **(_open(listeners) if security is None else self._secured(security, listeners)),
            **self._properties,
            "broker.id": str(self.broker_id),
            "zookeeper.connect": self._cluster.zookeeper_inside,
            "listeners": ",".join(f"{name}://:{port}" for name, (port, _) in listeners.items()),
            "advertised.listeners": ",".join(f"{name}://{address}" for name, (_, address) in listeners.items()),
        }
        self.with_envs(**{variable(name): value for name, value in properties.items()})
        self.with_kwargs(**{**self._kwargs, "hostname": self.name_among_brokers})

    def _secured(self, security: ContainerSecurity, listeners: Collection[str]) -> dict[str, str]:
        of_clients = [name for name in listeners if name != INSIDE]
        hosts = (self.name_among_brokers, self.host, self._network_host)
        properties = security.broker_properties(self.broker_id, hosts, of_clients, INSIDE)
        # After the properties, which make the key.
        self.take(security.broker_files(self.broker_id))
        return properties


class KafkaliteClusterContainer(Faults, ClientProperties):
    """Brokers 1…``brokers``, each in its own rack, and their ZooKeeper, or the one that ``zookeeper`` names.

    :attr:`brokers` are the containers of the single brokers. ``secure`` as for :class:`KafkaliteContainer`.
    """

    def __init__(
        self,
        brokers: int = 3,
        image: str = IMAGE,
        *,
        zookeeper: str | None = None,
        zookeeper_image: str = ZOOKEEPER_IMAGE,
        secure: bool = False,
        **kwargs: Any,
    ) -> None:
        self.brokers = {
            broker_id: KafkaliteContainer(image, broker_id=broker_id, **kwargs).with_rack(f"rack-{broker_id}")
            for broker_id in range(1, brokers + 1)
        }
        self._cluster = ContainerCluster(self.brokers, zookeeper or ZooKeeperContainer(zookeeper_image), secure)
        for broker in self.brokers.values():
            broker.in_cluster(self._cluster)

    def with_property(self, name: str, value: str) -> Self:
        """Set a property of every broker."""
        for broker in self.brokers.values():
            broker.with_property(name, value)
        return self

    def with_network(self, network: Any) -> Self:
        """Make the brokers reachable for containers on ``network``, too (:meth:`get_network_bootstrap_server`)."""
        for broker in self.brokers.values():
            broker.with_network(network)
        return self

    def get_bootstrap_server(self) -> str:
        """``host:port,…`` of all brokers, for clients on this machine."""
        return ",".join(broker.get_bootstrap_server() for broker in self.brokers.values())

    def get_network_bootstrap_server(self) -> str:
        """``host:port,…`` of all brokers, for containers on the network of :meth:`with_network`."""
        return ",".join(broker.get_network_bootstrap_server() for broker in self.brokers.values())

    def get_zookeeper(self) -> str:
        """ZooKeeper's connection string, for clients on this machine."""
        return self._cluster.zookeeper_here

    def start(self, timeout: float = START_TIMEOUT) -> Self:
        """Start all; returns when each serves and has the others in its metadata. Raises ``StartupError`` with the
        output of a broker that does not."""
        self._cluster.start(timeout)
        return self

    def stop(self) -> None:
        """Remove the containers at once, with their data."""
        self._cluster.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _login_properties(self, user: str) -> dict[str, str]:
        return self._cluster.login_properties(user)


def _open(listeners: Collection[str]) -> dict[str, str]:
    return {
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
        "inter.broker.listener.name": INSIDE,
    }


def variable(name: str) -> str:
    """The environment variable by which the image takes the property ``name``."""
    return "KAFKALITE_" + name.translate(_SEPARATORS).upper()
