"""Flushes, checkpoints and deletions of files, in other threads than the reactor's.

Answers to: ``kafka.log.LogManager``'s scheduled tasks. Deterministic.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from kafkalite.common.clock import Clock, Timer
from kafkalite.common.tasks import Executor, Future, spawn
from kafkalite.log.file_system import PASSING, FileSystem
from kafkalite.log.log import Log, LogServices

log = logging.getLogger(__name__)


class Flusher:
    """Forces logs to the disk in another thread, one after the other; a log that waits twice is flushed once."""

    def __init__(self, executor: Executor, failed: Callable[[str, OSError], None], services: LogServices) -> None:
        self._executor = executor
        self._failed = failed
        self._services = services
        self._waiting: dict[Log, None] = {}
        self._running = False

    def put(self, dirty: Log) -> None:
        """Flush ``dirty`` soon: its closed segments, and the active one if ``flush.messages`` or ``flush.ms`` asks."""
        self._waiting[dirty] = None
        if not self._running:
            self._running = True
            spawn(self._run(), "flushing logs")

    async def _run(self) -> None:
        try:
            while self._waiting:
                current = next(iter(self._waiting))
                del self._waiting[current]
                await self.flush(current)
        finally:
            self._running = False

    async def flush(self, current: Log) -> None:
        """Flush one log; ``failed`` is called if its directory fails, nothing is raised."""
        with_active = current.unflushed >= current.config.flush_messages or current.flush_is_due
        up_to = None if with_active else current.segments.active.base_offset
        while await self._step(current, up_to):
            pass

    async def flush_to_end(self, current: Log) -> bool:
        """Flush all that ``current`` has now; whether that is on the disk. Failures as for :meth:`flush`."""
        end = current.log_end_offset
        # One step at least, because it covers truncations, too.
        while await self._step(current, None) and current.recovery_point < end:
            pass
        return current.recovery_point >= end

    async def _step(self, current: Log, up_to: int | None) -> bool:
        """One step of a flush; whether there was one to make, and it succeeded."""
        try:
            work = current.prepare_flush(up_to)
            if work is None:
                return False
            began = self._services.clock.monotonic()
            await self._executor.run(work.run)
            self._services.flush_times.add(self._services.clock.monotonic() - began)
            current.flushed(work)
        except OSError as error:
            self._failed(current.log_dir, error)
        except Exception as error:
            log.warning("%s was not flushed: %s", current.topic_partition, error)
        else:
            return True
        return False


class CheckpointWriter:
    """Writes small files of one directory in another thread, the newest text of each, never two at once.

    :meth:`write_now` is for checkpoints that must be lowered on the disk before the log changes.
    """

    def __init__(
        self, log_dir: str, fs: FileSystem, executor: Executor, failed: Callable[[str, OSError], None]
    ) -> None:
        self._log_dir = log_dir
        self._fs = fs
        self._executor = executor
        self._failed = failed
        self._waiting: dict[str, bytes] = {}
        self._written: dict[str, bytes] = {}
        self._running = False
        self._idle: list[Future[None]] = []
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}

    def put(self, name: str, data: bytes) -> None:
        """Replace the file ``name`` soon, unless it has that text already."""
        if name not in self._waiting and self._written.get(name) == data:
            return
        self._waiting[name] = data
        if not self._running:
            self._running = True
            spawn(self._run(), f"checkpoints of {self._log_dir}")

    def is_current(self, name: str) -> bool:
        """Whether the last text of ``name`` is known to be on the disk."""
        return name in self._written and name not in self._waiting

    def write_now(self, name: str, data: bytes) -> None:
        """Replace the file ``name`` before this returns; an older text that still waits is not written any more.

        Blocks for one small synchronous write. Raises ``OSError``; the file may then be the old or the new one.
        """
        if self.is_current(name) and self._written[name] == data:
            return
        self._waiting.pop(name, None)
        self._written.pop(name, None)
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        self._write(name, data, number)
        self._written[name] = data

    def _write(self, name: str, data: bytes, number: int) -> None:
        with self._lock:
            if number == self._numbers[name]:
                self._fs.write_file(f"{self._log_dir}/{name}", data)

    async def drain(self) -> None:
        """Return when everything is written."""
        if self._running:
            idle: Future[None] = Future()
            self._idle.append(idle)
            await idle

    async def _run(self) -> None:
        try:
            while self._waiting:
                name = next(iter(self._waiting))
                data = self._waiting.pop(name)
                self._written.pop(name, None)
                number = self._numbers[name] = self._numbers.get(name, 0) + 1
                await self._executor.run(self._write, name, data, number)
                if number == self._numbers[name]:
                    self._written[name] = data
        except OSError as error:
            self._waiting.clear()
            if error.errno in PASSING:
                # An old checkpoint is valid but less exact, and the next write comes within seconds.
                log.warning("checkpoints in %s were not written: %s", self._log_dir, error)
            else:
                self._failed(self._log_dir, error)
        finally:
            self._running = False
            idle, self._idle = self._idle, []
            for waiting in idle:
                waiting.callback(None)


class Deleter:
    """Removes files and folders in another thread, after a delay. The next start removes those left at a shutdown."""

    def __init__(self, fs: FileSystem, clock: Clock, executor: Executor) -> None:
        self._fs = fs
        self._clock = clock
        self._executor = executor
        self._timers: dict[Timer, None] = {}

    def put(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove ``paths`` after ``delay_ms``."""
        if not paths:
            return
        timers: list[Timer] = []

        def due() -> None:
            self._timers.pop(timers[0], None)
            spawn(self._executor.run(self._remove, paths), "removing deleted files")

        timers.append(self._clock.call_later(delay_ms / 1000, due))
        self._timers[timers[0]] = None

    def _remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            try:
                if self._fs.is_dir(path):
                    self._fs.remove_tree(path)
                else:
                    self._fs.remove(path)
            except OSError as error:
                log.warning("%s could not be removed: %s", path, error)

    def close(self) -> None:
        """Cancel the removals that are not due yet."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()


class FolderSyncer:
    """Makes renames in a folder durable, in another thread."""

    def __init__(self, fs: FileSystem, executor: Executor, failed: Callable[[str, OSError], None]) -> None:
        self._fs = fs
        self._executor = executor
        self._failed = failed

    def put(self, log_dir: str, folder: str) -> None:
        """Sync ``folder``, which is in ``log_dir``, soon."""

        def failed(error: BaseException) -> None:
            # A folder that has been deleted needs no sync.
            if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
                self._failed(log_dir, error)

        spawn(self._executor.run(self._fs.sync_dir, folder), f"renames in {folder}", failed)
