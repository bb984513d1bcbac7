"""Memory of large frames, used again when no view of it is left.

Answers to: ``org.apache.kafka.common.memory.GarbageCollectedMemoryPool``. Pure.

New memory must be zeroed and its pages touched for the first time: more work for a megabyte than to read it
from the socket. A buffer knows by itself whether any view of it is alive, so no code has to give one back.
"""

from __future__ import annotations


class FramePool:
    """Lends buffers and remembers up to ``budget`` bytes of them."""

    __slots__ = ("_buffers", "_used", "budget", "held")

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.held = 0
        self._buffers: list[bytearray] = []
        self._used = False

    def take(self, size: int) -> bytearray:
        """A buffer of at least ``size`` bytes with arbitrary contents: hold it by views alone."""
        self._used = True
        buffers = self._buffers
        for buffer in buffers:
            if size <= len(buffer) <= 2 * size and is_free(buffer):
                return buffer
        buffer = bytearray(size)
        while buffers and self.held + size > self.budget:
            self.held -= len(buffers.pop(0))
        if size <= self.budget:
            buffers.append(buffer)
            self.held += size
        return buffer

    def trim(self) -> None:
        """Forget everything, unless something was taken since the last time."""
        if not self._used:
            self._buffers.clear()
            self.held = 0
        self._used = False


def is_free(buffer: bytearray) -> bool:
    """Whether no view of ``buffer`` is alive."""
    try:
        last = buffer.pop()
    except BufferError:
        return False
    buffer.append(last)
    return True
