"""Which log is the dirtiest, how far each may be and was compacted, and which are being compacted.

Answers to: ``org.apache.kafka.storage.internals.log.{LogCleanerManager,LogCleaningState,LogToClean}``. Deterministic.

In Kafka the callers wait until a cleaning is aborted, and so have to pause it. Here no caller waits: later reports of
an aborted round are ignored, and the partition is given to no other worker until the first one has ended its round.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkalite.common.types import TopicPartition
from kafkalite.log.cleaner.job import CleanerLimits, CleanJob, LastRecord, SegmentInfo
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
    """How dirty ``log_`` is.

    Raises ``OSError`` where its files cannot be read, or where the disk has no room for its aborted transactions: the
    compactor reads them from the files, and would keep the records of an aborted transaction that is missing there.
    """
    for segment in log_.segments:
        segment.write_aborted()
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


def make_job(chosen: LogToClean, number: int, now_ms: int, config: CleanerLimits) -> CleanJob:
    """The job by which a worker compacts ``chosen``."""
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
        tuple(
            segment.base_offset
            for segment in log_.segments
            if segment.txn_index is not None and segment.txn_index.exists
        ),
        _last_records(log_.producer_state.entries.values(), chosen.first_uncleanable),
        now_ms,
        settings.segment_bytes,
        settings.segment_index_bytes,
        settings.index_interval_bytes,
        settings.delete_retention_ms,
        config,
    )


def _last_records(entries: Iterable[ProducerEntry], bound: int) -> dict[int, LastRecord]:
    """The last batch of each producer below ``bound``, which a round keeps although its records may be replaced.

    Batches above ``bound`` do not count, because they may be truncated.
    """
    found = {}
    for entry in entries:
        below = [batch.last_offset for batch in entry.batches if batch.last_offset < bound]
        if below or not entry.batches:
            found[entry.producer_id] = LastRecord(below[-1] if below else -1, entry.producer_epoch)
    return found


class CleaningState(enum.Enum):
    """The state of one partition's compaction."""

    NONE = "none"
    IN_PROGRESS = "in progress"
    ABORTED = "aborted"
    """A worker was asked to abort the round and has not answered yet."""
    UNCLEANABLE = "uncleanable"
    """A round failed on the partition's data; no other begins before the broker starts again."""


TRANSITIONS: Mapping[CleaningState, frozenset[CleaningState]] = {
    CleaningState.NONE: frozenset({CleaningState.IN_PROGRESS}),
    CleaningState.IN_PROGRESS: frozenset({CleaningState.NONE, CleaningState.ABORTED, CleaningState.UNCLEANABLE}),
    CleaningState.ABORTED: frozenset({CleaningState.NONE}),
    CleaningState.UNCLEANABLE: frozenset({CleaningState.NONE}),
}
"""From each state to those that may follow it."""


class CleaningStates:
    """The state of every partition that is not ``NONE``."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, CleaningState] = {}

    def get(self, topic_partition: TopicPartition) -> CleaningState:
        """The state of a partition."""
        return self._states.get(topic_partition, CleaningState.NONE)

    def uncleanable(self) -> list[TopicPartition]:
        """The partitions in that state."""
        return [tp for tp, state in self._states.items() if state is CleaningState.UNCLEANABLE]

    def move(self, topic_partition: TopicPartition, state: CleaningState) -> None:
        """Change to ``state``. Raises ``ValueError`` if :data:`TRANSITIONS` does not allow it."""
        current = self.get(topic_partition)
        if state not in TRANSITIONS[current]:
            raise ValueError(f"cleaning of {topic_partition} cannot go from {current.value} to {state.value}")
        if state is CleaningState.NONE:
            del self._states[topic_partition]
        else:
            self._states[topic_partition] = state


class CleanerCheckpoints:
    """The first dirty offset of every compacted partition."""

    def __init__(self) -> None:
        self._offsets: dict[TopicPartition, int] = {}

    def load(self, offsets: Mapping[TopicPartition, int], present: Iterable[TopicPartition]) -> None:
        """Take over the entries of a directory's file for the partitions that are ``present`` in the directory."""
        self._offsets.update((tp, offsets[tp]) for tp in present if tp in offsets)

    def get(self, topic_partition: TopicPartition) -> int | None:
        """The offset below which a partition is compacted; ``None`` if it never was."""
        return self._offsets.get(topic_partition)

    def put(self, topic_partition: TopicPartition, offset: int) -> None:
        """Everything below ``offset`` is compacted."""
        self._offsets[topic_partition] = offset

    def truncate(self, topic_partition: TopicPartition, offset: int) -> bool:
        """The log was truncated to ``offset``; returns whether that lowers the first dirty offset."""
        if self._offsets.get(topic_partition, 0) <= offset:
            return False
        self._offsets[topic_partition] = offset
        return True

    def remove(self, topic_partition: TopicPartition) -> bool:
        """The partition was deleted; returns whether it had an entry."""
        return self._offsets.pop(topic_partition, None) is not None

    def of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The entries of ``partitions``, for the file of their directory."""
        return {tp: self._offsets[tp] for tp in partitions if tp in self._offsets}
