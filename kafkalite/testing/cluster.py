"""A cluster for users' tests: real broker processes, a real ZooKeeper, and faults by name; no Docker.

Answers to: ``kafka.testkit.KafkaClusterTestKit`` and ``testcontainers.kafka.KafkaContainer``. Plain processes, and the
thread of :class:`~kafkalite.testing.wires.Wires`, through which brokers reach each other and ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import psutil

from kafkalite.embedded.cluster import HOST, START_TIMEOUT, LocalCluster, embedded_zookeeper, zookeeper_connect
from kafkalite.embedded.processes import free_ports
from kafkalite.embedded.security import BROKERS, CLIENTS, ClusterSecurity
from kafkalite.embedded.zookeeper import EmbeddedZooKeeper
from kafkalite.testing.client_properties import ClientProperties
from kafkalite.testing.fault_targets import ZOOKEEPER, FaultTarget
from kafkalite.testing.properties import DEFAULTS, SESSION_TIMEOUT_MS, ZOOKEEPER_DEFAULTS
from kafkalite.testing.sessions import expire_session
from kafkalite.testing.wires import Wires


class KafkaliteCluster(ClientProperties):
    """Brokers 1…``brokers`` in ``directory``, started by ``with`` or :meth:`start`.

    ``zookeeper`` is a connection string, best with a chroot for this cluster only (which is created); without it the
    cluster starts an embedded ZooKeeper. ``overrides`` are broker properties in addition to :data:`DEFAULTS`. With
    ``secure`` all connections are encrypted, and clients log in (:meth:`get_client_properties`), as with
    ``kafkalite cluster start --secure``. Raises ``ValueError`` for ``secure`` beside a ``zookeeper``.
    """

    def __init__(
        self,
        directory: Path,
        brokers: int = 1,
        *,
        zookeeper: str | None = None,
        overrides: Mapping[str, str] | None = None,
        secure: bool = False,
    ) -> None:
        if secure and zookeeper is not None:
            raise ValueError("a secured cluster has a ZooKeeper of its own: leave zookeeper out")
        self.directory = directory
        self._secure = secure
        self._security: ClusterSecurity | None = None
        self._connect = zookeeper
        self._embedded: EmbeddedZooKeeper | None = None
        self._count = brokers
        self._overrides = {**DEFAULTS, **(overrides or {})}
        self._wires: Wires | None = None
        self._cluster: LocalCluster | None = None

    # Addresses and files

    def get_bootstrap_server(self) -> str:
        """``host:port,…`` of all brokers, for clients."""
        return self._running.bootstrap

    def _login_properties(self, user: str) -> dict[str, str]:
        return {} if self._security is None else self._security.login_properties(user)

    @property
    def zookeeper(self) -> str:
        """ZooKeeper's connection string, with the cluster's chroot."""
        return self._running.zookeeper

    @property
    def broker_ids(self) -> list[int]:
        """Ids of all brokers, alive or not."""
        return self._running.broker_ids

    @property
    def log_files(self) -> list[Path]:
        """Each broker's output."""
        return [self._running.log_file(broker_id) for broker_id in self.broker_ids]

    # Start and end

    def start(self, timeout: float = START_TIMEOUT) -> KafkaliteCluster:
        """Start the brokers; returns when all serve. Raises ``StartupError``, also after ``timeout`` seconds."""
        self._wires = Wires()
        try:
            if self._secure:
                self._security = ClusterSecurity.create(self.directory)
            if self._connect is None:
                self._embedded = embedded_zookeeper(
                    self.directory / "zookeeper", self._security, properties=ZOOKEEPER_DEFAULTS
                ).start()
            connect = self._direct
            self._cluster = LocalCluster(
                self.directory, self._count, zookeeper=connect, overrides=self._overrides, security=self._security
            )
            for broker_id in self._cluster.broker_ids:
                self._cluster.override_broker(broker_id, self._wired(self._wires, broker_id, connect))
            self._cluster.start(timeout)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Kill all processes at once, because the data are not needed any more."""
        if self._cluster is not None:
            self._cluster.close()
        if self._wires is not None:
            self._wires.close()
        if self._embedded is not None:
            self._embedded.kill()
        self._cluster = self._wires = self._embedded = None

    def __enter__(self) -> KafkaliteCluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # Faults

    def kill(self, broker_id: int = 1) -> None:
        """Kill a broker by ``kill -9``."""
        self._running.kill_broker(broker_id)

    def pause(self, broker_id: int = 1) -> None:
        """Pause a broker by SIGSTOP: the process exists, but does not answer. Its session expires after 6 s."""
        self._running.pause_broker(broker_id)

    def resume(self, broker_id: int = 1) -> None:
        """Resume a paused broker by SIGCONT."""
        self._running.resume_broker(broker_id)

    def restart(self, broker_id: int = 1, timeout: float = START_TIMEOUT) -> None:
        """Stop a broker by a controlled shutdown, if it is alive, and start it; returns when it serves.

        Raises ``StartupError`` if it does not serve within ``timeout`` seconds.
        """
        if self._running.is_alive(broker_id):
            self._running.stop_broker(broker_id)
        self._running.start_broker(broker_id, timeout=timeout)

    def partition(self, broker_id: int, *others: FaultTarget) -> None:
        """Cut a broker off from ``others``, brokers and ``"zookeeper"``; from all of them if none is named.

        Clients can still reach it.
        """
        assert self._wires is not None
        all_others: tuple[FaultTarget, ...] = (*(each for each in self.broker_ids if each != broker_id), ZOOKEEPER)
        for other in others or all_others:
            self._wires.cut(broker_id, other)

    def heal(self) -> None:
        """Undo all partitions of the network."""
        assert self._wires is not None
        self._wires.heal()

    def expire_session(self, broker_id: int = 1, timeout: float = 10.0) -> None:
        """Expire the broker's ZooKeeper session, as if the broker had been silent for too long.

        Raises ``TimeoutError`` if that fails for ``timeout`` seconds, for example because the broker has no session.
        """
        security = None if self._security is None else self._security.zookeeper_security()
        expire_session(self._direct, broker_id, timeout, SESSION_TIMEOUT_MS, security)

    # Internals

    @property
    def _running(self) -> LocalCluster:
        if self._cluster is None:
            raise RuntimeError("the cluster has not been started")
        return self._cluster

    @property
    def _direct(self) -> str:
        if self._connect is not None:
            return self._connect
        assert self._embedded is not None
        return zookeeper_connect(self._embedded, self._security)

    def _wired(self, wires: Wires, broker_id: int, connect: str) -> dict[str, str]:
        """Properties by which a broker reaches ZooKeeper, and the others reach it, through wires."""
        servers, slash, chroot = connect.partition("/")
        relayed = []
        for server in servers.split(","):
            host, _, port = server.rpartition(":")
            relayed.append(f"{HOST}:{wires.relay(host, int(port), ZOOKEEPER, lambda _: broker_id)}")
        client = self._running.address(broker_id)
        outside, inside = ("PLAINTEXT", "REPLICATION") if self._security is None else (CLIENTS, BROKERS)
        [own] = free_ports(1)
        way = wires.relay(HOST, own, broker_id, self._whose)
        properties = {
            "zookeeper.connect": ",".join(relayed) + slash + chroot,
            "listeners": _listeners({outside: client, inside: f"{HOST}:{own}"}),
            "advertised.listeners": _listeners({outside: client, inside: f"{HOST}:{way}"}),
        }
        if self._security is None:
            properties["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT"
            properties["inter.broker.listener.name"] = inside
        return properties

    def _whose(self, port: int) -> FaultTarget | None:
        """The broker that has a connection from ``port`` of this machine."""
        cluster = self._running
        for broker_id in cluster.broker_ids:
            try:
                connections = psutil.Process(cluster.pid(broker_id)).net_connections("tcp4")
            except (psutil.Error, KeyError):
                continue  # the process has ended, or has not been started yet
            if any(connection.laddr.port == port for connection in connections):
                return broker_id
        return None


def _listeners(addresses: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in addresses.items())
