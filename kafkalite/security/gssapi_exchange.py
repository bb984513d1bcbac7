"""SASL/GSSAPI: both sides of the exchange that follows a Kerberos ticket (RFC 4752).

Answers to: ``com.sun.security.sasl.gsskerb.{GssKrb5Server,GssKrb5Client}`` and
``org.apache.kafka.common.security.kerberos.KerberosError``. Pure: the security context is handed in.

No security layer is offered or taken, as in Kafka: TLS is what encrypts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from kafkalite.common.authentication import SaslError
from kafkalite.security.sasl_mechanism import SaslRetriableError

GSSAPI: Final = "GSSAPI"

_NO_LAYER: Final = 1
_OFFER: Final = bytes((_NO_LAYER, 0, 0, 0))
"""The layers that are offered, or the one that is chosen, and the size of the largest message under a layer: none."""


class GssError(Exception):
    """The library of GSSAPI refuses a token, or makes none. ``is_retriable``: the same client may try again at once."""

    def __init__(self, message: str, *, is_retriable: bool = False) -> None:
        super().__init__(message)
        self.is_retriable = is_retriable


class GssContext(Protocol):
    """One side of a security context. All methods may block and raise :class:`GssError`."""

    def step(self, token: bytes | None) -> bytes | None:
        """Take the other side's token (``None`` at the beginning) and return the next one, if there is one."""

    def is_complete(self) -> bool:
        """Whether the context is established."""

    @property
    def initiator(self) -> str:
        """The principal of the client; only once the context is established."""

    def wrap(self, data: bytes) -> bytes:
        """``data`` with a proof that it is from this side."""

    def unwrap(self, token: bytes) -> bytes:
        """What the other side has wrapped."""


class GssapiSaslServer:
    """A :class:`kafkalite.security.sasl_mechanism.SaslMechanism`. ``short_name`` makes the name of the user from a
    principal; it raises :class:`LookupError` if there is none."""

    is_token = False
    expires_at_ms = None

    def __init__(self, context: Callable[[], GssContext], short_name: Callable[[str], str]) -> None:
        self._make_context = context
        self._short_name = short_name
        self._context: GssContext | None = None
        self._has_offered = False
        self._user = ""

    def evaluate(self, response: bytes, now_ms: int) -> bytes | None:  # noqa: ARG002
        """See :class:`kafkalite.security.sasl_mechanism.SaslMechanism`; ``None`` for a token that has no answer."""
        if self._user:
            raise SaslError("a message after the end of the exchange")
        try:
            return self._evaluate(response)
        except GssError as error:
            raise (SaslRetriableError if error.is_retriable else SaslError)(str(error)) from None

    def _evaluate(self, response: bytes) -> bytes | None:
        context = self._context
        if context is None:
            context = self._context = self._make_context()
        if not context.is_complete():
            answer = context.step(response)
            if answer or not context.is_complete():
                return answer
            response = b""
        if not self._has_offered:
            if response:
                raise SaslError("a message where none was expected, after the context was established")
            self._has_offered = True
            return context.wrap(_OFFER)
        choice = context.unwrap(response)
        if len(choice) < len(_OFFER) or not choice[0] & _NO_LAYER:
            raise SaslError("the client has chosen a security layer, and none was offered")
        # What follows is the name that the client wants. Kafka, too, ignores it and takes that of the ticket.
        try:
            self._user = self._short_name(context.initiator)
        except LookupError as error:
            raise SaslError(str(error.args[0])) from None
        return None

    @property
    def is_complete(self) -> bool:
        """Whether the client is authenticated."""
        return self._user != ""

    @property
    def authorization_id(self) -> str:
        """The name of the user."""
        assert self._user, "the exchange is not complete"
        return self._user


class GssapiSaslClient:
    """Shows a ticket. ``context`` makes the client's side of a context with the server."""

    mechanism = GSSAPI

    def __init__(self, context: Callable[[], GssContext]) -> None:
        self._make_context = context
        self._context: GssContext | None = None
        self._has_chosen = False

    def evaluate(self, challenge: bytes | None) -> bytes | None:
        """See :class:`kafkalite.common.authentication.SaslClient`."""
        try:
            return self._evaluate(challenge)
        except GssError as error:
            raise SaslError(str(error)) from None

    def _evaluate(self, challenge: bytes | None) -> bytes | None:
        if challenge is None:
            self._context = self._make_context()
        context = self._context
        assert context is not None, "the exchange begins without a challenge"
        if not context.is_complete():
            return context.step(challenge) or b""
        if self._has_chosen:
            return None
        offer = context.unwrap(challenge or b"")
        if len(offer) != len(_OFFER) or not offer[0] & _NO_LAYER:
            raise SaslError("the server demands a security layer, which Kafka has not")
        self._has_chosen = True
        return context.wrap(_OFFER)
