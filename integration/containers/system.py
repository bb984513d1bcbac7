"""The system in containers: an ensemble of three ZooKeeper servers and three brokers, on a network of their own.

Containers have fixed addresses, which the host's clients reach as well. What a broker stores lies in a folder of the
host: it outlives the container's death, and can be looked at from outside.
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
"""Of the broker's image."""
SESSION_SECONDS = 4.0
CHROOT = "/kafkalite"
READY = 120.0
"""Seconds, on a machine that is busy."""
SERVER_SETTINGS = {
    "ZOO_TICK_TIME": "500",
    "ZOO_INIT_LIMIT": "20",
    # A leader without a quorum, and a follower without a leader, give up after two seconds.
    "ZOO_SYNC_LIMIT": "4",
    "ZOO_STANDALONE_ENABLED": "false",
    "ZOO_ADMINSERVER_ENABLED": "false",
    "ZOO_4LW_COMMANDS_WHITELIST": "srvr,mntr,cons",
    # In an election, who is dead is not waited for longer than that.
    "JVMFLAGS": "-Xmx128m -Dzookeeper.cnxTimeout=1000",
}
BROKER_SETTINGS = {
    "zookeeper.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "4000",
    "log.segment.bytes": str(1 << 20),
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "auto.create.topics.enable": "false",
    "transaction.state.log.num.partitions": "3",
    # Whoever took over goes on: so that what the one before says when it comes back can be heard.
    "auto.leader.rebalance.enable": "false",
    # A disk that is full is to be free again when the ballast goes, not when old segments go.
    "log.retention.ms": "-1",
}


class System:
    """Six containers. ``directory`` has a folder for each broker, made before :meth:`start`, or by it."""

    def __init__(self, directory: Path, zookeeper_image: str, broker_image: str) -> None:
        self.directory = directory
        self.name = f"kafkalite-faults-{uuid.uuid4().hex[:6]}"
        self._images = {"zookeeper": zookeeper_image, "broker": broker_image}
        self._subnet = ""

    # What it is

    @property
    def broker_ids(self) -> list[int]:
        """All brokers, alive or not."""
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
        """Address in the containers' network."""
        return f"{self._subnet}.{20 + broker}"

    def server_ip(self, server: int) -> str:
        """Address in the containers' network."""
        return f"{self._subnet}.{10 + server}"

    def address(self, broker: int) -> str:
        """``host:port`` of a broker, for its clients and for the other brokers alike."""
        return f"{self.broker_ip(broker)}:9092"

    def data_dir(self, broker: int) -> Path:
        """Its log directory, as the host sees it."""
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
        """Remove everything; what the containers wrote is kept in ``directory``."""
        names = [self.server(server) for server in SERVERS] + [self.broker(broker) for broker in BROKERS]
        for name in names:
            (self.directory / f"{name.removeprefix(self.name)[1:]}.log").write_text(self.logs(name))
        docker("rm", "--force", "--volumes", *names, check=False)
        docker("network", "rm", self.name, check=False)

    def wait_ready(self) -> None:
        """Wait until every broker serves, and knows all of them."""

        def ready() -> bool:
            for broker in BROKERS:
                known = ask(self.broker_ip(broker), 9092).brokers
                if len(known) != len(BROKERS):
                    raise LookupError(f"broker {broker} knows {known}")
            return True

        wait_for(ready, "all brokers serve", READY, 0.2)

    # Faults

    def kill(self, container: str) -> None:
        """``docker kill``: every process of it ends at once."""
        docker("kill", container)

    def start_again(self, container: str) -> None:
        """After :meth:`kill`."""
        docker("start", container)

    def pause(self, container: str) -> None:
        """All its processes are frozen."""

        def frozen() -> bool:
            try:
                docker("pause", container)
            except DockerError as error:
                # "unable to freeze", where the machine is busy: they may go on, and it can be tried again
                raise LookupError(str(error)) from error
            return True

        wait_for(frozen, f"{container} is frozen", READY)

    def resume(self, container: str) -> None:
        """After :meth:`pause`."""
        docker("unpause", container)

    def disconnect(self, broker: int) -> None:
        """Pull its network cable."""
        docker("network", "disconnect", self.name, self.broker(broker))

    def connect(self, broker: int) -> None:
        """After :meth:`disconnect`: it has its address again."""
        docker("network", "connect", "--ip", self.broker_ip(broker), self.name, self.broker(broker))

    def network_of(self, container: str) -> Namespace:
        """Where packets to and from the container pass."""
        return Namespace(int(docker("inspect", "--format", "{{.State.Pid}}", container)))

    # What it says

    def logs(self, container: str) -> str:
        """Everything that it wrote."""
        command = ["docker", "logs", container]
        return subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
        ).stdout

    def zookeeper_leader(self, but: int = 0) -> int:
        """Which server leads the ensemble, not counting ``but``. Raises ``LookupError`` where none says so."""
        modes = {server: self.server_state(server).get("Mode", "does not serve") for server in SERVERS if server != but}
        for server, mode in modes.items():
            if mode == "leader" and "follower" in modes.values():
                return server
        raise LookupError(f"{modes}")

    def server_state(self, server: int) -> dict[str, str]:
        """What ``srvr`` tells; nothing where the server does not answer."""
        try:
            with socket.create_connection((self.server_ip(server), 2181), 2.0) as connection:
                connection.settimeout(2.0)
                connection.sendall(b"srvr")
                text = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return {}
        return dict(re.findall(r"^([\w/ ]+): (.*)$", text, re.MULTILINE))

    def zookeeper_epoch(self, server: int) -> int:
        """The epoch of the leader under whom the server's last transaction was made."""
        return int(self.server_state(server).get("Zxid", "0x0"), 16) >> 32

    def registration(self, broker: int) -> dict[str, Any] | None:
        """What stands in ``/brokers/ids``; it has a new timestamp after each registration."""
        path = f"/brokers/ids/{broker}"
        data = read_znodes(self.zookeeper, [path]).get(path)
        return None if data is None else json.loads(data)

    def controller_epoch(self) -> int:
        """How many controllers there were."""
        return int(read_znodes(self.zookeeper, ["/controller_epoch"])["/controller_epoch"])

    def round_trip(self, broker: int) -> float:
        """Seconds between a request and its answer."""
        with Wire(self.address(broker)) as wire:
            begun = time.monotonic()
            leaders(wire, "no-such-topic")
            return time.monotonic() - begun

    def _make_network(self) -> str:
        """The first free one of some private networks; its first three numbers."""
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
            f"server.{other}={self.server_ip(other)}:2888:3888;2181"  # clients' port behind the semicolon
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
