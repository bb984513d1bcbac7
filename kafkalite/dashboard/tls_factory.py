"""TLS under Twisted's HTTP, by the standard library's OpenSSL.

Answers to: ``twisted.protocols.tls``, which needs pyOpenSSL; brokers use the contexts of the standard library, and so
does the page. Reactor shell.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterable
from typing import Final, Protocol, cast

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, connectionDone
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.python.failure import Failure
from twisted.web.server import Site
from zope.interface import directlyProvides, providedBy

log = logging.getLogger(__name__)

_PIECE: Final = 1 << 16


class _Transport(Protocol):
    def write(self, data: bytes, /) -> None: ...
    def loseConnection(self) -> None: ...  # noqa: N802 - Twisted's name


class TlsFactory(Factory):
    """The connections of ``wrapped``, each after a handshake with ``context``."""

    def __init__(self, wrapped: Site, context: ssl.SSLContext) -> None:
        self.wrapped = wrapped
        self._context = context

    def doStart(self) -> None:  # noqa: N802 - Twisted's name
        """A port listens."""
        super().doStart()
        self.wrapped.doStart()

    def doStop(self) -> None:  # noqa: N802 - Twisted's name
        """It no longer does."""
        self.wrapped.doStop()
        super().doStop()

    def buildProtocol(self, addr: IAddress | None) -> TlsProtocol:  # noqa: N802 - Twisted's name
        """One connection."""
        return TlsProtocol(self._context, cast("TwistedProtocol", self.wrapped.buildProtocol(addr)))


class TlsProtocol(TwistedProtocol):
    """One connection: to the protocol ``wrapped`` it is the transport."""

    def __init__(self, context: ssl.SSLContext, wrapped: TwistedProtocol) -> None:
        self._wrapped = wrapped
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_established = False

    def __getattr__(self, name: str) -> object:
        """What a transport has beside its bytes (addresses, producers) is that of the connection."""
        return getattr(self.transport, name)

    def connectionMade(self) -> None:  # noqa: N802 - Twisted's name
        """The client is connected, and begins the handshake."""
        directlyProvides(self, providedBy(self.transport))
        self._wrapped.makeConnection(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802 - Twisted's name
        """The connection is closed."""
        self._wrapped.connectionLost(reason)

    @property
    def certificate(self) -> bytes | None:
        """The client's certificate in DER; ``None`` if it sent none."""
        return self._tls.getpeercert(binary_form=True) if self._is_established else None

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Encrypted bytes have come."""
        self._incoming.write(data)
        try:
            if not self._is_established:
                self._tls.do_handshake()
                self._is_established = True
            while plain := self._tls.read(_PIECE):
                self._wrapped.dataReceived(plain)
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            log.debug("a connection to the page ends: %s", error)
            self._flush()
            self._end()

    def write(self, data: bytes) -> None:
        """Encrypt and send ``data``; nothing is sent before the handshake or after the end."""
        if self._is_established and data:
            try:
                self._tls.write(data)
            except ssl.SSLError as error:
                log.debug("a connection to the page ends: %s", error)
                self._end()
                return
            self._flush()

    def writeSequence(self, data: Iterable[bytes]) -> None:  # noqa: N802 - Twisted's name
        """The same with several pieces."""
        self.write(b"".join(data))

    def loseConnection(self) -> None:  # noqa: N802 - Twisted's name
        """Say the end of the encrypted stream, and close the connection."""
        if self._is_established:
            try:
                self._tls.unwrap()
            except ssl.SSLError:
                pass  # the client has not answered yet; what was to be sent to it is in the buffer
        self._flush()
        self._end()

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data:
            cast("_Transport", self.transport).write(data)

    def _end(self) -> None:
        cast("_Transport", self.transport).loseConnection()
