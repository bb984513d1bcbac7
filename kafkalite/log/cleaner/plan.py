"""Which log is the dirtiest, and how far it may be compacted.

Answers to: ``org.apache.kafka.storage.internals.log.{LogCleanerManager,LogToClean}``'s calculations. Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from kafkalite.log.cleaner.job import CleanerConfig, CleanJob, LastRecord, SegmentInfo
from kafkalite.log.log import Log
from kafkalite.log.log_segment import LogSegment
from kafkalite.log.producer_entry import ProducerEntry

log = logging.getLogger(__name__)


class OffsetsToClean(NamedTuple):
    """Where the uncompacted part begins, where compaction has to stop, and whether the checkpoint was wrong."""

    first_dirty: int
    first_uncleanable: int
    reset: bool


class LogToClean(NamedTuple):
    """A log and how dirty it is. ``first_uncleanable`` is a segment's base offset; sizes in bytes."""

    log: Log
    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    cleanable_bytes: int
    overdue: bool
    """Whether ``max.compaction.lag.ms`` asks for a round now."""

    @property
    def ratio(self) -> float:
        """Share of what could be compacted in what would be read."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        """Whether the log is dirty enough."""
        return (self.overdue and self.cleanable_bytes > 0) or self.ratio > self.log.config.min_cleanable_dirty_ratio


def cleanable_offsets(log_: Log, checkpoint: int | None, now_ms: int) -> OffsetsToClean:
    """From where to where ``log_`` may be compacted: below its last stable offset, its active segment, and the first
    segment with a record younger than ``min.compaction.lag.ms``."""
    start, end = log_.log_start_offset, log_.log_end_offset
    first_dirty = start if checkpoint is None else checkpoint
    reset = not start <= first_dirty <= end
    if reset:
        if not (log_.config.deletes and first_dirty < start):
            log.warning(
                "%s was compacted up to %d, which is not between its start %d and its end %d: from the start again",
                log_.topic_partition, first_dirty, start, end,
            )  # fmt: skip
        first_dirty = start
    uncleanable = min(log_.last_stable_offset, log_.segments.active.base_offset)
    lag = log_.config.min_compaction_lag_ms
    if lag > 0:
        for segment in _closed_from(log_, first_dirty):
            if segment.largest_timestamp() > now_ms - lag:
                uncleanable = min(uncleanable, segment.base_offset)
                break
    return OffsetsToClean(first_dirty, max(first_dirty, uncleanable), reset)


def log_to_clean(log_: Log, checkpoint: int | None, now_ms: int) -> tuple[LogToClean, OffsetsToClean]:
    """How dirty ``log_`` is. Raises ``OSError`` where its files cannot be read."""
    offsets = cleanable_offsets(log_, checkpoint, now_ms)
    # A segment is compacted as a whole or not at all.
    number = log_.segments.floor_index(offsets.first_uncleanable)
    bound = log_.segments[number].base_offset if number >= 0 else log_.segments[0].base_offset
    clean = dirty = 0
    begin = log_.segments.floor_index(min(offsets.first_dirty, bound))
    for at, segment in enumerate(log_.segments):
        if segment.base_offset >= bound:
            break
        if segment.base_offset < offsets.first_dirty:
            clean += segment.size
        if at >= begin:
            dirty += segment.size
    overdue = _is_overdue(log_, offsets.first_dirty, now_ms)
    return LogToClean(log_, offsets.first_dirty, bound, clean, dirty, overdue), offsets


def _is_overdue(log_: Log, first_dirty: int, now_ms: int) -> bool:
    lag = log_.config.max_compaction_lag_ms
    if lag > now_ms:
        return False
    return any(0 < segment.first_timestamp() < now_ms - lag for segment in _closed_from(log_, first_dirty))


def _closed_from(log_: Log, offset: int) -> Iterable[LogSegment]:
    """The segments from the one that holds ``offset`` on, without the active one."""
    return [segment for segment in log_.segments.from_offset(offset) if segment is not log_.segments.active]


def make_job(chosen: LogToClean, number: int, now_ms: int, config: CleanerConfig) -> CleanJob:
    """What a worker has to know of the round."""
    log_ = chosen.log
    settings = log_.config
    return CleanJob(
        number,
        log_.dir,
        tuple(
            SegmentInfo(
                segment.base_offset, segment.size, segment.index.size_in_bytes, segment.time_index.size_in_bytes
            )
            for segment in log_.segments
            if segment.base_offset < chosen.first_uncleanable
        ),
        chosen.first_dirty,
        chosen.first_uncleanable,
        tuple(segment.base_offset for segment in log_.segments if segment.txn_index is not None),
        _last_records(log_.producer_state.entries.values(), chosen.first_uncleanable),
        now_ms,
        settings.segment_bytes,
        settings.segment_index_bytes,
        settings.index_interval_bytes,
        settings.delete_retention_ms,
        config,
    )


def _last_records(entries: Iterable[ProducerEntry], bound: int) -> dict[int, LastRecord]:
    """What is to stay of each producer: its last batch below ``bound``, because those above it may yet be truncated."""
    found = {}
    for entry in entries:
        below = [batch.last_offset for batch in entry.batches if batch.last_offset < bound]
        if below or not entry.batches:
            found[entry.producer_id] = LastRecord(below[-1] if below else -1, entry.producer_epoch)
    return found
