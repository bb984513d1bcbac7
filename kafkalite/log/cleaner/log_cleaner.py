"""Compaction of a broker's logs: chooses what is dirtiest, gives it to workers, and swaps in what they make.

Answers to: ``kafka.log.LogCleaner``. Deterministic.

The workers are separate processes (:class:`~kafkalite.log.cleaner.job.CleanerPool`), begun when a log needs one
and ended when they have been idle for a while. All that happens here is short: figures, renames, checkpoints.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from kafkalite.common.clock import Timer
from kafkalite.common.errors import ApiError
from kafkalite.common.types import TopicPartition
from kafkalite.log.background_work import CheckpointWriter, FolderSyncer
from kafkalite.log.cleaner.job import (
    Abort,
    Cleaned,
    CleanerLimits,
    CleanerPool,
    CleanerStats,
    CleanerWorker,
    CleaningAborted,
    CleaningDone,
    CleaningFailed,
    Report,
)
from kafkalite.log.cleaner.log_cleaner_manager import (
    CleanerCheckpoints,
    CleaningState,
    CleaningStates,
    LogToClean,
    log_to_clean,
    make_job,
)
from kafkalite.log.file_system import PASSING
from kafkalite.log.log import Log, LogServices
from kafkalite.log.log_config import CleanerConfig
from kafkalite.log.log_dir_files import CLEANER_OFFSET, encode_offsets

log = logging.getLogger(__name__)
IDLE_SECONDS = 60.0
"""How long a worker without work is kept."""
_PARTITION_ERRORS = (errno.ENOENT, errno.ENOTDIR, errno.EINVAL)
"""Errors of one partition's files that do not mean a broken disk."""
_NONE = (0, 0.0)
_LONGEST_REST = 64
"""Most backoffs that a log rests after rounds that ended with the death of the worker."""


class _Place:
    """A place for one worker: the worker, where it has been started, and the round that it has."""

    __slots__ = ("idle", "job", "log", "number", "worker")

    def __init__(self, number: int) -> None:
        self.number = number
        self.worker: CleanerWorker | None = None
        self.job = 0
        self.log: Log | None = None
        self.idle: Timer | None = None


@dataclass(slots=True)
class LogCleanerStats:
    """What the cleaner did since the start: rounds, bytes that they read and kept, deaths of workers.

    ``last`` is of the latest round; ``last_run`` is the monotonic time at which the
    cleaner looked for dirty logs, ``max_dirty_ratio`` the ratio of the dirtiest that it found.
    """

    rounds: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    deaths: int = 0
    last: CleanerStats = field(default_factory=CleanerStats)
    last_run: float | None = None
    max_dirty_ratio: float = 0.0


class LogCleaner:
    """Compacts the logs of ``logs`` whose policy says so; nothing without a ``pool``.

    ``writers`` has one entry for each working directory. Logs of ``moving`` partitions, which are being copied to
    another directory, rest: how far they were compacted must be true of the copy, too.
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, Log],
        services: LogServices,
        pool: CleanerPool | None,
        writers: Mapping[str, CheckpointWriter],
        syncer: FolderSyncer,
        config: CleanerConfig,
        moving: Collection[TopicPartition],
    ) -> None:
        self._logs = logs
        self._moving = moving
        self._services = services
        self._pool = pool if config.enable else None
        self._writers = writers
        self._syncer = syncer
        self._config = config
        self._states = CleaningStates()
        self.checkpoints = CleanerCheckpoints()
        self._places: list[_Place] = []
        self._jobs = 0
        self._timer: Timer | None = None
        self._closed = False
        self._deaths: dict[TopicPartition, tuple[int, float]] = {}
        self.stats = LogCleanerStats()

    # -- life

    def start(self) -> None:
        """Begin to look for dirty logs."""
        if self._pool is not None:
            self._look_later(self._backoff)

    def close(self) -> None:
        """End the workers, also in the middle of a round."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for place in self._places:
            self._end(place)

    def reconfigure(self, config: CleanerConfig) -> None:
        """Apply new settings. If the limits of workers change, the running rounds are aborted and restarted."""
        before = self._limits()
        self._config = config
        if self._timer is None or self._closed:
            return
        if self._limits() != before:
            for place in self._places:
                if place.log is not None:
                    self.abort(place.log.topic_partition)
        self._timer.cancel()
        self._look_later(min(1.0, self._backoff))

    @property
    def _backoff(self) -> float:
        return self._config.backoff_ms / 1000

    def _look_later(self, seconds: float) -> None:
        self._timer = self._services.clock.call_later(seconds, self._due)

    def _due(self) -> None:
        self._look_later(max(self._backoff, 0.01))
        self.look()

    # -- choosing

    def look(self) -> None:
        """Give the dirtiest logs to workers that have nothing to do; retention of compacted logs."""
        now_ms = self._services.clock.time_ms()
        due: list[LogToClean] = []
        self.stats.last_run = self._services.clock.monotonic()
        self.stats.max_dirty_ratio = 0.0
        for topic_partition, current in list(self._logs.items()):
            if not current.config.compacted or topic_partition in self._moving or self.is_busy(topic_partition):
                continue
            try:
                current.delete_old_segments(now_ms)
                if self._states.get(topic_partition) is CleaningState.UNCLEANABLE:
                    continue
                found = self._dirtiness(current, now_ms)
            except (ApiError, OSError) as error:
                log.warning("%s was not looked at: %s", topic_partition, error)
                continue
            self.stats.max_dirty_ratio = max(self.stats.max_dirty_ratio, found.ratio)
            if found.is_due and self._deaths.get(topic_partition, _NONE)[1] <= self._services.clock.monotonic():
                due.append(found)
        due.sort(key=lambda each: each.ratio)
        for place in self._free_places():
            if not due:
                return
            self._begin(place, due.pop(), now_ms)

    def _dirtiness(self, current: Log, now_ms: int) -> LogToClean:
        topic_partition = current.topic_partition
        found, offsets = log_to_clean(current, self.checkpoints.get(topic_partition), now_ms)
        if offsets.reset:
            self.checkpoints.put(topic_partition, offsets.first_dirty)
            self._checkpoint(current.log_dir)
        return found

    def _free_places(self) -> list[_Place]:
        wanted = self._config.threads
        while len(self._places) < wanted:
            self._places.append(_Place(len(self._places)))
        while len(self._places) > wanted and self._places[-1].log is None:
            self._end(self._places.pop())
        return [place for place in self._places[:wanted] if place.log is None]

    def _begin(self, place: _Place, chosen: LogToClean, now_ms: int) -> None:
        current = chosen.log
        if place.idle is not None:
            place.idle.cancel()
            place.idle = None
        assert self._pool is not None
        if place.worker is None:
            try:
                place.worker = self._pool.start(
                    place.number,
                    lambda report: self._reported(place, report),
                    lambda why: self._died(place, why),
                )
            except OSError as error:
                log.error("no compactor could be started: %s", error)
                return
        self._jobs += 1
        place.job, place.log = self._jobs, current
        self._states.move(current.topic_partition, CleaningState.IN_PROGRESS)
        log.info(
            "compacting %s: offsets %d to %d, %.0f %% of it dirty",
            current.topic_partition, chosen.first_dirty, chosen.first_uncleanable, 100 * chosen.ratio,
        )  # fmt: skip
        place.worker.send(make_job(chosen, self._jobs, now_ms, self._limits()))

    def _limits(self) -> CleanerLimits:
        """The share of one worker."""
        config = self._config
        workers = max(1, config.threads)
        return CleanerLimits(
            config.dedupe_buffer_size // workers,
            config.io_buffer_load_factor,
            config.io_buffer_size // workers,
            config.io_max_bytes_per_second / workers,
        )

    # -- what workers say

    def _reported(self, place: _Place, report: Report) -> None:
        current = place.log
        if current is None or report.number != place.job:
            return
        state = self._states.get(current.topic_partition)
        if state is CleaningState.ABORTED:
            if isinstance(report, CleaningAborted | CleaningFailed):
                log.info("compaction of %s was given up", current.topic_partition)
                self._finished(place, CleaningState.NONE)
        elif isinstance(report, Cleaned):
            self._swap(current, report)
        elif isinstance(report, CleaningDone):
            self._deaths.pop(current.topic_partition, None)
            self._count(report.stats)
            self.checkpoints.put(current.topic_partition, report.end_offset)
            self._checkpoint(current.log_dir)
            log.info(
                "compacted %s up to offset %d: %s", current.topic_partition, report.end_offset, _text_of(report.stats)
            )
            self._finished(place, CleaningState.NONE)
        elif isinstance(report, CleaningFailed):
            self._failed(place, current, report)

    def _count(self, stats: CleanerStats) -> None:
        self.stats.rounds += 1
        self.stats.bytes_read += stats.bytes_read
        self.stats.bytes_written += stats.bytes_written
        self.stats.last = stats

    def _swap(self, current: Log, report: Cleaned) -> None:
        try:
            current.replace_segments(report.base_offset, report.size, report.files, report.replaces)
        except ApiError as error:
            # The log has reported the failure of its directory.
            log.error(
                "%s: the compacted segment %d was not put in: %s", current.topic_partition, report.base_offset, error
            )
            self.abort(current.topic_partition)
            return
        self._syncer.put(current.log_dir, current.dir)

    def _failed(self, place: _Place, current: Log, report: CleaningFailed) -> None:
        if report.errno in PASSING:
            log.warning("%s was not compacted: %s", current.topic_partition, report.why)
            self._finished(place, CleaningState.NONE, again=False)
        elif report.errno and report.errno not in _PARTITION_ERRORS:
            self._finished(place, CleaningState.NONE, again=False)
            current.fail(OSError(report.errno, report.why))
        else:
            log.error("%s cannot be compacted and is left alone: %s", current.topic_partition, report.why)
            self._finished(place, CleaningState.UNCLEANABLE)

    def _finished(self, place: _Place, state: CleaningState, *, again: bool = True) -> None:
        assert place.log is not None
        self._states.move(place.log.topic_partition, state)
        place.log = None
        place.idle = self._services.clock.call_later(IDLE_SECONDS, self._end, place)
        if again and not self._closed:
            self.look()

    def _died(self, place: _Place, why: str) -> None:
        log.warning("compactor %d ended: %s", place.number, why)
        self.stats.deaths += 1
        place.worker = None
        if place.log is not None:
            # The log rests, because the worker may have died of it and would die again; other logs are compacted.
            deaths = self._deaths.get(place.log.topic_partition, _NONE)[0] + 1
            rest = self._backoff * min(2 ** (deaths - 1), _LONGEST_REST)
            self._deaths[place.log.topic_partition] = deaths, self._services.clock.monotonic() + rest
            self._finished(place, CleaningState.NONE, again=False)

    def _end(self, place: _Place) -> None:
        if place.idle is not None:
            place.idle.cancel()
            place.idle = None
        if place.worker is not None:
            place.worker.close()
            place.worker = None

    @property
    def uncleanable(self) -> list[TopicPartition]:
        """The partitions that cannot be compacted, because a round over them failed."""
        return self._states.uncleanable()

    # -- what others do to a log

    def deletes(self, existing: Log) -> bool:
        """Whether this cleaner applies the retention of the log, because retention waits for the end of a round."""
        return self._pool is not None and existing.config.compacted

    def is_busy(self, topic_partition: TopicPartition) -> bool:
        """Whether a worker reads the log's files, so that no segment may be removed from its beginning."""
        return self._states.get(topic_partition) in (CleaningState.IN_PROGRESS, CleaningState.ABORTED)

    def abort(self, topic_partition: TopicPartition) -> None:
        """Abort the round on the log; its reports are ignored from now on."""
        if self._states.get(topic_partition) is not CleaningState.IN_PROGRESS:
            return
        self._states.move(topic_partition, CleaningState.ABORTED)
        for place in self._places:
            if place.log is not None and place.log.topic_partition == topic_partition and place.worker is not None:
                place.worker.send(Abort(place.job))

    def before_truncation(self, cut: Log, offset: int) -> None:
        """The log is about to be truncated to ``offset``."""
        topic_partition = cut.topic_partition
        if offset < cut.segments.active.base_offset:
            self.abort(topic_partition)
        if self.checkpoints.truncate(topic_partition, offset):
            self._checkpoint(cut.log_dir)

    def removed(self, gone: Log) -> None:
        """The log was deleted, or its directory failed."""
        topic_partition = gone.topic_partition
        self.abort(topic_partition)
        self._deaths.pop(topic_partition, None)
        if self._states.get(topic_partition) is CleaningState.UNCLEANABLE:
            self._states.move(topic_partition, CleaningState.NONE)
        if self.checkpoints.remove(topic_partition):
            self._checkpoint(gone.log_dir)

    def moved(self, gone: Log, current: Log) -> None:
        """The log ``current``, in another directory, has taken the place of its equal ``gone``."""
        self.abort(gone.topic_partition)
        if self.checkpoints.get(gone.topic_partition) is not None:
            self._checkpoint(gone.log_dir)
            self._checkpoint(current.log_dir)

    def _checkpoint(self, log_dir: str) -> None:
        if log_dir in self._writers:
            present = [tp for tp, current in self._logs.items() if current.log_dir == log_dir]
            self._writers[log_dir].put(CLEANER_OFFSET, encode_offsets(self.checkpoints.of(present)))


def _text_of(stats: CleanerStats) -> str:
    reading = stats.bytes_read + stats.index_bytes_read
    return (
        f"{stats.keys} keys in {stats.index_records_read} records, {stats.records_written} of {stats.records_read} "
        f"records and {stats.bytes_written} of {stats.bytes_read} bytes kept, "
        f"{reading} bytes read in {stats.seconds:.1f} s ({stats.index_seconds:.1f} s for the keys)"
    )
