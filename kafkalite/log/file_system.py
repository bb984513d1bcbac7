"""The file system, as the log sees it; the only place that touches files.

Answers to: the channel of ``org.apache.kafka.common.record.FileRecords`` and the file handling of
``org.apache.kafka.server.common.CheckpointFile``. Deterministic: it is handed in, so that tests can tear writes and
fill disks.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Callable

from kafkalite.common.errors import ApiError, ErrorCode

_RWF_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_LOCKED: set[str] = set()

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers after which a directory is full, not broken."""
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
PASSING = (*DISK_FULL, *NO_DESCRIPTORS, errno.ENOMEM)
"""Error numbers that do not mean a broken disk: the operation is refused, the directory stays online."""
NOT_THE_DISK = (errno.ENAMETOOLONG, errno.EINVAL)
"""Error numbers of a file name that the file system refuses."""


class LogDirFailure(ApiError):  # noqa: N818
    """Log directory ``log_dir`` can no longer be used; to clients it is KAFKA_STORAGE_ERROR."""

    def __init__(self, log_dir: str, why: BaseException | str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {log_dir} failed: {why}")
        self.log_dir = log_dir


class FileSystem:
    """The operations that logs need. This class is the real file system; tests override single methods to fail.

    Every method raises ``OSError`` as the operating system does. Descriptors are real ones: regions of
    them are handed to ``sendfile``.
    """

    def open(self, path: str, create: bool = False) -> int:
        """A descriptor for reading and writing at positions."""
        flags = os.O_RDWR | os.O_CLOEXEC
        return os.open(path, flags | os.O_CREAT if create else flags, 0o644)

    def close(self, fd: int) -> None:
        """Close a descriptor of :meth:`open`."""
        os.close(fd)

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of ``data``; a short write goes on until an error says why."""
        written = os.pwrite(fd, data, position)
        if written != len(data):
            rest = memoryview(data)
            while written < len(rest):
                written += os.pwrite(fd, rest[written:], position + written)

    def pread(self, fd: int, count: int, position: int) -> bytes:
        """Up to ``count`` bytes; fewer only at the end of the file."""
        return os.pread(fd, count, position)

    def fsync(self, fd: int) -> None:
        """Force a file's data to the disk."""
        os.fdatasync(fd)

    def truncate(self, fd: int, size: int) -> None:
        """Cut a file (or lengthen it with zeros)."""
        os.ftruncate(fd, size)

    def file_size(self, fd: int) -> int:
        """Size of an open file in bytes."""
        return os.fstat(fd).st_size

    def is_cached(self, fd: int, position: int, count: int) -> bool:
        """Whether the region is likely in memory: looks at its first, middle and last page without waiting."""
        if not _RWF_NOWAIT or count <= 0:
            return False
        byte = bytearray(1)
        try:
            for at in {position, position + count // 2, position + count - 1}:
                os.preadv(fd, (byte,), at, _RWF_NOWAIT)
        except OSError:
            return False
        return True

    def stat_size(self, path: str) -> int:
        """Size of a file by its path."""
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """When a file was last written, in milliseconds since the epoch."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Say when a file was last written, in milliseconds since the epoch."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def read_ahead(self, fd: int) -> None:
        """The file is going to be read from one end to the other."""
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def space(self, path: str) -> tuple[int, int]:
        """Bytes of the file system that ``path`` is on, and those of them that may be used; -1 where not known."""
        try:
            found = os.statvfs(path)
        except OSError:
            return -1, -1
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return os.path.exists(path)

    def list_dir(self, path: str) -> list[str]:
        """Names in a folder."""
        return os.listdir(path)

    def is_dir(self, path: str) -> bool:
        """Whether ``path`` is a folder."""
        return os.path.isdir(path)

    def make_dir(self, path: str) -> None:
        """Make a folder; its parent must exist."""
        os.mkdir(path)

    def make_dirs(self, path: str) -> None:
        """Make a folder and its parents where they are missing."""
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder, atomically replacing a file that stands there."""
        os.replace(source, target)

    def remove(self, path: str, missing_ok: bool = True) -> bool:
        """Remove a file; returns whether it was there."""
        try:
            os.remove(path)
        except FileNotFoundError:
            if not missing_ok:
                raise
            return False
        return True

    def remove_tree(self, path: str) -> None:
        """Remove a folder with all that is in it; what is gone already is no error."""
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(path):
                if entry.is_dir(follow_symlinks=False):
                    self.remove_tree(entry.path)
                else:
                    self.remove(entry.path)
            os.rmdir(path)

    def lock(self, path: str) -> int | None:
        """Take the lock file at ``path``, as Java's file locks do; ``None`` if another process holds it."""
        name = os.path.realpath(path)
        # The operating system knows one owner a process; within the process we have to know ourselves.
        if name in _LOCKED:
            return None
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return None
            raise
        _LOCKED.add(name)
        return fd

    def unlock(self, path: str, lock: int) -> None:
        """Give a lock back."""
        _LOCKED.discard(os.path.realpath(path))
        os.close(lock)

    def sync_dir(self, path: str) -> None:
        """Make renames and new files of a folder durable."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read_file(self, path: str) -> bytes:
        """A small file as a whole."""
        with open(path, "rb") as file:
            return file.read()

    def write_file(self, path: str, data: bytes, sync: bool = True) -> None:
        """Replace a small file atomically: readers see the old text or the new one, never a part."""
        temporary = path + ".tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            self.pwrite(fd, data, 0)
            if sync:
                self.fsync(fd)
        finally:
            os.close(fd)
        self.rename(temporary, path)
        if sync:
            self.sync_dir(os.path.dirname(path))


class File:
    """An open file; closed when the last region of it that is on its way to a reader is gone."""

    __slots__ = ("__weakref__", "_close", "fd")

    def __init__(self, fs: FileSystem, path: str, create: bool = False) -> None:
        self._close: Callable[[int], None] = fs.close
        self.fd = -1
        self.fd = fs.open(path, create)

    def __del__(self) -> None:
        if self.fd >= 0:
            with contextlib.suppress(OSError):
                self._close(self.fd)


class FileHolder:
    """Something that keeps a :class:`File` open and can open it again when it is needed."""

    __slots__ = ("file", "recently_used")

    def __init__(self) -> None:
        self.file: File | None = None
        self.recently_used = False


class FilePool:
    """Bounds how many files are open, by second chance: a holder whose file was used lately is passed over once."""

    __slots__ = ("_holders", "_lock", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = max(1, limit)
        self._holders: dict[FileHolder, None] = {}
        # Directories are loaded side by side in threads.
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._holders)

    def add(self, holder: FileHolder) -> None:
        """``holder`` has just opened its file; another may lose its own."""
        with self._lock:
            holders = self._holders
            while len(holders) >= self.limit:
                oldest = next(iter(holders))
                del holders[oldest]
                if oldest.file is None:
                    continue
                if oldest.recently_used:
                    oldest.recently_used = False
                    holders[oldest] = None
                    continue
                oldest.file = None
            holder.recently_used = True
            holders[holder] = None

    def shrink(self) -> None:
        """The process has no descriptors left: close what is idle, and keep fewer open from now on."""
        with self._lock:
            self.limit = max(1, self.limit // 2)
            for holder in self._holders:
                holder.file = None
            self._holders.clear()

    def drop(self, holder: FileHolder) -> None:
        """``holder`` needs its file no more."""
        with self._lock:
            holder.file = None
            self._holders.pop(holder, None)


def default_pool_limit(soft_limit: int) -> int:
    """How many files logs may keep open under a process limit of ``soft_limit`` descriptors (sockets need the rest)."""
    return max(16, min(soft_limit // 2, 8192))
