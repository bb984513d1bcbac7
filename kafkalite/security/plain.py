"""SASL/PLAIN: a user and a password in clear (RFC 4616).

Answers to: ``org.apache.kafka.common.security.plain.internals.{PlainSaslServer,PlainServerCallbackHandler}``. Pure.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Final

from kafkalite.common.authentication import SaslError
from kafkalite.security.sasl_mechanism import SaslAuthenticationError

PLAIN: Final = "PLAIN"

PasswordCheck = Callable[[str, str], bool]
"""Takes a user and a password, and says whether they belong together."""


class PlainUsers:
    """Users and passwords as JAAS has them: ``user_<name>="<password>"`` of ``PlainLoginModule``."""

    PREFIX: Final = "user_"

    def __init__(self, options: Mapping[str, str]) -> None:
        self._passwords = {
            name.removeprefix(self.PREFIX): _digest(password)
            for name, password in options.items()
            if name.startswith(self.PREFIX)
        }

    def check(self, user: str, password: str) -> bool:
        """Whether ``password`` is the user's; it takes the same time for an unknown user as for a wrong password."""
        return hmac.compare_digest(_digest(password), self._passwords.get(user, _NO_DIGEST))


def _digest(password: str) -> bytes:
    # Digests have one length, so the comparison takes the same time for passwords of any length.
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest()


_NO_DIGEST: Final = bytes(32)
"""The digest of no password."""


class PlainSaslServer:
    """A :class:`kafkalite.security.sasl_mechanism.SaslMechanism`; ``check`` knows the passwords."""

    expires_at_ms = None
    is_token = False

    def __init__(self, check: PasswordCheck) -> None:
        self._check = check
        self._user: str | None = None

    def evaluate(self, response: bytes, now_ms: int) -> bytes:  # noqa: ARG002
        """An empty challenge if ``response`` is ``authzid NUL user NUL password`` with the right password."""
        if self._user is not None:
            raise SaslError("a token after the end of the exchange")
        fields = response.decode("utf-8", "replace").split("\0", 3)
        if len(fields) != 3:
            raise SaslAuthenticationError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(fields)}")
        authorization_id, user, password = fields
        if not user:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        if not self._check(user, password):
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != user:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self._user = user
        return b""

    @property
    def is_complete(self) -> bool:
        """Whether the client is authenticated."""
        return self._user is not None

    @property
    def authorization_id(self) -> str:
        """The name of the user."""
        assert self._user is not None, "the exchange is not complete"
        return self._user
