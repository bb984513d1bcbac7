"""A small process beside the broker that ends the broker's ZooKeeper session when the broker dies.

Answers to: nothing in Kafka, where others wait for the session timeout. Reactor shell.

The guardian learns of the death by the end of a pipe that only the broker holds: a broker that is merely slow or
stopped keeps the pipe open. If the guardian dies with the broker (a killed container), the session ends by its timeout.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import kafkalite
from kafkalite.broker import guardian_process
from kafkalite.broker.guardian_process import MESSAGE
from kafkalite.common.clock import Clock, Timer
from kafkalite.zk.session_security import OPEN, ZkSecurity

log = logging.getLogger(__name__)
CHECK_INTERVAL = 5.0
"""Seconds between two checks that the guardian runs. The broker replaces a guardian that was killed."""


class Guardian:
    """Keeps one guardian process running and sends it the credentials of the session.

    ``hosts``: the ZooKeeper connection string; ``security``: how ZooKeeper is secured. Call :meth:`watch` in each new
    session, and :meth:`release` before a session is closed in order.
    """

    def __init__(self, hosts: str, clock: Clock, security: ZkSecurity = OPEN) -> None:
        self._hosts = hosts
        self._clock = clock
        self._security_fd = _file_with(security) if security != OPEN else -1
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._message = MESSAGE.pack(0, 0, b"")
        self._timer: Timer | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the guardian; ``None`` while none runs."""
        return self._process.pid if self._process is not None else None

    @property
    def is_running(self) -> bool:
        """Whether a guardian runs."""
        return self._process is not None and self._process.poll() is None

    def watch(self, session: int, password: bytes, timeout_ms: int) -> None:
        """Guard this session from now on, instead of any other."""
        self._message = MESSAGE.pack(session, timeout_ms, password)
        self._tell()
        if self._timer is None:
            self._timer = self._clock.call_later(CHECK_INTERVAL, self._check)

    def release(self) -> None:
        """The session is closed, or about to be: end the guardian, so that it does nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._message = MESSAGE.pack(0, 0, b"")
        if self._process is None:
            return
        try:
            os.write(self._pipe, self._message)
        except OSError:
            log.debug("the guardian was gone already")
        self._close_pipe()
        self._process.wait()
        self._process = None

    def _tell(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self._spawn()
        try:
            os.write(self._pipe, self._message)
        except BrokenPipeError:
            self._spawn()
            os.write(self._pipe, self._message)

    def _check(self) -> None:
        self._timer = self._clock.call_later(CHECK_INTERVAL, self._check)
        if self._process is not None and self._process.poll() is not None:
            log.warning("the session guardian ended with status %s; starting another", self._process.returncode)
            self._tell()

    def _spawn(self) -> None:
        self._close_pipe()
        # Both ends are close-on-exec, because another child of the broker would keep the pipe open after its death.
        reader, self._pipe = os.pipe()
        command = [sys.executable, "-I", "-S", str(guardian_process.__file__), self._hosts]
        secrets = [self._security_fd] if self._security_fd >= 0 else []
        if secrets:
            command += [str(Path(kafkalite.__file__).parents[1]), str(self._security_fd)]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=reader,
                pass_fds=secrets,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        finally:
            os.close(reader)

    def _close_pipe(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


def _file_with(security: ZkSecurity) -> int:
    """A file in memory, for the guardian alone, because a command line would show the keys and a disk keep them."""
    fd = os.memfd_create("kafkalite-zookeeper-security", os.MFD_CLOEXEC)
    with os.fdopen(fd, "wb", closefd=False) as file:
        file.write(security.encode())
    return fd
