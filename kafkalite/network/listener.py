"""A listening socket.

Answers to: ``kafka.network.Acceptor``. Reactor shell.
"""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING, Any

from kafkalite.common.errors import StartupError

if TYPE_CHECKING:
    from kafkalite.network.server import KafkaServer

log = logging.getLogger(__name__)

ACCEPT_PAUSE = 1.0
"""Seconds without accepting after the process ran out of descriptors."""


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket that has its address but does not listen yet: whoever connects is refused.

    Raises :class:`StartupError` with what to do.
    """
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise StartupError(f"listeners: the host {host!r} is not known: {error}") from None
    family, kind, protocol, _, address = sorted(found, key=lambda entry: entry[0] != socket.AF_INET)[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except (OSError, OverflowError) as error:
        sock.close()
        raise _cannot_listen(f"{host or '0.0.0.0'}:{port}", error) from None
    return sock


def open_socket(sock: socket.socket, backlog: int) -> None:
    """Let a bound socket listen. Raises :class:`StartupError` where another got hold of the port meanwhile."""
    try:
        sock.listen(backlog)
    except OSError as error:
        host, port = sock.getsockname()[:2]
        sock.close()
        raise _cannot_listen(f"{host}:{port}", error) from None
    sock.setblocking(False)


def _cannot_listen(address: str, error: Exception) -> StartupError:
    return StartupError(f"cannot listen on {address}: {error}; stop what uses the port or change 'listeners'")


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
