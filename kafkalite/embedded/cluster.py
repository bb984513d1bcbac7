"""A whole cluster on this machine: a real ZooKeeper and brokers, each a process, recorded in ``DIR/cluster.json``.

Answers to: ``kafka.testkit.KafkaClusterTestKit`` and the quick start's five terminals. Plain processes, no reactor.

All files of a cluster are in its directory, so that another process (``kafkalite cluster stop``, a test)
finds it: ``cluster.json`` with pids and ports, ``overrides.json``, ``zookeeper/``, and ``broker-N/`` with
``server.properties``, ``broker.log`` and ``data/``. A cluster started again on its directory keeps ports and data; a
``running`` one starts its brokers with the overrides of ``overrides.json``.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from kafkalite.common.errors import StartupError
from kafkalite.embedded.probe import wait_for_brokers
from kafkalite.embedded.processes import ServerProcess, free_ports, is_free
from kafkalite.embedded.security import ADMIN, BROKERS, CLIENTS, ClusterSecurity
from kafkalite.embedded.state import (
    STOP_TIMEOUT,
    ZOOKEEPER_PID_FILE,
    BrokerAddress,
    broker_process,
    read_brokers,
    read_overrides,
    read_state,
    write_overrides,
    write_state,
    zookeeper_port,
)
from kafkalite.embedded.whole_files import write_private
from kafkalite.embedded.zookeeper import EmbeddedZooKeeper
from kafkalite.embedded.zookeeper_relay import ZooKeeperRelay
from kafkalite.spark.client.config import ClientConfig

HOST = "127.0.0.1"
CHROOT = "kafka"
START_TIMEOUT = 60.0

Launcher = Callable[[Path], "list[str]"]
"""``server.properties`` → the command that serves it. Another broker (real Kafka) is another launcher."""


def kafkalite_launcher(config: Path) -> list[str]:
    """The command of a kafkalite broker, run by this Python interpreter."""
    return [sys.executable, "-m", "kafkalite.cli.main", "broker", "start", "--config", str(config)]


class LocalCluster:
    """Brokers 1…N and their ZooKeeper in ``directory``.

    ``zookeeper`` is the connection string of a running ZooKeeper; without it the cluster has an embedded one.
    Broker N listens on ``port_base + N - 1``; 0: free ports. ``overrides`` go to every broker's
    ``server.properties``; ``environment`` to every broker process. With ``security`` the cluster is secured: only users
    of it can log in. A ``relayed`` one has a process between its brokers and ZooKeeper, which can cut them off. A
    ``detached`` cluster outlives the process that started it; otherwise its ZooKeeper ends with the
    thread that started it.
    """

    def __init__(
        self,
        directory: Path,
        brokers: int = 3,
        *,
        port_base: int = 0,
        zookeeper: str | None = None,
        overrides: Mapping[str, str] | None = None,
        launcher: Launcher = kafkalite_launcher,
        environment: Mapping[str, str] | None = None,
        detached: bool = False,
        security: ClusterSecurity | None = None,
        metrics: bool = False,
        relayed: bool = False,
    ) -> None:
        self.directory = directory.absolute()
        self.overrides = dict(overrides or {})
        self._launcher = launcher
        self._environment = environment
        self._detached = detached
        self.security = security
        """How the brokers and ZooKeeper are secured; ``None``: they are open to all."""
        self._inside_ports: dict[int, int] = {}
        self._relayed = relayed
        self._relay: ZooKeeperRelay | None = None
        self._embedded: EmbeddedZooKeeper | None = None
        self._zookeeper = zookeeper
        self._ports = self._choose_ports(brokers, port_base)
        self._metrics_ports = self._choose_metrics_ports() if metrics else {}
        self._processes: dict[int, ServerProcess] = {}
        self._broker_overrides: dict[int, dict[str, str]] = {}
        self.is_ready = False
        """Whether :meth:`start` has succeeded."""

    @classmethod
    def running(cls, directory: Path) -> LocalCluster:
        """The cluster that another process has started in ``directory``.

        Its brokers can be used like those of :meth:`start`; its ZooKeeper is only connected to. Raises
        :class:`StartupError` if ``directory`` has no ``cluster.json``.
        """
        state = read_state(directory)
        if state is None:
            raise StartupError(f"no cluster in {directory}")
        brokers = read_brokers(directory)
        security = ClusterSecurity.find(directory)
        cluster = cls(
            directory,
            0,
            zookeeper=str(state["zookeeper"]),
            overrides=read_overrides(directory),
            detached=True,
            security=security,
        )
        cluster._ports = {each.id: each.port for each in brokers}
        cluster._metrics_ports = {each.id: urlsplit(each.metrics).port or 0 for each in brokers if each.metrics}
        cluster._processes = {each.id: broker_process(each) for each in brokers}
        cluster.is_ready = True
        return cluster

    # Addresses and files

    @property
    def broker_ids(self) -> list[int]:
        """Ids of all brokers, alive or not."""
        return sorted(self._ports)

    @property
    def bootstrap(self) -> str:
        """``host:port,…`` of all brokers."""
        return ",".join(self.address(broker_id) for broker_id in self.broker_ids)

    @property
    def zookeeper(self) -> str:
        """ZooKeeper's connection string. Raises :class:`StartupError` before ZooKeeper is started."""
        if self._zookeeper is not None:
            return self._zookeeper
        if self._embedded is None:
            raise StartupError("the cluster's ZooKeeper has not been started")
        return zookeeper_connect(self._embedded, self.security)

    @property
    def embedded_zookeeper(self) -> EmbeddedZooKeeper:
        """The cluster's own ZooKeeper. Raises :class:`StartupError` if it was given one instead."""
        if self._embedded is None:
            raise StartupError("the cluster has no ZooKeeper of its own")
        return self._embedded

    def address(self, broker_id: int) -> str:
        """``host:port`` of one broker."""
        return f"{HOST}:{self._ports[broker_id]}"

    def pid(self, broker_id: int) -> int:
        """The process id of ``broker_id``, now or when it ran last."""
        return self._processes[broker_id].pid

    def is_alive(self, broker_id: int) -> bool:
        """Whether the broker's process exists; also ``True`` for a stopped (SIGSTOP) one."""
        process = self._processes.get(broker_id)
        return process is not None and process.is_alive()

    def broker_dir(self, broker_id: int) -> Path:
        """The directory of the broker's configuration, its output and, in ``data``, its logs."""
        return self.directory / f"broker-{broker_id}"

    def log_file(self, broker_id: int) -> Path:
        """The broker's output."""
        return self.broker_dir(broker_id) / "broker.log"

    def metrics(self, broker_id: int) -> str | None:
        """Address of the page with the broker's metrics; ``None`` where it serves none."""
        port = self._metrics_ports.get(broker_id)
        return None if port is None else f"{self._metrics_scheme}://{HOST}:{port}/metrics"

    @property
    def _metrics_scheme(self) -> str:
        return "http" if self.security is None else "https"

    # Start and end

    def start(self, timeout: float = START_TIMEOUT) -> None:
        """Start ZooKeeper and all brokers, wait until each sees the others and a controller, write ``cluster.json``.

        Raises :class:`StartupError` with the last lines of the log if a broker ends during the start.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            self.start_zookeeper()
            if self._relayed:
                self._relay = ZooKeeperRelay.start(self.directory, self.zookeeper)
            for broker_id in self.broker_ids:
                self.start_broker(broker_id, wait=False)
            self.wait_ready(timeout)
        except BaseException:
            self.stop(STOP_TIMEOUT)
            raise
        self.write_state()
        self.is_ready = True

    def start_zookeeper(self) -> None:
        """Start the embedded ZooKeeper on its old port and data, unless the cluster was given one.

        The users of a secured cluster are written into it, because no broker lets them in before.
        """
        if self._zookeeper is None:
            self._start_embedded_zookeeper()
        if self.security is not None:
            # Here, because it imports kazoo and Twisted, which an open cluster's programs need not load.
            from kafkalite.embedded.users import register_users

            register_users(self.zookeeper, self.security.credentials(), self.security.zookeeper_security())

    def _start_embedded_zookeeper(self) -> None:
        if self._embedded is None:
            port = zookeeper_port(self.directory)
            self._embedded = embedded_zookeeper(
                self.directory / "zookeeper",
                self.security,
                port if port and is_free(port) else free_ports(1)[0],
                die_with_parent=not self._detached,
            )
        self._embedded.start()
        (self.directory / ZOOKEEPER_PID_FILE).write_text(f"{self._embedded.pid}\n")

    def start_broker(
        self,
        broker_id: int,
        overrides: Mapping[str, str] | None = None,
        *,
        wait: bool = True,
        timeout: float = START_TIMEOUT,
    ) -> None:
        """Start one broker, with its own ``overrides`` from now on; ``wait`` until all live brokers see each other.

        Raises :class:`StartupError` if they do not within ``timeout`` seconds.
        """
        if self.is_alive(broker_id):
            raise StartupError(f"broker {broker_id} is running already (pid {self.pid(broker_id)})")
        if overrides is not None:
            self.override_broker(broker_id, overrides)
        config = self._write_properties(broker_id)
        self._processes[broker_id] = ServerProcess.spawn(
            self._launcher(config), self.log_file(broker_id), mark=str(config), environment=self._environment
        )
        if wait:
            self.wait_ready(timeout)
            self.write_state()

    def override_broker(self, broker_id: int, overrides: Mapping[str, str]) -> None:
        """Properties of one broker alone, from its next start on."""
        self._broker_overrides[broker_id] = dict(overrides)

    def wait_ready(self, timeout: float = START_TIMEOUT) -> None:
        """Wait until every started broker answers and sees all the others and a controller."""
        expected = {broker_id for broker_id in self._processes if self.is_alive(broker_id)}
        gone = set(self._processes) - expected
        try:
            for broker_id in sorted(expected):
                self._wait_broker(broker_id, expected, timeout)
        except StartupError:
            gone = gone or {broker_id for broker_id in expected if not self.is_alive(broker_id)}
            if not gone:
                raise
        newly_dead = [
            broker_id for broker_id in sorted(gone) if broker_id in expected or not self._processes[broker_id].ended
        ]
        if newly_dead:
            raise StartupError("; ".join(f"broker {i} ended at start: {_tail(self.log_file(i))}" for i in newly_dead))

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """SIGTERM to the brokers one by one, so that each can hand over its leaderships; then end ZooKeeper."""
        for broker_id in self.broker_ids:
            if broker_id in self._processes:
                self.stop_broker(broker_id, timeout)
        if self._relay is not None:
            self._relay.stop()
        if self._embedded is not None:
            self._embedded.stop()
            (self.directory / ZOOKEEPER_PID_FILE).unlink(missing_ok=True)

    def close(self) -> None:
        """Kill all processes at once, because the data are not needed any more."""
        for process in self._processes.values():
            process.kill()
        if self._relay is not None:
            self._relay.kill()
        if self._embedded is not None:
            self._embedded.kill()

    def stop_broker(self, broker_id: int, timeout: float = STOP_TIMEOUT) -> bool:
        """SIGTERM: a controlled shutdown. ``False`` if SIGKILL was needed after ``timeout`` seconds."""
        process = self._processes[broker_id]
        clean = process.stop(timeout)
        process.ended = True
        return clean

    def kill_broker(self, broker_id: int) -> None:
        """``kill -9``."""
        self._processes[broker_id].kill()
        self._processes[broker_id].ended = True

    def pause_broker(self, broker_id: int) -> None:
        """SIGSTOP: the process exists, but does not answer."""
        self._processes[broker_id].signal(signal.SIGSTOP)

    def resume_broker(self, broker_id: int) -> None:
        """SIGCONT."""
        self._processes[broker_id].signal(signal.SIGCONT)

    def restart_broker(self, broker_id: int, overrides: Mapping[str, str] | None = None) -> None:
        """Stop by a controlled shutdown, and start."""
        self.stop_broker(broker_id)
        self.start_broker(broker_id, overrides)

    # cluster.json

    def write_state(self) -> None:
        """Write ``cluster.json``, once every broker has been started."""
        if set(self._processes) == set(self._ports):
            brokers = [
                BrokerAddress(i, HOST, self._ports[i], self.pid(i), str(self.broker_dir(i)), self.metrics(i))
                for i in self.broker_ids
            ]
            logins = None if self.security is None else self.security.logins()
            write_state(self.directory, self.zookeeper, brokers, logins)
            write_overrides(self.directory, self.overrides)

    # Inside

    def _choose_ports(self, brokers: int, port_base: int) -> dict[int, int]:
        if port_base:
            return {n + 1: port_base + n for n in range(brokers)}
        former = {broker.id: broker.port for broker in read_brokers(self.directory)}
        return _former_or_free(range(1, brokers + 1), former)

    def _choose_metrics_ports(self) -> dict[int, int]:
        former = {broker.id: urlsplit(broker.metrics or "").port for broker in read_brokers(self.directory)}
        return _former_or_free(self.broker_ids, former)

    def _write_properties(self, broker_id: int) -> Path:
        directory = self.broker_dir(broker_id)
        directory.mkdir(parents=True, exist_ok=True)
        metrics_port = self._metrics_ports.get(broker_id)
        properties = {
            "broker.id": str(broker_id),
            **(self._open_listeners(broker_id) if self.security is None else self._secured(self.security, broker_id)),
            "log.dirs": str(directory / "data"),
            "zookeeper.connect": self.zookeeper if self._relay is None else self._relay.connect,
            # The last brokers of a cluster that stops have no broker to hand over to, so they should not retry long.
            "controlled.shutdown.retry.backoff.ms": "500",
            **({} if metrics_port is None else {"metrics.listener": f"{self._metrics_scheme}://{HOST}:{metrics_port}"}),
            **self.overrides,
            **self._broker_overrides.get(broker_id, {}),
        }
        path = directory / "server.properties"
        # Private always, because any override may be a password.
        write_private(path, "".join(f"{name}={value}\n" for name, value in properties.items()))
        return path

    def _wait_broker(self, broker_id: int, expected: set[int], timeout: float) -> None:
        process = self._processes[broker_id]
        wait_for_brokers(
            [(HOST, self._ports[broker_id])], expected, timeout, keep_waiting=process.is_alive, client=self._admin()
        )

    def _open_listeners(self, broker_id: int) -> dict[str, str]:
        return {
            "listeners": f"PLAINTEXT://{self.address(broker_id)}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }

    def _secured(self, security: ClusterSecurity, broker_id: int) -> dict[str, str]:
        # The other brokers have a port of their own, because they log in by certificates.
        if broker_id not in self._inside_ports:
            [self._inside_ports[broker_id]] = free_ports(1)
        inside = f"{HOST}:{self._inside_ports[broker_id]}"
        return {
            "listeners": f"{CLIENTS}://{self.address(broker_id)},{BROKERS}://{inside}",
            **security.broker_properties(broker_id),
        }

    def _admin(self) -> ClientConfig | None:
        return None if self.security is None else self.security.client_config(ADMIN)


def _former_or_free(broker_ids: Sequence[int], former: Mapping[int, int | None]) -> dict[int, int]:
    """A port for each broker: the one that it had before, where that is free, else any free one."""
    ports = {}
    for broker_id, free in zip(broker_ids, free_ports(len(broker_ids)), strict=True):
        port = former.get(broker_id)
        ports[broker_id] = port if port and is_free(port) else free
    return ports


def embedded_zookeeper(
    directory: Path,
    security: ClusterSecurity | None,
    port: int = 0,
    *,
    die_with_parent: bool = True,
    properties: Mapping[str, str] | None = None,
) -> EmbeddedZooKeeper:
    """The ZooKeeper of a cluster; with ``security`` it serves TLS alone."""
    if security is None:
        return EmbeddedZooKeeper(directory, port, die_with_parent=die_with_parent, properties=properties)
    secured = {**security.zookeeper_properties(), **(properties or {})}
    tls = security.zookeeper_client()
    # ZooKeeper's own files have the users' credentials.
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return EmbeddedZooKeeper(directory, port, die_with_parent=die_with_parent, properties=secured, tls=tls)


def zookeeper_connect(server: EmbeddedZooKeeper, security: ClusterSecurity | None) -> str:
    """The connection string of a cluster's own ZooKeeper.

    A secured cluster has a chroot, because the root of a ZooKeeper's tree is open to all its clients.
    """
    return server.connect_string if security is None else f"{server.connect_string}/{CHROOT}"


def _tail(path: Path, lines: int = 5) -> str:
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return "it wrote nothing"
    return " | ".join(text.strip().splitlines()[-lines:]) or "it wrote nothing"
