"""Periodic work on all logs: retention, flushes by age, expiry of producers, checkpoints.

Answers to: ``kafka.log.LogManager.{cleanupLogs,flushDirtyLogs,checkpointLogRecoveryOffsets}``. Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import chain

from kafkalite.common.clock import Clock, Timer
from kafkalite.common.errors import ApiError
from kafkalite.common.types import TopicPartition
from kafkalite.log.background_work import CheckpointWriter, Flusher
from kafkalite.log.log import Log, LogServices
from kafkalite.log.log_config import LogManagerConfig
from kafkalite.log.log_dir_files import HIGH_WATERMARK, LOG_START_OFFSET, RECOVERY_POINT, encode_offsets

log = logging.getLogger(__name__)

_INITIAL_DELAY = 30.0
"""Seconds from a start to the first retention, as in Kafka (``log.initial.task.delay.ms``)."""
_NEVER_MS = 1 << 50
"""From this ``log.flush.scheduler.interval.ms`` on, logs are never flushed by age; the default is greater."""


class Periodic:
    """Repeats calls by a clock until it is closed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[str, Timer] = {}

    def every(self, name: str, seconds: float, call: Callable[[], object], first: float | None = None) -> None:
        """Make ``call`` every ``seconds``, for the first time after ``first`` seconds; an exception is logged."""

        def due() -> None:
            self._timers[name] = self._clock.call_later(seconds, due)
            try:
                call()
            except Exception:
                log.exception("%s failed", name)

        self._timers[name] = self._clock.call_later(seconds if first is None else first, due)

    def close(self) -> None:
        """Stop all calls."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()


class LogMaintenance:
    """Does the periodic work on ``logs``; ``writers`` has one entry for each working directory.

    Retention leaves out logs for which ``spared`` returns true. ``futures`` are copies of logs in other directories:
    they have checkpoints there, and they get everything else from the logs that are copied.
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, Log],
        writers: Mapping[str, CheckpointWriter],
        services: LogServices,
        flusher: Flusher,
        config: LogManagerConfig,
        spared: Callable[[Log], bool],
        futures: Mapping[TopicPartition, Log],
    ) -> None:
        self._logs = logs
        self._writers = writers
        self._services = services
        self._flusher = flusher
        self._config = config
        self._spared = spared
        self._futures = futures
        self._periodic = Periodic(services.clock)

    def start(self) -> None:
        """Start the timers."""
        every = self._periodic.every
        config = self._config
        retention = config.retention_check_interval_ms / 1000
        every("retention", retention, self.clean_up, min(_INITIAL_DELAY, retention))
        # An interval of 0 is allowed, but would keep the reactor busy with nothing else.
        recovery = config.flush_offset_checkpoint_interval_ms / 1000
        every("recovery point checkpoints", recovery or _INITIAL_DELAY, self.checkpoint_recovery_points)
        starts = config.flush_start_offset_checkpoint_interval_ms / 1000
        every("log start checkpoints", starts or _INITIAL_DELAY, self.checkpoint_log_starts)
        expiry = config.producer_id_expiration_check_interval_ms / 1000
        every("expiry of producers", expiry, self.expire_producers)
        flush = config.flush_scheduler_interval_ms
        if flush < _NEVER_MS:
            every("flushing", flush / 1000, self.flush_due)

    def close(self) -> None:
        """Stop the timers."""
        self._periodic.close()

    def clean_up(self) -> None:
        """Apply retention to every log that deletes."""
        now_ms = self._services.clock.time_ms()
        for existing in list(self._logs.values()):
            if self._spared(existing):
                continue
            try:
                existing.delete_old_segments(now_ms)
            except ApiError as error:
                log.warning("retention of %s failed: %s", existing.topic_partition, error)

    def expire_producers(self) -> None:
        """Forget producers that were silent for ``producer.id.expiration.ms``."""
        now_ms = self._services.clock.time_ms()
        for existing in self._logs.values():
            existing.producer_state.expire(now_ms, self._services.producer_expiration_ms)

    def flush_due(self) -> None:
        """Flush logs with records that were not flushed for ``flush.ms``."""
        for existing in self._logs.values():
            if existing.unflushed and existing.flush_is_due:
                self._flusher.put(existing)

    def checkpoint_high_watermarks(self) -> None:
        """Write ``replication-offset-checkpoint`` in every directory, soon."""
        self._checkpoint(HIGH_WATERMARK)

    def checkpoint_recovery_points(self) -> None:
        """Write ``recovery-point-offset-checkpoint`` in every directory, soon."""
        self._checkpoint(RECOVERY_POINT)

    def checkpoint_log_starts(self) -> None:
        """Write ``log-start-offset-checkpoint``, soon: of logs that begin behind the first batch of their files."""
        self._checkpoint(LOG_START_OFFSET)

    def _checkpoint(self, name: str) -> None:
        offsets: dict[str, dict[TopicPartition, int]] = {path: {} for path in self._writers}
        for topic_partition, existing in chain(self._logs.items(), self._futures.items()):
            offset = _OFFSET_OF[name](existing)
            if offset is not None and existing.log_dir in offsets:
                offsets[existing.log_dir][topic_partition] = offset
        for path, writer in self._writers.items():
            writer.put(name, encode_offsets(offsets[path]))

    # -- offsets that go back

    def before_truncation(self, cut: Log, end: int) -> None:
        """``cut`` will be truncated to ``end``: lower its checkpoints on the disk to at most ``end``.

        Otherwise a start would take batches that are appended after the truncation for flushed ones (recovery point)
        or for deleted ones (log start offset). Raises ``OSError``.
        """
        recovery_point = cut.recovery_point_after_cut(end)
        if recovery_point < cut.recovery_point:
            self._write_now(RECOVERY_POINT, cut.log_dir, {cut.topic_partition: recovery_point})
        if end < cut.log_start_offset:
            self._write_now(LOG_START_OFFSET, cut.log_dir, {cut.topic_partition: end})

    def forget(self, log_dir: str, topic_partition: TopicPartition) -> None:
        """Remove the checkpoints of a deleted log, because ``topic_partition`` gets a new log in ``log_dir``.

        Raises ``OSError``.
        """
        tables = (self._logs, self._futures)
        assert all(logs[topic_partition].log_dir != log_dir for logs in tables if topic_partition in logs)
        for name in _OFFSET_OF:
            if not self._writers[log_dir].is_current(name):
                self._write_now(name, log_dir, {})

    def _write_now(self, name: str, log_dir: str, at_most: Mapping[TopicPartition, int]) -> None:
        offsets = {}
        for topic_partition, existing in chain(self._logs.items(), self._futures.items()):
            offset = _OFFSET_OF[name](existing)
            if offset is not None and existing.log_dir == log_dir:
                offsets[topic_partition] = min(offset, at_most.get(topic_partition, offset))
        writer = self._writers.get(log_dir)
        if writer is not None:
            writer.write_now(name, encode_offsets(offsets))


def _log_start(existing: Log) -> int | None:
    start = existing.log_start_offset
    return start if start > existing.segments[0].base_offset else None


_OFFSET_OF: dict[str, Callable[[Log], int | None]] = {
    RECOVERY_POINT: lambda existing: existing.recovery_point,
    LOG_START_OFFSET: _log_start,
    HIGH_WATERMARK: lambda existing: existing.high_watermark,
}
