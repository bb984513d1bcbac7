"""Taking away from a log: what is too old, what was never agreed upon, what newer records replace.

Answers to: ``kafka.log.UnifiedLog.{deleteOldSegments,truncateTo,replaceSegments}``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.log.appending import AppendingLog
from kafkalite.log.cleaner.swap import swap_in
from kafkalite.log.log_segment import LogSegment
from kafkalite.log.recovery import rebuild_producers
from kafkalite.log.retention import deletable_segments
from kafkalite.log.values import AppendInfo, UnexpectedAppendOffsetError


class CuttingLog(AppendingLog):
    """The part of a log that takes away."""

    __slots__ = ()

    # -- at the beginning

    def append_replicated(self, records: memoryview) -> AppendInfo:
        """:meth:`append_as_follower`, also where an empty log is to begin in the middle of the first batch.

        A leader whose records were deleted up to there still sends the whole batch. Raises as that does.
        """
        try:
            return self.append_as_follower(records)
        except UnexpectedAppendOffsetError as error:
            end = self.log_end_offset
            if self.log_start_offset != end or not error.first_offset < end <= error.last_offset:
                raise
            self.truncate_fully_and_start_at(error.first_offset)
            return self.append_as_follower(records)

    # -- from the beginning

    def increment_log_start_offset(self, offset: int) -> bool:
        """Give up what is below ``offset``; its files go with the next retention. Returns whether that was new.

        Raises ``ApiError(OFFSET_OUT_OF_RANGE)`` above the high watermark.
        """
        if offset > self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition}: {offset} is above the high watermark {self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self._guard(self.epochs.truncate_from_start, offset)
        self.producer_state.on_log_start(offset)
        return True

    def delete_old_segments(self, now_ms: int) -> int:
        """Remove what retention no longer keeps; returns how many segments went."""
        return self._guard_soft(self._delete_old_segments, now_ms)

    def _delete_old_segments(self, now_ms: int) -> int:
        segments = self.segments
        old = deletable_segments(
            segments, self.config, self.log_start_offset, self.high_watermark, self.log_end_offset, now_ms
        )
        if not old:
            return 0
        if old[-1] is segments.active:
            self.roll()
        following = segments.following(old[-1])
        assert following is not None
        self.increment_log_start_offset(following.base_offset)
        self._remove_segments(old)
        return len(old)

    def _remove_segments(self, segments: list[LogSegment]) -> None:
        """Take segments out; their files are renamed, and removed after ``file.delete.delay.ms``."""
        paths: list[str] = []
        for segment in segments:
            self.segments.remove(segment)
            paths.extend(segment.mark_deleted())
            self.producer_state.remove_snapshot(segment.base_offset, paths.append)
        self._services.delete_later(paths, self.config.file_delete_delay_ms)

    # -- from the end

    def truncate_to(self, offset: int) -> bool:
        """Cut everything at and above ``offset``, whole batches; returns whether there was anything to cut."""
        if offset < 0:
            raise ValueError(f"cannot truncate {self.topic_partition} to the negative offset {offset}")
        if offset >= self.log_end_offset:
            self._guard(self.epochs.truncate_from_end, offset)
            return False
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
        else:
            # Checkpoints first: on a full disk the log is still whole, and the truncation can be tried again.
            self._guard_soft(self._services.cutting, self, offset, offset)
            self._guard(self._truncate, offset)
        return True

    def recovery_point_after_cut(self, end: int) -> int:
        """The recovery point once everything at and above ``end`` is cut: the start of the segment that is shortened.

        That its file is shorter has to be flushed, too. With the recovery point at ``end``, and the next segment
        beginning there, neither a flush nor a recovery would look at it, and lost power could bring its old end back.
        """
        number = self.segments.floor_index(end)
        return min(self.recovery_point, self.segments[number].base_offset if number >= 0 else end)

    def _truncate(self, offset: int) -> None:
        segments = self.segments
        now_ms = self._services.clock.time_ms()
        above = [segment for segment in segments if segment.base_offset > offset]
        for segment in reversed(above):
            segments.remove(segment)
            segment.remove_files()
        if above:
            # Lost power must not bring them back behind batches that are written here anew.
            self._services.fs.sync_dir(self.dir)
        active = segments.active
        active.truncate_to(offset, now_ms)
        active.create_files()
        self.log_start_offset = min(self.log_start_offset, offset)
        self._ends_at(offset)
        self.epochs.truncate_from_end(offset)
        rebuild_producers(
            segments,
            self.producer_state,
            self.log_start_offset,
            offset,
            now_ms,
            self._services.producer_expiration_ms,
        )
        self.producer_state.on_high_watermark(self.high_watermark)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the log is empty and begins at ``offset``."""
        self._guard_soft(self._services.cutting, self, self.segments[0].base_offset, offset)
        self._guard(self._truncate_fully, offset)

    def _truncate_fully(self, offset: int) -> None:
        for segment in reversed(list(self.segments)):
            self.segments.remove(segment)
            segment.remove_files()
        if offset < self.log_end_offset:
            self._services.fs.sync_dir(self.dir)
        self.producer_state.remove_all_snapshots()
        self.producer_state.clear(offset)
        self._new_segment(offset)
        self.log_start_offset = offset
        self._ends_at(offset)
        self.epochs.clear()

    def _ends_at(self, offset: int) -> None:
        """The log has been cut to ``offset``."""
        self._cuts += 1
        self._forget_tail()
        self.log_end_offset = offset
        self.recovery_point = self.recovery_point_after_cut(offset)
        self.high_watermark = max(self.log_start_offset, min(self.high_watermark, offset))
        self._hot_from = min(self._hot_from, self.segments.active.size)
        self._activated()

    # -- compaction

    def replace_segments(self, base_offset: int, size: int, suffixes: Sequence[str], replaces: Sequence[int]) -> None:
        """Put a compacted segment of ``size`` bytes, written under ``.cleaned`` names, in the place of others.

        ``suffixes`` says which files it has. Raises ``ApiError(KAFKA_STORAGE_ERROR)``.
        """
        segments = self.segments
        old = [segment for segment in segments.from_offset(base_offset) if segment.base_offset in replaces]
        assert old and old[0].base_offset == base_offset and segments.active not in old
        self._guard(self._replace_segments, base_offset, size, suffixes, old)

    def _replace_segments(self, base_offset: int, size: int, suffixes: Sequence[str], old: list[LogSegment]) -> None:
        made = LogSegment(
            self._folder,
            base_offset,
            index_bytes=self.config.segment_index_bytes,
            created_ms=self._services.clock.time_ms(),
            size=size,
            exists=frozenset(suffixes),
        )
        gone = swap_in(self.segments, made, suffixes, old, self._folder, self.producer_state)
        self._services.delete_later(gone, self.config.file_delete_delay_ms)
