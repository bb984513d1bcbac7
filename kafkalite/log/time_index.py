"""The ``.timeindex`` file: from timestamps to offsets, sparse.

Answers to: ``org.apache.kafka.storage.internals.log.TimeIndex``. Deterministic. An entry is twelve bytes: the largest
timestamp so far, and the last offset of the batch that holds it, relative to the segment's base.
"""

from __future__ import annotations

import struct

from kafkalite.log.index_file import IndexFile
from kafkalite.log.partition_folder import TIME_INDEX_SUFFIX, Folder

_UNREAD = -2


class TimeIndex(IndexFile):
    """Largest timestamps of one segment."""

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
        return last[0] >= first[0] and last[1] >= self.base_offset

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
        """Note the largest timestamp so far; one that is not larger than the last is passed over.

        ``closing``: the segment takes no more, so the free entry may be used.
        """
        if timestamp <= self.last()[0]:
            return
        if len(self) >= (self.max_entries if closing else self.max_entries - 1):
            return
        self._add(timestamp, self.check_offset(offset))
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
