"""Files that grow: finds new, renamed and truncated files, and how far each may be read.

Answers to: ``org.apache.kafka.connect.file.FileStreamSourceTask``, which knows one file and no rotation. Deterministic.

A file is known by device and inode, so that a rename is no new file. Bytes at its beginning (``head``) tell whether an
inode has become another file, or a file was truncated and begun again (copytruncate): its ``round`` is then raised,
and it is read from the beginning. With ``copies``, the lines that it lost are read from the copy that was made before:
a file beside it, under its name with a suffix, that begins as it did. A position is always at the beginning of a line,
and if lines are ``joined``, of a record.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import BinaryIO

from kafkalite.pipelines.connect.file_entries import (
    HEAD_BYTES,
    Entries,
    FileEntry,
    FileLossError,
    find_copy,
    head_of,
    identity_of,
    is_same,
    looks_like_copy,
    open_file,
)
from kafkalite.pipelines.connect.joined_lines import JoinedLines

_BLOCK = 64 << 10
_ROTATED = re.compile(r"[.-]\d[\d.T:_-]*$")
"""The suffix that rotation adds to a name."""


@dataclass(frozen=True)
class FileRange:
    """The bytes from ``start`` to ``end`` of a file, which are whole lines."""

    identity: str
    entry: FileEntry
    start: int
    end: int


def last_line_end(file: BinaryIO, start: int, end: int) -> int:
    """The position after the last end of a line in ``start``..``end``; ``start`` if there is none."""
    while end > start:
        begin = max(start, end - _BLOCK)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return start


def first_line_end(file: BinaryIO, start: int, end: int) -> int:
    """The position after the first end of a line in ``start``..``end``; ``start`` if there is none."""
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


class Rank(IntEnum):
    """The age order of files that were written last at the same time, because times have a coarse resolution."""

    COPY = 0
    KNOWN = 1
    NEW = 2


@dataclass(frozen=True)
class Seen:
    """One file at one check: its start position, its size, when it was written last, and whether it is
    complete for now. A copy is read instead of the truncated file."""

    entry: FileEntry
    size: int
    modified: float
    rank: Rank
    is_quiet: bool = True


class GrowingFiles:
    """The files of ``patterns``, checked repeatedly. Its memory between checks only saves time, except for
    files that became shorter: these count as new even if they have grown again since."""

    def __init__(self, patterns: Sequence[str], joined: JoinedLines | None = None, *, copies: bool = False) -> None:
        self._patterns = patterns
        self._joined = joined
        self._copies = copies
        self._cut: set[tuple[str, int]] = set()
        self.latest: Entries = {}
        """The end of every file at the last check."""

    def look(self, known: Mapping[str, FileEntry]) -> dict[str, Seen]:
        """Every file to read: the oldest first, a copy before its original."""
        found: dict[str, Seen] = {}
        cut: list[tuple[FileEntry, float]] = []
        for identity, path in self._candidates(known):
            file = open_file(identity, path) if identity not in found else None
            if file is None:
                continue
            with file:
                before = known.get(identity)
                entry = self._entry(identity, before or FileEntry(path), file)
                begins = before is None or entry.round != before.round
                if begins and self._copies and looks_like_copy(file.name, file, known.values()):
                    continue
                found[identity] = self._seen(file, entry, Rank.KNOWN if before else Rank.NEW)
                if begins and before is not None and self._copies:
                    cut.append((before, found[identity].modified))
        for before, modified in cut:
            copy = self._copy_of(before, modified, known)
            if copy is not None:
                found.setdefault(*copy)
        return dict(sorted(found.items(), key=lambda each: (each[1].modified, each[1].rank, each[0])))

    def _seen(self, file: BinaryIO, entry: FileEntry, rank: Rank) -> Seen:
        status = os.fstat(file.fileno())
        quiet = self._joined is None or self._joined.is_quiet(status.st_mtime)
        return Seen(entry, status.st_size, status.st_mtime, rank, quiet)

    def _copy_of(self, cut: FileEntry, modified: float, known: Mapping[str, FileEntry]) -> tuple[str, Seen] | None:
        """The file with the rest of a file that was truncated, and written last at ``modified``."""
        name = find_copy(cut, cut.position)
        if name is None:
            return None
        try:
            with open(name, "rb") as file:
                identity = identity_of(os.fstat(file.fileno()))
                # The inode of an older known copy: a different file nevertheless.
                round_ = known[identity].round + 1 if identity in known else 0
                seen = self._seen(file, replace(cut, path=name, round=round_, begin=cut.position), Rank.COPY)
        except OSError:
            return None
        return identity, replace(seen, modified=min(seen.modified, modified))

    def ends(self, known: Mapping[str, FileEntry], most: int | None, sizes: Mapping[str, int] | None = None) -> Entries:
        """``known`` advanced by whole lines, of ``most`` bytes in total (at least one line), and up to ``sizes``
        if given. Deleted files are left out.

        Files that rotation made from one file are read in order: while lines may still be added to the last record of
        one, younger files wait."""
        moved: Entries = {}
        left = most
        looked = self.look(known)
        series = first_names({seen.entry.path for seen in looked.values()})
        waiting: set[str] = set()
        self.latest = {identity: replace(seen.entry, position=seen.size) for identity, seen in looked.items()}
        for identity, seen in looked.items():
            entry = seen.entry
            limit = seen.size if sizes is None or seen.rank is Rank.COPY else min(seen.size, sizes.get(identity, 0))
            end = entry.position
            may = limit > entry.position and left != 0 and series[entry.path] not in waiting
            file = open_file(identity, entry.path) if may else None
            if file is not None:
                with file:
                    end = self._end(file, entry.position, limit, left, whole=seen.is_quiet and limit == seen.size)
                    head = head_of(file, HEAD_BYTES)
            if end < limit and not seen.is_quiet:
                waiting.add(series[entry.path])
            if file is not None and end > entry.position:
                if left is not None:
                    # The rest of this file must be read before younger files.
                    left = 0 if limit - entry.position > left else left - (end - entry.position)
                moved[identity] = replace(entry, position=end, head=head)
            elif identity in known and seen.rank is not Rank.COPY:
                # A truncated file without a line keeps its entry, because there is nothing new to read.
                moved[identity] = known[identity]
            elif seen.rank is Rank.COPY and left != 0:
                # Not a new file, because it was read to its end before it was renamed to a copy.
                moved[identity] = entry
        return moved

    def _end(self, file: BinaryIO, start: int, limit: int, left: int | None, *, whole: bool) -> int:
        bound = limit if left is None else min(limit, start + left)
        end = last_line_end(file, start, bound)
        if self._joined is not None and not (whole and bound == limit):
            end = self._joined.last_start(file, start, end)
        if end > start or bound == limit:
            return end
        # A line or a record that is longer than the limit is read nevertheless.
        end = first_line_end(file, start, limit)
        if self._joined is not None and end > start:
            end = self._joined.first_end(file, end, limit, whole=whole) or start
        return end

    def _entry(self, identity: str, entry: FileEntry, file: BinaryIO) -> FileEntry:
        cut = (identity, entry.round)
        if not is_same(file, entry):
            self._cut.add(cut)
        if cut in self._cut:
            return FileEntry(file.name, round=entry.round + 1)
        return entry

    def _candidates(self, known: Mapping[str, FileEntry]) -> Iterator[tuple[str, str]]:
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


def ranges_between(start: Mapping[str, FileEntry], end: Mapping[str, FileEntry]) -> list[FileRange]:
    """The ranges between two checks."""
    ranges = []
    for identity, entry in end.items():
        before = start.get(identity)
        begin = before.position if before is not None and before.round == entry.round else entry.begin
        if entry.position > begin:
            ranges.append(FileRange(identity, entry, begin, entry.position))
    return ranges


def into_tasks(ranges: Collection[FileRange], tasks: int) -> list[list[FileRange]]:
    """Divide ``ranges`` among at most ``tasks`` tasks of similar size. No file is divided, and files that rotation made
    from one stay together, so that their order is kept."""
    series: dict[str, list[FileRange]] = {}
    names = first_names({each.entry.path for each in ranges})
    for each in ranges:
        series.setdefault(names[each.entry.path], []).append(each)
    bins: list[list[FileRange]] = [[] for _ in range(min(tasks, len(series)))]
    sizes = [0] * len(bins)
    for size, together in sorted(((_size(each), each) for each in series.values()), key=lambda one: -one[0]):
        least = sizes.index(min(sizes))
        bins[least] += together
        sizes[least] += size
    return bins


def first_names(paths: Collection[str]) -> dict[str, str]:
    """Each of ``paths`` → the original name before rotation: the shortest name that it begins with, without a number or
    date at its end."""
    stems = {path: _ROTATED.sub("", path) for path in paths}
    firsts: dict[str, str] = {}
    shortest = None
    for stem in sorted(stems.values()):
        shortest = shortest if shortest is not None and stem.startswith(shortest) else stem
        firsts[stem] = shortest
    return {path: firsts[stem] for path, stem in stems.items()}


def _size(ranges: Collection[FileRange]) -> int:
    return sum(each.end - each.start for each in ranges)


def read_range(wanted: FileRange, block: int, *, copies: bool = False) -> Iterator[tuple[int, bytes]]:
    """The bytes of a range in blocks of whole lines, each with its position; from a copy if the file was truncated and
    there is one. Raises :class:`FileLossError`."""
    file = _open_range(wanted, copies)
    try:
        position, rest = wanted.start, b""
        while position + len(rest) < wanted.end:
            file.seek(position + len(rest))
            more = file.read(min(block, wanted.end - position - len(rest)))
            if not more or not is_same(file, wanted.entry):
                file.close()
                file = _open_range(wanted, copies)
                continue
            data = rest + more
            end = data.rfind(b"\n") + 1
            if end:
                yield position, data[:end]
            position += end
            rest = data[end:]
    finally:
        file.close()


def _open_range(wanted: FileRange, copies: bool) -> BinaryIO:
    entry = wanted.entry
    file = open_file(wanted.identity, entry.path)
    if file is not None:
        if is_same(file, entry):
            return file
        file.close()
    copy = find_copy(entry, entry.position) if copies else None
    if copy is None:
        what = "is gone" if file is None else "was cut"
        where = f"{entry.path}, bytes {wanted.start} to {wanted.end}"
        raise FileLossError(f"{where}: the file {what} before it was read to its end")
    return open(copy, "rb")
