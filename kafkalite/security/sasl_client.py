"""The client's side of SASL, by which brokers log in to one another: the tokens of one exchange.

Answers to: ``org.apache.kafka.common.security.authenticator.SaslClientAuthenticator`` and
``scram.internals.ScramSaslClient``. Pure.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import random
import re
from typing import Final

from kafkalite.common.authentication import SaslError
from kafkalite.security.plain import PLAIN
from kafkalite.security.scram import TOKEN_AUTH, new_nonce, sasl_name
from kafkalite.security.scram_credentials import ScramMechanism

_SERVER_FIRST: Final = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<count>\d+)(?:,.*)?"
)
_NO_CHANNEL_BINDING: Final = "c=" + base64.b64encode(b"n,,").decode()


class PlainSaslClient:
    """A user and a password in clear."""

    mechanism = PLAIN

    def __init__(self, user: str, password: str) -> None:
        self._token = f"\0{user}\0{password}".encode()

    def evaluate(self, challenge: bytes | None) -> bytes | None:
        """See :class:`kafkalite.common.authentication.SaslClient`."""
        return self._token if challenge is None else None


class ScramSaslClient:
    """Proves the password without sending it. ``rng`` must be unpredictable; ``is_token``: a delegation token."""

    def __init__(
        self, mechanism: ScramMechanism, user: str, password: str, rng: random.Random, *, is_token: bool = False
    ) -> None:
        self.mechanism = mechanism.name
        self._scram = mechanism
        self._password = password
        self._nonce = new_nonce(rng)
        extension = f",{TOKEN_AUTH}=true" if is_token else ""
        self._first = f"n={sasl_name(user)},r={self._nonce}{extension}"
        self._signature: bytes | None = None
        self._is_over = False

    def evaluate(self, challenge: bytes | None) -> bytes | None:
        """See :class:`kafkalite.common.authentication.SaslClient`."""
        if challenge is None:
            return f"n,,{self._first}".encode()
        text = challenge.decode("utf-8", "replace")
        if self._signature is None:
            return self._prove(text)
        if self._is_over or not hmac.compare_digest(text.encode(), b"v=" + base64.b64encode(self._signature)):
            raise SaslError("the server does not know the credentials of the user")
        self._is_over = True
        return None

    def _prove(self, server_first: str) -> bytes:
        found = _SERVER_FIRST.fullmatch(server_first)
        if found is None:
            raise SaslError("Invalid SCRAM server first message format")
        nonce, iterations = found["nonce"], int(found["count"])
        if not nonce.startswith(self._nonce):
            raise SaslError("Invalid server nonce: does not start with client nonce")
        if not self._scram.min_iterations <= iterations <= self._scram.max_iterations:
            raise SaslError(f"Requested iterations {iterations} is not allowed for {self.mechanism}")
        try:
            salt = base64.b64decode(found["salt"], validate=True)
        except binascii.Error:
            raise SaslError("Invalid SCRAM server first message format") from None
        scram = self._scram
        salted = scram.salted_password(self._password, salt, iterations)
        client_key = scram.hmac(salted, b"Client Key")
        bare = f"{_NO_CHANNEL_BINDING},r={nonce}"
        messages = f"{self._first},{server_first},{bare}".encode()
        signature = scram.hmac(scram.digest(client_key), messages)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = scram.hmac(scram.hmac(salted, b"Server Key"), messages)
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()
