"""Compactors as child processes of the broker.

Answers to: ``kafka.log.LogCleaner.CleanerThread``. Reactor shell.

A compactor is told what to do by its standard input, reports by its standard output, and goes when the former ends: so
none outlives its broker, however that died. Its warnings go where the broker's go.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet import error, protocol
from twisted.python.failure import Failure

import kafkalite
from kafkalite.log.cleaner.job import Order, Report, decode, encode

log = logging.getLogger(__name__)
_MODULE = "kafkalite.broker.cleaner_process"


class CleanerProcesses:
    """A :class:`kafkalite.log.cleaner.port.CleanerPool` of processes."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def start(self, number: int, report: Callable[[Report], None], ended: Callable[[str], None]) -> CleanerProcess:
        """A new process; the interpreter and the path to this package are the broker's own. Raises ``OSError``."""
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
    """One of them: a :class:`kafkalite.log.cleaner.port.CleanerWorker`."""

    def __init__(self, report: Callable[[Report], None], ended: Callable[[str], None]) -> None:
        self.transport: Any = None
        self._report = report
        self._ended = ended
        self._rest = b""
        self._closed = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return int(self.transport.pid)

    def send(self, order: Order) -> None:
        """Hand an order over."""
        self.transport.writeToChild(0, encode(order))

    def close(self) -> None:
        """End it; it need not put anything in order."""
        self._closed = True
        try:
            self.transport.signalProcess("KILL")
        except error.ProcessExitedAlready:
            log.debug("the compactor was gone already")

    def childDataReceived(self, childFD: int, data: bytes) -> None:  # noqa: N802, N803, ARG002
        """Reports come line by line."""
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
        """It has gone, and all that it wrote has been read."""
        if not self._closed:
            self._closed = True
            self._ended(reason.getErrorMessage())
