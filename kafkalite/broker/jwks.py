"""Fetches the public keys of a JWKS off the reactor from time to time, and sooner if a token names an unknown key.

Answers to: ``org.apache.kafka.common.security.oauthbearer.internals.secured.RefreshingHttpsJwks``. Reactor shell.
"""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from kafkalite.common.clock import Clock, Timer
from kafkalite.common.errors import StartupError
from kafkalite.common.tasks import Executor, spawn
from kafkalite.security.oauth_bearer import BearerToken, JwksSettings, TokenValidator

log = logging.getLogger(__name__)

_TIMEOUT: Final = 10.0
_MOST_BYTES: Final = 1 << 20
_SCHEMES: Final = ("https", "http", "file")
_EXPEDITED: Final = 10.0
"""Least seconds between two fetches that unknown keys cause, because a client can name any key."""


class JwksRefresher:
    """Gives what ``url`` has to ``load`` (which raises ``ValueError`` for a wrong JWKS), every ``refresh_ms``.

    After a failure it waits ``retry_ms``, and twice as long after each further one, up to ``max_retry_ms``.
    """

    def __init__(
        self,
        url: str,
        load: Callable[[bytes], None],
        executor: Executor,
        clock: Clock,
        refresh_ms: int,
        retry_ms: int,
        max_retry_ms: int,
        fetch: Callable[[str], bytes] | None = None,
    ) -> None:
        self._url = url
        self._load = load
        self._executor = executor
        self._clock = clock
        self._refresh = refresh_ms / 1000
        self._retry = retry_ms / 1000
        self._max_retry = max_retry_ms / 1000
        self._fetch = fetch or fetch_jwks
        self._failures = 0
        self._is_fetching = False
        self._fetched_at = float("-inf")
        self._timer: Timer | None = None

    def start(self) -> None:
        """Fetch now, and from time to time."""
        if not self._is_fetching:
            spawn(self._run(), "fetching a JWKS")

    def expedite(self) -> None:
        """Fetch soon, because a token names a key that the JWKS lacked."""
        if self._clock.monotonic() - self._fetched_at >= _EXPEDITED:
            self.start()

    async def _run(self) -> None:
        self._is_fetching = True
        self._fetched_at = self._clock.monotonic()
        try:
            self._load(await self._executor.run(self._fetch, self._url))
            self._failures = 0
            delay = self._refresh
        except (OSError, ValueError) as error:
            delay = min(self._max_retry, self._retry * 2**self._failures)
            self._failures = min(self._failures + 1, 30)
            log.error("the JWKS of %s could not be read, clients with new keys are refused: %s", host(self._url), error)
        finally:
            self._is_fetching = False
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(delay, self.start)


def jwks_validator(settings: JwksSettings, executor: Executor, clock: Clock) -> TokenValidator:
    """Validates tokens by the keys of a JWKS, which is fetched from now on. Raises :class:`StartupError`."""
    try:
        # Here, because PyJWT is an extra.
        from kafkalite.security.signed_tokens import SignedTokens, UnknownKeyError
    except ImportError as error:
        raise StartupError(f"OAUTHBEARER with sasl.oauthbearer.jwks.endpoint.url: {error}") from None
    tokens = SignedTokens(settings)
    refresher = JwksRefresher(
        settings.url, tokens.load, executor, clock, settings.refresh_ms, settings.retry_ms, settings.max_retry_ms
    )
    refresher.start()

    def validate(token: str, now_ms: int) -> BearerToken:
        try:
            return tokens.validate(token, now_ms)
        except UnknownKeyError:
            refresher.expedite()
            raise

    return validate


def host(url: str) -> str:
    """The part of ``url`` that may be logged."""
    return urlsplit(url).hostname or urlsplit(url).path


def fetch_jwks(url: str) -> bytes:
    """What ``url`` has. Blocks. Raises ``OSError``, and ``ValueError`` for a URL that is none of https, http, file."""
    if urlsplit(url).scheme not in _SCHEMES:
        raise ValueError(f"the URL of the JWKS begins with none of {', '.join(_SCHEMES)}")
    with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
        data: bytes = answer.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"the JWKS is larger than {_MOST_BYTES} bytes")
    return data
