"""Files that grow: which there are, which of them are new, renamed or begun anew, and how far each may be read.

Answers to: ``org.apache.kafka.connect.file.FileStreamSourceTask``, which knows one file and no rotation. Deterministic.

A file is known by device and inode, so that a rename is no new file. Bytes at its beginning (``head``) tell whether an
inode has become another file, or a file was cut and begun anew (copytruncate): its ``round`` then counts one up, and it
is read from the beginning. A position stands at the beginning of a line, always.
"""

from __future__ import annotations

import glob
import os
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, BinaryIO

HEAD_BYTES = 1024
_BLOCK = 64 << 10


class FileLossError(Exception):
    """Lines that were to be read are gone; the text names file and positions."""


@dataclass(frozen=True)
class Entry:
    """How far one file was read: ``path`` is its first name, ``head`` the length and checksum of its first bytes."""

    path: str
    position: int = 0
    head: str = "0:0"
    round: int = 0


Entries = dict[str, Entry]
"""By ``device:inode``."""


@dataclass(frozen=True)
class FileRange:
    """The bytes from ``start`` to ``end`` of a file, which are whole lines."""

    identity: str
    entry: Entry
    start: int
    end: int


def entries_to_json(entries: Mapping[str, Entry]) -> dict[str, dict[str, Any]]:
    """As they stand in a checkpoint."""
    return {identity: asdict(entry) for identity, entry in entries.items()}


def entries_from_json(value: Mapping[str, Mapping[str, Any]]) -> Entries:
    """The reverse of :func:`entries_to_json`."""
    return {identity: Entry(**entry) for identity, entry in value.items()}


def identity_of(status: os.stat_result) -> str:
    """By what a file is known, whatever its name."""
    return f"{status.st_dev}:{status.st_ino}"


def open_file(identity: str, path: str) -> BinaryIO | None:
    """The file, under the name ``path`` or, renamed, in the same folder; ``None`` where it is gone."""
    for name in _names(identity, path):
        try:
            file = open(name, "rb")  # noqa: SIM115  (handed on)
        except OSError:
            continue
        if identity_of(os.fstat(file.fileno())) == identity:
            return file
        file.close()
    return None


def _names(identity: str, path: str) -> Iterator[str]:
    yield path
    inode = int(identity.partition(":")[2])
    try:
        with os.scandir(os.path.dirname(path) or ".") as folder:
            found = [each.path for each in folder if each.inode() == inode]
    except OSError:
        return
    yield from found


def head_of(file: BinaryIO, length: int) -> str:
    """Length and checksum of the first ``length`` bytes, or of as many as there are."""
    file.seek(0)
    first = file.read(length)
    return f"{len(first)}:{zlib.crc32(first):x}"


def is_same(file: BinaryIO, entry: Entry) -> bool:
    """Whether ``file`` still begins as the one that was read, and is not shorter than what was read of it."""
    length = int(entry.head.partition(":")[0])
    return os.fstat(file.fileno()).st_size >= entry.position and head_of(file, length) == entry.head


def last_line_end(file: BinaryIO, start: int, end: int) -> int:
    """Behind the last end of a line in ``start``..``end``; ``start`` where there is none."""
    while end > start:
        begin = max(start, end - _BLOCK)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return start


def first_line_end(file: BinaryIO, start: int, end: int) -> int:
    """Behind the first end of a line in ``start``..``end``; ``start`` where there is none."""
    position = start
    file.seek(start)
    while position < end:
        block = file.read(min(_BLOCK, end - position))
        if not block:
            break
        found = block.find(b"\n")
        if found >= 0:
            return position + found + 1
        position += len(block)
    return start


class GrowingFiles:
    """The files of ``patterns``, looked at again and again. What it remembers between looks only saves time, but for
    files that were seen to be shorter than they had been: these are new however fast they grow."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._cut: set[tuple[str, int]] = set()

    def look(self, known: Mapping[str, Entry]) -> dict[str, tuple[Entry, int]]:
        """Every file that is there, with where it is to be read from, and its size: the oldest first."""
        found: list[tuple[float, str, Entry, int]] = []
        seen: set[str] = set()
        for identity, path in self._candidates(known):
            if identity in seen:
                continue
            file = open_file(identity, path)
            if file is None:
                continue
            seen.add(identity)
            with file:
                status = os.fstat(file.fileno())
                entry = self._entry(identity, known.get(identity, Entry(path)), file)
                found.append((status.st_mtime, identity, entry, status.st_size))
        found.sort(key=lambda each: each[:2])
        return {identity: (entry, size) for _, identity, entry, size in found}

    def ends(self, known: Mapping[str, Entry], most: int | None, sizes: Mapping[str, int] | None = None) -> Entries:
        """``known`` moved on by whole lines, of ``most`` bytes altogether (one line at least), and up to ``sizes``
        where they are given. Files that are gone are left out."""
        moved: Entries = {}
        left = most
        for identity, (entry, size) in self.look(known).items():
            limit = size if sizes is None else min(size, sizes.get(identity, 0))
            end = entry.position
            file = open_file(identity, entry.path) if limit > entry.position and left != 0 else None
            if file is not None:
                with file:
                    end = self._end(file, entry.position, limit, left)
                    head = head_of(file, HEAD_BYTES)
            if file is not None and end > entry.position:
                if left is not None:
                    left = max(0, left - (end - entry.position))
                moved[identity] = replace(entry, position=end, head=head)
            elif identity in known:
                # A file that was cut and has no line yet stays what it was: nothing has changed that could be read.
                moved[identity] = known[identity]
        return moved

    def _end(self, file: BinaryIO, start: int, limit: int, left: int | None) -> int:
        bound = limit if left is None else min(limit, start + left)
        end = last_line_end(file, start, bound)
        # A line that is longer than the limit is read all the same.
        return end if end > start or bound == limit else first_line_end(file, start, limit)

    def _entry(self, identity: str, entry: Entry, file: BinaryIO) -> Entry:
        cut = (identity, entry.round)
        if not is_same(file, entry):
            self._cut.add(cut)
        if cut in self._cut:
            return Entry(file.name, round=entry.round + 1)
        return entry

    def _candidates(self, known: Mapping[str, Entry]) -> Iterator[tuple[str, str]]:
        for identity, entry in known.items():
            yield identity, entry.path
        for pattern in self._patterns:
            for path in sorted(glob.glob(pattern, recursive=True)):
                try:
                    status = os.stat(path)
                except OSError:
                    continue
                if os.path.isfile(path):
                    yield identity_of(status), path


def ranges_between(start: Mapping[str, Entry], end: Mapping[str, Entry]) -> list[FileRange]:
    """What lies between two looks."""
    ranges = []
    for identity, entry in end.items():
        before = start.get(identity)
        begin = before.position if before is not None and before.round == entry.round else 0
        if entry.position > begin:
            ranges.append(FileRange(identity, entry, begin, entry.position))
    return ranges


def into_tasks(ranges: Collection[FileRange], tasks: int) -> list[list[FileRange]]:
    """``ranges`` for at most ``tasks`` tasks of about the same size; no file is divided, so that its order holds."""
    bins: list[list[FileRange]] = [[] for _ in range(min(tasks, len(ranges)))]
    sizes = [0] * len(bins)
    for each in sorted(ranges, key=lambda one: one.start - one.end):
        least = sizes.index(min(sizes))
        bins[least].append(each)
        sizes[least] += each.end - each.start
    return bins


def read_range(wanted: FileRange, block: int) -> Iterator[tuple[int, bytes]]:
    """The bytes of a range in blocks of whole lines, each with its position. Raises :class:`FileLossError`."""
    entry = wanted.entry
    where = f"{entry.path}, bytes {wanted.start} to {wanted.end}"
    file = open_file(wanted.identity, entry.path)
    if file is None:
        raise FileLossError(f"{where}: the file is gone before it was read to its end")
    with file:
        if not is_same(file, entry):
            raise FileLossError(f"{where}: the file was cut before it was read to its end")
        file.seek(wanted.start)
        position, rest = wanted.start, b""
        while position + len(rest) < wanted.end:
            more = file.read(min(block, wanted.end - position - len(rest)))
            if not more:
                raise FileLossError(f"{where}: the file was cut while it was read")
            data = rest + more
            end = data.rfind(b"\n") + 1
            if end:
                yield position, data[:end]
            position += end
            rest = data[end:]
