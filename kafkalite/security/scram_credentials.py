"""SCRAM's mechanisms and the credentials that a broker stores for them.

Answers to: ``org.apache.kafka.common.security.scram.{ScramCredential,internals.ScramMechanism}``,
``scram.internals.ScramCredentialUtils`` and the arithmetic of ``ScramFormatter``. Pure.

The text of a credential stands in ``/config/users/<sanitized user>`` under the mechanism's name:
``salt=<base64>,stored_key=<base64>,server_key=<base64>,iterations=<number>``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class ScramMechanism:
    """A mechanism. ``type`` is its code in requests; ``hash`` names the algorithm for ``hashlib``."""

    name: str
    type: int
    hash: str
    min_iterations: int = 4096
    max_iterations: int = 16384

    def digest(self, data: bytes) -> bytes:
        """The hash of ``data``."""
        return hashlib.new(self.hash, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        """The keyed hash of ``data``."""
        return hmac.digest(key, data, self.hash)

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """``Hi`` of RFC 5802. The password is its UTF-8 as it is: Kafka applies no SASLprep."""
        return hashlib.pbkdf2_hmac(self.hash, password.encode(), salt, iterations)


SCRAM_SHA_256: Final = ScramMechanism("SCRAM-SHA-256", 1, "sha256")
SCRAM_SHA_512: Final = ScramMechanism("SCRAM-SHA-512", 2, "sha512")
SCRAM_MECHANISMS: Final = {each.name: each for each in (SCRAM_SHA_256, SCRAM_SHA_512)}


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a broker keeps of a password. The keys are shown by no ``repr``."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def from_salted_password(
        cls, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> ScramCredential:
        """The credential of a password that was salted already, as ``AlterUserScramCredentials`` sends it."""
        client_key = mechanism.hmac(salted_password, b"Client Key")
        server_key = mechanism.hmac(salted_password, b"Server Key")
        return cls(salt, mechanism.digest(client_key), server_key, iterations)

    @classmethod
    def from_password(cls, mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> ScramCredential:
        """The credential of a password."""
        salted = mechanism.salted_password(password, salt, iterations)
        return cls.from_salted_password(mechanism, salted, salt, iterations)

    @classmethod
    def parse(cls, text: str) -> ScramCredential:
        """The reverse of :meth:`text`. Raises :class:`ValueError`, whose text has no part of the credential."""
        pairs = [part.partition("=") for part in text.split(",")]
        fields = {name: value for name, _, value in pairs}
        if len(fields) != 4 or len(pairs) != 4 or set(fields) != {"salt", "stored_key", "server_key", "iterations"}:
            raise ValueError("the SCRAM credential is malformed: expected salt, stored_key, server_key and iterations")
        try:
            salt, stored_key, server_key = (
                base64.b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
            )
            iterations = int(fields["iterations"])
        except (ValueError, binascii.Error):
            raise ValueError("the SCRAM credential is malformed: a value is not base64, or no number") from None
        if iterations <= 0:
            raise ValueError("the SCRAM credential is malformed: the number of iterations is not positive")
        return cls(salt, stored_key, server_key, iterations)

    def text(self) -> str:
        """The value in ``/config/users``, as Kafka writes it."""
        salt, stored, server = (
            base64.b64encode(each).decode() for each in (self.salt, self.stored_key, self.server_key)
        )
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"
