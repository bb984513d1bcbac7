"""Both ends of TLS over a wire in memory, and the certificates for them."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable
from functools import cache
from typing import Any

import trustme

from kafkalite.network.tls_socket import HandshakeError, TlsSocket


@cache
def authority() -> trustme.CA:
    """The authority that all peers of a test run trust."""
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@cache
def server_context(*, asks: bool = False) -> ssl.SSLContext:
    """A server's context, which demands a certificate of its clients if it ``asks``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue_cert("broker", key_type=trustme.KeyType.ECDSA).configure_cert(context)
    authority().configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED if asks else ssl.CERT_NONE
    context.num_tickets = 0
    return context


@cache
def client_context(*, identified: bool = False, trusts: bool = True) -> ssl.SSLContext:
    """A client's context; ``identified``: it has a certificate, ``trusts``: it trusts the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if trusts:
        authority().configure_trust(context)
    if identified:
        authority().issue_cert("alice@example.org", common_name="alice").configure_cert(context)
    return context


class Wire:
    """One end of a connection in memory: :attr:`peer` reads what is sent here. ``room`` is what it still takes.

    ``failure`` is raised once what has come is read.
    """

    family = socket.AF_INET

    def __init__(self, number: int = 2000) -> None:
        self.peer = self
        self.incoming = bytearray()
        self.room = 1 << 40
        self.sends: list[int] = []
        self.flags: list[int] = []
        self.reads = 0
        self.failure: OSError | None = None
        self.ended = False
        self.closed = False
        self._number = number

    def fileno(self) -> int:
        return self._number

    def setblocking(self, flag: bool) -> None:
        pass

    def setsockopt(self, *_: Any) -> None:
        pass

    def getsockopt(self, *_: Any) -> int:
        return 0

    def recv_into(self, target: memoryview) -> int:
        self.reads += 1
        if self.failure is not None and not self.incoming:
            raise self.failure
        if not self.incoming and not self.ended:
            raise BlockingIOError
        count = min(len(target), len(self.incoming))
        target[:count] = self.incoming[:count]
        del self.incoming[:count]
        return count

    def send(self, data: Any, flags: int = 0) -> int:
        if not self.room:
            raise BlockingIOError
        count = min(len(data), self.room)
        self.room -= count
        self.sends.append(count)
        self.flags.append(flags)
        self.peer.incoming += data[:count]
        return count

    def sendmsg(self, *_: Any) -> int:
        raise AssertionError("TLS sends one buffer at a time")

    def close(self) -> None:
        self.closed = True
        self.peer.ended = True


def wires() -> tuple[Wire, Wire]:
    """Both ends of a connection."""
    a, b = Wire(2000), Wire(2001)
    a.peer, b.peer = b, a
    return a, b


def pair(server: ssl.SSLContext | None = None, client: ssl.SSLContext | None = None) -> tuple[TlsSocket, TlsSocket]:
    """A server and a client before their handshake."""
    a, b = wires()
    return (
        TlsSocket(a, server or server_context(), is_server=True),
        TlsSocket(b, client or client_context(), is_server=False, server_name="broker"),
    )


def handshake(sock: TlsSocket) -> bool:
    """Go on with the handshake as far as the bytes that have come allow; whether it is complete."""
    while not sock.is_established:
        sock.flush()
        if not sock.receive_handshake():
            return False
        try:
            sock.compute_handshake()
        except HandshakeError:
            sock.flush()
            raise
    sock.flush()
    return True


def shake_hands(server: TlsSocket, client: TlsSocket) -> None:
    """Both ends go on with the handshake until it is complete."""
    for _ in range(5):
        done = [handshake(client), handshake(server)]
        if all(done):
            return
    raise AssertionError("no end of the handshake")


def established(**contexts: ssl.SSLContext) -> tuple[TlsSocket, TlsSocket]:
    """A server and a client after their handshake."""
    server, client = pair(**contexts)
    shake_hands(server, client)
    return server, client


def wire(sock: TlsSocket) -> Wire:
    """The wire below ``sock``."""
    below = sock._sock
    assert isinstance(below, Wire)
    return below


def send_all(sock: TlsSocket, data: bytes) -> None:
    """Send ``data`` over a wire that takes it."""
    while data:
        data = data[sock.send(data) :]


def read_all(sock: TlsSocket, target: int = 1 << 16) -> bytes:
    """All that has come."""
    found = bytearray()
    buffer = memoryview(bytearray(target))
    while True:
        try:
            count = sock.recv_into(buffer)
        except BlockingIOError:
            return bytes(found)
        if not count:
            return bytes(found)
        found += buffer[:count]


def attempts(call: Callable[[], int], below: Wire, room: int) -> tuple[int, int]:
    """Call until bytes are taken, with ``room`` more on the wire before each call: how many, after how many calls."""
    for count in range(1, 1 << 20):
        below.room = room
        try:
            return call(), count
        except BlockingIOError:
            pass
    raise AssertionError("nothing is taken")


def random_bytes(count: int) -> bytes:
    """Bytes that no cipher can shorten."""
    return os.urandom(count)
