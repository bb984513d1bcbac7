"""What the ends of a connection and those who authenticate them say to each other.

Answers to: ``org.apache.kafka.common.network.Authenticator``. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from kafkalite.common.principals import KafkaPrincipal


class SaslError(Exception):
    """An exchange failed. The text is for the log; a client is told only that its credentials are invalid."""


class SaslClient(Protocol):
    """The client's side of one exchange; it is used once. ``mechanism`` is its name in SaslHandshake."""

    @property
    def mechanism(self) -> str: ...

    def evaluate(self, challenge: bytes | None) -> bytes | None:
        """The next token, or ``None`` once the exchange is over; ``challenge`` is ``None`` at its beginning.

        Raises :class:`SaslError` if the server does not prove that it knows the user, or sends nonsense.
        """


class Verdict(Enum):
    """What becomes of the connection after a frame."""

    CONTINUE = auto()
    """The exchange goes on: send the answer, if any, and read the next frame."""
    COMPLETE = auto()
    """The client is authenticated: send the answer, if any; the next frames are ordinary requests."""
    FAILED = auto()
    """Authentication failed: count it, wait ``connection.failed.authentication.delay.ms``, send the answer, close."""
    INVALID = auto()
    """The frame has no place here: close at once, without an answer."""
    BLOCKED = auto()
    """Making the step blocks: make it off the reactor by ``work``, and read no frame meanwhile."""


@dataclass(frozen=True, slots=True)
class AuthenticationStep:
    """What one frame leads to. ``answer`` is a frame without length; ``reason`` is for the log and has no secret.

    ``work`` makes the step itself; only for ``BLOCKED``.
    """

    verdict: Verdict
    answer: bytes | None = None
    reason: str = ""
    work: Callable[[], AuthenticationStep] | None = None


class Authenticator(Protocol):
    """The authentication of one connection; times are times of day in ms."""

    @property
    def principal(self) -> KafkaPrincipal | None:
        """Who the client is; only once the verdict was ``COMPLETE``."""

    @property
    def session_expires_at_ms(self) -> int | None:
        """When the client's session ends; ``None`` where it does not."""

    def receive(self, frame: bytes | bytearray | memoryview, now_ms: int) -> AuthenticationStep:
        """The step that ``frame`` (without its length) leads to."""

    def begin_reauthentication(self, now_ms: int) -> bool:
        """Whether the SaslHandshake of an authenticated client begins a new exchange, by :meth:`receive`."""

    def is_expired(self, now_ms: int) -> bool:
        """Whether the session is over: a request other than SaslHandshake then closes the connection."""
