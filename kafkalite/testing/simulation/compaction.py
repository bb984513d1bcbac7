"""The rules of compaction: every compacted segment is compared with those that it replaces.

Answers to: nothing in Kafka. Deterministic.

Each compacted segment is checked at once, because the end of a history shows few errors of a compaction: replicas are
compacted separately, and a later record of a key hides the loss of an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from kafkalite.log.cleaner import log_cleaner
from kafkalite.log.cleaner.job import CleanerLimits, CleanJob
from kafkalite.log.cleaner.log_cleaner_manager import LogToClean, make_job
from kafkalite.log.log import Log, LogOwner, LogServices
from kafkalite.log.log_config import LogConfig
from kafkalite.log.log_dir import LogDir
from kafkalite.log.log_segment import LogSegment
from kafkalite.log.partition_folder import CLEANED_SUFFIX, LOG_SUFFIX, file_name
from kafkalite.log.values import AbortedTxn
from kafkalite.record.batch import BatchHeader, CorruptRecordError, iter_headers
from kafkalite.record.records import iter_records


class CompactedRecord(NamedTuple):
    """One record in a segment; ``horizon_ms``: the delete horizon of its batch, ``None`` if the batch has none."""

    offset: int
    key: bytes | None
    value: bytes | None
    producer_id: int
    transactional: bool
    horizon_ms: int | None


class Content(NamedTuple):
    """The content of segments, in order; markers are only in ``batches``."""

    batches: tuple[BatchHeader, ...]
    records: tuple[CompactedRecord, ...]


class _Made(NamedTuple):
    """A compacted segment before it replaces the old ones."""

    path: str
    size: int


class Bounds(NamedTuple):
    """A log at the start of its compaction: its last stable offset, the last batch of each producer, and the time."""

    stable: int
    last_offsets: dict[int, int]
    now_ms: int


class Compactions:
    """All compactions of a history. ``tell`` is called with each error."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._bounds: dict[str, Bounds] = {}
        self._kept: dict[str, dict[int, tuple[int, ...]]] = {}
        """Folder → base offset of a compacted segment → the offsets in it."""
        self._logs: dict[str, Log] = {}
        """Folder → the log of the last process that compacted or loaded it."""

    def begun(self, log: Log, now_ms: int) -> None:
        """A compaction of ``log`` begins."""
        self._logs[log.dir] = log
        last = {entry.producer_id: entry.last_offset for entry in log.producer_state.entries.values()}
        self._bounds[log.dir] = Bounds(log.last_stable_offset, last, now_ms)

    def swap(self, log: Log, size: int, replaces: Sequence[int], replace: Callable[[], None]) -> None:
        """Check a swap: ``replace`` replaces the segments ``replaces`` by a compacted one of ``size`` bytes, or dies.

        After a death the next start finds the new segment, or the old ones, which contain all records of the new one.
        """
        base, last = replaces[0], replaces[-1]
        old = _content(segment for segment in log.segments if segment.base_offset in replaces)
        later = [segment for segment in log.segments if segment.base_offset > last]
        end = later[0].base_offset if later else log.log_end_offset
        aborted = log.aborted_transactions(base, log.log_end_offset + 1)
        new = _content([_Made(f"{log.dir}/{file_name(base, LOG_SUFFIX)}{CLEANED_SUFFIX}", size)])
        kept = self._kept.setdefault(log.dir, {})
        for each in [each for each in kept if base <= each < end]:
            del kept[each]
        kept[base] = tuple(record.offset for record in new.records)
        replace()
        bounds = self._bounds.get(log.dir)
        if bounds is not None:
            for fault in round_faults(old, new, lambda: _content(later).records, aborted, bounds):
                self._tell(f"{log.dir}: compaction of the offsets {base} to {end - 1}: {fault}")

    def loaded(self, log: Log) -> None:
        """A start has loaded ``log``: up to its end it must have all records that compactions kept.

        A start that misses the first segments must not use the next one as the beginning of the log.
        """
        before = self._logs.get(log.dir)
        if before is None:
            return
        self._logs[log.dir] = log
        start = before.log_start_offset
        if log.log_start_offset > start:
            self._tell(f"{log.dir}: the log begins at {log.log_start_offset} after a start, it began at {start}")
        kept = self._kept.get(log.dir, {})
        there = {record.offset for record in _content(log.segments).records} if kept else set()
        for base, offsets in kept.items():
            lost = [each for each in offsets if start <= each < log.log_end_offset and each not in there]
            if lost:
                self._tell(
                    f"{log.dir}: of the compacted segment {base} the offsets {lost[0]} to {lost[-1]} are gone after a "
                    f"start, the log ends at {log.log_end_offset}"
                )
        self.cut(log, log.log_end_offset)

    def cut(self, log: Log, offset: int) -> None:
        """``log`` was truncated to ``offset``, so the entries from there on are the leader's."""
        kept = self._kept.get(log.dir, {})
        self._kept[log.dir] = {base: offsets for base, offsets in kept.items() if max(offsets, default=-1) < offset}

    def removed(self, log: Log) -> None:
        """``log`` is deleted."""
        self._kept.pop(log.dir, None)
        self._logs.pop(log.dir, None)


def round_faults(
    old: Content,
    new: Content,
    later: Callable[[], Iterable[CompactedRecord]],
    aborted: Sequence[AbortedTxn],
    bounds: Bounds,
) -> Iterator[str]:
    """The errors of ``new``, which replaces ``old``; ``later`` reads the records after them."""
    before = {record.offset: record for record in old.records}
    after = {record.offset: record for record in new.records}
    for offset, record in after.items():
        was = before.get(offset)
        if was is None or (was.key, was.value) != (record.key, record.value):
            yield f"another record stands at offset {offset} now"
            return
    # A producer may be in the snapshot only: if an earlier compaction removed its batch because it had a later epoch,
    # and the batches of that epoch were truncated since.
    gone = _ends(old) - _ends(new)
    for producer, last in bounds.last_offsets.items():
        if (producer, last) in gone:
            yield f"the last batch of producer {producer}, which ended at offset {last}, is gone"
    dropped = [record for offset, record in before.items() if offset not in after and record.key is not None]
    latest = _latest(old.records, aborted, bounds.stable)
    alone = [
        record
        for record in dropped
        if latest.get(record.key, -1) <= record.offset and not _may_go(record, aborted, bounds.now_ms)
    ]
    if alone:
        latest = _latest(later(), aborted, bounds.stable)
    for record in alone:
        if latest.get(record.key, -1) <= record.offset:
            what = "value" if record.value is not None else "tombstone"
            yield f"offset {record.offset}, the last committed {what} of key {record.key!r}, is gone"


def _ends(content: Content) -> set[tuple[int, int]]:
    """Producers with the last offsets of their batches."""
    return {(batch.producer_id, batch.last_offset) for batch in content.batches}


def _latest(records: Iterable[CompactedRecord], aborted: Sequence[AbortedTxn], stable: int) -> dict[bytes | None, int]:
    """The last offset of each key below ``stable``, without records of aborted transactions."""
    return {
        record.key: record.offset for record in records if record.offset < stable and not _is_aborted(record, aborted)
    }


def _may_go(record: CompactedRecord, aborted: Sequence[AbortedTxn], now_ms: int) -> bool:
    """Whether a record may be removed without a later record of its key."""
    is_over = record.value is None and record.horizon_ms is not None and record.horizon_ms <= now_ms
    return is_over or _is_aborted(record, aborted)


def _is_aborted(record: CompactedRecord, aborted: Sequence[AbortedTxn]) -> bool:
    return record.transactional and any(
        txn.producer_id == record.producer_id and txn.first_offset <= record.offset <= txn.last_offset
        for txn in aborted
    )


def _content(segments: Iterable[LogSegment | _Made]) -> Content:
    """Read without the disk's simulated faults; a segment ends where a flipped bit has damaged it."""
    batches: list[BatchHeader] = []
    records: list[CompactedRecord] = []
    for segment in segments:
        data = memoryview(Path(segment.path).read_bytes())[: segment.size]
        with suppress(CorruptRecordError):
            for position, header in iter_headers(data):
                batches.append(header)
                if header.is_control:
                    continue
                horizon, transactional = header.delete_horizon_ms, header.is_transactional
                for record in iter_records(data, header, position):
                    records.append(
                        CompactedRecord(
                            record.offset, record.key, record.value, header.producer_id, transactional, horizon
                        )
                    )
    return Content(tuple(batches), tuple(records))


@contextmanager
def checked_compactions(tell: Callable[[str], object]) -> Iterator[None]:
    """Inside the context every compacted segment is checked when it replaces others, and at each start; ``tell`` is
    called with each error."""
    compactions = Compactions(tell)
    replace, load = Log.replace_segments, LogDir.load
    truncation, removed = log_cleaner.LogCleaner.before_truncation, log_cleaner.LogCleaner.removed

    def checked_job(chosen: LogToClean, number: int, now_ms: int, config: CleanerLimits) -> CleanJob:
        compactions.begun(chosen.log, now_ms)
        return make_job(chosen, number, now_ms, config)

    def checked_replace(
        self: Log, base_offset: int, size: int, suffixes: Sequence[str], replaces: Sequence[int]
    ) -> None:
        compactions.swap(self, size, replaces, lambda: replace(self, base_offset, size, suffixes, replaces))

    def checked_load(
        self: LogDir, config_of: Callable[[str], LogConfig], services: LogServices, owner: LogOwner
    ) -> list[Log]:
        logs = load(self, config_of, services, owner)
        for loaded in logs:
            compactions.loaded(loaded)
        return logs

    def checked_truncation(self: log_cleaner.LogCleaner, cut: Log, offset: int) -> None:
        compactions.cut(cut, offset)
        truncation(self, cut, offset)

    def checked_removed(self: log_cleaner.LogCleaner, gone: Log) -> None:
        compactions.removed(gone)
        removed(self, gone)

    with (
        patch.object(log_cleaner, "make_job", checked_job),
        patch.object(Log, "replace_segments", checked_replace),
        patch.object(LogDir, "load", checked_load),
        patch.multiple(log_cleaner.LogCleaner, before_truncation=checked_truncation, removed=checked_removed),
    ):
        yield
