"""One log directory: its lock, its owner, its checkpoints, the marks of its end, and the logs in it.

Answers to: the parts of ``kafka.log.LogManager`` that work on one directory. Deterministic.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from kafkalite.common.clock import Clock
from kafkalite.common.errors import StartupError
from kafkalite.common.types import TopicPartition
from kafkalite.log.file_system import FileSystem
from kafkalite.log.log import Log, LogOwner, LogServices
from kafkalite.log.log_config import LogConfig
from kafkalite.log.log_dir_files import (
    BOOT_FILE,
    BROKER_ID,
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET,
    CLUSTER_ID,
    HIGH_WATERMARK,
    LOG_START_OFFSET,
    META_PROPERTIES,
    RECOVERY_POINT,
    VERSION,
    BootMark,
    CheckpointError,
    CleanShutdown,
    check_meta_properties,
    decode_offsets,
    encode_meta_properties,
    encode_offsets,
    kept_epoch,
    read_meta_properties,
)
from kafkalite.log.log_loader import LogLoader
from kafkalite.log.partition_folder import (
    DELETE_DIR_SUFFIX,
    MOVED_FROM,
    STRAY_DIR_SUFFIX,
    parse_dir_name,
    parse_future_dir_name,
)

log = logging.getLogger(__name__)

LOCK_FILE = ".lock"
_PROGRESS_EVERY = 5.0


class LogDir:
    """A directory of partitions, held by one broker at a time."""

    def __init__(self, path: str, fs: FileSystem) -> None:
        self.path = path
        self._fs = fs
        self._lock: int | None = None
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        """How far each log was compacted, as :meth:`load` found it."""
        self.futures: list[Log] = []
        """The logs that were being copied to this directory, as :meth:`load` found them."""
        self.moved_from: dict[TopicPartition, str] = {}
        """The log directories from which logs had come shortly before the last end, as :meth:`load` found them."""
        self.lost_batches = False
        """Whether :meth:`load`, even one that failed, met a log that lacks batches which a killed process would have
        left whole."""
        self._clean_shutdown: CleanShutdown | None = None
        self._boot: BootMark | None = None

    def open(self, broker_id: int, cluster_id: str | None, now_ms: int) -> None:
        """Make, lock and check the directory and read its marks. ``now_ms``: the time of day, for the owner's file.

        Raises :class:`StartupError` where another process has it or it belongs to another broker, ``OSError`` where it
        cannot be used.
        """
        self._fs.make_dirs(self.path)
        self._fs.list_dir(self.path)
        self._lock = self._fs.lock(f"{self.path}/{LOCK_FILE}")
        if self._lock is None:
            raise StartupError(
                f"Failed to acquire lock on file {LOCK_FILE} in {self.path}: another broker is using this directory; "
                "stop it, or give this broker a directory of its own"
            )
        values = read_meta_properties(self._fs, self.path)
        if values is not None:
            check_meta_properties(values, self.path, broker_id, cluster_id)
        wanted = dict(values or {}) | {VERSION: "0", BROKER_ID: str(broker_id)}
        if cluster_id:
            wanted[CLUSTER_ID] = cluster_id
        if wanted != values:
            data = encode_meta_properties(wanted, time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(now_ms / 1000)))
            self._fs.write_file(f"{self.path}/{META_PROPERTIES}", data)
        clean, boot = self._read(CLEAN_SHUTDOWN_FILE), self._read(BOOT_FILE)
        self._clean_shutdown = None if clean is None else CleanShutdown.decode(clean)
        self._boot = None if boot is None else BootMark.decode(boot)

    def _read(self, name: str) -> bytes | None:
        try:
            return self._fs.read_file(f"{self.path}/{name}")
        except FileNotFoundError:
            return None

    def close(self) -> None:
        """Let another broker have the directory."""
        if self._lock is not None:
            self._fs.unlock(f"{self.path}/{LOCK_FILE}", self._lock)
            self._lock = None

    # -- marks

    def kept_epoch(self, boot_id: str, directories: int) -> int:
        """See :func:`kafkalite.log.log_dir_files.kept_epoch`, of the marks that :meth:`open` found."""
        return kept_epoch(self._clean_shutdown, self._boot, boot_id, directories)

    def begin(self, mark: BootMark | None) -> None:
        """Replace the marks of the last process by ``mark``, because a new process works in the directory now.

        Raises ``OSError``.
        """
        if mark is None:
            self._fs.remove(f"{self.path}/{BOOT_FILE}")
        elif mark != self._boot:
            self.mark_boot(mark)
        # Remove the mark before the logs are loaded, because a crash during loading is an unclean end, too.
        self._fs.remove(f"{self.path}/{CLEAN_SHUTDOWN_FILE}")
        # Sync, because with the old marks the start after lost power would not check what this process writes.
        self._fs.sync_dir(self.path)

    def mark_boot(self, mark: BootMark) -> None:
        """Say under which boot of the machine the logs are written. Raises ``OSError``."""
        self._fs.write_file(f"{self.path}/{BOOT_FILE}", mark.encode())

    def forget_boot(self) -> None:
        """Remove the boot mark: a start after a kill must take the logs for incomplete."""
        try:
            self._fs.remove(f"{self.path}/{BOOT_FILE}")
        except OSError as error:
            log.error("%s/%s could not be removed, remove it before the next start: %s", self.path, BOOT_FILE, error)

    def mark_clean(self, mark: CleanShutdown) -> None:
        """Say that all logs were closed in order, so that the next start need not look at every batch.

        Raises ``OSError``.
        """
        self._fs.write_file(f"{self.path}/{CLEAN_SHUTDOWN_FILE}", mark.encode())
        # Remove the boot mark, because a Kafka broker that uses the directory next would not.
        self._fs.remove(f"{self.path}/{BOOT_FILE}")

    # -- logs

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        path = f"{self.path}/{name}"
        try:
            return decode_offsets(self._fs.read_file(path))
        except FileNotFoundError:
            return {}
        except CheckpointError as error:
            # Continue without it: more is recovered or replicated than necessary, and nothing is lost.
            log.warning("%s is of no use: %s", path, error)
            return {}

    def load(self, config_of: Callable[[str], LogConfig], services: LogServices, owner: LogOwner) -> list[Log]:
        """Open every log in the directory, once. Blocks; raises ``OSError`` where the directory cannot be used."""
        clean = self._clean_shutdown is not None
        names = []
        for name in sorted(self._fs.list_dir(self.path)):
            path = f"{self.path}/{name}"
            if not self._fs.is_dir(path):
                continue
            if name.endswith(DELETE_DIR_SUFFIX):
                log.info("removing %s", path)
                self._fs.remove_tree(path)
            elif name.endswith(STRAY_DIR_SUFFIX) or (parse_future_dir_name(name) or parse_dir_name(name)) is None:
                log.warning("%s is not the folder of a partition and is left alone", path)
            else:
                names.append(name)
        recovery_points = self._offsets(RECOVERY_POINT)
        starts = self._offsets(LOG_START_OFFSET)
        high_watermarks = self._offsets(HIGH_WATERMARK)
        self.cleaner_offsets = self._offsets(CLEANER_OFFSET)
        if names:
            how = "after a clean shutdown" if clean else "with recovery, since there was no clean shutdown"
            log.info("loading %d logs from %s, %s", len(names), self.path, how)
        logs = []
        clock: Clock = services.clock
        logged = clock.monotonic()
        for number, name in enumerate(names, 1):
            future = parse_future_dir_name(name)
            tp = future or parse_dir_name(name)
            assert tp is not None
            loader = LogLoader(tp, f"{self.path}/{name}", self.path, config_of(tp.topic), services, owner)
            cleaned_to = self.cleaner_offsets.get(tp, 0)
            try:
                loaded = loader.load(clean, recovery_points.get(tp, 0), starts.get(tp, 0), cleaned_to)
            finally:
                # Also where it fails: the next start no longer finds what was cut.
                self.lost_batches = self.lost_batches or loader.lost_batches
            loaded.update_high_watermark(high_watermarks.get(tp, 0))
            if future is not None:
                self.futures.append(loaded)
            else:
                self._note_move(loaded)
                logs.append(loaded)
            if clock.monotonic() - logged >= _PROGRESS_EVERY:
                logged = clock.monotonic()
                log.info("loaded %d of %d logs from %s", number, len(names), self.path)
        # Lower checkpoints to the loaded logs, because a later offset would count for batches that are appended now:
        # recovery may have cut below the recovery point, and a deleted partition may be created again.
        kept = [*logs, *self.futures]
        self._keep_at_most(RECOVERY_POINT, recovery_points, {one.topic_partition: one.recovery_point for one in kept})
        self._keep_at_most(LOG_START_OFFSET, starts, {one.topic_partition: one.log_start_offset for one in kept})
        self._keep_at_most(HIGH_WATERMARK, high_watermarks, {one.topic_partition: one.high_watermark for one in kept})
        return logs

    def _keep_at_most(
        self, name: str, written: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, int]
    ) -> None:
        kept = {tp: min(offset, bounds[tp]) for tp, offset in written.items() if tp in bounds}
        if kept != written:
            self._fs.write_file(f"{self.path}/{name}", encode_offsets(kept))

    def _note_move(self, loaded: Log) -> None:
        try:
            self.moved_from[loaded.topic_partition] = self._fs.read_file(f"{loaded.dir}/{MOVED_FROM}").decode()
        except FileNotFoundError:
            pass

    def forget_move(self, loaded: Log) -> None:
        """Remove the note of the move: the directory that ``loaded`` came from no longer has the replaced log."""
        self.moved_from.pop(loaded.topic_partition, None)
        self._fs.remove(f"{loaded.dir}/{MOVED_FROM}")
