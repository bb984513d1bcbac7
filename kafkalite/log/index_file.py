"""What offset index and time index have in common: entries of one size, sorted, found by binary search.

Answers to: ``org.apache.kafka.storage.internals.log.AbstractIndex``. Deterministic.

Kafka maps a preallocated file; here the file holds just its entries (as Kafka leaves it after a roll or a clean
shutdown) and is read with a few small reads, so that a thousand partitions cost no memory. The newest entries wait
in a small buffer. A crash may lose them: recovery writes the index anew.
"""

from __future__ import annotations

import errno
import struct

from kafkalite.log.file_system import DISK_FULL
from kafkalite.log.partition_folder import Folder, OffsetFile

_BUFFERED = 256
_CHUNK = 512


class IndexFile(OffsetFile):
    """A sorted file of fixed-size entries. Subclasses give ``ENTRY`` and say what an entry means."""

    __slots__ = ("_pending", "_stored", "_was_cut", "max_entries")

    ENTRY: struct.Struct = struct.Struct(">ii")

    def __init__(self, folder: Folder, base_offset: int, suffix: str, max_bytes: int, exists: bool) -> None:
        super().__init__(folder, base_offset, suffix, exists)
        self.max_entries = max(1, max_bytes // self.ENTRY.size)
        self._pending = bytearray()
        self._stored = -1 if exists else 0
        self._was_cut = False

    def __len__(self) -> int:
        return self._count() + len(self._pending) // self.ENTRY.size

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all entries."""
        return len(self) * self.ENTRY.size

    @property
    def is_full(self) -> bool:
        """Whether no entry fits any more."""
        return len(self) >= self.max_entries

    @property
    def needs_sync(self) -> bool:
        """Whether a flush has to force the file to the disk.

        An index that is lost is written anew, so an empty one is not worth a trip to the disk; but where entries were
        cut, lost power would bring them back.
        """
        return self.exists and (self._was_cut or len(self) > 0)

    def sane(self) -> bool:
        """Whether the file is a whole number of entries and its last one is not below the base offset."""
        if not self.exists:
            return False
        size = self.folder.fs.stat_size(self.path)
        if size % self.ENTRY.size:
            return False
        self._stored = size // self.ENTRY.size
        return self._stored == 0 or self._last_is_sane()

    def _last_is_sane(self) -> bool:
        raise NotImplementedError

    def _count(self) -> int:
        if self._stored < 0:
            self._stored = self.folder.fs.stat_size(self.path) // self.ENTRY.size
        return self._stored

    def raw(self, number: int) -> tuple[int, ...]:
        """Entry ``number`` as stored."""
        stored = self._count()
        size = self.ENTRY.size
        if number >= stored:
            return self.ENTRY.unpack_from(self._pending, (number - stored) * size)
        return self.ENTRY.unpack(self.folder.fs.pread(self.opened().fd, size, number * size))

    def _find(self, field: int, target: int) -> int:
        """Number of the last entry whose ``field`` is not above ``target``; -1 when all are."""
        size, unpack = self.ENTRY.size, self.ENTRY.unpack_from
        stored = self._count()
        data: bytes | bytearray = self._pending
        low, high, start = 0, len(data) // size, stored
        if not high or unpack(data, 0)[field] > target:
            if not stored:
                return -1
            # Narrow down in the file until what is left is one small read.
            low, high = 0, stored
            pread, fd = self.folder.fs.pread, self.opened().fd
            while high - low > _CHUNK:
                middle = (low + high) // 2
                if unpack(pread(fd, size, middle * size))[field] <= target:
                    low = middle
                else:
                    high = middle
            data = pread(fd, (high - low) * size, low * size)
            start, low, high = low, 0, len(data) // size
        while low < high:
            middle = (low + high) // 2
            if unpack(data, middle * size)[field] <= target:
                low = middle + 1
            else:
                high = middle
        return start + low - 1

    def _add(self, *values: int) -> None:
        self._pending += self.ENTRY.pack(*values)
        if len(self._pending) >= _BUFFERED * self.ENTRY.size:
            try:
                self.write_out()
            except OSError as error:
                # The log itself was written; the entries can wait until there is room.
                if error.errno not in DISK_FULL:
                    raise

    def write_out(self) -> None:
        """Write what waits in the buffer."""
        pending = self._pending
        if pending or not self.exists:
            size = self.ENTRY.size
            self.folder.fs.pwrite(self.opened().fd, pending, self._count() * size)
            self._stored = self._count() + len(pending) // size
            self._pending = bytearray()

    def cut(self, entries: int) -> None:
        """Keep the first ``entries`` entries."""
        stored, size = self._count(), self.ENTRY.size
        if entries >= stored:
            del self._pending[(entries - stored) * size :]
            return
        self._pending.clear()
        if self.exists:
            self._was_cut = True
            self.folder.fs.truncate(self.opened().fd, entries * size)
        self._stored = entries

    def reset(self) -> None:
        """Empty the index, on the disk too."""
        self._pending.clear()
        if self.exists:
            self._was_cut = True
            self.folder.fs.truncate(self.opened().fd, 0)
        self._stored = 0

    def check_offset(self, offset: int) -> int:
        """``offset`` relative to the base. Raises ``OSError`` where four bytes do not hold it."""
        relative = offset - self.base_offset
        if not 0 <= relative <= 0x7FFFFFFF:
            raise OSError(errno.EINVAL, f"offset {offset} does not fit an index that starts at {self.base_offset}")
        return relative
