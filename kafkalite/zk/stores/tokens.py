"""Delegation tokens in ZooKeeper: ``/delegation_token/tokens`` and the notifications of their changes.

Answers to: ``KafkaZkClient.{setOrCreateDelegationToken,getDelegationTokenInfo,deleteDelegationToken}`` and
``DelegationTokenManagerZk.TokenChangedNotificationHandler``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkalite.zk.stores.feeds import NotificationFeed
from kafkalite.zk.stores.paths import children, ensure, read, set_or_create
from kafkalite.zk.zk_client import NoNodeError, ZkClient

TOKENS: Final = "/delegation_token/tokens"
CHANGE_PREFIX: Final = "/delegation_token/token_changes/token_change_"


class TokenStore:
    """Reads, writes and watches tokens."""

    def __init__(self, client: ZkClient, now_ms: Callable[[], int]) -> None:
        self._client = client
        self._now_ms = now_ms

    async def ensure_paths(self) -> None:
        """Create the container of the tokens, as Kafka does at the start of a broker."""
        await ensure(self._client, TOKENS)

    async def ids(self) -> list[str]:
        """The ids of all tokens."""
        return await children(self._client, TOKENS)

    async def read(self, token_id: str) -> bytes | None:
        """The content of a token's znode; ``None`` where there is no such token."""
        if not token_id or "/" in token_id:
            return None
        found = await read(self._client, f"{TOKENS}/{token_id}")
        return None if found is None else found[0]

    async def write(self, token_id: str, data: bytes) -> None:
        """Create or replace a token and notify every broker."""
        await set_or_create(self._client, f"{TOKENS}/{token_id}", data)
        await self._notify(token_id)

    async def delete(self, token_id: str) -> None:
        """Remove a token, if it exists, and notify every broker."""
        try:
            await self._client.delete(f"{TOKENS}/{token_id}")
        except NoNodeError:
            pass
        await self._notify(token_id)

    async def watch_changes(self, on_change: Callable[[str | None], None]) -> tuple[NotificationFeed, ...]:
        """Call ``on_change(token_id)`` for every change, until the result is stopped.

        ``on_change(None)`` says that changes may have been missed, and that every token must be read.
        """

        def handle(data: bytes | None) -> None:
            on_change(None if data is None else data.decode("utf-8", "replace"))

        feed = NotificationFeed(self._client, CHANGE_PREFIX, handle, self._now_ms)
        await feed.start()
        return (feed,)

    async def _notify(self, token_id: str) -> None:
        await self._client.create(CHANGE_PREFIX, token_id.encode(), sequence=True)
