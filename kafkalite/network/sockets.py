"""Opening sockets: bound, listening and connecting ones.

Answers to: ``java.nio.channels.{ServerSocketChannel,SocketChannel}`` as ``kafka.network.Acceptor`` and
``org.apache.kafka.common.network.Selector`` open them. Reactor shell. A port, because the simulation
runs whole clusters on sockets in memory.
"""

from __future__ import annotations

import resource
import socket
from collections.abc import Awaitable
from typing import Protocol

from kafkalite.common.errors import StartupError
from kafkalite.common.types import Buffer
from kafkalite.network.reactor import ReactorNames


class WritableSocket(Protocol):
    """What writing needs of a socket."""

    def fileno(self) -> int: ...
    def send(self, data: Buffer, flags: int = 0, /) -> int: ...
    def sendmsg(self, buffers: list[Buffer], ancillary: tuple[()] = (), flags: int = 0, /) -> int: ...


class Socket(WritableSocket, Protocol):
    """The methods of :class:`socket.socket` that the network calls; the simulation has sockets of its own."""

    @property
    def family(self) -> int: ...
    def close(self) -> None: ...
    def setblocking(self, flag: bool, /) -> None: ...
    def setsockopt(self, level: int, option: int, value: int, /) -> None: ...
    def getsockopt(self, level: int, option: int, /) -> int: ...
    def recv_into(self, target: memoryview, /) -> int: ...


class BoundSocket(Protocol):
    """A socket with an address, as the listeners use it."""

    def fileno(self) -> int: ...
    def close(self) -> None: ...
    def getsockname(self) -> tuple[str, int]: ...
    def accept(self) -> tuple[Socket, object]: ...


class Sockets(Protocol):
    """Opens sockets, which do not block and have the methods of :class:`socket.socket`."""

    @property
    def descriptors(self) -> int:
        """How many sockets and files the process may have open."""

    def bind(self, host: str, port: int) -> BoundSocket:
        """A socket with its address (port 0: a free one), which refuses connections until :meth:`listen`.

        Raises :class:`StartupError` with what to do.
        """

    def listen(self, sock: BoundSocket, backlog: int) -> None:
        """Let a bound socket accept. Raises :class:`StartupError` if another process has taken the port."""

    def resolve(self, host: str) -> Awaitable[str]:
        """The address of ``host``. Fails if the name is unknown."""

    def connect(self, address: str, port: int) -> tuple[Socket, int]:
        """A socket that connects to ``address``, and the error number that ``connect_ex`` gave."""


class OsSockets:
    """The :class:`Sockets` of the operating system; names are resolved by Twisted's ``reactor``, if there is one."""

    def __init__(self, reactor: ReactorNames | None) -> None:
        self._reactor = reactor

    @property
    def descriptors(self) -> int:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

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

    def listen(self, sock: BoundSocket, backlog: int) -> None:
        assert isinstance(sock, socket.socket)
        try:
            sock.listen(backlog)
        except OSError as error:
            host, port = sock.getsockname()[:2]
            sock.close()
            raise _cannot_listen(f"{host}:{port}", error) from None
        sock.setblocking(False)

    def resolve(self, host: str) -> Awaitable[str]:
        assert self._reactor is not None
        return self._reactor.resolve(host)

    def connect(self, address: str, port: int) -> tuple[socket.socket, int]:
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock, sock.connect_ex((address, port))


def _cannot_listen(address: str, error: Exception) -> StartupError:
    return StartupError(f"cannot listen on {address}: {error}; stop what uses the port or change 'listeners'")
