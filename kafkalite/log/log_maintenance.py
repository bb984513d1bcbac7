"""What is done for all logs now and then: retention, flushes by age, expiry of producers, checkpoints.

Answers to: ``kafka.log.LogManager.{cleanupLogs,flushDirtyLogs,checkpointLogRecoveryOffsets}``. Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any

from kafkalite.common.errors import ApiError
from kafkalite.common.types import TopicPartition
from kafkalite.log.background_work import CheckpointWriter, Flusher, Periodic
from kafkalite.log.checkpoints import HIGH_WATERMARK, LOG_START_OFFSET, RECOVERY_POINT, encode_offsets
from kafkalite.log.log import Log
from kafkalite.log.services import LogServices

log = logging.getLogger(__name__)

# Kafka waits this long after a start before it looks at retention and checkpoints.
_INITIAL_DELAY = 30.0
_DEFAULTS = {
    "log.retention.check.interval.ms": 300_000,
    "log.flush.scheduler.interval.ms": (1 << 63) - 1,
    "log.flush.offset.checkpoint.interval.ms": 60_000,
    "log.flush.start.offset.checkpoint.interval.ms": 60_000,
    "producer.id.expiration.ms": 86_400_000,
    "producer.id.expiration.check.interval.ms": 600_000,
}
_NEVER_MS = 1 << 50


def setting(values: Mapping[str, Any], name: str) -> int:
    """A broker setting, or Kafka's default where the broker has none."""
    value = values.get(name)
    return int(_DEFAULTS[name] if value is None else value)


class LogMaintenance:
    """Looks after the logs of ``logs`` on a clock; ``writers`` has one entry for each working directory.

    Retention passes over logs that are ``spared``. ``futures`` are copies of logs in other directories: they have
    checkpoints there, and all else comes to them from the logs that they are copies of.
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, Log],
        writers: Mapping[str, CheckpointWriter],
        services: LogServices,
        flusher: Flusher,
        values: Mapping[str, Any],
        spared: Callable[[Log], bool] = lambda _log: False,
        futures: Mapping[TopicPartition, Log] = MappingProxyType({}),
    ) -> None:
        self._logs = logs
        self._writers = writers
        self._services = services
        self._flusher = flusher
        self._values = values
        self._spared = spared
        self._futures = futures
        self._periodic = Periodic(services.clock)

    def start(self) -> None:
        """Begin: from now on everything is done at its time."""
        every = self._periodic.every
        retention = setting(self._values, "log.retention.check.interval.ms") / 1000
        every("retention", retention, self.clean_up, min(_INITIAL_DELAY, retention))
        recovery = setting(self._values, "log.flush.offset.checkpoint.interval.ms") / 1000
        every("recovery point checkpoints", recovery or _INITIAL_DELAY, self.checkpoint_recovery_points)
        starts = setting(self._values, "log.flush.start.offset.checkpoint.interval.ms") / 1000
        every("log start checkpoints", starts or _INITIAL_DELAY, self.checkpoint_log_starts)
        expiry = setting(self._values, "producer.id.expiration.check.interval.ms") / 1000
        every("expiry of producers", expiry, self.expire_producers)
        flush = setting(self._values, "log.flush.scheduler.interval.ms")
        if flush < _NEVER_MS:
            every("flushing", flush / 1000, self.flush_due)

    def close(self) -> None:
        """Do nothing more by itself."""
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
        """Flush logs whose ``flush.ms`` is over."""
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
        """``cut`` is going to end at ``end``: no later offset of it may stay in a checkpoint.

        Otherwise batches that are written there anew would be taken to be on the disk (recovery point), or to be
        deleted (log start). Raises ``OSError``.
        """
        recovery_point = cut.recovery_point_after_cut(end)
        if recovery_point < cut.recovery_point:
            self._write_now(RECOVERY_POINT, cut.log_dir, {cut.topic_partition: recovery_point})
        if end < cut.log_start_offset:
            self._write_now(LOG_START_OFFSET, cut.log_dir, {cut.topic_partition: end})

    def forget(self, log_dir: str, topic_partition: TopicPartition) -> None:
        """``topic_partition`` is going to be made anew in ``log_dir``: no checkpoint may tell of the log that is gone.

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
