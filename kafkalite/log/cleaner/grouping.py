"""Which neighbouring segments become one, so that compaction does not leave ever smaller files.

Answers to: ``org.apache.kafka.storage.internals.log.Cleaner.groupSegmentsBySize``. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkalite.log.cleaner.job import SegmentInfo

_INT_MAX = (1 << 31) - 1


def group_segments(
    segments: Sequence[SegmentInfo], max_bytes: int, max_index_bytes: int, end_offset: int
) -> list[list[SegmentInfo]]:
    """``segments`` in runs whose files, as they are now, would fit into one segment; all lie below ``end_offset``."""
    groups: list[list[SegmentInfo]] = []
    size = index = time_index = 0
    for number, segment in enumerate(segments):
        # Offsets in an index are four bytes relative to the first segment's base; a segment's last offset is guessed
        # from where the next one begins.
        following = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        if (
            groups
            and size + segment.size <= max_bytes
            and index + segment.index_size <= max_index_bytes
            and time_index + segment.time_index_size <= max_index_bytes
            and (not segment.size or following - 1 - groups[-1][0].base_offset <= _INT_MAX)
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size = index = time_index = 0
        size += segment.size
        index += segment.index_size
        time_index += segment.time_index_size
    return groups
