"""Compactors as child processes of the broker.

Answers to: ``kafka.log.LogCleaner.CleanerThread``. Reactor shell.

A compactor reads orders from its standard input, writes reports to its standard output, and ends when its input ends,
so that it never outlives its broker. Its warnings go to the broker's standard error.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from twisted.internet import error, protocol
from twisted.python.failure import Failure

import kafkalite
from kafkalite.log.cleaner.job import Order, Report, decode, encode

log = logging.getLogger(__name__)
_MODULE = "kafkalite.broker.cleaner_process"


class ProcessSpawner(Protocol):
    """Twisted's ``IReactorProcess``."""

    def spawnProcess(  # noqa: N802
        self,
        process: CleanerProcess,
        program: str,
        args: list[str],
        *,
        env: dict[str, str],
        childFDs: dict[int, str | int],  # noqa: N803
    ) -> object: ...


class ProcessTransport(Protocol):
    """Twisted's ``IProcessTransport``."""

    pid: int

    def writeToChild(self, descriptor: int, data: bytes, /) -> None: ...  # noqa: N802
    def signalProcess(self, signal: str, /) -> None: ...  # noqa: N802


class CleanerProcesses:
    """A :class:`kafkalite.log.cleaner.job.CleanerPool` of processes."""

    def __init__(self, reactor: ProcessSpawner) -> None:
        self._reactor = reactor

    def start(self, number: int, report: Callable[[Report], None], ended: Callable[[str], None]) -> CleanerProcess:
        """Start a process with the broker's own interpreter and package. Raises ``OSError``."""
        process = CleanerProcess(report, ended)
        home = str(Path(kafkalite.__file__).parents[1])
        path = [home, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        self._reactor.spawnProcess(
            process,
            sys.executable,
            [sys.executable, "-P", "-m", _MODULE],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(path))},
            childFDs={0: "w", 1: "r", 2: 2},
        )
        log.info("compactor %d is process %d", number, process.pid)
        return process


class CleanerProcess(protocol.ProcessProtocol):
    """One process: a :class:`kafkalite.log.cleaner.job.CleanerWorker`."""

    transport: ProcessTransport  # type: ignore[assignment]

    def __init__(self, report: Callable[[Report], None], ended: Callable[[str], None]) -> None:
        self._report = report
        self._ended = ended
        self._rest = b""
        self._closed = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return int(self.transport.pid)

    def send(self, order: Order) -> None:
        """Send ``order`` to the process."""
        self.transport.writeToChild(0, encode(order))

    def close(self) -> None:
        """Kill the process; the next cleaning deletes the files that it leaves."""
        self._closed = True
        try:
            self.transport.signalProcess("KILL")
        except error.ProcessExitedAlready:
            log.debug("the compactor was gone already")

    def childDataReceived(self, childFD: int, data: bytes) -> None:  # noqa: N802, N803, ARG002
        """The process wrote: each line is a report."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if self._closed:
                return
            try:
                report = decode(line)
            except ValueError as problem:
                log.error("%s", problem)
                continue
            self._report(report)  # type: ignore[arg-type]

    def processEnded(self, reason: Failure) -> None:  # noqa: N802
        """The process has ended, and all its output was read."""
        if not self._closed:
            self._closed = True
            self._ended(reason.getErrorMessage())
