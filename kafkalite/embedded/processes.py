"""Child processes by pid: start them detached from the terminal, check that they live, end them. Also: free ports.

Answers to: the ``nohup … &`` and ``kill`` of ``bin/kafka-server-{start,stop}.sh``. Plain processes, no reactor.
"""

from __future__ import annotations

import fcntl
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from kafkalite.common.errors import StartupError

EPHEMERAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
USUAL_PORTS = range(20000, 32000)
"""Ports below the ephemeral ports of Linux."""

POLL_INTERVAL = 0.01

_claimed: set[int] = set()


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """``count`` different ports of ``host`` on which nothing listens.

    While this process lives, this function gives none of them to another process of this user, even while nothing
    listens on it, so that two clusters that start at once, and a broker that is down, keep their ports. Raises
    :class:`StartupError` if all ports are taken.
    """
    ports: list[int] = []
    rng = random.SystemRandom()
    choice = server_ports()
    for _ in range(20 * len(choice)):
        if len(ports) == count:
            return ports
        port = rng.choice(choice)
        if is_free(port, host) and _claim(port):
            ports.append(port)
    raise StartupError(f"no free port on {host} between {choice.start} and {choice.stop}")


def server_ports(ephemeral: Path = EPHEMERAL_PORTS) -> range:
    """Ports that the kernel gives to no outgoing connection, so that they are still free when their server restarts."""
    try:
        first, last = map(int, ephemeral.read_text().split())
    except (OSError, ValueError):
        return USUAL_PORTS
    if first >= USUAL_PORTS.stop or last < USUAL_PORTS.start:
        return USUAL_PORTS
    below, above = range(10000, first), range(last + 1, 65536)
    return max(below, above, key=len) if max(len(below), len(above)) >= 2000 else USUAL_PORTS


def _claim(port: int) -> bool:
    # One byte of a file for each port. The kernel releases the lock when this process ends, also if it is killed.
    if port in _claimed:
        return False
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _claimed.add(port)
    return True


@cache
def _claims() -> int:
    # Never closed, because closing any descriptor of the file releases all locks of the process.
    path = Path(tempfile.gettempdir()) / f"kafkalite-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


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

    ``mark`` is a piece of its command line (a path of ours), by which it is distinguished from an unrelated process
    that was given the same pid later.
    """

    def __init__(self, pid: int, mark: str, popen: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self.mark = mark
        self.ended = False
        """Whether this object ended the process."""
        self._popen = popen

    @classmethod
    def spawn(
        cls, command: Sequence[str], log: Path, mark: str, environment: Mapping[str, str] | None = None
    ) -> ServerProcess:
        """Start ``command``; its output is appended to the file ``log``."""
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
        """Whether the process exists (also stopped by SIGSTOP) and is ours."""
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
        """``kill -9``, and wait until the process has ended."""
        self.signal(signal.SIGKILL)
        self.wait(10.0)

    def signal(self, number: int) -> None:
        """Send a signal; does nothing if the process has ended."""
        if self.is_alive():
            _signal(self.pid, number)

    def wait(self, timeout: float) -> bool:
        """Wait until the process has ended; ``False`` if it still lives after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while self.is_alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_INTERVAL)
        return True

    def stop(self, timeout: float) -> bool:
        """SIGTERM, and SIGKILL after ``timeout`` seconds. ``True`` if SIGTERM was enough."""
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
