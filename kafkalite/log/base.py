"""State of one log, its segments, what happens when its directory fails, and flushing.

Answers to: ``kafka.log.LocalLog``. Deterministic.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeVar

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.log.file_system import PASSING, LogDirFailure
from kafkalite.log.flushing import FlushWork
from kafkalite.log.leader_epoch_cache import LeaderEpochCache
from kafkalite.log.log_config import LogConfig
from kafkalite.log.log_segment import LogSegment
from kafkalite.log.log_segments import LogSegments
from kafkalite.log.partition_folder import PARTITION_METADATA, SNAPSHOT_SUFFIX, Folder
from kafkalite.log.producer_state import ProducerStateManager
from kafkalite.log.services import LogServices
from kafkalite.record.batch import CorruptRecordError
from kafkalite.record.validator import ValidationConfig

P = ParamSpec("P")
T = TypeVar("T")

_FLUSHED_AT_ONCE = 64
"""Segments of one flush: after an unclean start many may wait, and each of them needs open files."""


class LogState(NamedTuple):
    """What the loader found in a folder."""

    segments: LogSegments
    epochs: LeaderEpochCache
    producers: ProducerStateManager
    log_start_offset: int
    log_end_offset: int
    recovery_point: int


class LogBase:
    """What every part of a log works on.

    Always: log start ≤ high watermark ≤ log end. Offsets are those of records; ``log_end_offset`` is the next one to be
    given. Every method that touches files raises ``ApiError(KAFKA_STORAGE_ERROR)`` once the directory has failed.
    """

    __slots__ = (
        "_broken",
        "_cuts",
        "_cuts_synced",
        "_folder",
        "_folder_synced",
        "_hot_from",
        "_older_tail",
        "_roll_at",
        "_roll_by_timestamp",
        "_services",
        "_tail",
        "_validation",
        "config",
        "epochs",
        "high_watermark",
        "last_flush_ms",
        "log_dir",
        "log_end_offset",
        "log_start_offset",
        "producer_state",
        "recovery_point",
        "segments",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        folder: Folder,
        log_dir: str,
        config: LogConfig,
        services: LogServices,
        state: LogState,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id: uuid.UUID | None = None
        self.log_dir = log_dir
        self._folder = folder
        self._services = services
        self.segments = state.segments
        self.epochs = state.epochs
        self.producer_state = state.producers
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.high_watermark = state.log_start_offset
        self.recovery_point = state.recovery_point
        self.last_flush_ms = services.clock.time_ms()
        self._broken = False
        self._cuts = 0
        self._cuts_synced = 0
        self._folder_synced = False
        self._tail: dict[int, int] = {}
        self._older_tail: dict[int, int] = {}
        self._hot_from = state.segments.active.size
        self.update_config(config)

    # -- figures

    @property
    def dir(self) -> str:
        """The partition's folder."""
        return self._folder.path

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self.segments.size

    @property
    def cuts(self) -> int:
        """How often the log was truncated: what was read before a truncation may be in it no more."""
        return self._cuts

    @property
    def latest_epoch(self) -> int | None:
        """The last leader epoch in the log; ``None`` before the first."""
        return self.epochs.latest_epoch

    @property
    def last_stable_offset(self) -> int:
        """Where a reader of committed transactions has to stop."""
        unstable = self.producer_state.first_unstable_offset
        return unstable if 0 <= unstable < self.high_watermark else self.high_watermark

    def update_config(self, config: LogConfig) -> None:
        """Obey ``config`` from the next append on."""
        self.config = config
        difference = config.message_timestamp_difference_max_ms
        self._validation = ValidationConfig(
            timestamp_type=1 if config.message_timestamp_type == "LogAppendTime" else 0,
            message_timestamp_before_max_ms=min(config.message_timestamp_before_max_ms, difference),
            message_timestamp_after_max_ms=min(config.message_timestamp_after_max_ms, difference),
            max_message_bytes=config.max_message_bytes,
            compacted=config.compacted,
            compression_type=config.compression_type,
        )
        self._activated()

    # -- segments

    def _activated(self) -> None:
        """Cache when the active segment is too old. Its age counts by its first batch where that has a timestamp."""
        segment = self.segments.active
        first = segment.first_timestamp() if segment.size else -1
        self._roll_by_timestamp = first >= 0
        base = first if first >= 0 else segment.created_ms
        self._roll_at = base + self.config.max_segment_ms - segment.roll_jitter_ms

    def roll(self, least_offset: int = 0) -> LogSegment:
        """Close the active segment and begin another at the log's end (or ``least_offset``). Raises ``OSError``."""
        segments = self.segments
        active = segments.active
        base = max(self.log_end_offset, least_offset)
        if active.base_offset == base and not active.size:
            return active
        active.become_inactive()
        self.producer_state.take_snapshot(base)
        segment = self._new_segment(base)
        self._services.flush_later(self)
        return segment

    def _new_segment(self, base: int) -> LogSegment:
        jitter = self.config.segment_jitter_ms
        segment = LogSegment(
            self._folder,
            base,
            index_bytes=self.config.segment_index_bytes,
            created_ms=self._services.clock.time_ms(),
            roll_jitter_ms=self._services.rng.randrange(min(jitter, self.config.segment_ms)) if jitter else 0,
        )
        segment.create_files()
        self.segments.add(segment)
        self._forget_tail()
        self._hot_from = 0
        self._activated()
        return segment

    def maybe_roll(self, now_ms: int) -> bool:
        """Roll an active segment that is too old though nothing is appended; returns whether it was."""
        segment = self.segments.active
        if not segment.size or now_ms <= self._roll_at:
            return False
        self._guard_soft(self.roll)
        return True

    def _forget_tail(self) -> None:
        self._tail = {}
        self._older_tail = {}

    # -- failures

    def _storage_error(self) -> ApiError:
        # Not a LogDirFailure: a log that was deleted or closed says nothing about its directory.
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {self.topic_partition} in {self.log_dir} is closed")

    def _write_failed(self, segment: LogSegment, error: OSError) -> ApiError:
        """Cut what a failed write left. A full disk refuses this append only; anything else ends the directory."""
        try:
            segment.undo_append()
        except OSError as second:
            return self.fail(second)
        if error.errno in PASSING:
            return self._refusal(error)
        return self.fail(error)

    def fail(self, error: OSError) -> ApiError:
        """Give the log up and tell the manager; returns what to answer."""
        self.mark_broken()
        self._services.failed(self.log_dir, error)
        return LogDirFailure(self.log_dir, error)

    def mark_broken(self) -> None:
        """Serve no more and keep no file open: the directory has failed, or the log was deleted or closed."""
        self._broken = True
        for segment in self.segments:
            segment.release_all()

    def _guard(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make ``call``; an ``OSError`` of it ends the directory."""
        if self._broken:
            raise self._storage_error()
        try:
            return call(*args, **kwargs)
        except OSError as error:
            raise self.fail(error) from error
        except CorruptRecordError as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{self.topic_partition}: {error}") from error

    def _guard_soft(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for what changes nothing when it fails: a disk that is full does not end the directory."""
        if self._broken:
            raise self._storage_error()
        try:
            return call(*args, **kwargs)
        except OSError as error:
            if error.errno in PASSING:
                raise self._refusal(error) from error
            raise self.fail(error) from error
        except CorruptRecordError as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{self.topic_partition}: {error}") from error

    def _refusal(self, error: OSError) -> ApiError:
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {self.log_dir}: {error.strerror}")

    # -- flushing

    @property
    def unflushed(self) -> int:
        """How many offsets are not known to be on the disk."""
        return self.log_end_offset - self.recovery_point

    @property
    def flush_is_due(self) -> bool:
        """Whether ``flush.ms`` has passed since the last flush."""
        return self._services.clock.time_ms() - self.last_flush_ms >= self.config.flush_ms

    def prepare_flush(self, up_to: int | None = None) -> FlushWork | None:
        """The next step towards everything below ``up_to`` (default: all, with the producer snapshots) on the disk.

        ``None`` when it is there. The work may run in another thread; hand it to :meth:`flushed` and ask again.
        """
        end = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        done = end <= self.recovery_point
        if up_to is None:
            # A log that was cut to the start of its last segment has nothing above its recovery point, and yet lost
            # power could bring the old end back.
            done = done and not self.producer_state.unsynced and self._cuts == self._cuts_synced
        if done or self._broken:
            return None
        return self._guard_soft(self._gather_flush, max(end, self.recovery_point))

    def _gather_flush(self, end: int) -> FlushWork:
        segments = [
            segment
            for segment in self.segments.from_offset(self.recovery_point)
            if segment.base_offset < end or segment is self.segments.active
        ]
        if len(segments) > _FLUSHED_AT_ONCE:
            end = segments[_FLUSHED_AT_ONCE].base_offset
            del segments[_FLUSHED_AT_ONCE:]
        files = [file for segment in segments for file in segment.files_to_sync()]
        small_files = [] if self.epochs.changes == self.epochs.synced else [self.epochs.path]
        snapshots = list(self.producer_state.unsynced)
        small_files += [self._folder.file(offset, SNAPSHOT_SUFFIX) for offset in snapshots]
        folders = [self._folder.path]
        if not self._folder_synced:
            # The folder itself may be new, and without its topic's id it might be taken for another topic's.
            small_files.append(f"{self._folder.path}/{PARTITION_METADATA}")
            folders.append(self.log_dir)
        changes = self.epochs.changes
        return FlushWork(self._services.fs, folders, files, small_files, end, self._cuts, changes, snapshots)

    def flushed(self, work: FlushWork) -> None:
        """``work`` has run: a recovery may begin where it ended."""
        # What was cut meanwhile may have been written anew since, and that is not on the disk.
        if self._cuts == work.cuts:
            self.recovery_point = max(self.recovery_point, min(work.end, self.log_end_offset))
            self.producer_state.unsynced.difference_update(work.snapshots)
            self._cuts_synced = work.cuts
        self.epochs.synced = work.epoch_changes
        self._folder_synced = True
        self.last_flush_ms = self._services.clock.time_ms()

    def flush(self, up_to: int | None = None) -> None:
        """Force everything below ``up_to`` (default: all) to the disk, here and now."""
        while (work := self.prepare_flush(up_to)) is not None:
            # After an fsync that failed the page cache no longer tells what is on the disk: a full disk is no excuse.
            self._guard(work.run)
            self.flushed(work)
