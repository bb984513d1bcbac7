"""All logs of a broker, over its log directories.

Answers to: ``kafka.log.LogManager``. Deterministic.
"""

from __future__ import annotations

import logging
import random
import resource
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from kafkalite.cluster.model import check_topic
from kafkalite.common.clock import Clock
from kafkalite.common.errors import ApiError, ErrorCode, StartupError
from kafkalite.common.events import EventKind, EventRecorder, ignore_event
from kafkalite.common.recent_times import RecentTimes
from kafkalite.common.tasks import Executor, gather, spawn
from kafkalite.common.types import TopicPartition, random_uuid
from kafkalite.log.background_work import CheckpointWriter, Deleter, Flusher, FolderSyncer
from kafkalite.log.cleaner.job import CleanerPool
from kafkalite.log.cleaner.log_cleaner import LogCleaner
from kafkalite.log.file_system import (
    NOT_THE_DISK,
    PASSING,
    FilePool,
    FileSystem,
    LogDirFailure,
    default_pool_limit,
)
from kafkalite.log.future_logs import FutureLogs
from kafkalite.log.log import FlushWork, Log, LogServices
from kafkalite.log.log_config import LogConfig, LogManagerConfig
from kafkalite.log.log_dir import LogDir
from kafkalite.log.log_dir_files import BootMark, CleanShutdown
from kafkalite.log.log_loader import LogLoader
from kafkalite.log.log_maintenance import LogMaintenance
from kafkalite.log.partition_folder import MOVED_FROM, deleted_dir_name, dir_name
from kafkalite.record.batch import CorruptRecordError

log = logging.getLogger(__name__)


class LogManager:
    """Creates, finds, recovers, checkpoints and deletes logs; outlives the failure of a directory.

    ``on_dir_failure`` is called with a directory that has just gone offline after :meth:`start`, once its logs have
    been taken out of ``logs``. Without ``cleaner_pool`` nothing is compacted.
    ``boot_id`` names the present boot of the machine; where it is empty, every start without a clean shutdown counts as
    one that may lack records.
    """

    def __init__(
        self,
        log_dirs: Sequence[str],
        config: LogManagerConfig,
        fs: FileSystem,
        clock: Clock,
        executor: Executor,
        broker_id: int,
        cluster_id: str | None,
        *,
        on_dir_failure: Callable[[str], object],
        rng: random.Random | None = None,
        cleaner_pool: CleanerPool | None = None,
        boot_id: str = "",
        record: EventRecorder = ignore_event,
    ) -> None:
        self._record = record
        self.log_dirs: tuple[str, ...] = tuple(dict.fromkeys(path.rstrip("/") or "/" for path in log_dirs))
        self.logs: dict[TopicPartition, Log] = {}
        self.offline_dirs: set[str] = set()
        self.offline_logs: dict[TopicPartition, uuid.UUID | None] = {}
        """Topic ids of the logs that were loaded when their directory went offline."""
        self.unclean_start_epoch = -1
        """``Broker.unclean_start_epoch`` of the logs. After :meth:`start` -1 where they may lack records: then the
        broker's next registration begins a new life of them, and :meth:`registered` says which."""
        self._on_dir_failure = on_dir_failure
        self._owner = (broker_id, cluster_id)
        self._boot_id = boot_id
        self._fs = fs
        self._clock = clock
        self._executor = executor
        self._default = config.log_defaults
        self._topic_configs: dict[str, LogConfig] = {}
        pool = FilePool(default_pool_limit(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
        self._services = LogServices(fs, clock, config.producer_id_expiration_ms, pool, rng or random.Random())
        self._flusher = Flusher(executor, self.directory_failed, self._services)
        self._deleter = Deleter(fs, clock, executor)
        self._dirs: dict[str, LogDir] = {}
        self._deleted: dict[tuple[str, TopicPartition], None] = {}
        self._left: list[Log] = []
        self._writers: dict[str, CheckpointWriter] = {}
        syncer = FolderSyncer(fs, executor, self.directory_failed)
        futures: dict[TopicPartition, Log] = {}
        self._cleaner = LogCleaner(
            self.logs, self._services, cleaner_pool, self._writers, syncer, config.cleaner, futures.keys()
        )
        self._maintenance = LogMaintenance(
            self.logs, self._writers, self._services, self._flusher, config, self._cleaner.deletes, futures
        )
        self.future_logs = FutureLogs(
            self.logs, futures, self._services, executor, self._make, self._replaced, self._take_away
        )

    @property
    def flush_times(self) -> RecentTimes:
        """How long the flushes took."""
        return self._services.flush_times

    @property
    def cleaner(self) -> LogCleaner:
        """What compacts the logs. For metrics only."""
        return self._cleaner

    # -- start

    async def start(self, topic_configs: Mapping[str, LogConfig] | None = None) -> None:
        """Take the directories and load what is in them.

        Raises :class:`StartupError` where a directory is another broker's or in use, or where none can be used.
        """
        self._topic_configs.update(topic_configs or {})
        for path in self.log_dirs:
            directory = LogDir(path, self._fs)
            try:
                directory.open(*self._owner, self._clock.time_ms())
            except OSError as error:
                log.error("log directory %s cannot be used: %s", path, error)
                self.offline_dirs.add(path)
                continue
            except StartupError:
                directory.close()
                self._release_dirs()
                raise
            self._dirs[path] = directory
            self._writers[path] = CheckpointWriter(path, self._fs, self._executor, self.directory_failed)
        await self._begin()
        await gather(self._load(directory) for directory in list(self._dirs.values()))
        if not self._dirs:
            raise StartupError(f"None of the log directories can be used: {', '.join(self.log_dirs)}; correct log.dirs")
        self._settle_moves()
        if self.offline_dirs or any(directory.lost_batches for directory in self._dirs.values()):
            self.unclean_start_epoch = -1
            self._forget_boot()
        self._maintenance.start()
        self._cleaner.start()

    async def _begin(self) -> None:
        """Read from the directories' marks whether the logs are whole, and replace the marks."""
        count = len(self.log_dirs)
        epochs = {directory.kept_epoch(self._boot_id, count) for directory in self._dirs.values()}
        self.unclean_start_epoch = epochs.pop() if len(self._dirs) == count and len(epochs) == 1 else -1
        mark = self._boot_mark()
        for path, directory in list(self._dirs.items()):
            try:
                await self._executor.run(directory.begin, mark)
            except OSError as error:
                log.error("log directory %s cannot be used: %s", path, error)
                self._take_offline(path)

    def _boot_mark(self) -> BootMark | None:
        """The mark by which a start under the same boot knows that the logs are whole; ``None`` if they may not be."""
        if self.unclean_start_epoch < 0 or not self._boot_id or self.offline_dirs:
            return None
        return BootMark(self._boot_id, self.unclean_start_epoch, len(self.log_dirs))

    def _forget_boot(self) -> None:
        for directory in self._dirs.values():
            directory.forget_boot()

    async def registered(self, unclean_start_epoch: int) -> None:
        """The broker is registered with this unclean start epoch: the marks for a start under the same boot name it."""
        if unclean_start_epoch == self.unclean_start_epoch:
            return
        self.unclean_start_epoch = unclean_start_epoch
        mark = self._boot_mark()
        if mark is None:
            return
        for path, directory in list(self._dirs.items()):
            try:
                await self._executor.run(directory.mark_boot, mark)
            except OSError as error:
                log.warning("%s could not be marked: a kill of this broker will count as lost power: %s", path, error)
                if error.errno not in PASSING:
                    self.directory_failed(path, error)
        if self.offline_dirs:
            # A directory failed during the writes, perhaps before its own mark or another one was written.
            self._forget_boot()

    async def _load(self, directory: LogDir) -> None:
        try:
            found = await self._executor.run(directory.load, self.config_of, self._services, self)
        except (OSError, CorruptRecordError) as error:
            log.error("log directory %s cannot be loaded: %s", directory.path, error)
            is_whole = isinstance(error, OSError) and error.errno in PASSING and not directory.lost_batches
            self._take_offline(directory.path, keeps_marks=is_whole)
            return
        for loaded in found:
            other = self.logs.get(loaded.topic_partition)
            if other is not None:
                left_behind = self._left_behind(loaded, other)
                if left_behind is None:
                    self._release_dirs()
                    raise StartupError(
                        f"{loaded.topic_partition} is in {other.dir} and in {loaded.dir}: remove one of them"
                    )
                self._left.append(left_behind)
                if left_behind is loaded:
                    continue
            self.logs[loaded.topic_partition] = loaded
        self._cleaner.checkpoints.load(directory.cleaner_offsets, [loaded.topic_partition for loaded in found])
        for future in directory.futures:
            if future.topic_partition in self.future_logs.logs:
                self._left.append(future)
            else:
                self.future_logs.logs[future.topic_partition] = future

    def _left_behind(self, one: Log, other: Log) -> Log | None:
        """Which of two logs of a partition was being replaced by the other when the broker stopped."""
        for stays, goes in ((one, other), (other, one)):
            if self._dirs[stays.log_dir].moved_from.get(stays.topic_partition) == goes.log_dir:
                return goes
        return None

    def _settle_moves(self) -> None:
        left, self._left = self._left, []
        for left_behind in left:
            log.info("%s has been replaced and is removed", left_behind.dir)
            self._take_away(left_behind)
        for directory in self._dirs.values():
            for topic_partition, origin in list(directory.moved_from.items()):
                moved = self.logs.get(topic_partition)
                # Keep the note of the move while the origin is offline, because it may still have the replaced log.
                if moved is not None and moved.log_dir == directory.path and origin in self._dirs:
                    directory.forget_move(moved)

    # -- logs

    def config_of(self, topic: str) -> LogConfig:
        """The settings of a topic's logs."""
        return self._topic_configs.get(topic, self._default)

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """The log of a partition, where this broker has one in a working directory."""
        return self.logs.get(topic_partition)

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: uuid.UUID | None,
        is_new: bool = False,
        config: LogConfig | None = None,
    ) -> Log:
        """The log of a partition, made in the directory with the fewest logs where there is none.

        ``is_new`` says that the partition cannot have been here before. Raises ``ApiError(KAFKA_STORAGE_ERROR)`` where
        a directory is offline that may hold it, none is left, or no folder can have that name; INVALID_TOPIC_EXCEPTION
        for a topic that Kafka does not allow; INCONSISTENT_TOPIC_ID for a log of another topic.
        """
        if config is not None:
            self._topic_configs[topic_partition.topic] = config
        found = self.logs.get(topic_partition)
        if found is None:
            if self.offline_dirs and not is_new:
                offline = ", ".join(sorted(self.offline_dirs))
                raise ApiError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{topic_partition} may be in a log directory that is offline: {offline}",
                )
            found = self._create(topic_partition, config or self.config_of(topic_partition.topic))
        if topic_id is not None:
            found.set_topic_id(topic_id)
        return found

    def _create(self, topic_partition: TopicPartition, config: LogConfig) -> Log:
        check_topic(topic_partition.topic)
        if not self._dirs:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "every log directory is offline")
        # Drop a copy whose log was deleted, because the new log has nothing in common with it.
        self.future_logs.drop(topic_partition)
        log_dir = self.future_logs.preferred.pop(topic_partition, "")
        if log_dir not in self._dirs:
            log_dir = next(iter(self._dirs))
            if len(self._dirs) > 1:
                counts = Counter(existing.log_dir for existing in self.logs.values())
                log_dir = min(self._dirs, key=lambda path: counts[path])
        created = self._make(topic_partition, log_dir, dir_name(topic_partition), config)
        self.logs[topic_partition] = created
        return created

    def _make(self, topic_partition: TopicPartition, log_dir: str, name: str, config: LogConfig) -> Log:
        """A log in the folder ``name``. Raises ``ApiError(KAFKA_STORAGE_ERROR)``."""
        path = f"{log_dir}/{name}"
        loader = LogLoader(topic_partition, path, log_dir, config, self._services, self)
        try:
            if (log_dir, topic_partition) in self._deleted:
                self._maintenance.forget(log_dir, topic_partition)
                del self._deleted[log_dir, topic_partition]
            if self._fs.exists(path):
                created = loader.load(False, 0, 0)
            else:
                self._fs.make_dir(path)
                created = loader.create()
        except OSError as error:
            if error.errno not in (*PASSING, *NOT_THE_DISK):
                self.directory_failed(log_dir, error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} could not be made: {error}") from error
        return created

    async def delete(self, topic_partition: TopicPartition) -> None:
        """Delete a log: its folder is renamed at once and removed after ``file.delete.delay.ms``.

        Returns when the renaming is on the disk. Raises ``ApiError(KAFKA_STORAGE_ERROR)``.
        """
        gone = self.logs.pop(topic_partition, None)
        future = self.future_logs.drop(topic_partition)
        if gone is not None:
            self._cleaner.removed(gone)
            self._take_away(gone)
        # The controller forgets the topic after this, so lost power must not restore the folders.
        for log_dir in dict.fromkeys(each.log_dir for each in (gone, future) if each is not None):
            try:
                await self._executor.run(self._fs.sync_dir, log_dir)
            except OSError as error:
                self.directory_failed(log_dir, error)
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log_dir} could not be synced: {error}") from error

    def _take_away(self, gone: Log) -> None:
        """Rename the folder of a log that is in no table any more. Raises ``ApiError(KAFKA_STORAGE_ERROR)``."""
        topic_partition = gone.topic_partition
        self._deleted[gone.log_dir, topic_partition] = None
        target = f"{gone.log_dir}/{deleted_dir_name(topic_partition, random_uuid(self._services.rng))}"
        gone.mark_broken()
        try:
            self._fs.rename(gone.dir, target)
        except OSError as error:
            self.directory_failed(gone.log_dir, error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{gone.dir} could not be renamed: {error}") from error
        gone.renamed(target)
        self._deleter.put([target], gone.config.file_delete_delay_ms)
        self._checkpoint_all()

    async def flush_to_end(self, log: Log) -> bool:
        """Force all that ``log`` has now to the disk; whether it is there. Raises nothing."""
        return await self._flusher.flush_to_end(log)

    # -- what logs ask of their owner: see kafkalite.log.log.LogOwner

    def flush_later(self, log: Log) -> None:
        """Force the closed segments of ``log`` to the disk, soon; all of it where its settings say so."""
        self._flusher.put(log)

    def delete_later(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove files after ``delay_ms``."""
        self._deleter.put(paths, delay_ms)

    def before_truncation(self, cut: Log, first: int, end: int) -> None:
        """Lower the checkpoints of a log that will be cut at ``first`` and end at ``end``. Raises ``OSError``."""
        existing = self.logs.get(cut.topic_partition)
        future = self.future_logs.logs.get(cut.topic_partition)
        # A log that is in neither table has no checkpoints.
        if existing is cut:
            self._maintenance.before_truncation(existing, end)
            self._cleaner.before_truncation(existing, first)
        elif future is cut:
            self._maintenance.before_truncation(future, end)

    def _checkpoint_all(self) -> None:
        self._maintenance.checkpoint_recovery_points()
        self._maintenance.checkpoint_log_starts()
        self._maintenance.checkpoint_high_watermarks()

    def _all(self) -> list[Log]:
        return [*self.logs.values(), *self.future_logs.logs.values()]

    # -- copies in other directories

    def space(self, log_dir: str) -> tuple[int, int]:
        """See :meth:`FileSystem.space`."""
        return self._fs.space(log_dir)

    def is_online(self, log_dir: str) -> bool:
        """Whether ``log_dir`` is a log directory of this broker that can be used."""
        return log_dir in self._dirs

    def _replaced(self, gone: Log, current: Log) -> None:
        """``current``, which was being copied to its directory, is now the log of the partition."""
        self._cleaner.moved(gone, current)
        self._take_away(gone)
        spawn(self._executor.run(self._settle, gone.log_dir, current.log_dir, current.dir), f"moving {current.dir}")

    def _settle(self, origin: str, log_dir: str, folder: str) -> None:
        """Sync both renames, then remove the note of the move, which distinguishes the old folder from the new one."""
        self._fs.sync_dir(log_dir)
        self._fs.sync_dir(origin)
        self._fs.remove(f"{folder}/{MOVED_FROM}")

    # -- settings

    def update_topic_config(self, topic: str, config: LogConfig) -> None:
        """Obey new settings of a topic."""
        self._topic_configs[topic] = config
        for existing in self._all():
            if existing.topic_partition.topic == topic:
                if not config.compacted:
                    self._cleaner.abort(existing.topic_partition)
                existing.update_config(config)

    def update_defaults(self, config: LogManagerConfig) -> None:
        """Obey new broker settings: logs without settings of their own take the new defaults."""
        old, self._default = self._default, config.log_defaults
        for topic, topic_config in list(self._topic_configs.items()):
            if topic_config == old:
                self._topic_configs[topic] = self._default
        for existing in self._all():
            if existing.config == old:
                existing.update_config(self._default)
        self._services.producer_expiration_ms = config.producer_id_expiration_ms
        self._cleaner.reconfigure(config.cleaner)

    # -- failures

    def directory_failed(self, log_dir: str, error: OSError) -> None:
        """Take ``log_dir`` offline in the next turn of the reactor, because the log may be in the middle of a call."""
        if log_dir in self._dirs:
            log.error("log directory %s failed: %s", log_dir, error)
            # Forget the mark, because a failed write or flush may have lost records even if only the process ends.
            self._forget_boot()
            self._clock.call_later(0, self.handle_failure, log_dir)

    def handle_failure(self, log_dir: str) -> None:
        """Take a directory and its logs offline and tell ``on_dir_failure``; once."""
        if self._take_offline(log_dir):
            self._on_dir_failure(log_dir)

    def _take_offline(self, log_dir: str, *, keeps_marks: bool = False) -> bool:
        """Take a directory and its logs offline; returns whether it was online.

        A directory ``keeps_marks`` where there was no room to load it: nothing that the last process wrote is missing,
        so the next start may go on with the same life. Where other directories stay in use, :meth:`start` removes
        their marks, and the next start finds that not all directories agree.
        """
        if log_dir not in self._dirs:
            return False
        if not keeps_marks:
            self._forget_boot()
        directory = self._dirs.pop(log_dir)
        self.offline_dirs.add(log_dir)
        self._writers.pop(log_dir, None)
        gone = [tp for tp, existing in self.logs.items() if existing.log_dir == log_dir]
        for topic_partition in gone:
            broken = self.logs.pop(topic_partition)
            self.offline_logs[topic_partition] = broken.topic_id
            broken.mark_broken()
            self._cleaner.removed(broken)
        self.future_logs.directory_failed(log_dir, gone)
        directory.close()
        log.error("log directory %s is offline, and with it %d partitions", log_dir, len(gone))
        self._record(EventKind.LOG_DIRECTORY, f"log directory {log_dir} is offline, and with it {len(gone)} partitions")
        return True

    # -- in the background

    def checkpoint_high_watermarks(self) -> None:
        """Write ``replication-offset-checkpoint`` in every directory, soon."""
        self._maintenance.checkpoint_high_watermarks()

    # -- the end

    async def shutdown(self, broker_epoch: int = -1, unclean_start_epoch: int = -1) -> None:
        """Close every log, write the checkpoints and mark each directory as cleanly shut down.

        The epochs are those of this broker's registration, for the next start. A directory whose disk is full keeps its
        boot mark instead: the next start recovers its logs, which lack nothing under the same boot.
        """
        self._maintenance.close()
        self._cleaner.close()
        self._deleter.close()
        full = {existing.log_dir for existing in self._all() if not self._close(existing)}
        dirs = list(self._dirs)
        flushed = await gather(self._flush_all(path) for path in dirs)
        full.update(path for path, is_flushed in zip(dirs, flushed, strict=True) if not is_flushed)
        self._checkpoint_all()
        await gather([writer.drain() for writer in self._writers.values()])
        if self.offline_dirs:
            # A failed directory may still have its old mark, so the marks of the others must not match it.
            unclean_start_epoch = -1
        for path, directory in list(self._dirs.items()):
            if path in full:
                continue
            try:
                directory.mark_clean(CleanShutdown(broker_epoch, unclean_start_epoch, len(self.log_dirs)))
            except OSError as error:
                log.error("%s could not be marked as cleanly shut down: %s", path, error)
        for existing in self._all():
            existing.mark_broken()
        self._release_dirs()

    def _close(self, existing: Log) -> bool:
        """Whether the log is closed in order."""
        try:
            existing.close()
        except LogDirFailure as error:
            log.error("%s was not closed: %s", existing.topic_partition, error)
            self._take_offline(existing.log_dir)
        except ApiError as error:
            log.error("%s was not closed, the next start recovers it: %s", existing.topic_partition, error)
        else:
            return True
        return False

    async def _flush_all(self, log_dir: str) -> bool:
        """Whether all logs of the directory are on its disk, with what a start after a clean shutdown believes."""
        waiting = [existing for existing in self._all() if existing.log_dir == log_dir]
        try:
            while waiting:
                works: list[tuple[Log, FlushWork]] = []
                for existing in waiting:
                    work = existing.prepare_flush()
                    if work is not None:
                        works.append((existing, work))
                await self._executor.run(_run_all, [work for _, work in works])
                for existing, work in works:
                    existing.flushed(work)
                waiting = [existing for existing, _ in works]
        except (OSError, LogDirFailure) as error:
            log.error("log directory %s failed: %s", log_dir, error)
            self._take_offline(log_dir)
        except ApiError as error:
            log.error("the logs in %s were not flushed, the next start recovers them: %s", log_dir, error)
        else:
            return True
        return False

    def _release_dirs(self) -> None:
        for directory in self._dirs.values():
            directory.close()
        self._dirs.clear()
        self._writers.clear()


def _run_all(works: Sequence[FlushWork]) -> None:
    for work in works:
        work.run()
