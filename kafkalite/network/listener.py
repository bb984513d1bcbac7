"""A listening socket.

Answers to: ``kafka.network.Acceptor``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from twisted.python.failure import Failure

from kafkalite.network.endpoint_security import ListenerSecurity
from kafkalite.network.rate_limited_log import RateLimitedLog
from kafkalite.network.reactor import DelayedCall, ReactorSockets
from kafkalite.network.sockets import BoundSocket, Socket

log = logging.getLogger(__name__)

ACCEPT_PAUSE = 1.0
"""Seconds without accepting after the process ran out of descriptors."""


class Listener:
    """Accepts connections, a few at a time, because open connections would have to wait for a flood of new ones.

    ``accepted`` is called with each socket, its address, and the listener's ``name`` and ``security``; it returns for
    how many seconds no other is accepted. Where ``has_slot`` says no, none is until :meth:`resume`.
    """

    AT_ONCE = 4
    """One takes a tenth of a millisecond."""

    def __init__(
        self,
        reactor: ReactorSockets,
        sock: BoundSocket,
        name: str,
        security: ListenerSecurity,
        accepted: Callable[[Socket, object, str, ListenerSecurity], float],
        has_slot: Callable[[str], bool],
        complaints: RateLimitedLog,
    ) -> None:
        self._reactor = reactor
        self._sock = sock
        self._accepted = accepted
        self._has_slot = has_slot
        self._complaints = complaints
        self.name = name
        self._security = security
        self.port: int = sock.getsockname()[1]
        self._fd: int = sock.fileno()
        self._open = True
        self._is_full = False
        self._pause: DelayedCall | None = None
        reactor.addReader(self)

    def fileno(self) -> int:
        """See Twisted's ``IFileDescriptor``."""
        return self._fd

    def logPrefix(self) -> str:  # noqa: N802
        """For Twisted's own log."""
        return "kafka"

    def connectionLost(self, reason: Failure) -> None:  # noqa: N802
        """The reactor stops, or the socket failed."""
        log.debug("listener %s: %s", self.name, reason)
        self.close()

    def doRead(self) -> None:  # noqa: N802
        """Connections wait to be accepted."""
        for _ in range(self.AT_ONCE):
            if not self._open:
                return
            if not self._has_slot(self.name):
                self._complaints.warning("listener %s has as many connections as it may have; others wait", self.name)
                self._is_full = True
                self._reactor.removeReader(self)
                return
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as error:
                # Without free descriptors accept() fails, and the reactor would call it again without end.
                self._complaints.warning("cannot accept a connection: %s", error)
                self._rest(ACCEPT_PAUSE)
                return
            pause = self._accepted(sock, address, self.name, self._security)
            if pause:
                self._rest(pause)
                return

    def resume(self) -> None:
        """A connection was closed, or the bounds were changed: perhaps there is a slot again."""
        if self._is_full and self._open and self._has_slot(self.name):
            self._is_full = False
            if self._pause is None:
                self._reactor.addReader(self)

    def _rest(self, seconds: float) -> None:
        self._reactor.removeReader(self)
        self._pause = self._reactor.callLater(seconds, self._rested)

    def _rested(self) -> None:
        self._pause = None
        if self._open and not self._is_full:
            self._reactor.addReader(self)

    def close(self) -> None:
        """Accept no more."""
        if self._open:
            self._open = False
            if self._pause is not None:
                self._pause.cancel()
                self._pause = None
            self._reactor.removeReader(self)
            self._sock.close()
