"""SASL/SCRAM: the client proves that it knows the password without sending it (RFC 5802, RFC 7677).

Answers to: ``org.apache.kafka.common.security.scram.internals.{ScramSaslServer,ScramMessages}`` (KIP-84), with the
``tokenauth`` of delegation tokens (KIP-48). Pure.

Unlike Kafka, an unknown user is not refused at its first message: it is given a salt that depends on its name and on a
secret of this broker, and fails at its proof like a user with a wrong password. So the exchange does not tell which
users exist.
"""

from __future__ import annotations

import base64
import hmac
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafkalite.common.authentication import SaslError
from kafkalite.security.sasl_mechanism import SaslAuthenticationError
from kafkalite.security.scram_credentials import ScramCredential, ScramMechanism

TOKEN_AUTH: Final = "tokenauth"
"""The extension by which a client says that its user name is the id of a delegation token."""

# Repetitions are possessive, because Python keeps a state for each that it may have to take back: 120 MB for half a
# megabyte of a stranger.
_SAFE: Final = r"[\x01-\x2b\x2d-\x3c\x3e-\x7f]"
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]++"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]++"
_SASL_NAME: Final = rf"(?:{_SAFE}++|=2C|=3D)++"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*+(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]++={_VALUE})*+"
_IS_TOKEN: Final = re.compile(rf",{TOKEN_AUTH}=([^,]*+)")
_CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_SASL_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<bare>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE})(?:,[A-Za-z]++={_VALUE}(?=,))*+),p=(?P<proof>{_BASE64})"
)
_NONCE_BITS: Final = 130


class TokenCredential(NamedTuple):
    """A delegation token as SCRAM sees it: the name of its owner, and when it ends (time of day in ms)."""

    owner: str
    credential: ScramCredential
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class ScramUsers:
    """Where an exchange finds credentials: both calls take a name and return ``None`` for an unknown one.

    ``secret`` is random, is kept as long as the process lives, and makes the salts of unknown users.
    """

    user: Callable[[str], ScramCredential | None]
    token: Callable[[str], TokenCredential | None]
    secret: bytes

    def decoy(self, mechanism: ScramMechanism, name: str) -> ScramCredential:
        """A credential for an unknown user; no password fits it, and it is the same each time."""
        keys = [hmac.digest(self.secret, f"{mechanism.name} {n} {name}".encode(), "sha512") for n in range(3)]
        size = len(mechanism.digest(b""))
        return ScramCredential(keys[0][:20], keys[1][:size], keys[2][:size], mechanism.min_iterations)


@dataclass(frozen=True, slots=True)
class _Challenged:
    """The state between the two messages of a client."""

    credential: ScramCredential
    is_known: bool
    nonce: str
    client_first: str
    """The client's message without its header."""
    server_first: str


class ScramSaslServer:
    """A :class:`kafkalite.security.sasl_mechanism.SaslMechanism`. ``rng`` must be unpredictable (``SystemRandom``)."""

    def __init__(self, mechanism: ScramMechanism, users: ScramUsers, rng: random.Random) -> None:
        self._mechanism = mechanism
        self._users = users
        self._rng = rng
        self._challenged: _Challenged | None = None
        self._is_over = False
        self._authorization_id = ""
        self.is_complete = False
        self.is_token = False
        self.expires_at_ms: int | None = None

    @property
    def authorization_id(self) -> str:
        """The name of the user, or of the token's owner."""
        assert self.is_complete, "the exchange is not complete"
        return self._authorization_id

    def evaluate(self, response: bytes, now_ms: int) -> bytes:
        """The salt and a nonce for the first message, the server's signature for the second."""
        if self._is_over:
            raise SaslError("a message after the end of the exchange")
        text = response.decode("utf-8", "replace")
        challenged, self._challenged = self._challenged, None
        self._is_over = True
        if challenged is None:
            self._challenged = self._challenge(text)
            self._is_over = False
            return self._challenged.server_first.encode()
        signature = self._verify(text, challenged, now_ms)
        self.is_complete = True
        return b"v=" + base64.b64encode(signature)

    def _challenge(self, text: str) -> _Challenged:
        found = _CLIENT_FIRST.fullmatch(text)
        if found is None:
            raise SaslError("Invalid SCRAM client first message format")
        name = _user_name(found["name"])
        credential = self._find(name, found["extensions"])
        if found["authzid"] is not None and _user_name(found["authzid"]) != name:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        is_known = credential is not None
        if credential is None:
            credential = self._users.decoy(self._mechanism, name)
        if credential.iterations < self._mechanism.min_iterations:
            raise SaslError(
                f"Iterations {credential.iterations} is less than the minimum {self._mechanism.min_iterations} "
                f"for {self._mechanism.name}"
            )
        nonce = found["nonce"] + new_nonce(self._rng)
        salt = base64.b64encode(credential.salt).decode()
        server_first = f"r={nonce},s={salt},i={credential.iterations}"
        return _Challenged(credential, is_known, nonce, found["bare"], server_first)

    def _find(self, name: str, extensions: str) -> ScramCredential | None:
        given = _IS_TOKEN.findall(extensions)
        self.is_token = bool(given) and given[-1].lower() == "true"
        if not self.is_token:
            self._authorization_id = name
            return self._users.user(name)
        token = self._users.token(name)
        if token is None:
            return None
        self._authorization_id, self.expires_at_ms = token.owner, token.expires_at_ms
        return token.credential

    def _verify(self, text: str, challenged: _Challenged, now_ms: int) -> bytes:
        """The server's signature. Raises :class:`SaslError` if the client's proof is wrong."""
        found = _CLIENT_FINAL.fullmatch(text)
        if found is None:
            raise SaslError("Invalid SCRAM client final message format")
        if found["nonce"] != challenged.nonce:
            raise SaslError("Invalid client nonce in the final client message.")
        mechanism, credential = self._mechanism, challenged.credential
        messages = f"{challenged.client_first},{challenged.server_first},{found['bare']}".encode()
        proof = base64.b64decode(found["proof"])
        signature = mechanism.hmac(credential.stored_key, messages)
        if len(proof) != len(signature):
            raise SaslError("Invalid client credentials")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        is_right = hmac.compare_digest(mechanism.digest(client_key), credential.stored_key)
        if not is_right or not challenged.is_known:
            raise SaslError("Invalid client credentials")
        if self.expires_at_ms is not None and self.expires_at_ms <= now_ms:
            raise SaslError("the delegation token has expired")
        return mechanism.hmac(credential.server_key, messages)


def sasl_name(user: str) -> str:
    """``user`` as it stands in a message of SCRAM."""
    return user.replace("=", "=3D").replace(",", "=2C")


def _user_name(encoded: str) -> str:
    # The pattern of the message lets no other use of "=" through.
    return encoded.replace("=2C", ",").replace("=3D", "=")


def new_nonce(rng: random.Random) -> str:
    """130 random bits in digits and small letters, as Kafka's ``ScramFormatter`` writes them."""
    number = rng.getrandbits(_NONCE_BITS)
    digits = ""
    while True:
        number, rest = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
        if not number:
            return digits
