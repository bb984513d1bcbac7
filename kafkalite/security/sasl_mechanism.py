"""What a SASL mechanism is to the authenticator, and how it refuses a client.

Answers to: ``javax.security.sasl.SaslServer`` and ``SaslException``,
``org.apache.kafka.common.errors.SaslAuthenticationException``. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kafkalite.common.authentication import SaslError


class SaslAuthenticationError(SaslError):
    """The exchange failed. The text is sent to the client, so it must not say whether the user exists."""


class SaslRetriableError(SaslError):
    """The exchange failed for a reason that may be gone at once: the connection is closed, and no failure counted."""


class SaslMechanism(Protocol):
    """The server's side of one exchange; it is used once."""

    def evaluate(self, response: bytes, now_ms: int) -> bytes | None:
        """The challenge that answers ``response``, ``None`` if there is none. Raises :class:`SaslError`; the exchange
        is over then."""

    @property
    def is_complete(self) -> bool:
        """Whether the client is authenticated."""

    @property
    def authorization_id(self) -> str:
        """The name of the user; only once the exchange is complete."""

    @property
    def expires_at_ms(self) -> int | None:
        """When the credential ends (time of day in ms); ``None`` for one without an end."""

    @property
    def is_token(self) -> bool:
        """Whether the credential was a delegation token."""


MechanismFactory = Callable[[], SaslMechanism]
"""Begins an exchange."""
