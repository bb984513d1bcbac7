"""A listening socket.

Answers to: ``kafka.network.Acceptor``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from kafkalite.network.rate_limited_log import RateLimitedLog

log = logging.getLogger(__name__)

ACCEPT_PAUSE = 1.0
"""Seconds without accepting after the process ran out of descriptors."""


class Listener:
    """Accepts connections, a few at a time, because open connections would have to wait for a flood of new ones.

    ``accepted`` is called with each socket, its address and the listener's ``name``.
    """

    AT_ONCE = 64

    def __init__(
        self,
        reactor: Any,
        sock: Any,
        name: str,
        accepted: Callable[[Any, Any, str], object],
        complaints: RateLimitedLog,
    ) -> None:
        self._reactor = reactor
        self._sock = sock
        self._accepted = accepted
        self._complaints = complaints
        self.name = name
        self.port: int = sock.getsockname()[1]
        self._fd: int = sock.fileno()
        self._open = True
        reactor.addReader(self)

    def fileno(self) -> int:
        """See Twisted's ``IFileDescriptor``."""
        return self._fd

    def logPrefix(self) -> str:  # noqa: N802
        """For Twisted's own log."""
        return "kafka"

    def connectionLost(self, reason: Any) -> None:  # noqa: N802
        """The reactor stops, or the socket failed."""
        log.debug("listener %s: %s", self.name, reason)
        self.close()

    def doRead(self) -> None:  # noqa: N802
        """Connections wait to be accepted."""
        for _ in range(self.AT_ONCE):
            if not self._open:
                return
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as error:
                # Without free descriptors accept() fails, and the reactor would call it again without end.
                self._complaints.warning("cannot accept a connection: %s", error)
                self._reactor.removeReader(self)
                self._reactor.callLater(ACCEPT_PAUSE, self._resume)
                return
            self._accepted(sock, address, self.name)

    def _resume(self) -> None:
        if self._open:
            self._reactor.addReader(self)

    def close(self) -> None:
        """Accept no more."""
        if self._open:
            self._open = False
            self._reactor.removeReader(self)
            self._sock.close()
