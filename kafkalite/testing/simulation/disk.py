"""A simulated disk: the writes of processes, the synced part of them, and the losses of a power failure. Deterministic.

Answers to: a file system such as ext4 in ordered mode, and harsher than that.

The files are real ones, so that readers by descriptor (``sendfile``) work as always. In addition the disk
keeps, for every file, how to undo each write since its last fsync, and for every folder, how to undo each new, renamed
or removed name since its last sync. A killed process loses nothing, unless an fsync has failed: data that it did not
write are gone when the next process starts. A power failure cuts each of these lists at a random point, and a file may
end in a part of its next write, or in zeros where only its size was written.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from typing import NamedTuple

from kafkalite.log.file_system import FileSystem

_BLOCKS = (512, 4096)
"""Sizes of the units that a disk writes atomically."""
_TORN = 0.4
"""Probability that the first lost write leaves some of its blocks."""
_TORN_INSIDE = 0.5
"""Probability that such a write has its whole length, with zeros in place of the lost blocks."""
_ZEROS = 0.2
"""Probability that a file has the length of its later writes, with zeros in place of their bytes."""
_EXTREME = 0.3
"""Probability that no change of a list is kept, and probability that all are kept."""

SPACE = 1 << 30
"""Size of every simulated disk in bytes."""


class _Write(NamedTuple):
    """How to undo one write or truncation: put ``previous`` back at ``position``, then cut to ``size_before``."""

    position: int
    length: int
    previous: bytes
    size_before: int


class _File:
    """One file. ``content`` is set if it has no name any more, or while the disk recovers from a power loss."""

    __slots__ = ("content", "doomed", "modified_ms", "unsynced")

    def __init__(self, modified_ms: int) -> None:
        self.modified_ms = modified_ms
        self.unsynced: list[_Write] = []
        self.content: bytes | None = None
        self.doomed = False
        """Whether an fsync has failed, after which unwritten data never reach the disk."""


class _Folder:
    """One folder: its names, and for each change since its last sync the former meaning of the changed names."""

    __slots__ = ("entries", "unsynced")

    def __init__(self) -> None:
        self.entries: dict[str, _File | _Folder] = {}
        self.unsynced: list[tuple[tuple[str, _File | _Folder | None], ...]] = []


class SimDisk:
    """The disk of one machine; each process has its own :meth:`mount`.

    ``time_ms`` is the machine's time of day. Existing content of a folder counts as synced when the disk first uses it.
    """

    def __init__(self, time_ms: Callable[[], int]) -> None:
        self.time_ms = time_ms
        self.locked: dict[str, None] = {}
        self.on_rename: Callable[[str], object] = lambda _: None
        """Called with the old path of each renamed file or folder."""
        self.room: int | None = None
        """Free space in bytes; ``None``: unlimited."""
        self.slowness = 0.0
        """Virtual seconds by which disk operations on other threads may be delayed."""
        self._folders: dict[str, _Folder] = {}
        self._roots: dict[str, _Folder] = {}
        self._broken: dict[str, int] = {}
        self._mount: DiskMount | None = None
        self.drops = 0
        """How often a process began without data that a failed fsync had not written."""

    # -- processes

    def mount(self) -> DiskMount:
        """The file system for a new process."""
        self._end_process()
        self._drop_unwritten()
        self._mount = DiskMount(self)
        return self._mount

    def process_died(self) -> None:
        """The process was killed: its writes stay, its locks are free, and its later calls have no effect."""
        self._end_process()

    def power_lost(self, rng: random.Random) -> None:
        """The process ended with a power failure: writes that were not synced are kept in part."""
        self._end_process()
        self._folders.clear()
        for path, root in sorted(self._roots.items()):
            self._load(path, root)
            self._settle(root, rng)
            shutil.rmtree(path)
            self._write_out(path, root)

    def _end_process(self) -> None:
        if self._mount is not None:
            self._mount.die()
            self._mount = None
        self.locked.clear()

    # -- faults

    def fill(self, limit_bytes: int) -> None:
        """Limit the free space to ``limit_bytes``; removed files add to it."""
        self.room = limit_bytes

    def free(self) -> None:
        """Undo :meth:`fill`."""
        self.room = None

    def break_io(self, kind: str, after: int = 0) -> None:
        """Every ``kind`` (``read``, ``write``, ``fsync``) after the next ``after`` of them fails with EIO."""
        assert kind in ("read", "write", "fsync"), kind
        self._broken[kind] = after

    def mend_io(self) -> None:
        """Undo :meth:`break_io`."""
        self._broken.clear()

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """Change one bit (0 to 7) of the byte at ``position``, without the file system's knowledge."""
        with open(path, "r+b") as file:
            file.seek(position)
            byte = file.read(1)[0] ^ (1 << bit)
            file.seek(position)
            file.write(bytes((byte,)))

    def check_io(self, kind: str) -> None:
        """Raises ``OSError`` if an operation of that kind must fail now."""
        if self._broken:
            left = self._broken.get(kind)
            if left is not None:
                if left <= 0:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                self._broken[kind] = left - 1

    # -- effects of a power loss

    def unsynced_from(self, path: str) -> int | None:
        """The lowest position at which the file at ``path`` was written or truncated since its last fsync, or ``None``.

        Also ``None`` after a failed fsync, because no process can know which data of that file are on the disk.
        """
        file = self.file(path)
        return None if file.doomed else min((write.position for write in file.unsynced), default=None)

    def may_be_there(self, path: str) -> bool:
        """Whether the file exists, or may exist again after a power loss."""
        parent, name = os.path.split(path)
        folder = self.folder(parent)
        undone = (node is not None and name == old for change in folder.unsynced for old, node in change)
        return name in folder.entries or any(undone)

    def name_may_go(self, path: str) -> bool:
        """Whether the file was made since the last sync of its folder, so that a power loss may remove its name."""
        parent, name = os.path.split(path)
        return ((name, None),) in self.folder(parent).unsynced

    # -- names

    def folder(self, path: str) -> _Folder:
        """The folder at ``path``, which exists."""
        found = self._folders.get(path)
        if found is None:
            found = self._adopt(path)
            self._roots[path] = found
        return found

    def _adopt(self, path: str) -> _Folder:
        folder = self._folders[path] = _Folder()
        for name in sorted(os.listdir(path)):
            child = f"{path}/{name}"
            folder.entries[name] = self._adopt(child) if os.path.isdir(child) else _File(self.time_ms())
        return folder

    def file(self, path: str) -> _File:
        """The file at ``path``, which exists."""
        parent, name = os.path.split(path)
        found = self.folder(parent).entries[name]
        assert isinstance(found, _File), path
        return found

    def has_names(self, path: str, suffixes: tuple[str, ...]) -> bool:
        """Whether the folder at ``path`` has a name that ends in one of ``suffixes``."""
        return any(name.endswith(suffixes) for name in self.folder(path).entries)

    def created(self, path: str, node: _File | _Folder) -> None:
        """A file or folder was created at ``path``."""
        parent, name = os.path.split(path)
        folder = self.folder(parent)
        folder.entries[name] = node
        folder.unsynced.append(((name, None),))
        if isinstance(node, _Folder):
            self._folders[path] = node

    def removed(self, path: str) -> None:
        """The name ``path`` was removed; if it was a file, :meth:`kept` was called before."""
        parent, name = os.path.split(path)
        folder = self.folder(parent)
        node = folder.entries.pop(name)
        folder.unsynced.append(((name, node),))
        if isinstance(node, _Folder):
            del self._folders[path]

    def renamed(self, source: str, target: str) -> None:
        """``source`` was renamed to ``target``; if ``target`` existed, :meth:`kept` was called for it before."""
        parent, old = os.path.split(source)
        target_parent, new = os.path.split(target)
        if target_parent != parent:
            raise NotImplementedError(f"renaming from {parent} to {target_parent}")
        folder = self.folder(parent)
        node = folder.entries.pop(old)
        folder.unsynced.append(((old, node), (new, folder.entries.get(new))))
        folder.entries[new] = node
        self.on_rename(source)
        if isinstance(node, _Folder):
            for path in [path for path in self._folders if path == source or path.startswith(source + "/")]:
                self._folders[target + path[len(source) :]] = self._folders.pop(path)

    def kept(self, path: str) -> None:
        """Keep the content of the file at ``path`` before it loses its name, because the name may come back."""
        self.file(path).content = _read(path)

    # -- power loss

    def _load(self, path: str, folder: _Folder) -> None:
        for name, node in folder.entries.items():
            if isinstance(node, _Folder):
                self._load(f"{path}/{name}", node)
            else:
                node.content = _read(f"{path}/{name}")

    def _drop_unwritten(self) -> None:
        """Data that a failed fsync did not write leave the page cache before a new process reads them.

        The system may drop these pages at any time, because they count as clean. If they stayed, recovery would read
        them, a later fsync would report success without writing them, and no process could know that they are not on
        the disk.
        """
        drops = False
        for path, folder in self._folders.items():
            for name, node in folder.entries.items():
                if isinstance(node, _File) and node.doomed:
                    drops |= bool(node.unsynced)
                    content = bytearray(_read(f"{path}/{name}"))
                    for write in reversed(node.unsynced):
                        _undo(content, write)
                    with open(f"{path}/{name}", "wb") as file:
                        file.write(content)
                    node.unsynced.clear()
                    node.doomed = False
        self.drops += drops

    def _settle(self, folder: _Folder, rng: random.Random) -> None:
        kept = _cut(rng, len(folder.unsynced))
        for names in reversed(folder.unsynced[kept:]):
            for name, node in names:
                if node is None:
                    folder.entries.pop(name, None)
                else:
                    folder.entries[name] = node
        folder.unsynced.clear()
        for _, node in sorted(folder.entries.items()):
            if isinstance(node, _Folder):
                self._settle(node, rng)
            else:
                _settle_file(node, rng)

    def _write_out(self, path: str, folder: _Folder) -> None:
        os.mkdir(path)
        self._folders[path] = folder
        for name, node in sorted(folder.entries.items()):
            child = f"{path}/{name}"
            if isinstance(node, _Folder):
                self._write_out(child, node)
            else:
                with open(child, "wb") as file:
                    file.write(node.content or b"")
                node.content = None


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _cut(rng: random.Random, count: int) -> int:
    """Random number of ``count`` changes that are on the disk."""
    if not count:
        return 0
    drawn = rng.random()
    if drawn < _EXTREME:
        return 0
    return count if drawn < 2 * _EXTREME else rng.randint(0, count)


def _settle_file(file: _File, rng: random.Random) -> None:
    content = bytearray(file.content or b"")
    writes = file.unsynced
    sizes = [write.size_before for write in writes[1:]] + [len(content)]
    kept = 0 if file.doomed else _cut(rng, len(writes))
    if kept < len(writes):
        for write in reversed(writes[kept + 1 :]):
            _undo(content, write)
        first = writes[kept]
        data = bytes(content[first.position : first.position + first.length])
        _undo(content, first)
        if data and rng.random() < _TORN:
            block = rng.choice(_BLOCKS)
            end = (first.position + rng.randrange(len(data))) // block * block
            if end > first.position and first.position <= len(content):
                content[first.position : end] = data[: end - first.position]
                if rng.random() < _TORN_INSIDE:
                    content.extend(bytes(max(0, first.position + len(data) - len(content))))
        size = rng.choice(sizes[kept:])
        if size > len(content) and rng.random() < _ZEROS:
            content.extend(bytes(size - len(content)))
    file.content = bytes(content)
    file.unsynced = []
    file.doomed = False


def _undo(content: bytearray, write: _Write) -> None:
    content[write.position : write.position + len(write.previous)] = write.previous
    del content[write.size_before :]


class DiskMount(FileSystem):
    """The disk for one process. Calls after the death of the process have no effect."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk
        self._files: dict[int, _File] = {}
        self._dead = False

    def die(self) -> None:
        """End the process; its descriptors are closed."""
        self._dead = True
        for fd in self._files:
            os.close(fd)
        self._files.clear()

    # -- descriptors

    def open(self, path: str, create: bool = False) -> int:
        """See :class:`FileSystem`."""
        self._check_alive()
        is_new = create and not os.path.exists(path)
        fd = super().open(path, create)
        if is_new:
            file = _File(self._disk.time_ms())
            self._disk.created(path, file)
        else:
            file = self._disk.file(path)
        self._files[fd] = file
        return fd

    def close(self, fd: int) -> None:
        """See :class:`FileSystem`."""
        # Only known descriptors, because those of a dead process are closed and other files may have their numbers.
        if self._files.pop(fd, None) is not None:
            os.close(fd)

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
        """See :class:`FileSystem`."""
        file = self._files.get(fd)
        if file is None:
            return
        disk = self._disk
        disk.check_io("write")
        size = os.fstat(fd).st_size
        length = len(data)
        refused = False
        if disk.room is not None:
            fits = max(0, disk.room + size - position)
            if length > fits:
                data, length, refused = memoryview(data)[:fits], fits, True
            disk.room -= max(0, position + length - size)
        if length and file.content is None:
            previous = os.pread(fd, length, position) if position < size else b""
            file.unsynced.append(_Write(position, length, previous, size))
        if length:
            super().pwrite(fd, data, position)
            file.modified_ms = disk.time_ms()
        if refused:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def pread(self, fd: int, count: int, position: int) -> bytes:
        """See :class:`FileSystem`."""
        if fd not in self._files:
            return b""
        self._disk.check_io("read")
        return os.pread(fd, count, position)

    def fsync(self, fd: int) -> None:
        """See :class:`FileSystem`."""
        file = self._files.get(fd)
        if file is None:
            return
        try:
            self._disk.check_io("fsync")
        except OSError:
            # As in Linux the pages count as clean, so a later successful fsync does not write them.
            file.doomed = True
            raise
        if not file.doomed:
            file.unsynced.clear()

    def truncate(self, fd: int, size: int) -> None:
        """See :class:`FileSystem`."""
        file = self._files.get(fd)
        if file is None:
            return
        self._disk.check_io("write")
        before = os.fstat(fd).st_size
        if size == before:
            return
        if file.content is None:
            file.unsynced.append(_Write(size, 0, os.pread(fd, before - size, size) if size < before else b"", before))
        super().truncate(fd, size)
        if self._disk.room is not None:
            self._disk.room += before - size
        file.modified_ms = self._disk.time_ms()

    def is_cached(self, fd: int, position: int, count: int) -> bool:  # noqa: ARG002
        """Always the whole range, because the real page cache differs from run to run."""
        return True

    def read_ahead(self, fd: int) -> None:
        """Does nothing."""

    def space(self, path: str) -> tuple[int, int]:  # noqa: ARG002
        """The same value on every machine, except for :meth:`SimDisk.fill`."""
        room = self._disk.room
        return SPACE, SPACE if room is None else max(0, room)

    # -- names

    def list_dir(self, path: str) -> list[str]:
        """See :class:`FileSystem`; the names are sorted."""
        self._disk.check_io("read")
        return sorted(super().list_dir(path))

    def modified_ms(self, path: str) -> int:
        """See :class:`FileSystem`."""
        return self._disk.file(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """See :class:`FileSystem`."""
        if not self._dead:
            self._disk.file(path).modified_ms = modified_ms

    def make_dir(self, path: str) -> None:
        """See :class:`FileSystem`."""
        if self._dead:
            return
        self._disk.folder(os.path.dirname(path))
        super().make_dir(path)
        self._disk.created(path, _Folder())

    def make_dirs(self, path: str) -> None:
        """See :class:`FileSystem`; the created folders count as synced."""
        if not self._dead:
            super().make_dirs(path)
            self._disk.folder(path)

    def rename(self, source: str, target: str) -> None:
        """See :class:`FileSystem`."""
        if self._dead:
            return
        if os.path.isfile(target):
            self._disk.kept(target)
        self._disk.folder(os.path.dirname(source))
        super().rename(source, target)
        self._disk.renamed(source, target)

    def remove(self, path: str, missing_ok: bool = True) -> bool:
        """See :class:`FileSystem`."""
        if self._dead:
            return False
        if os.path.isfile(path):
            self._disk.kept(path)
            if self._disk.room is not None:
                self._disk.room += os.path.getsize(path)
        if not super().remove(path, missing_ok):
            return False
        self._disk.removed(path)
        return True

    def remove_tree(self, path: str) -> None:
        """See :class:`FileSystem`."""
        if self._dead or not os.path.isdir(path):
            return
        for name in self.list_dir(path):
            child = f"{path}/{name}"
            if os.path.isdir(child):
                self.remove_tree(child)
            else:
                self.remove(child)
        self._disk.folder(os.path.dirname(path))
        os.rmdir(path)
        self._disk.removed(path)

    def sync_dir(self, path: str) -> None:
        """See :class:`FileSystem`."""
        if self._dead:
            return
        if not os.path.isdir(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._disk.check_io("fsync")
        self._disk.folder(path).unsynced.clear()

    def read_file(self, path: str) -> bytes:
        """See :class:`FileSystem`."""
        self._disk.check_io("read")
        return super().read_file(path)

    def write_file(self, path: str, data: bytes, sync: bool = True) -> None:
        """See :class:`FileSystem`."""
        if self._dead:
            return
        temporary = path + ".tmp"
        fd = self.open(temporary, create=True)
        try:
            self.truncate(fd, 0)
            self.pwrite(fd, data, 0)
            if sync:
                self.fsync(fd)
        finally:
            self.close(fd)
        self.rename(temporary, path)
        if sync:
            self.sync_dir(os.path.dirname(path))

    # -- locks

    def lock(self, path: str) -> int | None:
        """See :class:`FileSystem`; locks of other machines do not matter."""
        if self._dead or path in self._disk.locked:
            return None
        self._disk.locked[path] = None
        self.close(self.open(path, create=True))
        return 0

    def unlock(self, path: str, lock: int) -> None:  # noqa: ARG002
        """See :class:`FileSystem`."""
        if not self._dead:
            self._disk.locked.pop(path, None)

    def _check_alive(self) -> None:
        if self._dead:
            raise OSError(errno.ESTALE, "the process is dead")
