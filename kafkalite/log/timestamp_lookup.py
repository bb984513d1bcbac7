"""Finding offsets by timestamp.

Answers to: ``UnifiedLog.fetchOffsetByTimestamp`` and ``LogSegment.findOffsetByTimestamp``. Deterministic.
"""

from __future__ import annotations

from kafkalite.log.leader_epoch_cache import LeaderEpochCache
from kafkalite.log.log_segment import LogSegment
from kafkalite.log.log_segments import LogSegments
from kafkalite.log.values import TimestampOffset
from kafkalite.record.convert import records_of

_EARLIEST, _LATEST = -2, -1


def find_by_timestamp(
    segments: LogSegments, epochs: LeaderEpochCache, timestamp: int, log_start_offset: int
) -> TimestampOffset | None:
    """The first record from ``log_start_offset`` on whose timestamp is not below ``timestamp``."""
    for segment in segments.from_offset(log_start_offset):
        if segment.max_timestamp()[0] >= timestamp:
            found = _find_in_segment(segment, timestamp, log_start_offset)
            if found is not None:
                return TimestampOffset(found[0], found[1], epochs.epoch_for(found[1]))
    return None


def _find_in_segment(segment: LogSegment, timestamp: int, least_offset: int) -> tuple[int, int] | None:
    start = max(segment.time_index.lookup(timestamp), least_offset)
    for position, header in segment.headers(segment.start_for(start)):
        if header.max_timestamp < timestamp or header.last_offset < least_offset:
            continue
        for record in records_of(segment.read(position, header.size), header):
            if record.timestamp >= timestamp and record.offset >= least_offset:
                return record.timestamp, record.offset
    return None


def find_offsets_before(
    segments: LogSegments, timestamp: int, limit: int, log_start_offset: int, log_end_offset: int, now_ms: int
) -> list[int]:
    """Up to ``limit`` offsets, newest first, at which segments last written at or before ``timestamp`` begin.

    The log's end counts as one more, of now. -1 asks from the end on, -2 for the beginning. Clients of Kafka 0.8 and
    0.9 find their offsets so.
    """
    entries = [(max(segment.base_offset, log_start_offset), segment.last_modified_ms) for segment in segments]
    if segments.active.size:
        entries.append((log_end_offset, now_ms))
    if timestamp == _EARLIEST:
        entries = entries[:1]
    elif timestamp != _LATEST:
        while entries and entries[-1][1] > timestamp:
            entries.pop()
    return [offset for offset, _ in reversed(entries)][: max(0, limit)]


def find_max_timestamp(segments: LogSegments, epochs: LeaderEpochCache) -> TimestampOffset | None:
    """The first record with the largest timestamp of all."""
    best: LogSegment | None = None
    for segment in segments:
        if segment.size and (best is None or segment.max_timestamp()[0] > best.max_timestamp()[0]):
            best = segment
    if best is None:
        return None
    timestamp, offset = best.max_timestamp()
    found = best.find(offset)
    if timestamp < 0 or found is None:
        return None
    data = best.read(found[0], found[1])
    for _, header in best.headers(found[0]):
        for record in records_of(data, header):
            if record.timestamp >= timestamp:
                return TimestampOffset(record.timestamp, record.offset, epochs.epoch_for(record.offset))
        break
    return TimestampOffset(timestamp, offset, epochs.epoch_for(offset))
