"""The ``.index`` file: from offsets to positions, sparse.

Answers to: ``org.apache.kafka.storage.internals.log.OffsetIndex``. Deterministic. An entry is eight bytes: the last
offset of a batch relative to the segment's base, and the position of that batch.
"""

from __future__ import annotations

import struct

from kafkalite.log.index_file import IndexFile
from kafkalite.log.partition_folder import INDEX_SUFFIX, Folder


class OffsetIndex(IndexFile):
    """Positions of some batches of one segment."""

    __slots__ = ("last_offset",)

    ENTRY = struct.Struct(">ii")

    def __init__(self, folder: Folder, base_offset: int, max_bytes: int, exists: bool = False) -> None:
        super().__init__(folder, base_offset, INDEX_SUFFIX, max_bytes, exists)
        self.last_offset = base_offset - 1 if not exists else -2

    def _last_is_sane(self) -> bool:
        self.last_offset = self.entry(len(self) - 1)[0]
        return self.last_offset >= self.base_offset

    def entry(self, number: int) -> tuple[int, int]:
        """Offset and position of entry ``number``."""
        relative, position = self.raw(number)
        return self.base_offset + relative, position

    def append(self, offset: int, position: int) -> None:
        """Note that the batch at ``position`` ends with ``offset``; one not above the last is passed over."""
        if self.last_offset == -2:
            self._load_last()
        if offset <= self.last_offset or self.is_full:
            return
        self._add(self.check_offset(offset), position)
        self.last_offset = offset

    def lookup(self, offset: int) -> int:
        """A position at or before the batch that holds ``offset``, as near as the index knows."""
        number = self._find(0, offset - self.base_offset)
        return self.raw(number)[1] if number >= 0 else 0

    def offset_behind(self, position: int) -> int | None:
        """An offset that no batch before ``position`` reaches, as near as the index knows; ``None``: look behind it."""
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
