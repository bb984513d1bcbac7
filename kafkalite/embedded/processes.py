"""Child processes by pid: start them apart from the terminal, ask whether they live, end them. Also: free ports.

Answers to: the ``nohup … &`` and ``kill`` of ``bin/kafka-server-{start,stop}.sh``. Plain processes, no reactor.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

FIRST_PORT, LAST_PORT = 20000, 32000
"""Free ports come from below the kernel's ephemeral range: no outgoing connection takes one between two starts."""

POLL_INTERVAL = 0.01


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """``count`` different ports of ``host`` on which nothing listens."""
    ports: list[int] = []
    chance = random.SystemRandom()
    while len(ports) < count:
        port = chance.randrange(FIRST_PORT, LAST_PORT)
        if port not in ports and is_free(port, host):
            ports.append(port)
    return ports


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen on ``port`` now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


class ServerProcess:
    """A server process in a session of its own, with its output in a file.

    ``mark`` is a piece of its command line (a path of ours) by which it is told from a stranger that
    was given the same pid after the process had gone.
    """

    def __init__(self, pid: int, mark: str, popen: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self.mark = mark
        self.ended = False
        """Whether it was us who ended it."""
        self._popen = popen

    @classmethod
    def spawn(
        cls, command: Sequence[str], log: Path, mark: str, environment: Mapping[str, str] | None = None
    ) -> ServerProcess:
        """Start ``command``; its output is added to the file ``log``."""
        with log.open("ab") as output:
            popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
        return cls(popen.pid, mark, popen)

    def is_alive(self) -> bool:
        """Whether the process is there (a stopped one is) and ours."""
        if self._popen is not None:
            return self._popen.poll() is None
        try:
            command = Path(f"/proc/{self.pid}/cmdline").read_bytes().decode(errors="replace")
        except FileNotFoundError:
            return not Path("/proc").exists() and _signal(self.pid, 0)
        except OSError:
            return False
        return self.mark in command

    def kill(self) -> None:
        """``kill -9``, and wait until it has gone."""
        self.signal(signal.SIGKILL)
        self.wait(10.0)

    def signal(self, number: int) -> None:
        """Send a signal; nothing happens where the process has gone."""
        if self.is_alive():
            _signal(self.pid, number)

    def wait(self, timeout: float) -> bool:
        """Wait until the process has gone; ``False`` where it still lives after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while self.is_alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_INTERVAL)
        return True

    def stop(self, timeout: float) -> bool:
        """SIGTERM, and SIGKILL after ``timeout`` seconds. ``True`` where the first was enough."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        if self.wait(timeout):
            return True
        self.kill()
        return False


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
