"""Records of several lines: finds the end of a record to which lines may still be added.

Answers to: nothing in Kafka; the multiline settings of log shippers. Deterministic.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

_SPAN = 1 << 20
"""Bytes in which a record's beginning is searched: a longer record is divided."""
_BEGINNING = 256
"""Bytes at the beginning of a line that ``continues`` is matched with."""


@dataclass(frozen=True)
class JoinedLines:
    """Lines whose beginning matches ``continues`` belong to the record before them. A file's last record is complete
    once nothing was written for ``settle`` seconds, by the clock ``now``."""

    continues: re.Pattern[bytes]
    settle: float
    now: Callable[[], float] = time.time

    def is_quiet(self, modified: float) -> bool:
        """Whether a file that was written last at ``modified`` (seconds since 1970) may be read to its end."""
        return self.now() - modified >= self.settle

    def last_start(self, file: BinaryIO, start: int, end: int) -> int:
        """The beginning of the last record among the whole lines in ``start``..``end``, which begin with a record."""
        begin = max(start, end - _SPAN)
        file.seek(begin)
        data = file.read(end - begin)
        position = len(data)
        while position > 0:
            position = data.rfind(b"\n", 0, position - 1) + 1
            if (position or begin == start) and not self.continues.match(data[position : position + _BEGINNING]):
                return begin + position
        return start if begin == start else end

    def first_end(self, file: BinaryIO, position: int, limit: int, *, whole: bool) -> int:
        """The end of the record whose first line ends at ``position``, in a file that may be read up to ``limit``; 0 if
        lines may still be added to it. With ``whole`` none will be."""
        file.seek(position)
        end = position
        while (line := file.readline(limit - end)).endswith(b"\n"):
            if not self.continues.match(line) or end - position > _SPAN:
                return end
            end += len(line)
        return end if whole else 0
