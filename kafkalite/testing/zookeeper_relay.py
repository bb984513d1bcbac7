"""``python -m kafkalite.testing.zookeeper_relay CONNECT DIR``: relays between the brokers in ``DIR`` and ZooKeeper.

Answers to: ``iptables -j DROP``, without root. Shell: a process of its own, started by ``kafkalite/embedded``.

It prints the connection string for the brokers, the same for all of them, and tells them apart by the process that has
the client's end of a connection. A broker is cut off while ``DIR/cut`` has its file; what has no such process
(a command, the guardian of a dead broker) never is.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Final

from kafkalite.embedded.state import cut_brokers, process_of
from kafkalite.testing.fault_targets import ZOOKEEPER
from kafkalite.testing.wires import HOST, Wires

_LOOKS: Final = 0.05
"""Seconds between two looks at the folder of cuts."""
_PROC: Final = Path("/proc")


def main(connect: str, directory: Path) -> None:
    """Relay until the process is ended."""
    wires = Wires()
    servers, slash, chroot = connect.partition("/")
    relayed = []
    for server in servers.split(","):
        host, _, port = server.rpartition(":")
        relayed.append(f"{HOST}:{wires.relay(host, int(port), ZOOKEEPER, partial(broker_of, directory))}")
    print(",".join(relayed) + slash + chroot, flush=True)
    cut: set[int] = set()
    while True:
        wanted = cut_brokers(directory)
        for broker_id in wanted - cut:
            wires.cut(broker_id, ZOOKEEPER)
        for broker_id in cut - wanted:
            wires.join(broker_id, ZOOKEEPER)
        cut = wanted
        time.sleep(_LOOKS)


def broker_of(directory: Path, port: int) -> int | None:
    """The broker that connects from ``port`` of this machine."""
    sockets = set(_sockets_of(port))
    for config in sorted(directory.glob("broker-*/server.properties")):
        pid = process_of(str(config)) if sockets else None
        if pid is not None and sockets & _sockets_in(pid):
            return int(config.parent.name.rpartition("-")[2])
    return None


def _sockets_of(port: int) -> list[str]:
    """As the kernel names them in the folder of open files."""
    rows = [line.split() for line in (_PROC / "net" / "tcp").read_text().splitlines()[1:]]
    return [f"socket:[{row[9]}]" for row in rows if int(row[1].rpartition(":")[2], 16) == port]


def _sockets_in(pid: int) -> set[str]:
    found = set()
    try:
        for file in (_PROC / str(pid) / "fd").iterdir():
            try:
                found.add(str(file.readlink()))
            except OSError:
                continue  # It was closed.
    except OSError:
        pass  # The process has ended.
    return found


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
