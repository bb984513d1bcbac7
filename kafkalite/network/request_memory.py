"""The memory of requests that are under way, of all connections of a broker together.

Answers to: ``org.apache.kafka.common.memory.SimpleMemoryPool`` under ``queued.max.request.bytes``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable


class RequestMemory:
    """Counts requests and their bytes; says when no more may be read, and when reading may go on.

    ``limit``: bytes of requests that may be in memory at once. It may be exceeded by what one event of each connection
    brings, and by a single request that is larger.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        """Bytes of requests that were read and are not answered, and of those that have come in part."""
        self.outstanding = 0
        """Requests that were handed on and are not answered."""
        self._waiting: list[Callable[[], object]] = []

    @property
    def is_exhausted(self) -> bool:
        """Whether no new requests may be read until some that are under way have been answered."""
        return self.held > self.limit and self.outstanding > 0

    def wait(self, resume: Callable[[], object]) -> None:
        """Call ``resume`` once there is memory."""
        self._waiting.append(resume)

    def release(self, size: int) -> None:
        """``size`` bytes of requests are no longer under way."""
        self.held -= size
        if self._waiting and not self.is_exhausted:
            waiting, self._waiting = self._waiting, []
            for resume in waiting:
                resume()
