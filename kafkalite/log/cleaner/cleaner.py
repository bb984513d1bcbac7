"""One round of compaction on one partition's files: collect keys, then write what stays into new segments.

Answers to: ``org.apache.kafka.storage.internals.log.Cleaner`` and
``org.apache.kafka.storage.internals.utils.Throttler``. Deterministic.

Runs in a process of its own and never touches the segments that the broker has: what it writes carries ``.cleaned``
names, is on the disk when it is reported, and is put in the old segments' place by the broker.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from kafkalite.common.errors import ApiError
from kafkalite.log.cleaner.batch_filter import BatchFilter, CleanedTransactions, control_kind, note_batch
from kafkalite.log.cleaner.job import Cleaned, CleanerStats, CleaningDone, CleanJob, SegmentInfo
from kafkalite.log.cleaner.offset_map import OffsetMap
from kafkalite.log.file_system import File, FilePool, FileSystem
from kafkalite.log.indexes import TransactionIndex
from kafkalite.log.log_segment import MAX_RELATIVE_OFFSET, MAX_SEGMENT_BYTES, LogSegment
from kafkalite.log.partition_folder import CLEANED_SUFFIX, LOG_SUFFIX, TXN_INDEX_SUFFIX, Folder, file_name
from kafkalite.log.values import AbortedTxn
from kafkalite.record.batch import (
    LEGACY_MIN_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    CorruptRecordError,
    check_crc,
    iter_headers,
)

_LEAST_BUFFER = 4096
_RATE_INTERVAL = 0.3
"""Seconds over which the rate is measured; Kafka's."""


class RoundAborted(Exception):  # noqa: N818
    """The broker has aborted the round."""


class Cleaner:
    """Carries out rounds. ``check`` is called between reads and may raise :class:`RoundAborted`.

    ``now`` are seconds of a clock, ``rest`` waits for seconds: both for the bound on input and output.
    """

    def __init__(
        self,
        fs: FileSystem,
        check: Callable[[], object],
        now: Callable[[], float],
        rest: Callable[[float], object],
    ) -> None:
        self._fs = fs
        self._check = check
        self._now = now
        self._rest = rest

    def clean(self, job: CleanJob, report: Callable[[Cleaned], object]) -> CleaningDone:
        """Carry out one round; ``report`` is called with each segment when its files are complete.

        Raises ``OSError``, ``CorruptRecordError``, ``ApiError`` (a batch unfolds too far), :class:`RoundAborted`.
        """
        remove_cleaned(self._fs, job.folder)
        return _Round(self._fs, self._check, self._now, self._rest, job).run(report)


def remove_cleaned(fs: FileSystem, folder: str, base_offset: int | None = None) -> None:
    """Remove what a round that did not end left in ``folder``: all of it, or of the segment at ``base_offset``."""
    prefix = "" if base_offset is None else file_name(base_offset, "")
    with contextlib.suppress(FileNotFoundError):
        for name in fs.list_dir(folder):
            if name.startswith(prefix) and name.endswith(CLEANED_SUFFIX):
                fs.remove(f"{folder}/{name}")


def discard_cleaned(fs: FileSystem, folder: str, base_offset: int | None = None) -> None:
    """The same where the disk may be broken: what stays is removed by the next round, or by the broker's next start."""
    with contextlib.suppress(OSError):
        remove_cleaned(fs, folder, base_offset)


def group_segments(
    segments: Sequence[SegmentInfo], max_bytes: int, max_index_bytes: int, end_offset: int
) -> list[list[SegmentInfo]]:
    """``segments`` in runs whose files, as they are now, would fit into one segment; all lie below ``end_offset``.

    Each run becomes one segment: otherwise compaction would leave ever smaller files.
    """
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
            and (not segment.size or following - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size = index = time_index = 0
        size += segment.size
        index += segment.index_size
        time_index += segment.time_index_size
    return groups


class _Round:
    def __init__(
        self,
        fs: FileSystem,
        check: Callable[[], object],
        now: Callable[[], float],
        rest: Callable[[float], object],
        job: CleanJob,
    ) -> None:
        self._fs = fs
        self._check = check
        self._now = now
        self._job = job
        self._folder = Folder(job.folder, fs, FilePool(16))
        self._throttle = Throttle(job.cleaner.max_bytes_per_second, now, rest)
        self._stats = CleanerStats()
        self._offsets = OffsetMap(job.cleaner.dedupe_buffer_size, job.cleaner.load_factor)

    def run(self, report: Callable[[Cleaned], object]) -> CleaningDone:
        job, stats, started = self._job, self._stats, self._now()
        aborted = self._aborted_transactions()
        self._collect_keys(aborted)
        stats.keys = len(self._offsets)
        stats.index_seconds = self._now() - started
        end_offset = max(self._offsets.latest_offset + 1, job.first_dirty_offset)
        covered = [segment for segment in job.segments if segment.base_offset < end_offset]
        self._prepare_filter(aborted)
        groups = deque(group_segments(covered, job.segment_bytes, job.index_bytes, job.upper_bound))
        while groups:
            base_offset = groups[0][0].base_offset
            try:
                cleaned = self._clean_next(groups)
            except (OSError, CorruptRecordError, ApiError):
                # Keep the files of reported segments, because the broker may not have renamed them yet.
                discard_cleaned(self._fs, job.folder, base_offset)
                raise
            report(cleaned)
        stats.seconds = self._now() - started
        return CleaningDone(job.number, end_offset, stats)

    def _aborted_transactions(self) -> list[AbortedTxn]:
        """All that overlap the round, from all indexes: the entry of a transaction stands in the segment of its end."""
        found = []
        for base in self._job.txn_indexes:
            self._check()
            index = TransactionIndex(self._folder, base, True)
            found += [txn for txn in index if txn.first_offset < self._job.upper_bound]
            index.release()
        return found

    # -- first pass

    def _collect_keys(self, aborted: Sequence[AbortedTxn]) -> None:
        job, offsets, stats = self._job, self._offsets, self._stats
        start = job.first_dirty_offset
        transactions = CleanedTransactions(txn for txn in aborted if txn.last_offset >= start)
        bounds = [*(segment.base_offset for segment in job.segments[1:]), job.upper_bound]
        for segment, bound in zip(job.segments, bounds, strict=True):
            if bound <= start:
                continue
            for header, data in self._batches(segment, self._start_position(segment, start)):
                stats.index_bytes_read += header.size
                if header.is_control:
                    transactions.on_control(header, control_kind(header, data))
                elif not transactions.on_data(header):
                    if not offsets.has_room(header.record_count):
                        return
                    note_batch(header, data, start, offsets, stats)
                if header.last_offset >= start:
                    offsets.update_latest(header.last_offset)
            # Offsets that are missing at the end of a segment count as clean.
            offsets.update_latest(bound - 1)

    def _start_position(self, segment: SegmentInfo, offset: int) -> int:
        if offset <= segment.base_offset:
            return 0
        opened = LogSegment(
            self._folder,
            segment.base_offset,
            index_bytes=self._job.index_bytes,
            created_ms=0,
            size=segment.size,
            exists={LOG_SUFFIX, ".index"},
        )
        found = opened.find(offset)
        opened.release_all()
        return segment.size if found is None else found[0]

    # -- second pass

    def _prepare_filter(self, aborted: Sequence[AbortedTxn]) -> None:
        job = self._job
        clean = [each for each in job.segments if each.base_offset < job.first_dirty_offset]
        modified = self._modified_ms(clean[-1]) if clean else 0
        self._legacy_horizon_ms = modified - job.delete_retention_ms if clean else 0
        self._kept: list[AbortedTxn] = []
        self._filter = BatchFilter(
            self._offsets,
            CleanedTransactions(aborted, self._kept.append),
            job.last_records,
            job.now_ms,
            job.delete_retention_ms,
            self._stats,
        )

    def _clean_next(self, groups: deque[list[SegmentInfo]]) -> Cleaned:
        """Take the first group off ``groups`` and write it into a new segment, with the next while that has no record.

        Each segment without a record is an answer without a record to a client that reads from the start, and
        librdkafka fails after eleven of them (its issue 1472).
        """
        self._check()
        job = self._job
        replaced = groups.popleft()
        cleaned = self._new_segment(replaced[0].base_offset)
        self._kept.clear()
        has_records = self._clean_group(replaced, cleaned)
        while groups and not has_records and self._has_room(cleaned, groups[0]):
            replaced += groups[0]
            has_records = self._clean_group(groups.popleft(), cleaned)
        cleaned.become_inactive()
        suffixes = [LOG_SUFFIX, ".index", ".timeindex"]
        files = [cleaned.opened(), cleaned.index.opened(), cleaned.time_index.opened()]
        if self._kept:
            index = TransactionIndex(self._folder, cleaned.base_offset)
            index.suffix += CLEANED_SUFFIX
            for txn in self._kept:
                index.append(txn)
            suffixes.append(TXN_INDEX_SUFFIX)
            files.append(index.opened())
        self._check()
        for file in files:
            self._fs.fsync(file.fd)
        # Keep the file's age, because retention of records without timestamps goes by it.
        self._fs.set_modified_ms(cleaned.path, self._modified_ms(replaced[-1]))
        cleaned.release_all()
        bases = tuple(segment.base_offset for segment in replaced)
        return Cleaned(job.number, cleaned.base_offset, cleaned.size, bases, tuple(suffixes))

    def _clean_group(self, group: Sequence[SegmentInfo], target: LogSegment) -> bool:
        """Write what stays of ``group`` to ``target``; whether that has a record."""
        before = self._stats.records_written
        self._filter.end = self._end_of(group)
        for segment in group:
            self._filter.keep_legacy_tombstones = self._modified_ms(segment) > self._legacy_horizon_ms
            self._clean_into(segment, target)
        return self._stats.records_written > before

    def _has_room(self, target: LogSegment, group: Sequence[SegmentInfo]) -> bool:
        """Whether offsets and positions of ``group`` fit into the indexes of ``target``."""
        return (
            self._end_of(group) - 1 - target.base_offset <= MAX_RELATIVE_OFFSET
            and target.size + sum(segment.size for segment in group) <= MAX_SEGMENT_BYTES
        )

    def _end_of(self, group: Sequence[SegmentInfo]) -> int:
        later = (each.base_offset for each in self._job.segments if each.base_offset > group[-1].base_offset)
        return next(later, self._job.upper_bound)

    def _new_segment(self, base: int) -> LogSegment:
        made = LogSegment(self._folder, base, index_bytes=self._job.index_bytes, created_ms=0)
        for file in (made, made.index, made.time_index):
            file.suffix += CLEANED_SUFFIX
        made.create_files()
        return made

    def _clean_into(self, source: SegmentInfo, target: LogSegment) -> None:
        apply, interval = self._filter.apply, self._job.index_interval_bytes
        limit = max(_LEAST_BUFFER, self._job.cleaner.io_buffer_size // 2)
        headers: list[BatchHeader] = []
        parts: list[bytes | memoryview] = []
        size = 0

        def write() -> None:
            target.append(b"".join(parts), headers, interval)
            self._stats.bytes_written += size
            self._throttle.passed(size)
            headers.clear()
            parts.clear()

        for header, data in self._batches(source, 0):
            self._stats.bytes_read += header.size
            result = apply(header, data)
            if result is None:
                continue
            headers.append(result[0])
            parts.append(result[1])
            size += result[0].size
            if size >= limit:
                write()
                size = 0
        if parts:
            write()

    # -- files

    def _path(self, segment: SegmentInfo) -> str:
        return self._folder.file(segment.base_offset, LOG_SUFFIX)

    def _modified_ms(self, segment: SegmentInfo) -> int:
        return self._fs.modified_ms(self._path(segment))

    def _batches(self, segment: SegmentInfo, position: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Every batch from ``position`` on, whole and intact, read in pieces of the buffer's size."""
        if position >= segment.size:
            return
        file = File(self._fs, self._path(segment))
        self._fs.read_ahead(file.fd)
        size = max(_LEAST_BUFFER, self._job.cleaner.io_buffer_size // 2)
        end = segment.size
        while position < end:
            self._check()
            piece = memoryview(self._fs.pread(file.fd, min(size, end - position), position))
            self._throttle.passed(len(piece))
            at = 0
            for at, header in iter_headers(piece, allow_partial_tail=True):
                if not check_crc(piece, at, header):
                    raise CorruptRecordError(f"{self._path(segment)}: batch at {position + at} has a wrong CRC")
                yield header, piece[at : at + header.size]
                at += header.size
            if at:
                position += at
                continue
            # The piece holds no whole batch: the batch is larger than the buffer, or the file is cut.
            needed = int.from_bytes(piece[8:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
            if not max(size, LEGACY_MIN_SIZE[0]) < needed <= end - position:
                raise CorruptRecordError(f"{self._path(segment)}: no whole batch at {position}")
            size = needed


class Throttle:
    """Rests by ``rest(seconds)`` as often as needed to stay below ``rate`` bytes a second, by the clock ``now``."""

    def __init__(self, rate: float, now: Callable[[], float], rest: Callable[[float], object]) -> None:
        self._rate = rate
        self._now = now
        self._rest = rest
        self._since = now()
        self._bytes = 0

    def passed(self, count: int) -> None:
        """``count`` bytes were read or written."""
        self._bytes += count
        elapsed = self._now() - self._since
        if elapsed < _RATE_INTERVAL and self._bytes < self._rate * _RATE_INTERVAL:
            return
        due = self._bytes / self._rate - elapsed
        if due > 0:
            self._rest(due)
        self._since = self._now()
        self._bytes = 0
