"""The client's side of SASL/OAUTHBEARER: the tokens by which a broker logs in to another one (RFC 7628).

Answers to: ``org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslClient``,
``OAuthBearerLoginCallbackHandler`` with ``internals.secured.LoginAccessTokenValidator`` (KIP-768), and
``internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler`` (KIP-255). Pure.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafkalite.security.oauth_bearer import OAUTHBEARER, TokenError, decoded, time_ms

_EXTENSION_NAME: Final = re.compile("[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile("[\\x21-\\x7E \t\r\n]+")
_TOKEN: Final = re.compile("[-_.+/=a-zA-Z0-9]+")
_RESERVED: Final = ("iat", "exp")
_UNSECURED: Final = "unsecuredLogin"


class LoginToken(NamedTuple):
    """A token as it is sent, and from when to when it is good (time of day in ms)."""

    text: str
    begins_at_ms: int
    expires_at_ms: int

    @classmethod
    def parse(cls, text: str, subject_claim: str, now_ms: int) -> LoginToken:
        """A signed token; its signature is not checked, because only the server has the keys.

        Raises :class:`TokenError`.
        """
        text = text.strip()
        parts = text.split(".")
        if len(parts) != 3 or not _TOKEN.fullmatch(text):
            raise TokenError("the token is no signed JWT")
        claims = decoded(parts[1])
        expires_ms, issued_ms = time_ms(claims, "exp"), time_ms(claims, "iat")
        if expires_ms is None:
            raise TokenError("the token lacks the claim exp")
        subject = claims.get(subject_claim)
        if not isinstance(subject, str) or not subject.strip():
            raise TokenError(f"the token lacks the claim {subject_claim}")
        return cls(text, now_ms if issued_ms is None else issued_ms, expires_ms)


class OAuthBearerSaslClient:
    """Shows the token that ``token`` returns, which raises :class:`kafkalite.common.authentication.SaslError`."""

    mechanism = OAUTHBEARER

    def __init__(self, token: Callable[[], LoginToken], extensions: Mapping[str, str]) -> None:
        self._token = token
        self._extensions = extensions

    def evaluate(self, challenge: bytes | None) -> bytes | None:
        """See :class:`kafkalite.common.authentication.SaslClient`."""
        if challenge is None:
            pairs = {"auth": f"Bearer {self._token().text}", **self._extensions}
            return b"n,,\x01" + b"".join(f"{name}={value}\x01".encode() for name, value in pairs.items()) + b"\x01"
        # A challenge is the server's error, which it tells in words once the client has answered it.
        return b"\x01" if challenge else None


@dataclass(frozen=True, slots=True)
class UnsecuredLogin:
    """Makes tokens without a signature: for development only. ``claims`` has all but their times."""

    claims: Mapping[str, object]
    lifetime_seconds: int = 3600
    extensions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> UnsecuredLogin:
        """The options ``unsecuredLogin…`` of a login module. Raises :class:`ValueError`."""
        claims: dict[str, object] = {}
        for name, value in options.items():
            kind, _, claim = name.removeprefix(_UNSECURED).partition("Claim_")
            if not name.startswith(_UNSECURED) or not claim:
                continue
            if claim in _RESERVED:
                raise ValueError(f"the claim {claim} is calculated and must not be given")
            if kind == "String":
                claims[claim] = value
            elif kind == "Number":
                claims[claim] = float(value)
            elif kind == "List":
                # The first character separates the others.
                claims[claim] = value[1:].split(value[0]) if len(value) > 1 else []
        principal_claim = options.get(f"{_UNSECURED}PrincipalClaimName", "").strip() or "sub"
        if not isinstance(claims.get(principal_claim), str) or not str(claims[principal_claim]).strip():
            raise ValueError(f"the option {_UNSECURED}StringClaim_{principal_claim} is missing")
        lifetime = int(options.get(f"{_UNSECURED}LifetimeSeconds", "3600"))
        return cls(claims, lifetime, parse_extensions(options, f"{_UNSECURED}Extension_"))

    def token(self, now_ms: int) -> LoginToken:
        """A token that is good from now on."""
        expires_ms = now_ms + self.lifetime_seconds * 1000
        body = {**self.claims, "iat": now_ms / 1000, "exp": expires_ms / 1000}
        return LoginToken(f"{_encoded({'alg': 'none'})}.{_encoded(body)}.", now_ms, expires_ms)


@dataclass(frozen=True, slots=True)
class RefreshSettings:
    """When a token is replaced: the keys ``sasl.login.refresh.*``."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_seconds: int = 60
    buffer_seconds: int = 300

    def refresh_at_ms(self, token: LoginToken, now_ms: int, chance: float) -> int:
        """When the successor of ``token`` is fetched; ``chance`` is from 0 to 1.

        Answers to: ``internals.expiring.ExpiringCredentialRefreshingLogin.refreshMs``.
        """
        share = self.window_factor + self.window_jitter * chance
        end_ms = token.expires_at_ms
        if now_ms + (self.min_period_seconds + self.buffer_seconds) * 1000 > end_ms:
            return now_ms + int((end_ms - now_ms) * share)
        begin_ms = token.begins_at_ms
        wanted_ms = begin_ms + int((end_ms - begin_ms) * share)
        latest_ms = end_ms - self.buffer_seconds * 1000
        if wanted_ms > latest_ms:
            return latest_ms
        return max(wanted_ms, now_ms + self.min_period_seconds * 1000)


def parse_extensions(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The SASL extensions among ``options``. Raises :class:`ValueError`, whose text has no value of them."""
    found = {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}
    for name, value in found.items():
        if not _EXTENSION_NAME.fullmatch(name) or name == "auth" or not _EXTENSION_VALUE.fullmatch(value):
            raise ValueError(f"the extension {name} has a name or a value that is not allowed")
    return found


def _encoded(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part, separators=(",", ":")).encode()).decode().rstrip("=")
