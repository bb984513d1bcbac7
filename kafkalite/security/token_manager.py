"""Makes, renews and ends delegation tokens, and knows those of the cluster.

Answers to: ``kafka.server.{DelegationTokenManager,DelegationTokenManagerZk}`` and
``org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache`` (KIP-48). Deterministic.
"""

from __future__ import annotations

import base64
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from kafkalite.common.errors import ErrorCode
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.security.delegation_tokens import (
    DelegationToken,
    decode_token,
    encode_token,
    token_hmac,
    token_password,
)
from kafkalite.security.scram import TokenCredential
from kafkalite.security.scram_credentials import SCRAM_MECHANISMS, ScramCredential
from kafkalite.zk.znodes.codec import MalformedZnodeError

log = logging.getLogger(__name__)


class TokenStorage(Protocol):
    """``kafkalite.zk.stores.tokens.TokenStore``, as far as the manager writes."""

    def write(self, token_id: str, data: bytes) -> Awaitable[None]:
        """Create or replace a token and notify every broker."""

    def delete(self, token_id: str) -> Awaitable[None]:
        """Remove a token and notify every broker."""


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """``secret`` is ``delegation.token.secret.key`` (empty: no tokens); lifetimes in ms."""

    secret: str = field(default="", repr=False)
    max_lifetime_ms: int = 604_800_000
    renewal_ms: int = 86_400_000


class TokenChange(NamedTuple):
    """What became of a request to change the end of a token; ``expires_ms`` is -1 with an error."""

    error: ErrorCode
    expires_ms: int = -1


class TokenManager:
    """The tokens of the cluster. Changes raise :class:`kafkalite.zk.zk_client.ZkError` if they cannot be written.

    ``secrets`` must be unpredictable; ``now_ms`` is the time of day.
    """

    def __init__(
        self, settings: TokenSettings, storage: TokenStorage, now_ms: Callable[[], int], secrets: random.Random
    ) -> None:
        self._settings = settings
        self._storage = storage
        self._now_ms = now_ms
        self._secrets = secrets
        self._tokens: dict[str, DelegationToken] = {}
        self._credentials: dict[tuple[str, str], ScramCredential] = {}

    @property
    def is_enabled(self) -> bool:
        """Whether there is a secret, and tokens may be made."""
        return bool(self._settings.secret)

    def token_changed(self, token_id: str, data: bytes | None) -> None:
        """Take over what stands in the token's znode; ``None``: it is gone. A malformed token is dropped."""
        self._forget(token_id)
        if data is None:
            return
        try:
            self._tokens[token_id] = decode_token(f"/delegation_token/tokens/{token_id}", data)
        except MalformedZnodeError as error:
            log.error("%s; no client can log in by it", error)

    def credential(self, mechanism: str, token_id: str) -> TokenCredential | None:
        """The credential of a client that logs in by the token; ``None`` if there is no such token."""
        token = self._tokens.get(token_id)
        if token is None:
            return None
        key = (mechanism, token_id)
        if key not in self._credentials:
            scram = SCRAM_MECHANISMS[mechanism]
            password = token_password(self._settings.secret, token_id)
            salt = self._secrets.randbytes(20)
            # Made when it is needed, because it takes milliseconds, and most tokens are never used at this broker.
            self._credentials[key] = ScramCredential.from_password(scram, password, salt, scram.min_iterations)
        return TokenCredential(token.owner.name, self._credentials[key], token.expires_ms)

    async def create(
        self,
        owner: KafkaPrincipal,
        requester: KafkaPrincipal,
        renewers: Sequence[KafkaPrincipal],
        max_lifetime_ms: int,
    ) -> DelegationToken:
        """A new token, which ends after ``max_lifetime_ms`` or, if that is not positive, after the greatest time."""
        settings, now = self._settings, self._now_ms()
        longest = settings.max_lifetime_ms
        max_ms = now + (longest if max_lifetime_ms <= 0 else min(max_lifetime_ms, longest))
        token_id = base64.urlsafe_b64encode(self._secrets.randbytes(16)).rstrip(b"=").decode()
        expires_ms = min(max_ms, now + settings.renewal_ms)
        token = DelegationToken(token_id, owner, requester, tuple(renewers), now, max_ms, expires_ms)
        await self._update(token)
        return token

    def hmac(self, token: DelegationToken) -> bytes:
        """The secret part of the token."""
        return token_hmac(self._settings.secret, token.id)

    async def renew(self, principal: KafkaPrincipal, hmac: bytes, period_ms: int) -> TokenChange:
        """Let the token end ``period_ms`` from now; a negative one means ``delegation.token.expiry.time.ms``."""
        return await self._change(principal, hmac, self._settings.renewal_ms if period_ms < 0 else period_ms)

    async def expire(self, principal: KafkaPrincipal, hmac: bytes, period_ms: int) -> TokenChange:
        """Let the token end ``period_ms`` from now; a negative one ends it at once."""
        if period_ms >= 0:
            return await self._change(principal, hmac, period_ms)
        token = self._find(hmac)
        if token is None:
            return TokenChange(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        if not token.may_renew(principal):
            return TokenChange(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        await self._remove(token.id)
        return TokenChange(ErrorCode.NONE, self._now_ms())

    def tokens(self, is_eligible: Callable[[DelegationToken], bool]) -> list[DelegationToken]:
        """The tokens for which ``is_eligible``."""
        return [token for token in self._tokens.values() if is_eligible(token)]

    async def remove_expired(self) -> None:
        """Remove what has ended; the controller does this from time to time."""
        for token in self.tokens(lambda token: token.is_expired(self._now_ms())):
            log.info("delegation token %s of %s has expired", token.id, token.owner)
            await self._remove(token.id)

    async def _change(self, principal: KafkaPrincipal, hmac: bytes, period_ms: int) -> TokenChange:
        token, now = self._find(hmac), self._now_ms()
        if token is None:
            return TokenChange(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        if not token.may_renew(principal):
            return TokenChange(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        if token.is_expired(now):
            return TokenChange(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        changed = replace(token, expires_ms=min(token.max_ms, now + period_ms))
        await self._update(changed)
        return TokenChange(ErrorCode.NONE, changed.expires_ms)

    def _find(self, hmac: bytes) -> DelegationToken | None:
        return next((token for token in self._tokens.values() if self.hmac(token) == hmac), None)

    async def _update(self, token: DelegationToken) -> None:
        await self._storage.write(token.id, encode_token(token))
        self._tokens[token.id] = token

    async def _remove(self, token_id: str) -> None:
        await self._storage.delete(token_id)
        self._forget(token_id)

    def _forget(self, token_id: str) -> None:
        self._tokens.pop(token_id, None)
        for mechanism in SCRAM_MECHANISMS:
            self._credentials.pop((mechanism, token_id), None)
