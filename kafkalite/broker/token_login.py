"""Keeps a token by which this broker logs in to others, and replaces it before it ends.

Answers to: ``org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerRefreshingLogin``. Reactor shell.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import Final

from kafkalite.broker.jwks import host
from kafkalite.common.authentication import SaslError
from kafkalite.common.clock import Clock, Timer
from kafkalite.common.errors import StartupError
from kafkalite.common.tasks import Executor, sleep, spawn
from kafkalite.common.token_endpoint import ClientCredentials, RefusedTokenError, fetch_token
from kafkalite.security.oauth_bearer import TokenError
from kafkalite.security.oauth_login import LoginToken, OAuthBearerSaslClient, RefreshSettings

log = logging.getLogger(__name__)

_RELOGIN_PAUSE: Final = 10.0
"""Seconds after a failed replacement, as in Kafka."""

FetchToken = Callable[[ClientCredentials], str]
"""See :func:`kafkalite.common.token_endpoint.fetch_token`."""


class TokenLogin:
    """Fetches tokens for ``credentials`` off the reactor. Until :meth:`start` has succeeded there is none."""

    def __init__(
        self,
        credentials: ClientCredentials,
        refresh: RefreshSettings,
        executor: Executor,
        clock: Clock,
        rng: random.Random,
        fetch: FetchToken = fetch_token,
    ) -> None:
        self._credentials = credentials
        self._refresh = refresh
        self._executor = executor
        self._clock = clock
        self._rng = rng
        self._fetch = fetch
        self._token: LoginToken | None = None
        self._timer: Timer | None = None
        self._is_closed = False

    def client(self) -> OAuthBearerSaslClient:
        """Begins an exchange, which fails if there is no token."""
        return OAuthBearerSaslClient(self._current, self._credentials.extensions)

    async def start(self) -> None:
        """Fetch the first token; again for ``max_retry_ms``, with growing pauses. Raises :class:`StartupError`."""
        end = self._clock.monotonic() + self._credentials.max_retry_ms / 1000
        pause = self._credentials.retry_ms / 1000
        while True:
            try:
                await self._replace()
                return
            except (OSError, ValueError, TokenError, RefusedTokenError) as error:
                left = end - self._clock.monotonic()
                if left <= 0 or isinstance(error, RefusedTokenError):
                    raise StartupError(
                        f"the token endpoint at {host(self._credentials.url)} gives no token by which this broker "
                        f"could log in to others (sasl.oauthbearer.token.endpoint.url): {error}"
                    ) from None
            await sleep(self._clock, min(pause, left))
            pause *= 2

    def close(self) -> None:
        """Replace the token no more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _current(self) -> LoginToken:
        if self._token is None:
            raise SaslError(f"the token endpoint at {host(self._credentials.url)} has given no token yet")
        return self._token

    async def _replace(self) -> None:
        text = await self._executor.run(self._fetch, self._credentials)
        now_ms = self._clock.time_ms()
        token = self._token = LoginToken.parse(text, self._credentials.subject_claim, now_ms)
        delay = (self._refresh.refresh_at_ms(token, now_ms, self._rng.random()) - now_ms) / 1000
        # A token that has ended already is the sign of a wrong clock; Kafka, too, asks again after this pause.
        self._plan(delay if delay > 0 else _RELOGIN_PAUSE)

    def _plan(self, delay: float) -> None:
        if not self._is_closed:
            self._timer = self._clock.call_later(delay, lambda: spawn(self._replace_later(), "replacing a token"))

    async def _replace_later(self) -> None:
        try:
            await self._replace()
        except (OSError, ValueError, TokenError, RefusedTokenError) as error:
            log.error(
                "the token endpoint at %s gives no new token, the old one is used until it ends: %s",
                host(self._credentials.url),
                error,
            )
            self._plan(_RELOGIN_PAUSE)
