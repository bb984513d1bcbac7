"""Copies of logs in other log directories of the broker, each of which is to take its original's place (KIP-113).

Answers to: the ``futureLogs`` of ``kafka.log.LogManager``, ``maybeReplaceCurrentWithFutureReplica`` of
``kafka.cluster.Partition`` and the fetching of ``kafka.server.ReplicaAlterLogDirsThread``. Deterministic.

A copy may be behind its log, and after a truncation or a crash it may be ahead or differ. Therefore each step first
truncates the copy to the part that both have in common. Before the copy replaces the log, it is flushed as far as the
log is, with a note of the directory that it came from. If the broker stops between the renames of the two folders, the
note tells the next start which of the two to keep.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Callable

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import Executor
from kafkalite.common.types import TopicPartition, random_uuid
from kafkalite.log.file_system import PASSING
from kafkalite.log.log import Log, LogServices
from kafkalite.log.log_config import LogConfig
from kafkalite.log.partition_folder import MAX_NAME, MOVED_FROM, dir_name, future_dir_name
from kafkalite.log.values import ReadInfo

Make = Callable[[TopicPartition, str, str, LogConfig], Log]
"""Makes the log of a partition in (log directory, name of the folder)."""


class FutureLogs:
    """The copies (``logs``) and the directories that partitions are to be made in (``preferred``).

    ``current`` are the broker's logs. ``replaced(gone, current)`` is called when a copy has taken a log's place.
    """

    def __init__(
        self,
        current: dict[TopicPartition, Log],
        logs: dict[TopicPartition, Log],
        services: LogServices,
        executor: Executor,
        make: Make,
        replaced: Callable[[Log, Log], None],
        take_away: Callable[[Log], None],
    ) -> None:
        self._current = current
        self.logs = logs
        self.preferred: dict[TopicPartition, str] = {}
        self._services = services
        self._executor = executor
        self._make = make
        self._replaced = replaced
        self._take_away = take_away
        self._noted: dict[TopicPartition, Log] = {}

    def create(self, topic_partition: TopicPartition, log_dir: str) -> None:
        """Begin an empty copy in ``log_dir``. Raises ``ApiError``: KAFKA_STORAGE_ERROR, INVALID_TOPIC_EXCEPTION."""
        current = self._current[topic_partition]
        name = future_dir_name(topic_partition, random_uuid(self._services.rng))
        if len(name) > MAX_NAME:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"The topic name is too long: {name} cannot be a folder")
        future = self._make(topic_partition, log_dir, name, current.config)
        if current.topic_id is not None:
            future.set_topic_id(current.topic_id)
        self.logs[topic_partition] = future

    def drop(self, topic_partition: TopicPartition) -> Log | None:
        """Give a copy up and delete it; returns it, ``None`` where there was none."""
        future = self.logs.pop(topic_partition, None)
        self._noted.pop(topic_partition, None)
        if future is not None:
            self._take_away(future)
        return future

    def directory_failed(self, log_dir: str, partitions: list[TopicPartition]) -> None:
        """``log_dir``, with the logs of ``partitions``, is offline: copies in it or of those logs stay on the disk."""
        for topic_partition, future in list(self.logs.items()):
            if future.log_dir == log_dir or topic_partition in partitions:
                del self.logs[topic_partition]
                future.mark_broken()

    # -- copying

    async def copy(self, topic_partition: TopicPartition, max_bytes: int) -> int:
        """Copy about ``max_bytes`` or one batch; returns the bytes, 0 if the copy has reached the end of the log.

        Raises ``ApiError``, ``LogDirFailure`` where one of the two directories has failed.
        """
        current, future = self._current[topic_partition], self.logs[topic_partition]
        self._cut_to_common(current, future)
        offset, cuts = future.log_end_offset, current.cuts
        read, reached = _next(current, offset, max_bytes)
        region, copied = read.records, 0
        if region is not None:
            try:
                if region.cold:
                    data = await self._executor.run(self._services.fs.pread, region.fd, region.count, region.position)
                else:
                    data = self._services.fs.pread(region.fd, region.count, region.position)
            except OSError as error:
                raise current.fail(error) from error
            if (
                self._current.get(topic_partition) is not current
                or self.logs.get(topic_partition) is not future
                or current.cuts != cuts
            ):
                # Discard the bytes, because they may no longer be in the log.
                return len(data)
            _take_epochs(current, future, reached)
            copied = future.append_replicated(memoryview(data)).size
        future.update_high_watermark(current.high_watermark)
        future.increment_log_start_offset(min(current.log_start_offset, future.high_watermark))
        return copied

    def _cut_to_common(self, current: Log, future: Log) -> None:
        end = _common_end(current, future)
        if end < current.log_start_offset:
            future.truncate_fully_and_start_at(current.log_start_offset)
        elif end < future.log_end_offset:
            future.truncate_to(end)

    def is_caught_up(self, topic_partition: TopicPartition) -> bool:
        """Whether the copy has all that the log has, at this moment."""
        current, future = self._current[topic_partition], self.logs[topic_partition]
        end = current.log_end_offset
        return future.log_end_offset == end == _common_end(current, future)

    # -- taking the log's place

    def is_durable(self, topic_partition: TopicPartition) -> bool:
        """Whether, after lost power, the copy would have all that the log would have, and the note of its origin."""
        current, future = self._current[topic_partition], self.logs[topic_partition]
        return self._noted.get(topic_partition) is current and future.recovery_point >= current.recovery_point

    async def make_durable(self, topic_partition: TopicPartition) -> None:
        """Force the copy to the disk, with the note of its origin. Raises ``ApiError``."""
        current, future = self._current[topic_partition], self.logs[topic_partition]
        _take_epochs(current, future, future.log_end_offset)
        fs, origin = self._services.fs, current.log_dir.encode()
        try:
            while (work := future.prepare_flush()) is not None:
                await self._executor.run(work.run)
                future.flushed(work)
        except OSError as error:
            raise future.fail(error) from error
        try:
            await self._executor.run(fs.write_file, f"{future.dir}/{MOVED_FROM}", origin)
        except OSError as error:
            if self.logs.get(topic_partition) is not future:
                # The copy was given up during the wait: its folder has been renamed or removed.
                return
            if error.errno in PASSING:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{future.dir}: {error.strerror}") from error
            raise future.fail(error) from error
        if self._current.get(topic_partition) is current and self.logs.get(topic_partition) is future:
            self._noted[topic_partition] = current

    def replace_current(self, topic_partition: TopicPartition) -> Log:
        """Put the copy, which has caught up and is durable, in the log's place; returns it. Raises ``ApiError``."""
        current, future = self._current[topic_partition], self.logs[topic_partition]
        _take_epochs(current, future, future.log_end_offset)
        future.update_high_watermark(current.high_watermark)
        future.increment_log_start_offset(current.log_start_offset)
        target = f"{future.log_dir}/{dir_name(topic_partition)}"
        try:
            self._services.fs.rename(future.dir, target)
        except OSError as error:
            raise future.fail(error) from error
        future.renamed(target)
        del self.logs[topic_partition]
        self._noted.pop(topic_partition, None)
        self._current[topic_partition] = future
        # Where the old folder cannot be renamed, its directory has failed, which has been told.
        with contextlib.suppress(ApiError):
            self._replaced(current, future)
        return future


def _common_end(current: Log, future: Log) -> int:
    """Up to where both have the same batches: a leader epoch gives each offset to one batch only."""
    end = min(current.log_end_offset, future.log_end_offset)
    while end > future.log_start_offset:
        mine, theirs = current.epochs.entries, future.epochs.entries
        one, other = _entry_at(mine, end - 1), _entry_at(theirs, end - 1)
        if one[0] == other[0]:
            break
        end = max(one[1], other[1])
    return end


def _entry_at(entries: list[tuple[int, int]], offset: int) -> tuple[int, int]:
    """(epoch, start) of the epoch in which ``offset`` was written; (-1, 0) where it is not known."""
    at = bisect.bisect_right(entries, offset, key=lambda entry: entry[1])
    return entries[at - 1] if at else (-1, 0)


def _next(current: Log, offset: int, max_bytes: int) -> tuple[ReadInfo, int]:
    """The batches from ``offset`` on, all of one leader epoch, and an offset of that epoch not above the first."""
    reached = offset
    bounds = [start for _, start in current.epochs.entries if start > offset]
    for bound in (*bounds, current.log_end_offset):
        read = current.read(reached, max_bytes, bound, True)
        if read.records is not None or bound >= current.log_end_offset:
            break
        # Compaction has left nothing of this epoch.
        reached = bound
    return read, reached


def _take_epochs(current: Log, future: Log, offset: int) -> None:
    """Give the copy all leader epochs that began at or below ``offset``, also those that no batch tells of any more."""
    for epoch, start in current.epochs.entries:
        if start <= offset and (future.latest_epoch is None or epoch > future.latest_epoch):
            future.assign_epoch_start(epoch, start)
