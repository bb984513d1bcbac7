"""Delegation tokens while a broker runs: read at its start, followed, and removed by the controller when they end.

Answers to: ``DelegationTokenManager.startup`` and the scheduler ``delete-expired-tokens`` of
``kafka.controller.KafkaController``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkalite.common.clock import Clock, Timer
from kafkalite.common.tasks import spawn
from kafkalite.security.token_manager import TokenManager
from kafkalite.zk.stores.feeds import ChangeFollower
from kafkalite.zk.stores.tokens import TokenStore
from kafkalite.zk.zk_client import ConnectionLostError, SessionExpiredError


class TokenKeeper:
    """Keeps ``manager`` in step with ``store``; ``interval_ms``: between two searches for tokens that have ended.

    Without a secret for tokens it does nothing.
    """

    def __init__(
        self,
        manager: TokenManager,
        store: TokenStore,
        clock: Clock,
        interval_ms: int,
        is_controller: Callable[[], bool],
    ) -> None:
        self._manager = manager
        self._store = store
        self._clock = clock
        self._interval = interval_ms / 1000
        self._is_controller = is_controller
        self._changes: ChangeFollower[str | None] = ChangeFollower("delegation tokens", self._changed)
        self._known: set[str] = set()
        """Ids of the tokens that the manager has."""
        self._timer: Timer | None = None

    async def start(self) -> None:
        """Read all tokens and follow their changes. Raises :class:`kafkalite.zk.zk_client.ZkError`."""
        if self._manager.is_enabled:
            await self._store.ensure_paths()
            await self._changes.start(self._store.watch_changes)
            await self._changed(None)
            self._plan()

    def close(self) -> None:
        """Stop following."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._changes.close()

    async def _changed(self, token_id: str | None) -> None:
        """A token was written or removed; ``None``: perhaps any token."""
        changed = sorted({*await self._store.ids(), *self._known}) if token_id is None else [token_id]
        for each in changed:
            data = await self._store.read(each)
            if data is None:
                self._known.discard(each)
            else:
                self._known.add(each)
            self._manager.token_changed(each, data)

    def _plan(self) -> None:
        self._timer = self._clock.call_later(self._interval, self._check)

    def _check(self) -> None:
        self._plan()
        if self._is_controller():
            spawn(self._remove_expired(), "removing expired delegation tokens")

    async def _remove_expired(self) -> None:
        try:
            await self._manager.remove_expired()
        except (ConnectionLostError, SessionExpiredError):
            # The next search finds them again.
            return
