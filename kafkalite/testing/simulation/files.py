"""The file system of a simulated machine: real files in a folder, without what differs from run to run. Deterministic.

Answers to: the file system of a machine on which a process is killed: what it wrote stays.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

from kafkalite.log.fs import FileSystem


class SimFileSystem(FileSystem):
    """Files that real descriptors stand for, so that all that reads them by descriptor works as it does.

    ``time_ms`` is the machine's time of day: files are as old as the world says. Names in a folder come in order. It
    outlives the processes of its machine; locks do not.
    """

    def __init__(self, time_ms: Callable[[], int]) -> None:
        self._time_ms = time_ms
        self._locked: dict[str, None] = {}

    def process_died(self) -> None:
        """The process that used it is gone: its locks are free."""
        self._locked.clear()

    def power_lost(self, rng: random.Random) -> None:  # noqa: ARG002
        """The machine lost power. Here nothing is lost by it; a simulated disk loses what was not synced."""
        self._locked.clear()

    def open(self, path: str, create: bool = False) -> int:
        """See :class:`FileSystem`."""
        is_new = create and not os.path.exists(path)
        fd = super().open(path, create)
        if is_new:
            self._touch(fd)
        return fd

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
        """See :class:`FileSystem`."""
        super().pwrite(fd, data, position)
        self._touch(fd)

    def truncate(self, fd: int, size: int) -> None:
        """See :class:`FileSystem`."""
        super().truncate(fd, size)
        self._touch(fd)

    def _touch(self, fd: int) -> None:
        now = self._time_ms() * 1_000_000
        os.utime(fd, ns=(now, now))

    def fsync(self, fd: int) -> None:
        """Nothing is lost, so nothing is forced."""

    def sync_dir(self, path: str) -> None:
        """Nothing is lost, so nothing is forced."""

    def is_cached(self, fd: int, position: int, count: int) -> bool:  # noqa: ARG002
        """All of it is: what the real page cache holds differs from run to run."""
        return True

    def read_ahead(self, fd: int) -> None:
        """Needless."""

    def list_dir(self, path: str) -> list[str]:
        """See :class:`FileSystem`."""
        return sorted(super().list_dir(path))

    def lock(self, path: str) -> int | None:
        """See :class:`FileSystem`; another machine's locks are none of ours."""
        if path in self._locked:
            return None
        self._locked[path] = None
        os.close(super().open(path, create=True))
        return 0

    def unlock(self, path: str, lock: int) -> None:  # noqa: ARG002
        """See :class:`FileSystem`."""
        self._locked.pop(path, None)
