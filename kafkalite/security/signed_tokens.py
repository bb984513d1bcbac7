"""Tokens of OAUTHBEARER that carry a signature, checked by the public keys of a JWKS.

Answers to: ``org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler`` and
``internals.secured.ValidatorAccessTokenValidator`` (KIP-768). Pure; the only module that imports PyJWT.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

try:
    import jwt
except ImportError:
    raise ImportError("the package PyJWT is missing; install kafkalite[security]") from None

from kafkalite.security.oauth_bearer import BearerToken, JwksSettings, TokenError

_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Those with a public key. A token that is signed by a secret, or not at all, could be made by its client."""


class UnknownKeyError(TokenError):
    """A token names a key that is not among those at hand: the JWKS may have it by now."""


class SignedTokens:
    """Validates tokens by the keys that :meth:`load` was given last."""

    def __init__(self, settings: JwksSettings) -> None:
        self._settings = settings
        self._keys: dict[str | None, jwt.PyJWK] = {}

    def load(self, jwks: bytes) -> None:
        """Use the keys of ``jwks`` from now on. Raises :class:`ValueError` and keeps the old ones."""
        try:
            found = jwt.PyJWKSet.from_json(jwks.decode()).keys
        except (jwt.PyJWTError, AttributeError, TypeError, ValueError, KeyError) as error:
            raise ValueError(f"no key of the JWKS can be used: {type(error).__name__}") from None
        self._keys = {key.key_id: key for key in found if key.public_key_use in (None, "sig")}

    def validate(self, token: str, now_ms: int) -> BearerToken:
        """What the token says. Raises :class:`TokenError`, :class:`UnknownKeyError` among them."""
        settings = self._settings
        try:
            header = jwt.get_unverified_header(token)
            key = self._keys.get(header.get("kid"))
            if key is None:
                raise UnknownKeyError("the token is signed by a key that is not in the JWKS")
            algorithm = header.get("alg")
            if algorithm not in _ALGORITHMS or algorithm != key.algorithm_name:
                raise TokenError("the algorithm of the token's signature is not that of its key")
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                audience=settings.audiences or None,
                issuer=settings.issuer or None,
                options={
                    "require": ["exp", "iat", settings.subject_claim],
                    "verify_aud": bool(settings.audiences),
                    # The times are checked below, by the clock that this broker was given.
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                    "verify_sub": False,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise TokenError(f"the token is refused: {type(error).__name__}") from None
        return self._checked(claims, now_ms)

    def _checked(self, claims: dict[str, object], now_ms: int) -> BearerToken:
        skew_ms = self._settings.clock_skew_seconds * 1000
        expires_ms = _time_ms(claims, "exp")
        if now_ms >= expires_ms + skew_ms:
            ended = datetime.fromtimestamp(expires_ms / 1000, UTC).isoformat(timespec="seconds")
            raise TokenError(f"the token has expired at {ended}")
        for name in ("iat", "nbf"):
            if name in claims and _time_ms(claims, name) > now_ms + skew_ms:
                raise TokenError(f"the claim {name} of the token is of the future")
        subject = claims[self._settings.subject_claim]
        if not isinstance(subject, str) or not subject.strip():
            raise TokenError(f"the claim {self._settings.subject_claim} of the token is no text")
        return BearerToken(subject.strip(), expires_ms)


def _time_ms(claims: dict[str, object], name: str) -> int:
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1 << 36:
        raise TokenError(f"the claim {name} of the token is no time")
    return int(value * 1000)
