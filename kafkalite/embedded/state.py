"""``DIR/cluster.json``: the record of a local cluster, by which other processes find and stop it; and its overrides.

Answers to: nothing in Kafka, where the operator keeps track. Plain files and processes, no reactor.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from kafkalite.common.errors import StartupError
from kafkalite.embedded.processes import ServerProcess
from kafkalite.embedded.whole_files import write_private, write_whole

STATE_FILE = "cluster.json"
OVERRIDES_FILE = "overrides.json"
ZOOKEEPER_PID_FILE = "zookeeper.pid"
ZOOKEEPER_MARK = "QuorumPeerMain"
DASHBOARD_PID_FILE = "dashboard.pid"
DASHBOARD_MARK = "dashboard"
RELAY_PID_FILE = "zookeeper-relay.pid"
RELAY_MARK = "kafkalite.testing.zookeeper_relay"
STOP_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """One broker in ``cluster.json``. ``pid`` is its process, ``dir`` holds its files, ``metrics`` its metrics page."""

    id: int
    host: str
    port: int
    pid: int
    dir: str
    metrics: str | None = None


def write_state(
    directory: Path,
    zookeeper: str,
    brokers: Sequence[BrokerAddress],
    logins: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Write ``cluster.json``, whole or not at all.

    ``logins``: the client properties of each user of a secured cluster; with their passwords the file has mode 0600.
    """
    bootstrap = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    state: dict[str, object] = {
        "zookeeper": zookeeper,
        "bootstrap": bootstrap,
        "brokers": [asdict(broker) for broker in brokers],
    }
    if logins is not None:
        state |= {user: {"bootstrap.servers": bootstrap, **properties} for user, properties in logins.items()}
    write = write_whole if logins is None else write_private
    write(directory / STATE_FILE, json.dumps(state, indent=2) + "\n")


def read_state(directory: Path) -> dict[str, Any] | None:
    """The content of ``cluster.json`` in ``directory``; ``None`` without such a file."""
    try:
        state: dict[str, Any] = json.loads((directory / STATE_FILE).read_text())
    except FileNotFoundError:
        return None
    return state


def read_brokers(directory: Path) -> list[BrokerAddress]:
    """The brokers in ``cluster.json``; none without such a file. Fields that a later version has added are left out."""
    state = read_state(directory)
    known = {field.name for field in fields(BrokerAddress)}
    brokers = state["brokers"] if state else []
    return [BrokerAddress(**{name: broker[name] for name in broker.keys() & known}) for broker in brokers]


def write_overrides(directory: Path, overrides: Mapping[str, str]) -> None:
    """Keep the properties of all brokers for later starts, in a file of their own, because any may be a password."""
    write_private(directory / OVERRIDES_FILE, json.dumps(dict(overrides), indent=2) + "\n")


def read_overrides(directory: Path) -> dict[str, str]:
    """The properties of all brokers that an earlier start has kept."""
    try:
        overrides: dict[str, str] = json.loads((directory / OVERRIDES_FILE).read_text())
    except FileNotFoundError:
        return {}
    return overrides


def broker_process(broker: BrokerAddress) -> ServerProcess:
    """The process of a broker that another process started, also where an operator has restarted it since by hand."""
    mark = str(Path(broker.dir) / "server.properties")
    process = ServerProcess(broker.pid, mark)
    if process.is_alive():
        return process
    return ServerProcess(process_of(mark) or broker.pid, mark)


def process_of(config: str) -> int | None:
    """The broker that serves the file ``config``, not an editor or a tail of it; ``None`` if there is none."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # It has ended.
        if config in words and {"broker", "start"} <= set(words):
            return int(folder.name)
    return None


def stop_cluster(directory: Path, timeout: float = STOP_TIMEOUT) -> None:
    """Stop the cluster of ``directory``, also one of another process. Raises :class:`StartupError` if none is there."""
    if read_state(directory) is None:
        raise StartupError(f"no cluster in {directory}")
    _stop_by_pid(directory / DASHBOARD_PID_FILE, DASHBOARD_MARK, timeout)
    # A broker that is cut off from ZooKeeper would wait for it.
    heal_all(directory)
    for broker in read_brokers(directory):
        broker_process(broker).stop(timeout)
    _stop_by_pid(directory / RELAY_PID_FILE, RELAY_MARK, timeout)
    _stop_by_pid(directory / ZOOKEEPER_PID_FILE, ZOOKEEPER_MARK, timeout)


def _stop_by_pid(pid_file: Path, mark: str, timeout: float) -> None:
    """Stop the process whose id stands in ``pid_file``, if there is one, and remove the file."""
    if pid_file.exists():
        ServerProcess(int(pid_file.read_text()), mark).stop(timeout)
        pid_file.unlink()


def cut_file(directory: Path, broker_id: int) -> Path:
    """The file that exists while a broker is cut off from ZooKeeper."""
    return directory / "cut" / str(broker_id)


def cut_brokers(directory: Path) -> set[int]:
    """The brokers that are cut off from ZooKeeper."""
    return {int(file.name) for file in (directory / "cut").glob("[0-9]*") if file.name.isdigit()}


def heal_all(directory: Path) -> None:
    """Let all brokers reach ZooKeeper again."""
    for broker_id in cut_brokers(directory):
        cut_file(directory, broker_id).unlink(missing_ok=True)


def zookeeper_port(directory: Path) -> int:
    """The port of the cluster's ZooKeeper, 0 if none is recorded."""
    state = read_state(directory)
    if state is None:
        return 0
    return int(str(state["zookeeper"]).split("/")[0].rpartition(":")[2])
