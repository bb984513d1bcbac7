"""The segments of a log, in order, and searches over several of them.

Answers to: ``org.apache.kafka.storage.internals.log.LogSegments``, ``UnifiedLog.fetchOffsetByTimestamp`` and
``LocalLog.deletableSegments``. Deterministic.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from kafkalite.log.log_config import LogConfig
from kafkalite.log.log_segment import LogSegment

_EARLIEST, _LATEST = -2, -1
"""Timestamps by which ListOffsets asks for the beginning and the end of a log."""


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
        """Add a segment; it replaces one with the same base offset."""
        at = bisect_right(self._bases, segment.base_offset)
        if at and self._bases[at - 1] == segment.base_offset:
            self._segments[at - 1] = segment
        else:
            self._bases.insert(at, segment.base_offset)
            self._segments.insert(at, segment)
        self.active = self._segments[-1]

    def remove(self, segment: LogSegment) -> None:
        """Remove a segment, unless another one has replaced it."""
        at = bisect_right(self._bases, segment.base_offset) - 1
        if at >= 0 and self._segments[at] is segment:
            del self._bases[at], self._segments[at]
            if self._segments:
                self.active = self._segments[-1]

    def floor_index(self, offset: int) -> int:
        """Number of the last segment that starts at or below ``offset``; -1 if there is none."""
        return bisect_right(self._bases, offset) - 1

    def following(self, segment: LogSegment) -> LogSegment | None:
        """The segment after ``segment``; ``None`` after the active one."""
        at = bisect_right(self._bases, segment.base_offset)
        return self._segments[at] if at < len(self._segments) else None

    def from_offset(self, offset: int) -> list[LogSegment]:
        """The segment that may hold ``offset`` and all later ones."""
        return self._segments[max(0, self.floor_index(offset)) :]

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    # -- offsets by timestamp

    def find_by_timestamp(self, timestamp: int, log_start_offset: int) -> tuple[int, int] | None:
        """Timestamp and offset of the first record at or above ``log_start_offset`` not older than ``timestamp``."""
        for segment in self.from_offset(log_start_offset):
            if segment.max_timestamp()[0] >= timestamp:
                found = segment.find_by_timestamp(timestamp, log_start_offset)
                if found is not None:
                    return found
        return None

    def first_of_max_timestamp(self) -> tuple[int, int] | None:
        """The largest timestamp of all and the offset of the first record that has it; ``None`` without timestamps."""
        best: LogSegment | None = None
        for segment in self:
            if segment.size and (best is None or segment.max_timestamp()[0] > best.max_timestamp()[0]):
                best = segment
        return None if best is None else best.first_of_max_timestamp()

    def offsets_before(
        self, timestamp: int, limit: int, log_start_offset: int, log_end_offset: int, now_ms: int
    ) -> list[int]:
        """Up to ``limit`` base offsets, newest first, of segments last written at or before ``timestamp``.

        The log's end counts as one more, written now. -1 stands for the end of the log, -2 for its beginning. Clients
        of Kafka 0.8 and 0.9 find offsets this way (ListOffsets version 0).
        """
        entries = [(max(segment.base_offset, log_start_offset), segment.last_modified_ms) for segment in self]
        if self.active.size:
            entries.append((log_end_offset, now_ms))
        if timestamp == _EARLIEST:
            entries = entries[:1]
        elif timestamp != _LATEST:
            while entries and entries[-1][1] > timestamp:
                entries.pop()
        return [offset for offset, _ in reversed(entries)][: max(0, limit)]

    # -- retention

    def deletable(
        self, config: LogConfig, log_start_offset: int, high_watermark: int, log_end_offset: int, now_ms: int
    ) -> list[LogSegment]:
        """The oldest segments that are beyond retention by age, by size, or by the start of the log.

        None of them holds an offset at or above the high watermark, and an empty active segment is not among them.
        """
        excess = -1
        if config.deletes and config.retention_bytes >= 0:
            excess = self.size - config.retention_bytes
        found = []
        for segment in self:
            following = self.following(segment)
            end = following.base_offset if following is not None else log_end_offset
            if high_watermark < end or (following is None and not segment.size):
                break
            below_start = following is not None and following.base_offset <= log_start_offset
            too_old = (
                config.deletes
                and config.retention_ms >= 0
                and now_ms - segment.largest_timestamp() > config.retention_ms
            )
            too_much = excess >= segment.size
            if not (below_start or too_old or too_much):
                break
            if too_much:
                excess -= segment.size
            found.append(segment)
        return found
