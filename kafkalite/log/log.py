"""One partition's log.

Answers to: ``kafka.log.UnifiedLog``. Deterministic.
"""

from __future__ import annotations

import struct
import uuid

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import FileRegion
from kafkalite.log.base import LogState
from kafkalite.log.cutting import CuttingLog
from kafkalite.log.file_system import PASSING
from kafkalite.log.log_segment import LogSegment
from kafkalite.log.partition_folder import PARTITION_METADATA
from kafkalite.log.partition_metadata import encode_partition_metadata
from kafkalite.log.timestamp_lookup import find_by_timestamp, find_max_timestamp, find_offsets_before
from kafkalite.log.values import AbortedTxn, AppendInfo, ReadInfo, TimestampOffset, UnexpectedAppendOffsetError

__all__ = [
    "AbortedTxn",
    "AppendInfo",
    "Log",
    "LogState",
    "ReadInfo",
    "TimestampOffset",
    "UnexpectedAppendOffsetError",
]

_HOT_BYTES = 8 << 20
"""What was written this recently is taken to be in memory without asking."""
_LENGTH = struct.Struct(">i")


class Log(CuttingLog):
    """An ordered sequence of record batches in segment files."""

    __slots__ = ()

    # -- reading

    def read(self, offset: int, max_bytes: int, upper_bound: int, min_one_message: bool) -> ReadInfo:
        """Batches from the one that holds ``offset`` on, all of them below ``upper_bound``.

        At most ``max_bytes``, which may cut the last batch; with ``min_one_message`` the first batch comes whole
        whatever its size. Raises ``ApiError(OFFSET_OUT_OF_RANGE)``.
        """
        end_offset = self.log_end_offset
        if offset > end_offset or offset < self.log_start_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.topic_partition} is not in {self.log_start_offset} to {end_offset}",
            )
        if self._broken:
            raise self._storage_error()
        upper_bound = min(upper_bound, end_offset)
        if offset >= upper_bound:
            return ReadInfo(offset, None, 0)
        tail = self._tail
        start = tail.get(offset)
        if start is None:
            tail = self._older_tail
            start = tail.get(offset)
        try:
            if start is None:
                return self._read_far(offset, max_bytes, upper_bound, min_one_message)
            segment = self.segments.active
            end: int | None
            if upper_bound == end_offset:
                end = segment.size
            else:
                end = self._tail.get(upper_bound)
                if end is None:
                    end = self._end_position(segment, upper_bound)
            return self._region(segment, offset, start, end, max_bytes, min_one_message)
        except OSError as error:
            if error.errno in PASSING:
                raise self._refusal(error) from error
            raise self.fail(error) from error

    def _read_far(self, offset: int, max_bytes: int, upper_bound: int, min_one_message: bool) -> ReadInfo:
        segments = self.segments
        for number in range(max(0, segments.floor_index(offset)), len(segments)):
            segment = segments[number]
            found = segment.find(offset)
            if found is None:
                # Compaction may leave nothing at or above the offset in its own segment.
                continue
            start, _, base, _ = found
            if base >= upper_bound:
                break
            end = self._end_position(segment, upper_bound)
            return self._region(segment, offset, start, end, max_bytes, min_one_message)
        return ReadInfo(offset, None, 0)

    def _end_position(self, segment: LogSegment, upper_bound: int) -> int:
        """Where the first batch begins that reaches ``upper_bound``; the end of ``segment`` where none does."""
        if upper_bound >= self.log_end_offset:
            return segment.size
        following = self.segments.following(segment)
        if following is not None:
            if following.base_offset <= upper_bound:
                return segment.size
        else:
            position = self._older_tail.get(upper_bound)
            if position is not None:
                return position
        found = segment.find(upper_bound)
        return segment.size if found is None else found[0]

    def _region(
        self, segment: LogSegment, offset: int, start: int, end: int, max_bytes: int, min_one_message: bool
    ) -> ReadInfo:
        count = end - start
        incomplete = False
        if count <= 0:
            return ReadInfo(offset, None, 0)
        file = segment.file
        if file is None:
            file = segment.opened()
        segment.recently_used = True
        if count > max_bytes:
            first = _LENGTH.unpack(self._services.fs.pread(file.fd, 4, start + 8))[0] + 12
            if first > max_bytes and not min_one_message:
                incomplete = True
            count = min(count, max(max_bytes, first) if min_one_message else max(max_bytes, 0))
            if not count:
                return ReadInfo(offset, None, 0, incomplete)
        hot = segment is self.segments.active and start >= self._hot_from and segment.size - start <= _HOT_BYTES
        cold = not hot and not self._services.fs.is_cached(file.fd, start, count)
        return ReadInfo(offset, FileRegion(file.fd, start, count, file, cold), count, incomplete)

    # -- looking up

    def end_of_read(self, read: ReadInfo, upper: int) -> int:
        """An offset, at most ``upper``, that nothing in ``read`` reaches, as near as the index knows."""
        region = read.records
        for segment in self.segments.from_offset(read.offset):
            if region is not None and segment.file is region.owner:
                end = self._guard_soft(segment.index.offset_behind, region.position + region.count)
                if end is None:
                    following = self.segments.following(segment)
                    end = upper if following is None else following.base_offset
                return min(upper, end)
        return upper

    def aborted_transactions(self, start: int, upper: int) -> list[AbortedTxn]:
        """Aborted transactions that overlap ``[start, upper)``, in the order in which they ended."""
        found: list[AbortedTxn] = []
        for segment in self.segments.from_offset(start):
            if segment.txn_index is None:
                continue
            for txn in self._guard_soft(list, segment.txn_index):
                if txn.last_offset >= start and txn.first_offset < upper:
                    found.append(txn)
                if txn.last_stable_offset >= upper:
                    return found
        return found

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record whose timestamp is not below ``timestamp`` (milliseconds)."""
        return self._guard_soft(find_by_timestamp, self.segments, self.epochs, timestamp, self.log_start_offset)

    def offsets_before(self, timestamp: int, limit: int) -> list[int]:
        """Where segments last written by ``timestamp`` (-1: the end, -2: the beginning) start, newest first."""
        ends = self.log_start_offset, self.log_end_offset, self._services.clock.time_ms()
        return self._guard_soft(find_offsets_before, self.segments, timestamp, limit, *ends)

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """The record with the largest timestamp; ``None`` of an empty log."""
        return self._guard_soft(find_max_timestamp, self.segments, self.epochs)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest known epoch not above ``epoch``, and where it ended; (-1, -1) where that is not known."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # -- marks

    def update_high_watermark(self, high_watermark: int) -> bool:
        """Set the high watermark, kept between log start and log end; returns whether it changed."""
        new = max(self.log_start_offset, min(high_watermark, self.log_end_offset))
        if new == self.high_watermark:
            return False
        self.high_watermark = new
        self.producer_state.on_high_watermark(new)
        return True

    # -- life

    def set_topic_id(self, topic_id: uuid.UUID) -> None:
        """Note to which topic the log belongs. Raises ``ApiError(INCONSISTENT_TOPIC_ID)`` where it is another's."""
        if self.topic_id == topic_id:
            return
        if self.topic_id is not None:
            raise ApiError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"{self.topic_partition} in {self.dir} belongs to topic id {self.topic_id}, not to {topic_id}",
            )
        path = f"{self.dir}/{PARTITION_METADATA}"
        self._guard_soft(self._services.fs.write_file, path, encode_partition_metadata(topic_id), False)
        self.topic_id = topic_id

    def close(self) -> None:
        """A clean end: a snapshot of the producers, complete indexes, files closed."""
        if self._broken:
            return
        self._guard(self.producer_state.take_snapshot, self.log_end_offset)
        for segment in self.segments:
            if segment is self.segments.active:
                self._guard(segment.close)
            segment.release_all()

    def renamed(self, path: str) -> None:
        """The folder is now at ``path``."""
        self._folder.path = path
        self._folder_synced = False
