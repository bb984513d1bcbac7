"""The segments of a log, in order.

Answers to: ``org.apache.kafka.storage.internals.log.LogSegments``. Deterministic.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from kafkalite.log.log_segment import LogSegment


class LogSegments:
    """Segments by base offset; the last is the active one. Never empty once the log is loaded."""

    __slots__ = ("_bases", "_segments", "active")

    active: LogSegment

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._segments: list[LogSegment] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(tuple(self._segments))

    def __getitem__(self, number: int) -> LogSegment:
        return self._segments[number]

    @property
    def bases(self) -> list[int]:
        """Base offsets, ascending."""
        return list(self._bases)

    def add(self, segment: LogSegment) -> None:
        """Add one; an equal base offset replaces."""
        at = bisect_right(self._bases, segment.base_offset)
        if at and self._bases[at - 1] == segment.base_offset:
            self._segments[at - 1] = segment
        else:
            self._bases.insert(at, segment.base_offset)
            self._segments.insert(at, segment)
        self.active = self._segments[-1]

    def remove(self, segment: LogSegment) -> None:
        """Take one out."""
        at = bisect_right(self._bases, segment.base_offset) - 1
        if at >= 0 and self._segments[at] is segment:
            del self._bases[at], self._segments[at]
            if self._segments:
                self.active = self._segments[-1]

    def floor_index(self, offset: int) -> int:
        """Number of the last segment that starts at or below ``offset``; -1 where none does."""
        return bisect_right(self._bases, offset) - 1

    def following(self, segment: LogSegment) -> LogSegment | None:
        """The segment after ``segment``."""
        at = bisect_right(self._bases, segment.base_offset)
        return self._segments[at] if at < len(self._segments) else None

    def from_offset(self, offset: int) -> list[LogSegment]:
        """The segment that may hold ``offset`` and all later ones."""
        return self._segments[max(0, self.floor_index(offset)) :]

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)
