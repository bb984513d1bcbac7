"""A listening socket.

Answers to: ``kafka.network.Acceptor``. Reactor shell.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalite.network.server import KafkaServer

log = logging.getLogger(__name__)

ACCEPT_PAUSE = 1.0
"""Seconds without accepting after the process ran out of descriptors."""


class Listener:
    """Accepts connections for a server, a few at a time so that nobody waits for a flood of them."""

    AT_ONCE = 64

    def __init__(self, server: KafkaServer, sock: Any, name: str) -> None:
        self._server = server
        self._sock = sock
        self.name = name
        self.port: int = sock.getsockname()[1]
        self._fd: int = sock.fileno()
        self._open = True
        server.reactor.addReader(self)

    def fileno(self) -> int:
        """See Twisted's ``IFileDescriptor``."""
        return self._fd

    def logPrefix(self) -> str:  # noqa: N802
        """For Twisted's own log."""
        return "kafka"

    def connectionLost(self, reason: Any) -> None:  # noqa: N802
        """The reactor is going away or the socket failed."""
        log.debug("listener %s: %s", self.name, reason)
        self.close()

    def doRead(self) -> None:  # noqa: N802
        """Somebody knocks."""
        for _ in range(self.AT_ONCE):
            if not self._open:
                return
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as error:
                # Without descriptors accepting would fail, and the reactor call again, for ever.
                self._server.complaints.warning("cannot accept a connection: %s", error)
                self._server.reactor.removeReader(self)
                self._server.reactor.callLater(ACCEPT_PAUSE, self._resume)
                return
            self._server.accepted(sock, address, self.name)

    def _resume(self) -> None:
        if self._open:
            self._server.reactor.addReader(self)

    def close(self) -> None:
        """Accept no more."""
        if self._open:
            self._open = False
            self._server.reactor.removeReader(self)
            self._sock.close()
