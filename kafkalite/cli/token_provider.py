"""Tokens of OAUTHBEARER for the commands that use kafka-python.

Answers to: ``org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler``. Blocking shell.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka.net.sasl.oauth import AbstractTokenProvider

from kafkalite.cli.main import UsageError
from kafkalite.common.token_endpoint import ClientCredentials, RefusedTokenError, fetch_token
from kafkalite.security.oauth_bearer import TokenError
from kafkalite.security.oauth_login import LoginToken

_SHARE = 0.8
"""The part of its life for which a token is used."""


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Asks a token endpoint, and again when most of a token's life is over; ``seconds`` is the time of day."""

    def __init__(
        self,
        credentials: ClientCredentials,
        fetch: Callable[[ClientCredentials], str] = fetch_token,
        seconds: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._credentials = credentials
        self._fetch = fetch
        self._seconds = seconds
        self._text = ""
        self._good_until_ms = 0.0

    def token(self) -> str:
        """The token to show. Raises :class:`UsageError`, whose text has no secret, if the endpoint gives none."""
        now_ms = int(self._seconds() * 1000)
        if now_ms >= self._good_until_ms:
            try:
                made = LoginToken.parse(self._fetch(self._credentials), self._credentials.subject_claim, now_ms)
            except (OSError, ValueError, TokenError, RefusedTokenError) as error:
                raise UsageError(f"no token for OAUTHBEARER: {error}") from None
            self._text = made.text
            self._good_until_ms = now_ms + (made.expires_at_ms - now_ms) * _SHARE
        return self._text

    def extensions(self) -> dict[str, str]:
        """Of SASL, sent beside the token."""
        return dict(self._credentials.extensions)
