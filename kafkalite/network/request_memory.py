"""The memory of all requests of a broker that have no answer yet.

Answers to: ``org.apache.kafka.common.memory.SimpleMemoryPool`` under ``queued.max.request.bytes``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

RESERVE: Final = 1 << 24
"""Bytes beyond the limit for the first requests of new connections: the largest request of a controller fits."""


class RequestMemory:
    """Counts requests and their bytes; tells connections when to stop reading and when to go on.

    ``limit``: bytes of requests in memory at which reading stops. One read of each connection may exceed it, and a
    single request that is larger. The requests of a controller are read nevertheless, because a change of leaders may
    be what the requests in memory wait for.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        """Bytes of requests without an answer, and of requests that were received in part."""
        self.outstanding = 0
        """Number of requests that were handed to the handler and have no answer."""
        self._waiting: list[Callable[[], object]] = []

    @property
    def is_exhausted(self) -> bool:
        """Whether connections must not read new requests until others are answered."""
        return self.held > self.limit and self.outstanding > 0

    @property
    def has_reserve(self) -> bool:
        """Whether a new connection may be read although :attr:`is_exhausted`: it may be a controller's."""
        return self.held <= self.limit + RESERVE

    def wait(self, resume: Callable[[], object]) -> None:
        """Call ``resume`` when there is memory again."""
        self._waiting.append(resume)

    def release(self, size: int) -> None:
        """Subtract ``size`` bytes of requests that were answered or dropped."""
        self.held -= size
        if self._waiting and not self.is_exhausted:
            waiting, self._waiting = self._waiting, []
            for resume in waiting:
                resume()
