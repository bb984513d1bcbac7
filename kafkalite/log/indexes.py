"""The index files of a segment: ``.index``, ``.timeindex``, ``.txnindex``.

Answers to: ``org.apache.kafka.storage.internals.log.{AbstractIndex,OffsetIndex,TimeIndex,TransactionIndex}``.
Deterministic.

Kafka maps preallocated files; here a file holds just its entries (as Kafka leaves it after a roll or a clean
shutdown) and is read with a few small reads, so that a thousand partitions cost no memory. The newest entries of the
two sparse indexes wait in a small buffer. A crash may lose them: recovery rebuilds the index.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Iterator

from kafkalite.log.file_system import DISK_FULL
from kafkalite.log.partition_folder import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, Folder, OffsetFile
from kafkalite.log.values import AbortedTxn

_BUFFERED = 256
_CHUNK = 512
_UNREAD = -2
_TXN_ENTRY = struct.Struct(">hqqqq")


def _write_if_room(write_out: Callable[[], None]) -> None:
    """Write buffered entries; on a full disk they stay in the buffer, because the log itself was written."""
    try:
        write_out()
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise


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

        An empty index needs no flush, because a lost one is rebuilt. Entries that were cut would come back after a
        power failure.
        """
        return self.exists and (self._was_cut or len(self) > 0)

    def sane(self) -> bool:
        """Whether the file is a whole number of entries, and its first and last entry are plausible."""
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
        """Number of the last entry whose ``field`` is not above ``target``; -1 if there is none."""
        size, unpack = self.ENTRY.size, self.ENTRY.unpack_from
        stored = self._count()
        data: bytes | bytearray = self._pending
        low, high, start = 0, len(data) // size, stored
        if not high or unpack(data, 0)[field] > target:
            if not stored:
                return -1
            # Halve the range by reads of one entry until one small read can hold the rest.
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
            _write_if_room(self.write_out)

    def write_out(self) -> None:
        """Write the entries in the buffer to the file."""
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

    def _relative(self, offset: int) -> int:
        """``offset`` relative to the base offset. Raises ``OSError`` if it does not fit into 31 bits."""
        relative = offset - self.base_offset
        if not 0 <= relative <= 0x7FFFFFFF:
            raise OSError(errno.EINVAL, f"offset {offset} does not fit an index that starts at {self.base_offset}")
        return relative


class OffsetIndex(IndexFile):
    """The ``.index`` file: positions of some batches of one segment.

    An entry is eight bytes: the last offset of a batch relative to the segment's base, and the position of that batch.
    """

    __slots__ = ("last_offset",)

    ENTRY = struct.Struct(">ii")

    def __init__(self, folder: Folder, base_offset: int, max_bytes: int, exists: bool = False) -> None:
        super().__init__(folder, base_offset, INDEX_SUFFIX, max_bytes, exists)
        self.last_offset = _UNREAD if exists else base_offset - 1

    def _last_is_sane(self) -> bool:
        self.last_offset = self.entry(len(self) - 1)[0]
        return self.last_offset >= self.base_offset

    def entry(self, number: int) -> tuple[int, int]:
        """Offset and position of entry ``number``."""
        relative, position = self.raw(number)
        return self.base_offset + relative, position

    def append(self, offset: int, position: int) -> None:
        """Add the batch at ``position``, which ends with ``offset``, if that is above the last entry's offset."""
        if self.last_offset == _UNREAD:
            self._load_last()
        if offset <= self.last_offset or self.is_full:
            return
        self._add(self._relative(offset), position)
        self.last_offset = offset

    def lookup(self, offset: int) -> int:
        """A position at or before the batch that holds ``offset``, as near as the index knows."""
        number = self._find(0, offset - self.base_offset)
        return self.raw(number)[1] if number >= 0 else 0

    def offset_behind(self, position: int) -> int | None:
        """The lowest offset in the index that no batch before ``position`` reaches; ``None`` if there is none."""
        number = self._find(1, position - 1) + 1
        return self.entry(number)[0] if number < len(self) else None

    def truncate_to(self, offset: int) -> None:
        """Forget entries at or above ``offset``."""
        self.cut(self._find(0, offset - self.base_offset - 1) + 1)
        self._load_last()

    def reset(self) -> None:
        super().reset()
        self.last_offset = self.base_offset - 1

    def _load_last(self) -> None:
        count = len(self)
        self.last_offset = self.entry(count - 1)[0] if count else self.base_offset - 1


class TimeIndex(IndexFile):
    """The ``.timeindex`` file: largest timestamps of one segment.

    An entry is twelve bytes: the largest timestamp so far, and the last offset of the batch that holds it, relative to
    the segment's base.
    """

    __slots__ = ("last_offset", "last_timestamp")

    ENTRY = struct.Struct(">qi")

    def __init__(self, folder: Folder, base_offset: int, max_bytes: int, exists: bool = False) -> None:
        super().__init__(folder, base_offset, TIME_INDEX_SUFFIX, max_bytes, exists)
        self.last_timestamp = _UNREAD if exists else -1
        self.last_offset = base_offset

    @property
    def is_full(self) -> bool:
        """One entry is kept free for the last timestamp of the segment."""
        return len(self) >= self.max_entries - 1

    def _last_is_sane(self) -> bool:
        first, last = self.entry(0), self.entry(len(self) - 1)
        self.last_timestamp, self.last_offset = last
        # A power failure leaves zeros in place of entries that were not synced. With a last timestamp of zero retention
        # would delete the segment.
        return 0 < first[0] <= last[0] and last[1] >= self.base_offset

    def entry(self, number: int) -> tuple[int, int]:
        """Timestamp and offset of entry ``number``."""
        timestamp, relative = self.raw(number)
        return timestamp, self.base_offset + relative

    def last(self) -> tuple[int, int]:
        """Timestamp and offset of the last entry; (-1, base offset) of an empty index."""
        if self.last_timestamp == _UNREAD:
            count = len(self)
            self.last_timestamp, self.last_offset = self.entry(count - 1) if count else (-1, self.base_offset)
        return self.last_timestamp, self.last_offset

    def maybe_append(self, timestamp: int, offset: int, closing: bool = False) -> None:
        """Add the largest timestamp so far, unless it is not larger than the last entry's.

        ``closing``: the segment takes no more, so the free entry may be used.
        """
        if timestamp <= self.last()[0]:
            return
        if len(self) >= (self.max_entries if closing else self.max_entries - 1):
            return
        self._add(timestamp, self._relative(offset))
        self.last_timestamp, self.last_offset = timestamp, offset

    def lookup(self, timestamp: int) -> int:
        """An offset at or before the first record whose timestamp is not below ``timestamp``."""
        number = self._find(0, timestamp)
        return self.entry(number)[1] if number >= 0 else self.base_offset

    def truncate_to(self, offset: int) -> None:
        """Forget entries at or above ``offset``."""
        self.cut(self._find(1, offset - self.base_offset - 1) + 1)
        self.last_timestamp = _UNREAD

    def reset(self) -> None:
        super().reset()
        self.last_timestamp, self.last_offset = -1, self.base_offset


class TransactionIndex(OffsetFile):
    """The ``.txnindex`` file: the aborted transactions of one segment, in the order in which they ended.

    The file exists only if it has an entry; an entry is 34 bytes. Entries that a full disk refused wait in memory until
    :meth:`write_out`; a flush writes them before it raises the recovery point, because a start believes the file below.
    """

    __slots__ = ("_pending", "_size")

    def __init__(self, folder: Folder, base_offset: int, exists: bool = False) -> None:
        super().__init__(folder, base_offset, TXN_INDEX_SUFFIX, exists)
        self._size = -1 if exists else 0
        self._pending = bytearray()

    def _bytes(self) -> int:
        if self._size < 0:
            self._size = self.folder.fs.stat_size(self.path)
        return self._size

    def append(self, txn: AbortedTxn) -> None:
        """Add a transaction that has just been aborted. Raises ``OSError``, but not for a full disk."""
        self._pending += _TXN_ENTRY.pack(0, txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)
        _write_if_room(self.write_out)

    def write_out(self) -> None:
        """Write the entries that a full disk refused."""
        if self._pending:
            size = self._bytes()
            self.folder.fs.pwrite(self.opened().fd, self._pending, size)
            self._size = size + len(self._pending)
            self._pending = bytearray()

    def __iter__(self) -> Iterator[AbortedTxn]:
        size = self._bytes()
        data = self.folder.fs.pread(self.opened().fd, size - size % _TXN_ENTRY.size, 0) if size else b""
        for _, *fields in _TXN_ENTRY.iter_unpack(data + self._pending):
            yield AbortedTxn(*fields)

    def sane(self) -> bool:
        """Whether the file is whole and every entry belongs to the segment's offsets."""
        if self._bytes() % _TXN_ENTRY.size:
            return False
        return all(txn.last_offset >= self.base_offset and txn.first_offset <= txn.last_offset for txn in self)

    def truncate_to(self, offset: int) -> None:
        """Forget transactions that ended at or above ``offset``."""
        kept = sum(1 for txn in self if txn.last_offset < offset) * _TXN_ENTRY.size
        stored = self._bytes()
        if kept < stored:
            self.folder.fs.truncate(self.opened().fd, kept)
            self._size = kept
        del self._pending[max(kept - stored, 0) :]

    def reset(self) -> None:
        """Forget everything."""
        self._pending.clear()
        if self._bytes():
            self.folder.fs.truncate(self.opened().fd, 0)
            self._size = 0
