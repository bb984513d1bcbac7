"""One partition's log.

Answers to: ``kafka.log.{UnifiedLog,LocalLog}``. Deterministic.
"""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kafkalite.common.clock import Clock
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.recent_times import RecentTimes
from kafkalite.common.types import Buffer, FileRegion, TopicPartition
from kafkalite.log.file_system import File, FilePool, FileSystem
from kafkalite.log.leader_epoch_cache import LeaderEpochCache
from kafkalite.log.log_config import LogConfig
from kafkalite.log.log_segment import MAX_RELATIVE_OFFSET, LogSegment
from kafkalite.log.log_segments import LogSegments
from kafkalite.log.partition_folder import (
    CLEANED_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    Folder,
    encode_partition_metadata,
)
from kafkalite.log.producer_entry import BatchMetadata
from kafkalite.log.producer_state import ProducerStateManager, Staged
from kafkalite.log.recovery import rebuild_producers
from kafkalite.log.storage_guard import StorageGuard
from kafkalite.log.values import AbortedTxn, AppendInfo, ReadInfo, TimestampOffset, UnexpectedAppendOffsetError
from kafkalite.record.batch import BatchHeader, ChecksumError, CorruptRecordError, check_crc, iter_headers
from kafkalite.record.faults import InvalidRecordsError, RecordFault
from kafkalite.record.validator import ValidationConfig, validate_for_leader

_FLUSHED_AT_ONCE = 64
"""Segments of one flush: after an unclean start many may wait, and each of them needs open files."""
_APPENDS = 32
"""How many ends of appends are remembered; twice as many at most."""
_HOT_BYTES = 8 << 20
"""Bytes at the end of a log that are taken to be in the page cache without asking the system."""
_LENGTH = struct.Struct(">i")


@dataclass(slots=True, eq=False)
class LogServices:
    """What all logs of a broker share. ``producer_expiration_ms``: ``producer.id.expiration.ms``, which may change."""

    fs: FileSystem
    clock: Clock
    producer_expiration_ms: int
    pool: FilePool = field(default_factory=lambda: FilePool(64))
    rng: random.Random = field(default_factory=random.Random)
    flush_times: RecentTimes = field(default_factory=RecentTimes)
    """Of the flushes of all logs."""


class LogState(NamedTuple):
    """What the loader found in a folder."""

    segments: LogSegments
    epochs: LeaderEpochCache
    producers: ProducerStateManager
    log_start_offset: int
    log_end_offset: int
    recovery_point: int


class AppendTail:
    """Offsets at which appends to the active segment ended → positions in its file.

    Fetches at the end of a log are answered from it, without an index. Kafka looks the position up.
    """

    __slots__ = ("hot_from", "latest", "older")

    def __init__(self, size: int) -> None:
        self.hot_from = size
        """From here on this process has written the active segment."""
        self.latest: dict[int, int] = {}
        """The last :data:`_APPENDS` appends at most. The end of the log is here, if anything was appended."""
        self.older: dict[int, int] = {}
        """As many before those."""

    def turn_over(self) -> None:
        """:attr:`latest` is full: it becomes :attr:`older`."""
        self.older = self.latest
        self.latest = {}

    def new_segment(self) -> None:
        """The active segment is a new one."""
        self.latest = {}
        self.older = {}
        self.hot_from = 0

    def truncated(self, size: int) -> None:
        """The active segment ends at ``size``."""
        self.latest = {}
        self.older = {}
        self.hot_from = min(self.hot_from, size)


@dataclass(slots=True, eq=False)
class FlushWork:
    """Files to be forced to the disk so that everything below ``end`` is there.

    ``files`` are segments and their indexes, ``small_files`` the paths of what is replaced as a whole (epochs,
    snapshots), ``folders`` the folders that name them. ``cuts`` counts the truncations that the log had seen: after
    one more, ``end`` may stand for other batches. ``epoch_changes`` counts the changes of the epoch file;
    ``snapshots`` are the producer snapshots among the small files, by offset.
    """

    fs: FileSystem
    folders: list[str]
    files: list[File]
    small_files: list[str]
    end: int
    cuts: int
    epoch_changes: int
    snapshots: list[int]

    def run(self) -> None:
        """Do it; touches nothing of the log itself. Raises ``OSError``."""
        for file in self.files:
            self.fs.fsync(file.fd)
        for path in self.small_files:
            # The folder may have been renamed or removed since, or the snapshot removed: there is nothing to be kept.
            with suppress(FileNotFoundError):
                fd = self.fs.open(path)
                try:
                    self.fs.fsync(fd)
                finally:
                    self.fs.close(fd)
        for folder in self.folders:
            with suppress(FileNotFoundError):
                self.fs.sync_dir(folder)


class LogOwner(Protocol):
    """What a log asks of the holder of all logs of a broker, ``kafkalite.log.log_manager.LogManager``."""

    def directory_failed(self, log_dir: str, error: OSError) -> None:
        """``log_dir`` can no longer be used."""

    def flush_later(self, log: Log) -> None:
        """Force the closed segments of ``log`` to the disk, soon; all of it where its settings say so."""

    def delete_later(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove files after ``delay_ms``."""

    def before_truncation(self, log: Log, first: int, end: int) -> None:
        """``log`` is about to be cut at ``first`` and will end at ``end``.

        When this returns, no checkpoint on the disk may name an offset above ``end``. Raises ``OSError``.
        """


class Log:
    """An ordered sequence of record batches in segment files.

    Always: log start ≤ high watermark ≤ log end. Offsets are those of records; ``log_end_offset`` is the next one to be
    given. Every method that touches files raises ``ApiError(KAFKA_STORAGE_ERROR)`` once the directory has failed.
    """

    __slots__ = (
        "_cuts",
        "_cuts_synced",
        "_folder",
        "_folder_synced",
        "_owner",
        "_roll_at",
        "_roll_by_timestamp",
        "_services",
        "_storage",
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
        owner: LogOwner,
        state: LogState,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id: uuid.UUID | None = None
        self.log_dir = log_dir
        self._folder = folder
        self._services = services
        self._owner = owner
        self._storage = StorageGuard(topic_partition, log_dir, self._directory_failed)
        self.segments = state.segments
        self.epochs = state.epochs
        self.producer_state = state.producers
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.high_watermark = state.log_start_offset
        self.recovery_point = state.recovery_point
        self.last_flush_ms = services.clock.time_ms()
        self._cuts = 0
        self._cuts_synced = 0
        self._folder_synced = False
        self._tail = AppendTail(state.segments.active.size)
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
        """How often the log was truncated: records that were read before a truncation may no longer be in the log."""
        return self._cuts

    @property
    def latest_epoch(self) -> int | None:
        """The last leader epoch in the log; ``None`` before the first."""
        return self.epochs.latest_epoch

    @property
    def last_stable_offset(self) -> int:
        """Where a consumer with ``isolation.level=read_committed`` has to stop."""
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
            monotonic=self._services.clock.monotonic,
        )
        self._activated()

    def update_high_watermark(self, high_watermark: int) -> bool:
        """Set the high watermark, kept between log start and log end; returns whether it changed."""
        new = max(self.log_start_offset, min(high_watermark, self.log_end_offset))
        if new == self.high_watermark:
            return False
        self.high_watermark = new
        self.producer_state.on_high_watermark(new)
        return True

    # -- appending

    def append_as_leader(
        self, records: memoryview, leader_epoch: int, now_ms: int, *, from_client: bool = True
    ) -> AppendInfo:
        """Give offsets to a producer's batches and write them; ``records`` is patched in place where writable.

        ``from_client`` is off for batches that brokers write (markers of transactions). A batch that was appended
        before is not written again; the result has the offsets of the first append. Raises :class:`ApiError`: the
        errors of ``validate_for_leader``, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, NOT_LEADER_OR_FOLLOWER
        (a batch before it is missing and comes again), RECORD_LIST_TOO_LARGE, KAFKA_STORAGE_ERROR.
        """
        if self._storage.broken:
            raise self._storage.closed_error()
        first_offset = self.log_end_offset
        valid = validate_for_leader(
            records, first_offset, leader_epoch, self._validation, now_ms, from_client=from_client
        )
        headers = valid.headers
        header = headers[0]
        entry = None
        staged = None
        if header.producer_id >= 0 or len(headers) > 1:
            entry = self.producer_state.entries.get(header.producer_id)
            if (
                entry is None
                or len(headers) > 1
                or header.attributes & 0x30
                or entry.producer_epoch != header.producer_epoch
                or entry.current_txn_first_offset >= 0
                or not entry.is_next(header.base_sequence)
                or self.producer_state.is_refused(header.producer_id)
            ):
                entry = None
                staged = self._stage(headers, valid.buffer, from_client, had_other_leader=leader_epoch > 0)
                if staged is not None and staged.duplicate is not None:
                    # The flush of the first append may have been refused by a full disk.
                    self._flush_if_due()
                    return self._duplicate(staged.duplicate, len(records))
        last_offset = valid.last_offset
        size = len(valid.buffer)
        if size > self.config.segment_bytes:
            raise ApiError(
                ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes do not fit a segment of {self.config.segment_bytes}"
            )
        self._write(valid.buffer, headers, size, last_offset, valid.max_timestamp, now_ms)
        if leader_epoch != self.epochs.latest_epoch:
            self.assign_epoch_start(leader_epoch, first_offset)
        if entry is not None:
            entry.append_data(header)
        elif staged is not None:
            self._commit(staged)
        self._flush_if_due()
        return AppendInfo(
            first_offset, last_offset, valid.log_append_time, self.log_start_offset, size, valid.conversion
        )

    def append_as_follower(self, records: memoryview) -> AppendInfo:
        """Write batches of the leader with the offsets that they have; a batch that is cut at the end is left out.

        Raises ``ApiError(CORRUPT_MESSAGE)`` for a wrong CRC, :class:`UnexpectedAppendOffsetError` for batches below the
        log's end.
        """
        if self._storage.broken:
            raise self._storage.closed_error()
        headers: list[BatchHeader] = []
        placed: list[tuple[int, BatchHeader]] = []
        end = 0
        expected = self.log_end_offset
        max_timestamp = -1
        known = True
        try:
            for position, header in iter_headers(records, allow_partial_tail=True):
                if not check_crc(records, position, header):
                    raise ChecksumError(f"batch at offset {header.base_offset} has a wrong CRC")
                if header.base_offset < expected:
                    raise self._unexpected(header, expected, bool(headers))
                expected = header.base_offset + header.last_offset_delta + 1
                max_timestamp = max(max_timestamp, header.max_timestamp)
                if header.producer_id >= 0:
                    placed.append((position, header))
                if header.leader_epoch != self.epochs.latest_epoch:
                    known = False
                headers.append(header)
                end = position + header.size
        except CorruptRecordError as error:
            fault = RecordFault.MESSAGE_CRC if isinstance(error, ChecksumError) else None
            raise InvalidRecordsError(ErrorCode.CORRUPT_MESSAGE, f"{self.topic_partition}: {error}", fault) from None
        if not headers:
            leo = self.log_end_offset
            return AppendInfo(leo, leo - 1, -1, self.log_start_offset, 0)
        buffer = records if end == len(records) else records[:end]
        staged = self.producer_state.stage(placed, records, from_client=False, checks=False) if placed else None
        now_ms = self._services.clock.time_ms()
        self._write(buffer, headers, end, expected - 1, max_timestamp, now_ms)
        if not known:
            for header in headers:
                if header.leader_epoch != self.epochs.latest_epoch:
                    self.assign_epoch_start(header.leader_epoch, header.base_offset)
        if staged is not None:
            self._commit(staged)
        self._flush_if_due()
        return AppendInfo(headers[0].base_offset, expected - 1, -1, self.log_start_offset, end)

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

    def _unexpected(self, header: BatchHeader, expected: int, within: bool) -> ApiError:
        if within:
            return ApiError(ErrorCode.CORRUPT_MESSAGE, f"{self.topic_partition}: offsets of batches do not ascend")
        return UnexpectedAppendOffsetError(
            f"{self.topic_partition}: batch starts at {header.base_offset}, but the log ends at {expected}",
            header.base_offset,
            header.last_offset,
        )

    def note_refusal(self, records: memoryview, error: ErrorCode) -> None:
        """``records`` were refused with ``error``, after which their producer sends them again."""
        with suppress(CorruptRecordError):
            for _, header in iter_headers(records):
                self.producer_state.note_refusal(header, error)

    def _stage(
        self, headers: list[BatchHeader], buffer: Buffer, from_client: bool, *, had_other_leader: bool
    ) -> Staged | None:
        placed = []
        position = 0
        for header in headers:
            placed.append((position, header))
            position += header.size
        return self.producer_state.stage(placed, buffer, from_client=from_client, had_other_leader=had_other_leader)

    def _duplicate(self, batch: BatchMetadata, size: int) -> AppendInfo:
        appended = batch.timestamp if self._validation.timestamp_type == 1 else -1
        return AppendInfo(batch.first_offset, batch.last_offset, appended, self.log_start_offset, size)

    def _write(
        self,
        buffer: Buffer,
        headers: list[BatchHeader],
        size: int,
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
    ) -> None:
        segment = self.segments.active
        config = self.config
        try:
            if (
                segment.size
                and (
                    segment.size + size > config.segment_bytes
                    or (max_timestamp if self._roll_by_timestamp else now_ms) > self._roll_at
                    or segment.full
                )
            ) or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
                segment = self.roll(last_offset - MAX_RELATIVE_OFFSET)
            if config.flush_messages == 1:
                # Now, because the flush must not be refused for the epoch file once the batch is in the log.
                self.epochs.write_stale()
            segment.append(buffer, headers, config.index_interval_bytes)
        except OSError as error:
            raise self._write_failed(segment, error) from error
        if segment.size == size:
            self._activated()
        end = last_offset + 1
        tail = self._tail
        if len(tail.latest) >= _APPENDS:
            tail.turn_over()
        tail.latest[end] = segment.size
        self.log_end_offset = end

    def _flush_if_due(self) -> None:
        """Flush as ``flush.messages`` says: the last step of an append.

        A flush raises the recovery point above the appended batches, and a start after lost power believes the leader
        epochs and the index of aborted transactions below it. So both must have their entries before.
        """
        flush_messages = self.config.flush_messages
        if self.log_end_offset - self.recovery_point >= flush_messages:
            if flush_messages == 1:
                # Every message on the disk before it is acknowledged: that cannot wait for another thread.
                self.flush()
            else:
                self._owner.flush_later(self)

    def _commit(self, staged: Staged) -> None:
        for txn, stable in self.producer_state.commit(staged):
            if txn.aborted:
                self._storage.call(
                    self.segments.active.add_aborted,
                    AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, stable),
                )

    def assign_epoch_start(self, epoch: int, start_offset: int) -> None:
        """Note that ``epoch`` begins at ``start_offset``: this broker has become leader, or a batch says so."""
        self._storage.call(self.epochs.assign, epoch, start_offset)

    # -- reading

    def read(self, offset: int, max_bytes: int, upper_bound: int, min_one_message: bool) -> ReadInfo:
        """Batches below ``upper_bound``, beginning with the batch that holds ``offset``.

        At most ``max_bytes``, which may cut the last batch; with ``min_one_message`` the first batch is whole
        regardless of its size. Raises ``ApiError(OFFSET_OUT_OF_RANGE)``.
        """
        end_offset = self.log_end_offset
        if offset > end_offset or offset < self.log_start_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.topic_partition} is not in {self.log_start_offset} to {end_offset}",
            )
        if self._storage.broken:
            raise self._storage.closed_error()
        upper_bound = min(upper_bound, end_offset)
        if offset >= upper_bound:
            return ReadInfo(offset, None, 0)
        tail = self._tail
        start = tail.latest.get(offset)
        if start is None:
            start = tail.older.get(offset)
        try:
            if start is None:
                return self._read_far(offset, max_bytes, upper_bound, min_one_message)
            segment = self.segments.active
            end: int | None
            if upper_bound == end_offset:
                end = segment.size
            else:
                end = tail.latest.get(upper_bound)
                if end is None:
                    end = self._end_position(segment, upper_bound)
            return self._region(segment, offset, start, end, max_bytes, min_one_message)
        except OSError as error:
            raise self._storage.refused(error) from error

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
            position = self._tail.older.get(upper_bound)
            if position is not None:
                return position
        found = segment.find(upper_bound)
        return segment.size if found is None else found[0]

    def _region(
        self, segment: LogSegment, offset: int, start: int, end: int, max_bytes: int, min_one_message: bool
    ) -> ReadInfo:
        count = end - start
        if count <= 0:
            return ReadInfo(offset, None, 0)
        file = segment.file
        if file is None:
            file = segment.opened()
        segment.recently_used = True
        if count > max_bytes:
            if min_one_message:
                first = _LENGTH.unpack(self._services.fs.pread(file.fd, 4, start + 8))[0] + 12
                max_bytes = max(max_bytes, first)
            count = min(count, max_bytes)
            if count <= 0:
                return ReadInfo(offset, None, 0)
        hot = segment is self.segments.active and start >= self._tail.hot_from and segment.size - start <= _HOT_BYTES
        cold = not hot and not self._services.fs.is_cached(file.fd, start, count)
        return ReadInfo(offset, FileRegion(file.fd, start, count, file, cold), count)

    # -- looking up

    def end_of_read(self, read: ReadInfo, upper: int) -> int:
        """An offset of at most ``upper`` that no batch in ``read`` reaches, as exact as the offset index is."""
        region = read.records
        for segment in self.segments.from_offset(read.offset):
            if region is not None and segment.file is region.owner:
                end = self._storage.attempt(segment.index.offset_behind, region.position + region.count)
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
            for txn in self._storage.attempt(list, segment.txn_index):
                if txn.last_offset >= start and txn.first_offset < upper:
                    found.append(txn)
                if txn.last_stable_offset >= upper:
                    return found
        return found

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record whose timestamp is not below ``timestamp`` (milliseconds)."""
        return self._with_epoch(
            self._storage.attempt(self.segments.find_by_timestamp, timestamp, self.log_start_offset)
        )

    def offsets_before(self, timestamp: int, limit: int) -> list[int]:
        """Where segments last written by ``timestamp`` (-1: the end, -2: the beginning) start, newest first."""
        ends = self.log_start_offset, self.log_end_offset, self._services.clock.time_ms()
        return self._storage.attempt(self.segments.offsets_before, timestamp, limit, *ends)

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """The record with the largest timestamp; ``None`` of an empty log."""
        return self._with_epoch(self._storage.attempt(self.segments.first_of_max_timestamp))

    def _with_epoch(self, found: tuple[int, int] | None) -> TimestampOffset | None:
        return None if found is None else TimestampOffset(*found, self.epochs.epoch_for(found[1]))

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest known epoch not above ``epoch``, and where it ended; (-1, -1) where that is not known."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # -- deleting records and segments

    def increment_log_start_offset(self, offset: int) -> bool:
        """Raise the log start offset; the next retention removes the segments below. Returns whether it changed.

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
        self._storage.call(self.epochs.truncate_from_start, offset)
        self.producer_state.on_log_start(offset)
        return True

    def delete_old_segments(self, now_ms: int) -> int:
        """Remove the segments that are beyond retention; returns how many."""
        return self._storage.attempt(self._delete_old_segments, now_ms)

    def _delete_old_segments(self, now_ms: int) -> int:
        segments = self.segments
        old = segments.deletable(self.config, self.log_start_offset, self.high_watermark, self.log_end_offset, now_ms)
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
        self._owner.delete_later(paths, self.config.file_delete_delay_ms)

    # -- truncation

    def truncate_to(self, offset: int) -> bool:
        """Cut everything at and above ``offset``, whole batches; returns whether there was anything to cut."""
        if offset < 0:
            raise ValueError(f"cannot truncate {self.topic_partition} to the negative offset {offset}")
        if offset >= self.log_end_offset:
            self._storage.call(self.epochs.truncate_from_end, offset)
            return False
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
        else:
            # Checkpoints first: on a full disk the log is still whole, and the truncation can be tried again.
            self._storage.attempt(self._owner.before_truncation, self, offset, offset)
            self._storage.call(self._truncate, offset)
        return True

    def recovery_point_after_cut(self, end: int) -> int:
        """The recovery point once everything at and above ``end`` is cut: the start of the segment that is shortened.

        The shorter length of its file has to be flushed, too. If the recovery point were ``end`` and the next segment
        began there, no flush and no recovery would look at the file, and lost power could restore its old end.
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
            # Sync the folder, because lost power could restore these files behind batches that are written after this.
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
        self._storage.attempt(self._owner.before_truncation, self, self.segments[0].base_offset, offset)
        self._storage.call(self._truncate_fully, offset)

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
        self.log_end_offset = offset
        self.recovery_point = self.recovery_point_after_cut(offset)
        self.high_watermark = max(self.log_start_offset, min(self.high_watermark, offset))
        self._tail.truncated(self.segments.active.size)
        self._activated()

    # -- compaction

    def replace_segments(self, base_offset: int, size: int, suffixes: Sequence[str], replaces: Sequence[int]) -> None:
        """Put a compacted segment of ``size`` bytes, written under ``.cleaned`` names, in the place of others.

        ``suffixes`` says which files it has. Raises ``ApiError(KAFKA_STORAGE_ERROR)``; some of the renames may then
        have been done. A crash at any moment leaves either the old segments (the loader removes ``.cleaned`` files) or
        the new one (the loader finishes ``.swap`` files). The old files are renamed and removed later, because readers
        may still be sending from them.
        """
        segments = self.segments
        old = [segment for segment in segments.from_offset(base_offset) if segment.base_offset in replaces]
        assert old and old[0].base_offset == base_offset and segments.active not in old
        self._storage.call(self._replace_segments, base_offset, size, suffixes, old)

    def _replace_segments(self, base_offset: int, size: int, suffixes: Sequence[str], old: list[LogSegment]) -> None:
        made = LogSegment(
            self._folder,
            base_offset,
            index_bytes=self.config.segment_index_bytes,
            created_ms=self._services.clock.time_ms(),
            size=size,
            exists=frozenset(suffixes),
        )
        paths = [self._folder.file(base_offset, suffix) for suffix in suffixes]
        self._rename_files(paths, CLEANED_SUFFIX, SWAP_SUFFIX)
        gone: list[str] = []
        for segment in old:
            self.segments.remove(segment)
            gone.extend(segment.mark_deleted())
            if segment.base_offset != base_offset:
                self.producer_state.remove_snapshot(segment.base_offset, gone.append)
        self._rename_files(paths, SWAP_SUFFIX, "")
        self.segments.add(made)
        self._owner.delete_later(gone, self.config.file_delete_delay_ms)

    def _rename_files(self, paths: Sequence[str], old_suffix: str, new_suffix: str) -> None:
        for path in paths:
            self._services.fs.rename(path + old_suffix, path + new_suffix)

    # -- segments

    def _activated(self) -> None:
        """Cache when the active segment is too old. Its age counts by its first batch where that has a timestamp."""
        segment = self.segments.active
        first = segment.first_timestamp() if segment.size else -1
        self._roll_by_timestamp = first >= 0
        base = first if first >= 0 else segment.created_ms
        self._roll_at = base + self.config.max_segment_ms - segment.roll_jitter_ms

    def roll(self, least_offset: int = 0) -> LogSegment:
        """Close the active segment and begin a new one at the log's end or at ``least_offset``. Raises ``OSError``."""
        segments = self.segments
        active = segments.active
        base = max(self.log_end_offset, least_offset)
        if active.base_offset == base and not active.size:
            return active
        active.become_inactive()
        self.producer_state.take_snapshot(base)
        segment = self._new_segment(base)
        self._owner.flush_later(self)
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
        self._tail.new_segment()
        self._activated()
        return segment

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

        ``None`` when all of it is there. The work may run in another thread. Call :meth:`flushed` with it afterwards,
        and this method again until it returns ``None``.
        """
        end = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        done = end <= self.recovery_point
        if up_to is None:
            # Flush after every truncation: a log that was cut to the start of its last segment has nothing above its
            # recovery point, but lost power could restore the old end.
            done = done and not self.producer_state.unsynced and self._cuts == self._cuts_synced
        if done or self._storage.broken:
            return None
        return self._storage.attempt(self._gather_flush, max(end, self.recovery_point))

    def _gather_flush(self, end: int) -> FlushWork:
        # Below the recovery point a start believes the file, so the file must name the epochs of what is flushed.
        self.epochs.write_stale()
        # A segment that ends at the recovery point, too: it may have been closed after its last flush, and closing it
        # writes its last index entries. A start would believe the indexes, and retention the largest timestamp in them.
        segments = [
            segment
            for segment in self.segments.from_offset(self.recovery_point - 1)
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
            # Sync the folder and the topic id, because without the id a start takes the folder for any topic's.
            small_files.append(f"{self._folder.path}/{PARTITION_METADATA}")
            folders.append(self.log_dir)
        changes = self.epochs.changes
        return FlushWork(self._services.fs, folders, files, small_files, end, self._cuts, changes, snapshots)

    def flushed(self, work: FlushWork) -> None:
        """``work`` has run: raise the recovery point to its end."""
        # After a truncation during the flush, other batches may stand at these offsets, and they are not on the disk.
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
            # A failed fsync ends the directory even if the disk is full, because the page cache may have lost the data.
            began = self._services.clock.monotonic()
            self._storage.call(work.run)
            self._services.flush_times.add(self._services.clock.monotonic() - began)
            self.flushed(work)

    # -- failures

    def _write_failed(self, segment: LogSegment, error: OSError) -> ApiError:
        """Cut the bytes of a failed write. A full disk refuses this append only; other errors end the directory."""
        try:
            segment.undo_append()
        except OSError as second:
            return self._storage.fail(second)
        return self._storage.refused(error)

    def fail(self, error: OSError) -> ApiError:
        """The log's directory has failed: tell the log manager. Returns the error for the client."""
        return self._storage.fail(error)

    def _directory_failed(self, error: OSError) -> None:
        self.mark_broken()
        self._owner.directory_failed(self.log_dir, error)

    def mark_broken(self) -> None:
        """Refuse every call and close the files: the directory has failed, or the log was deleted or closed."""
        self._storage.broken = True
        for segment in self.segments:
            segment.release_all()

    # -- life

    def set_topic_id(self, topic_id: uuid.UUID) -> None:
        """Store the topic id. Raises ``ApiError(INCONSISTENT_TOPIC_ID)`` if the log has another topic's id."""
        if self.topic_id == topic_id:
            return
        if self.topic_id is not None:
            raise ApiError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"{self.topic_partition} in {self.dir} belongs to topic id {self.topic_id}, not to {topic_id}",
            )
        path = f"{self.dir}/{PARTITION_METADATA}"
        self._storage.attempt(self._services.fs.write_file, path, encode_partition_metadata(topic_id), False)
        self.topic_id = topic_id

    def close(self) -> None:
        """Close in order: write a snapshot of the producers, complete the indexes, close the files.

        Raises ``ApiError``. On a full disk the next start must recover the log, which has all that was appended.
        """
        if self._storage.broken:
            return
        self._storage.attempt(self.producer_state.take_snapshot, self.log_end_offset)
        for segment in self.segments:
            if segment is self.segments.active:
                self._storage.attempt(segment.close)
            segment.release_all()

    def renamed(self, path: str) -> None:
        """The folder is now at ``path``."""
        self._folder.path = path
        self._folder_synced = False
