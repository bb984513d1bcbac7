"""The dashboard of a local cluster, as a process beside its brokers.

Answers to: nothing in Kafka. Plain process, no reactor.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final, Self

from kafkalite.common.errors import StartupError
from kafkalite.embedded.processes import POLL_INTERVAL, ServerProcess
from kafkalite.embedded.state import DASHBOARD_MARK, DASHBOARD_PID_FILE

START_TIMEOUT: Final = 60.0


class DashboardProcess:
    """Serves the page of the cluster in ``directory`` at ``address`` until it is stopped, or the cluster is."""

    def __init__(self, process: ServerProcess, pid_file: Path, address: str) -> None:
        self.address = address
        self._process = process
        self._pid_file = pid_file

    @classmethod
    def start(cls, directory: Path, *, allow_changes: bool = False, timeout: float = START_TIMEOUT) -> Self:
        """Start it on a free port, for the cluster that ``cluster.json`` in ``directory`` names.

        Raises :class:`StartupError` where it ends, or serves no page within ``timeout`` seconds.
        """
        log = directory / "dashboard.log"
        log.unlink(missing_ok=True)
        changes = ["--allow-changes"] if allow_changes else []
        words = (DASHBOARD_MARK, "--dir", str(directory), "--listen", "127.0.0.1:0", *changes)
        process = ServerProcess.spawn([sys.executable, "-m", "kafkalite.cli.main", *words], log, mark=DASHBOARD_MARK)
        pid_file = directory / DASHBOARD_PID_FILE
        pid_file.write_text(f"{process.pid}\n")
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and process.is_alive():
            for line in log.read_text(errors="replace").splitlines():
                if line.startswith(("http://", "https://")):
                    return cls(process, pid_file, line)
            time.sleep(POLL_INTERVAL)
        process.kill()
        pid_file.unlink()
        raise StartupError(f"the dashboard did not start; see {log}")

    def stop(self) -> None:
        """End the process."""
        self._process.stop(START_TIMEOUT)
        self._pid_file.unlink(missing_ok=True)
