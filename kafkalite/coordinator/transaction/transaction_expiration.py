"""Aborts transactions that exceed their timeout, and removes transactional ids that have expired.

Answers to: ``TransactionCoordinator.abortTimedOutTransactions`` and
``TransactionStateManager.removeExpiredTransactionalIds``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from kafkalite.common.clock import Clock, Timer
from kafkalite.common.errors import ApiError
from kafkalite.common.tasks import spawn
from kafkalite.coordinator.transaction import transitions
from kafkalite.coordinator.transaction.transaction_completion import TransactionCompletion
from kafkalite.coordinator.transaction.transaction_state_manager import (
    StatePartition,
    TransactionalIdEntry,
    TransactionStateManager,
)
from kafkalite.coordinator.transaction.values import TransactionConfig

log = logging.getLogger(__name__)

_AT_ONCE = 100


class TransactionExpiration:
    """Two timers, which run from the broker's first claim on."""

    def __init__(
        self,
        state_manager: TransactionStateManager,
        completion: TransactionCompletion,
        clock: Clock,
        config: TransactionConfig,
    ) -> None:
        self._state_manager = state_manager
        self._completion = completion
        self._clock = clock
        self._config = config
        self._timers: dict[str, Timer] = {}
        self._stopped = False

    def start(self) -> None:
        """Start the timers, unless they run."""
        if not self._timers and not self._stopped:
            config = self._config
            self._arm(
                "aborting timed out transactions", config.abort_timed_out_transactions_interval_ms, self.abort_timed_out
            )
            self._arm(
                "removing expired transactional ids",
                config.remove_expired_transactional_ids_interval_ms,
                self.remove_expired,
            )

    def stop(self) -> None:
        """Stop the timers; they cannot be started again."""
        for timer in self._timers.values():
            timer.cancel()
        self._stopped = True

    def _arm(self, task: str, interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        def due() -> None:
            if not self._stopped:
                self._arm(task, interval_ms, work)
                spawn(work(), task)

        self._timers[task] = self._clock.call_later(interval_ms / 1000, due)

    async def abort_timed_out(self) -> None:
        """Fence and abort each transaction that has been open for longer than its producer allowed."""
        now_ms = self._clock.time_ms()
        for partition in self._state_manager:
            for entry in list(partition.entries.values()):
                if transitions.has_timed_out(entry.metadata, now_ms) or entry.is_unknown:
                    await self._abort(partition, entry)

    async def _abort(self, partition: StatePartition, entry: TransactionalIdEntry) -> None:
        name = entry.metadata.transactional_id
        try:
            if entry.is_unknown and not entry.busy:
                await self._state_manager.resolve(partition, entry)
            now_ms = self._clock.time_ms()
            if entry.busy or not partition.alive or not transitions.has_timed_out(entry.metadata, now_ms):
                return
            await self._state_manager.write(partition, entry, transitions.fence(entry.metadata, now_ms))
        except ApiError as error:
            log.info("%s: timed out, but not aborted yet: %s", name, error)
            return
        finally:
            self._completion.begin(partition, entry)
        log.info("%s: aborted after %d ms", name, entry.metadata.timeout_ms)

    async def remove_expired(self) -> None:
        """Remove ids that have been idle for :attr:`TransactionConfig.transactional_id_expiration_ms`."""
        expiration_ms = self._config.transactional_id_expiration_ms
        now_ms = self._clock.time_ms()
        for partition in self._state_manager:
            expired = [
                entry
                for entry in partition.entries.values()
                if not entry.busy
                and not entry.is_unknown
                and transitions.has_expired(entry.metadata, expiration_ms, now_ms)
            ]
            for start in range(0, len(expired), _AT_ONCE):
                # Check again, because a producer may have used an id while the ids before it were removed.
                some = [entry for entry in expired[start : start + _AT_ONCE] if self._is_still(entry, expiration_ms)]
                for entry in some:
                    entry.metadata = transitions.bury(entry.metadata)
                try:
                    await self._state_manager.remove(partition, some)
                except ApiError as error:
                    log.info("expired transactional ids are still there: %s", error)
                    break

    def _is_still(self, entry: TransactionalIdEntry, expiration_ms: int) -> bool:
        return not entry.busy and transitions.has_expired(entry.metadata, expiration_ms, self._clock.time_ms())
