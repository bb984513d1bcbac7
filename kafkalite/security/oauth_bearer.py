"""SASL/OAUTHBEARER: the client shows a token that another party has made (RFC 7628).

Answers to: ``org.apache.kafka.common.security.oauthbearer.internals.{OAuthBearerSaslServer,
OAuthBearerClientInitialResponse}`` and, for tokens without a signature,
``internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler`` (KIP-255). Pure.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafkalite.common.authentication import SaslError
from kafkalite.security.sasl_mechanism import SaslAuthenticationError

OAUTHBEARER: Final = "OAUTHBEARER"
LONGEST_TOKEN: Final = 1 << 16
"""Bytes of a token. Kafka takes half a megabyte, which takes 50 ms to refuse."""

# Repetitions are possessive, because Python keeps a state for each that it may have to take back: 120 MB for half a
# megabyte of a stranger.
_SASL_NAME: Final = r"(?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_KEY_VALUES: Final = "(?:[A-Za-z]++=[\\x21-\\x7E \t\r\n]++\x01)*+"
_AUTH: Final = re.compile("(?:^|\x01)auth=([^\x01]*+)")
_INITIAL: Final = re.compile(f"n,(?:a=(?P<authzid>{_SASL_NAME}))?,\x01(?P<pairs>{_KEY_VALUES})\x01")
_BEARER: Final = re.compile(r"[Bb]earer ++(?P<token>[-_.+/=a-zA-Z0-9]++)")
_ABORT: Final = b"\x01"
_INVALID: Final = b'{"status":"invalid_token"}'


class TokenError(Exception):
    """A token is refused. The text is for the log and has no part of the token."""


class BearerToken(NamedTuple):
    """What a valid token says: the name of the user, and when it ends (time of day in ms)."""

    principal: str
    expires_at_ms: int


TokenValidator = Callable[[str, int], BearerToken]
"""Takes a token and the time of day in ms. Raises :class:`TokenError`."""


class OAuthBearerSaslServer:
    """A :class:`kafkalite.security.sasl_mechanism.SaslMechanism`; ``validate`` knows which tokens are good."""

    is_token = False

    def __init__(self, validate: TokenValidator) -> None:
        self._validate = validate
        self._token: BearerToken | None = None
        self._error = ""

    def evaluate(self, response: bytes, now_ms: int) -> bytes:
        """Nothing for a good token. For another one an error in JSON, which the client answers before it is refused."""
        if self._token is not None:
            raise SaslError("a message after the end of the exchange")
        if self._error:
            if response == _ABORT:
                raise SaslAuthenticationError(_INVALID.decode())
            raise SaslError(self._error)
        found = _INITIAL.fullmatch(response.decode("utf-8", "replace"))
        if found is None:
            raise SaslError("Invalid OAUTHBEARER client first message")
        given = _AUTH.findall(found["pairs"])
        bearer = _BEARER.fullmatch(given[-1].strip()) if given else None
        if bearer is None:
            raise SaslError("Invalid OAUTHBEARER client first message: invalid scheme or no token in 'auth'")
        try:
            if len(bearer["token"]) > LONGEST_TOKEN:
                raise TokenError(f"the token has {len(bearer['token'])} bytes, and may have {LONGEST_TOKEN}")
            token = self._validate(bearer["token"], now_ms)
        except TokenError as error:
            self._error = str(error)
            return _INVALID
        wanted = (found["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
        if wanted and wanted != token.principal:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from the token's "
                "principal name"
            )
        self._token = token
        return b""

    @property
    def is_complete(self) -> bool:
        """Whether the client is authenticated."""
        return self._token is not None

    @property
    def authorization_id(self) -> str:
        """The name of the user."""
        assert self._token is not None, "the exchange is not complete"
        return self._token.principal

    @property
    def expires_at_ms(self) -> int | None:
        """When the token ends."""
        return None if self._token is None else self._token.expires_at_ms


@dataclass(frozen=True, slots=True)
class UnsecuredTokens:
    """Accepts tokens without a signature, which any client can make: for development only.

    The fields are the options ``unsecuredValidator…`` of Kafka's login module.
    """

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: frozenset[str] = frozenset()
    clock_skew_ms: int = 0

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> UnsecuredTokens:
        """The options of a login module. Raises :class:`ValueError`."""
        return cls(
            options.get("unsecuredValidatorPrincipalClaimName") or "sub",
            options.get("unsecuredValidatorScopeClaimName") or "scope",
            frozenset((options.get("unsecuredValidatorRequiredScope") or "").split()),
            int(options.get("unsecuredValidatorAllowableClockSkewMs") or 0),
        )

    def validate(self, token: str, now_ms: int) -> BearerToken:
        """What the token says. Raises :class:`TokenError`."""
        parts = token.split(".")
        if len(parts) != 3 or parts[2]:
            raise TokenError("the token is no unsecured JWT")
        header, claims = decoded(parts[0]), decoded(parts[1])
        if header.get("alg") != "none":
            raise TokenError("the token is no unsecured JWT")
        principal = claims.get(self.principal_claim)
        if not isinstance(principal, str) or not principal:
            raise TokenError(f"the token lacks the claim {self.principal_claim}")
        expires_ms, issued_ms = time_ms(claims, "exp"), time_ms(claims, "iat")
        if expires_ms is None:
            raise TokenError("the token lacks the claim exp")
        if issued_ms is not None and issued_ms > now_ms + self.clock_skew_ms:
            raise TokenError("the token is of the future")
        if now_ms >= expires_ms + self.clock_skew_ms:
            raise TokenError("the token has expired")
        if not self.required_scope <= _scope(claims.get(self.scope_claim)):
            raise TokenError("the token lacks a required scope")
        return BearerToken(principal, expires_ms)


def decoded(part: str) -> Mapping[str, object]:
    """A part of a JWT. Raises :class:`TokenError`."""
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise TokenError("the token is no JWT") from None
    if not isinstance(value, dict):
        raise TokenError("the token is no JWT")
    return value


def time_ms(claims: Mapping[str, object], name: str) -> int | None:
    """The claim ``name`` in ms, ``None`` if there is none. Raises :class:`TokenError`."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1 << 40:
        raise TokenError(f"the claim {name} of the token is no time")
    return int(value * 1000)


def _scope(value: object) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(value.split())
    return frozenset(each for each in value if isinstance(each, str)) if isinstance(value, list) else frozenset()


@dataclass(frozen=True, slots=True)
class JwksSettings:
    """What signed tokens must say: the keys ``sasl.oauthbearer.*``; times in seconds and ms. Empty: not checked."""

    url: str = field(repr=False)
    audiences: tuple[str, ...] = ()
    issuer: str = ""
    subject_claim: str = "sub"
    clock_skew_seconds: int = 30
    refresh_ms: int = 3_600_000
    retry_ms: int = 100
    max_retry_ms: int = 10_000
