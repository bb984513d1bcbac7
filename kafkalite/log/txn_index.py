"""The ``.txnindex`` file: aborted transactions that ended in one segment.

Answers to: ``org.apache.kafka.storage.internals.log.TransactionIndex``. Deterministic. The file exists only where there
is something in it; an entry is 34 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kafkalite.log.partition_folder import TXN_INDEX_SUFFIX, Folder, OffsetFile
from kafkalite.log.values import AbortedTxn

_ENTRY = struct.Struct(">hqqqq")


class TransactionIndex(OffsetFile):
    """The aborted transactions of one segment, in the order in which they ended."""

    __slots__ = ("_size",)

    def __init__(self, folder: Folder, base_offset: int, exists: bool = False) -> None:
        super().__init__(folder, base_offset, TXN_INDEX_SUFFIX, exists)
        self._size = -1 if exists else 0

    def _bytes(self) -> int:
        if self._size < 0:
            self._size = self.folder.fs.stat_size(self.path)
        return self._size

    def append(self, txn: AbortedTxn) -> None:
        """Add a transaction that has just been aborted."""
        size = self._bytes()
        data = _ENTRY.pack(0, txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)
        self.folder.fs.pwrite(self.opened().fd, data, size)
        self._size = size + _ENTRY.size

    def __iter__(self) -> Iterator[AbortedTxn]:
        size = self._bytes()
        if size:
            data = self.folder.fs.pread(self.opened().fd, size - size % _ENTRY.size, 0)
            for _, *fields in _ENTRY.iter_unpack(data):
                yield AbortedTxn(*fields)

    def sane(self) -> bool:
        """Whether the file is whole and every entry belongs to the segment's offsets."""
        if self._bytes() % _ENTRY.size:
            return False
        return all(txn.last_offset >= self.base_offset and txn.first_offset <= txn.last_offset for txn in self)

    def truncate_to(self, offset: int) -> None:
        """Forget transactions that ended at or above ``offset``."""
        kept = sum(1 for txn in self if txn.last_offset < offset)
        if kept * _ENTRY.size < self._bytes():
            self.folder.fs.truncate(self.opened().fd, kept * _ENTRY.size)
            self._size = kept * _ENTRY.size

    def reset(self) -> None:
        """Forget everything."""
        if self._bytes():
            self.folder.fs.truncate(self.opened().fd, 0)
            self._size = 0
