"""Producer ids for idempotent producers, from blocks that are allocated in advance.

Answers to: ``kafka.coordinator.transaction.ZkProducerIdManager``. Deterministic.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import Future, spawn

log = logging.getLogger(__name__)

PREFETCH_AT = 0.9
"""The next block is allocated once this part of the current one is used, as in Kafka."""


class ProducerIdManager:
    """Unique producer ids. No id is given twice in the cluster; a stop loses the unused ids of a block.

    ``allocate(broker_id)`` claims a block of ids: :meth:`ProducerIdStore.allocate`.
    """

    def __init__(self, broker_id: int, allocate: Callable[[int], Awaitable[range]]) -> None:
        self._broker_id = broker_id
        self._allocate = allocate
        self._block = range(0)
        self._next_block = range(0)
        self._used = 0
        self._fetching = False
        self._waiting: deque[Future[int]] = deque()

    async def generate(self) -> int:
        """The next id. Raises :class:`ApiError` (COORDINATOR_LOAD_IN_PROGRESS) if ZooKeeper gives no block."""
        if self._used >= len(self._block) and self._next_block:
            self._block, self._next_block, self._used = self._next_block, range(0), 0
        if self._used < len(self._block):
            producer_id = self._block[self._used]
            self._used += 1
            if not self._next_block and self._used >= len(self._block) * PREFETCH_AT:
                self._fetch()
            return producer_id
        waiter: Future[int] = Future()
        self._waiting.append(waiter)
        self._fetch()
        return await waiter

    def _fetch(self) -> None:
        if not self._fetching:
            self._fetching = True
            spawn(self._fetch_block(), "fetching a block of producer ids")

    async def _fetch_block(self) -> None:
        try:
            self._next_block = await self._allocate(self._broker_id)
        except Exception as error:
            log.warning("No block of producer ids: %s", error)
            self._fetching = False
            failed, self._waiting = self._waiting, deque()
            for waiter in failed:
                waiter.errback(
                    ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "No producer id is at hand yet; try again")
                )
            return
        self._fetching = False
        # Waiting callers are served first, and new callers from the rest.
        waiting, self._waiting = self._waiting, deque()
        for waiter in waiting:
            spawn(self._serve(waiter), "serving a producer id")

    async def _serve(self, waiter: Future[int]) -> None:
        try:
            waiter.callback(await self.generate())
        except ApiError as error:
            waiter.errback(error)
