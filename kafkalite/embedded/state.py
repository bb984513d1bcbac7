"""``DIR/cluster.json``: the record of a local cluster, by which other processes find and stop it.

Answers to: nothing in Kafka, where the operator keeps track. Plain files and processes, no reactor.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kafkalite.common.errors import StartupError
from kafkalite.embedded.processes import ServerProcess

STATE_FILE = "cluster.json"
ZOOKEEPER_PID_FILE = "zookeeper.pid"
ZOOKEEPER_MARK = "QuorumPeerMain"
STOP_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """One broker in ``cluster.json``. ``pid`` is its process, ``dir`` holds its files."""

    id: int
    host: str
    port: int
    pid: int
    dir: str


def write_state(directory: Path, zookeeper: str, brokers: Sequence[BrokerAddress]) -> None:
    """Write ``cluster.json``, whole or not at all."""
    state = {
        "zookeeper": zookeeper,
        "bootstrap": ",".join(f"{broker.host}:{broker.port}" for broker in brokers),
        "brokers": [asdict(broker) for broker in brokers],
    }
    temporary = directory / f"{STATE_FILE}.{os.getpid()}.tmp"
    temporary.write_text(json.dumps(state, indent=2) + "\n")
    temporary.replace(directory / STATE_FILE)


def read_state(directory: Path) -> dict[str, Any] | None:
    """The content of ``cluster.json`` in ``directory``; ``None`` without such a file."""
    try:
        state: dict[str, Any] = json.loads((directory / STATE_FILE).read_text())
    except FileNotFoundError:
        return None
    return state


def read_brokers(directory: Path) -> list[BrokerAddress]:
    """The brokers in ``cluster.json``; none without such a file."""
    state = read_state(directory)
    return [BrokerAddress(**broker) for broker in state["brokers"]] if state else []


def broker_process(broker: BrokerAddress) -> ServerProcess:
    """The process of a broker that another process started."""
    return ServerProcess(broker.pid, mark=str(Path(broker.dir) / "server.properties"))


def stop_cluster(directory: Path, timeout: float = STOP_TIMEOUT) -> None:
    """Stop the cluster of ``directory``, also one of another process. Raises :class:`StartupError` if none is there."""
    if read_state(directory) is None:
        raise StartupError(f"no cluster in {directory}")
    for broker in read_brokers(directory):
        broker_process(broker).stop(timeout)
    pid_file = directory / ZOOKEEPER_PID_FILE
    if pid_file.exists():
        ServerProcess(int(pid_file.read_text()), mark=ZOOKEEPER_MARK).stop(timeout)
        pid_file.unlink()


def zookeeper_port(directory: Path) -> int:
    """The port of the cluster's ZooKeeper, 0 if none is recorded."""
    state = read_state(directory)
    if state is None:
        return 0
    return int(str(state["zookeeper"]).split("/")[0].rpartition(":")[2])
