"""How the ends of connections are secured: what a listener asks of its clients, and what a client brings along.

Answers to: ``org.apache.kafka.common.network.ChannelBuilders``. Pure.

These values are made in the broker's room, because the network knows neither key stores nor mechanisms.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafkalite.common.authentication import Authenticator, SaslClient
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.common.tasks import Executor
from kafkalite.network.request import ConnectionInfo


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """The security of one listener. ``protocol`` is Kafka's name for it.

    ``tls`` gives the context for the next connection (``None``: connections are not encrypted). ``principal`` makes a
    principal of the client's certificate in DER (``None``: it sent none), and raises :class:`LookupError` or
    :class:`ValueError` if the client is refused; without it, the certificate does not say who the client is.
    ``authenticator`` makes the authenticator of a new connection (``None``: clients do not authenticate by SASL), and
    ``max_receive_bytes`` bounds the frames of a client that is not authenticated (``sasl.server.max.receive.size``).
    """

    protocol: str = "PLAINTEXT"
    authenticator: Callable[[ConnectionInfo], Authenticator] | None = None
    max_receive_bytes: int = 524_288
    tls: Callable[[], ssl.SSLContext] | None = None
    principal: Callable[[bytes | None], KafkaPrincipal] | None = None

    @property
    def begins_with_handshake(self) -> bool:
        """Whether TLS or SASL, or both, come before the first request that is served."""
        return self.tls is not None or self.authenticator is not None


PLAINTEXT: Final = ListenerSecurity()
"""A listener that encrypts nothing and asks for nothing."""


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """How a broker connects to another one: ``tls`` is the context (``None``: the connection is not encrypted).

    ``sasl`` begins an exchange by which the broker logs in (``None``: it does not). ``executor`` makes the steps of
    exchanges that block (``None``: they do not).
    """

    tls: ssl.SSLContext | None = None
    sasl: Callable[[], SaslClient] | None = None
    executor: Executor | None = None


PLAINTEXT_CLIENT: Final = ClientSecurity()
"""A connection that is not encrypted, to a broker that asks for no login."""
