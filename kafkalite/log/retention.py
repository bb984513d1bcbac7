"""Which segments have served their time.

Answers to: ``kafka.log.UnifiedLog.deleteOldSegments``. Deterministic.
"""

from __future__ import annotations

from kafkalite.log.log_config import LogConfig
from kafkalite.log.log_segment import LogSegment
from kafkalite.log.log_segments import LogSegments


def deletable_segments(
    segments: LogSegments,
    config: LogConfig,
    log_start_offset: int,
    high_watermark: int,
    log_end_offset: int,
    now_ms: int,
) -> list[LogSegment]:
    """The oldest segments that are beyond retention by age, by size, or by the start of the log.

    Nothing that holds offsets at or above the high watermark, and no empty active segment.
    """
    excess = -1
    if config.deletes and config.retention_bytes >= 0:
        excess = segments.size - config.retention_bytes
    found = []
    for segment in segments:
        following = segments.following(segment)
        end = following.base_offset if following is not None else log_end_offset
        if high_watermark < end or (following is None and not segment.size):
            break
        below_start = following is not None and following.base_offset <= log_start_offset
        too_old = (
            config.deletes and config.retention_ms >= 0 and now_ms - segment.largest_timestamp() > config.retention_ms
        )
        too_much = excess - segment.size >= 0 and excess >= 0
        if not (below_start or too_old or too_much):
            break
        if too_much:
            excess -= segment.size
        found.append(segment)
    return found
