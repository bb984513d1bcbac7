"""A small process beside the broker that ends the broker's ZooKeeper session the moment the broker dies.

Answers to: nothing in Kafka, where others wait for the session timeout. Reactor shell.

The guardian learns of the death by the end of a pipe, which nobody but the broker holds: a broker that is merely slow
or stopped keeps it open. Where the guardian dies with the broker (a killed container), the session timeout does the
work.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys

from kafkalite.broker import guardian_process
from kafkalite.broker.guardian_process import MESSAGE
from kafkalite.common.clock import Clock, Timer

log = logging.getLogger(__name__)
CHECK_INTERVAL = 5.0
"""Seconds between looks at whether the guardian is there; one that was killed is replaced."""


class Guardian:
    """Keeps one guardian process alive and informed.

    ``hosts``: the ZooKeeper connection string. Tell it of every new session by :meth:`watch`, and of a session that
    was closed in order by :meth:`release`.
    """

    def __init__(self, hosts: str, clock: Clock) -> None:
        self._hosts = hosts
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._message = MESSAGE.pack(0, 0, b"")
        self._timer: Timer | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the guardian, while there is one."""
        return self._process.pid if self._process is not None else None

    def watch(self, session: int, password: bytes, timeout_ms: int) -> None:
        """Guard this session from now on, and no other."""
        self._message = MESSAGE.pack(session, timeout_ms, password)
        self._tell()
        if self._timer is None:
            self._timer = self._clock.call_later(CHECK_INTERVAL, self._check)

    def release(self) -> None:
        """The session is closed, or about to be: the guardian goes and does nothing."""
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
        # both ends are close-on-exec: no other child of the broker keeps the pipe open after its death
        reader, self._pipe = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(guardian_process.__file__), self._hosts],
                stdin=reader,
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
