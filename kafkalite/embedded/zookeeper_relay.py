"""The process between the brokers of a local cluster and their ZooKeeper, which can cut one broker off.

Answers to: ``iptables -j DROP``, without root. Plain process and files, no reactor.

The folder ``cut`` of the cluster has an empty file for each broker that is cut off, named by its id: who writes it need
not reach the process, and what is cut is seen by all.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final, Self

from kafkalite.common.errors import StartupError
from kafkalite.embedded.processes import POLL_INTERVAL, ServerProcess
from kafkalite.embedded.state import RELAY_MARK, RELAY_PID_FILE, cut_file, heal_all

_TIMEOUT: Final = 60.0


class ZooKeeperRelay:
    """Forwards to a ZooKeeper until it is stopped. ``connect`` is the connection string for the brokers."""

    def __init__(self, process: ServerProcess, pid_file: Path, connect: str) -> None:
        self.connect = connect
        self._process = process
        self._pid_file = pid_file

    @classmethod
    def start(cls, directory: Path, connect: str) -> Self:
        """Start it for the cluster in ``directory`` and the ZooKeeper at ``connect``; no broker is cut off.

        Raises :class:`StartupError` where it ends.
        """
        heal_all(directory)
        log = directory / "zookeeper-relay.log"
        log.unlink(missing_ok=True)
        words = [sys.executable, "-m", RELAY_MARK, connect, str(directory)]
        process = ServerProcess.spawn(words, log, mark=RELAY_MARK)
        pid_file = directory / RELAY_PID_FILE
        pid_file.write_text(f"{process.pid}\n")
        deadline = time.monotonic() + _TIMEOUT
        while time.monotonic() < deadline and process.is_alive():
            first, newline, _ = log.read_text(errors="replace").partition("\n")
            if newline:
                return cls(process, pid_file, first)
            time.sleep(POLL_INTERVAL)
        process.kill()
        pid_file.unlink()
        raise StartupError(f"the relay to ZooKeeper did not start; see {log}")

    def stop(self) -> None:
        """End the process."""
        self._process.stop(_TIMEOUT)
        self._pid_file.unlink(missing_ok=True)

    def kill(self) -> None:
        """``kill -9``."""
        self._process.kill()


def cut_off(directory: Path, broker_id: int) -> None:
    """Let no byte pass between a broker and ZooKeeper. Raises :class:`StartupError` where no relay stands between."""
    if not _is_running(directory):
        raise StartupError(
            f"broker {broker_id} reaches ZooKeeper directly: start the cluster with --relay-zookeeper (or --dashboard "
            "--allow-changes) to cut it off"
        )
    file = cut_file(directory, broker_id)
    file.parent.mkdir(exist_ok=True)
    file.touch()


def heal(directory: Path, broker_id: int) -> None:
    """Undo :func:`cut_off`."""
    cut_file(directory, broker_id).unlink(missing_ok=True)


def _is_running(directory: Path) -> bool:
    try:
        pid = int((directory / RELAY_PID_FILE).read_text())
    except FileNotFoundError:
        return False
    return ServerProcess(pid, RELAY_MARK).is_alive()
