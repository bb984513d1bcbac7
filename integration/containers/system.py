"""The system in containers: an ensemble of three ZooKeeper servers and three brokers, on a separate network.

Containers have fixed addresses, which the host's clients reach, too. A broker's log directory is a folder of the host:
it outlives the container, and tests can read it.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from integration.containers.daemon import DockerError, docker
from integration.containers.network import Namespace
from integration.harness.wait import wait_for
from integration.harness.wire import Wire, leaders
from kafkalite.embedded.probe import ask
from kafkalite.embedded.znodes import read_znodes

BROKERS, SERVERS = (1, 2, 3), (1, 2, 3)
USER = 1001
"""User id of the broker's image."""
SESSION_SECONDS = 4.0
CHROOT = "/kafkalite"
READY = 240.0
"""Seconds for the start on a busy machine."""
SERVER_SETTINGS = {
    "ZOO_TICK_TIME": "500",
    "ZOO_INIT_LIMIT": "20",
    # Two seconds after which a leader without a quorum and a follower without a leader give up.
    "ZOO_SYNC_LIMIT": "4",
    "ZOO_STANDALONE_ENABLED": "false",
    "ZOO_ADMINSERVER_ENABLED": "false",
    "ZOO_4LW_COMMANDS_WHITELIST": "srvr,mntr,cons",
    # No syncs, because a busy disk would end sessions; its data need only outlive its process.
    "ZOO_CFG_EXTRA": "forceSync=no",
    # At most one second of an election waits for a dead server.
    "JVMFLAGS": "-Xmx128m -Dzookeeper.cnxTimeout=1000",
}
BROKER_SETTINGS = {
    "zookeeper.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
    # Not the session timeout, which is its default, because a broker ends that finds no ZooKeeper for so long.
    "zookeeper.connection.timeout.ms": str(int(READY * 1000)),
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "4000",
    "log.segment.bytes": str(1 << 20),
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "auto.create.topics.enable": "false",
    "transaction.state.log.num.partitions": "3",
    # The new leader keeps leading, so that the test can see the answers of the former leader when it comes back.
    "auto.leader.rebalance.enable": "false",
    # No retention, because only the removal of the ballast file may free the full disk.
    "log.retention.ms": "-1",
}


class System:
    """Six containers. ``directory`` has a folder for each broker; :meth:`start` makes the missing folders."""

    def __init__(self, directory: Path, zookeeper_image: str, broker_image: str) -> None:
        self.directory = directory
        self.name = f"kafkalite-faults-{uuid.uuid4().hex[:6]}"
        self._images = {"zookeeper": zookeeper_image, "broker": broker_image}
        self._subnet = ""

    # Names and addresses

    @property
    def broker_ids(self) -> list[int]:
        """Ids of all brokers, alive or not."""
        return list(BROKERS)

    @property
    def bootstrap(self) -> str:
        """``host:port,…`` of all brokers."""
        return ",".join(self.address(broker) for broker in BROKERS)

    @property
    def zookeeper(self) -> str:
        """ZooKeeper's connection string."""
        return ",".join(f"{self.server_ip(server)}:2181" for server in SERVERS) + CHROOT

    def broker(self, broker: int) -> str:
        """Name of a broker's container."""
        return f"{self.name}-broker{broker}"

    def server(self, server: int) -> str:
        """Name of a ZooKeeper server's container."""
        return f"{self.name}-zookeeper{server}"

    def broker_ip(self, broker: int) -> str:
        """IP address in the containers' network."""
        return f"{self._subnet}.{20 + broker}"

    def server_ip(self, server: int) -> str:
        """IP address in the containers' network."""
        return f"{self._subnet}.{10 + server}"

    def address(self, broker: int) -> str:
        """``host:port`` of a broker, for its clients and for the other brokers alike."""
        return f"{self.broker_ip(broker)}:9092"

    def data_dir(self, broker: int) -> Path:
        """The broker's log directory, as a path of the host."""
        return self.directory / f"broker-{broker}"

    # Start and end

    def start(self) -> None:
        """Start everything; returns when all brokers are registered and serve."""
        self._subnet = self._make_network()
        for server in SERVERS:
            self._start_server(server)
        wait_for(self.zookeeper_leader, "the ensemble has a leader", READY)
        for broker in BROKERS:
            self._start_broker(broker)
        self.wait_ready()

    def close(self) -> None:
        """Remove the containers and the network; the output of the containers is kept in ``directory``."""
        names = [self.server(server) for server in SERVERS] + [self.broker(broker) for broker in BROKERS]
        for name in names:
            (self.directory / f"{name.removeprefix(self.name)[1:]}.log").write_text(self.logs(name))
        docker("rm", "--force", "--volumes", *names, check=False)
        docker("network", "rm", self.name, check=False)

    def wait_ready(self) -> None:
        """Wait until every broker serves, and has all brokers in its metadata."""

        def ready() -> bool:
            for broker in BROKERS:
                known = ask(self.broker_ip(broker), 9092).brokers
                if len(known) != len(BROKERS):
                    raise LookupError(f"broker {broker} knows {known}")
            return True

        wait_for(ready, "all brokers serve", READY, 0.2)

    # Faults

    def kill(self, container: str) -> None:
        """End all processes of the container by ``docker kill``."""
        docker("kill", container)

    def start_again(self, container: str) -> None:
        """Start the container after :meth:`kill`."""
        docker("start", container)

    def pause(self, container: str) -> None:
        """Freeze all processes of the container."""

        def frozen() -> bool:
            try:
                docker("pause", container)
            except DockerError as error:
                # "unable to freeze" on a busy machine: the processes may still run, so try again.
                raise LookupError(str(error)) from error
            return True

        wait_for(frozen, f"{container} is frozen", READY)

    def resume(self, container: str) -> None:
        """Continue the container after :meth:`pause`."""
        docker("unpause", container)

    def disconnect(self, broker: int) -> None:
        """Disconnect the broker's container from the network."""
        docker("network", "disconnect", self.name, self.broker(broker))

    def connect(self, broker: int) -> None:
        """Connect the container after :meth:`disconnect`, with its old address."""
        docker("network", "connect", "--ip", self.broker_ip(broker), self.name, self.broker(broker))

    def network_of(self, container: str) -> Namespace:
        """The network namespace of the container."""
        return Namespace(int(docker("inspect", "--format", "{{.State.Pid}}", container)))

    # State

    def logs(self, container: str) -> str:
        """The output of the container."""
        command = ["docker", "logs", container]
        return subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
        ).stdout

    def zookeeper_leader(self, but: int = 0) -> int:
        """The server other than ``but`` that leads the ensemble. Raises ``LookupError`` if no server leads."""
        modes = {server: self.server_state(server).get("Mode", "does not serve") for server in SERVERS if server != but}
        for server, mode in modes.items():
            if mode == "leader" and "follower" in modes.values():
                return server
        raise LookupError(f"{modes}")

    def server_state(self, server: int) -> dict[str, str]:
        """The answer of ``srvr``; empty if the server does not answer."""
        try:
            with socket.create_connection((self.server_ip(server), 2181), 2.0) as connection:
                connection.settimeout(2.0)
                connection.sendall(b"srvr")
                text = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return {}
        return dict(re.findall(r"^([\w/ ]+): (.*)$", text, re.MULTILINE))

    def zookeeper_epoch(self, server: int) -> int:
        """The epoch of the ZooKeeper leader that made the server's last transaction."""
        return int(self.server_state(server).get("Zxid", "0x0"), 16) >> 32

    def registration(self, broker: int) -> dict[str, Any] | None:
        """The broker's znode in ``/brokers/ids``, which has a new timestamp after each registration."""
        path = f"/brokers/ids/{broker}"
        data = read_znodes(self.zookeeper, [path]).get(path)
        return None if data is None else json.loads(data)

    def controller_epoch(self) -> int:
        """The controller epoch."""
        return int(read_znodes(self.zookeeper, ["/controller_epoch"])["/controller_epoch"])

    def round_trip(self, broker: int) -> float:
        """Seconds between a request and its answer."""
        with Wire(self.address(broker)) as wire:
            begun = time.monotonic()
            leaders(wire, "no-such-topic")
            return time.monotonic() - begun

    def _make_network(self) -> str:
        """Make the first free one of some private networks; returns its first three numbers."""
        problem: Exception | None = None
        for third in range(16, 48):
            subnet = f"172.29.{third}"
            try:
                docker("network", "create", "--label", "kafkalite-test", "--subnet", f"{subnet}.0/24", self.name)
            except DockerError as error:
                problem = error
            else:
                return subnet
        raise RuntimeError(f"no network for the containers: {problem}")

    def _start_server(self, server: int) -> None:
        servers = " ".join(
            f"server.{other}={self.server_ip(other)}:2888:3888;2181"  # the port for clients comes after the semicolon
            for other in SERVERS
        )
        settings = {**SERVER_SETTINGS, "ZOO_MY_ID": str(server), "ZOO_SERVERS": servers}
        self._run_container(self.server(server), self.server_ip(server), "zookeeper", settings)

    def _start_broker(self, broker: int) -> None:
        folder = self.data_dir(broker)
        folder.mkdir(parents=True, exist_ok=True)
        os.chown(folder, USER, USER)
        properties = {
            **BROKER_SETTINGS,
            "broker.id": str(broker),
            "zookeeper.connect": self.zookeeper,
            "advertised.listeners": f"PLAINTEXT://{self.address(broker)}",
        }
        settings = {f"KAFKALITE_{name.upper().replace('.', '_')}": value for name, value in properties.items()}
        self._run_container(
            self.broker(broker), self.broker_ip(broker), "broker", settings, "--volume", f"{folder}:/var/lib/kafkalite"
        )

    def _run_container(self, name: str, ip: str, kind: str, settings: Mapping[str, str], *more: str) -> None:
        environment = [word for key, value in settings.items() for word in ("--env", f"{key}={value}")]
        where = ("--network", self.name, "--ip", ip, "--hostname", name)
        docker("run", "--detach", "--name", name, *where, *environment, *more, self._images[kind])
