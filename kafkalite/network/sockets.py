"""Opening sockets: bound, listening and connecting ones.

Answers to: ``java.nio.channels.{ServerSocketChannel,SocketChannel}`` as ``kafka.network.Acceptor`` and
``org.apache.kafka.common.network.Selector`` open them. Reactor shell. A port, because the simulation
runs whole clusters on sockets in memory.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable
from typing import Any, Protocol

from kafkalite.common.errors import StartupError


class Sockets(Protocol):
    """Opens sockets, which do not block and have the methods of :class:`socket.socket`."""

    def bind(self, host: str, port: int) -> Any:
        """A socket with its address (port 0: a free one), which refuses connections until :meth:`listen`.

        Raises :class:`StartupError` with what to do.
        """

    def listen(self, sock: Any, backlog: int) -> None:
        """Let a bound socket accept. Raises :class:`StartupError` if another process has taken the port."""

    def resolve(self, host: str) -> Awaitable[str]:
        """The address of ``host``. Fails if the name is unknown."""

    def connect(self, address: str, port: int) -> tuple[Any, int]:
        """A socket that connects to ``address``, and the error number that ``connect_ex`` gave."""


class OsSockets:
    """The :class:`Sockets` of the operating system; names are resolved by Twisted's ``reactor``."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def bind(self, host: str, port: int) -> socket.socket:
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

    def listen(self, sock: socket.socket, backlog: int) -> None:
        try:
            sock.listen(backlog)
        except OSError as error:
            host, port = sock.getsockname()[:2]
            sock.close()
            raise _cannot_listen(f"{host}:{port}", error) from None
        sock.setblocking(False)

    def resolve(self, host: str) -> Awaitable[str]:
        resolved: Awaitable[str] = self._reactor.resolve(host)
        return resolved

    def connect(self, address: str, port: int) -> tuple[socket.socket, int]:
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock, sock.connect_ex((address, port))


def _cannot_listen(address: str, error: Exception) -> StartupError:
    return StartupError(f"cannot listen on {address}: {error}; stop what uses the port or change 'listeners'")
