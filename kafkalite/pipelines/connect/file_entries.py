"""The identity of a file that grows: device and inode, and the bytes at its beginning.

Answers to: nothing in Kafka; the registrar of log shippers. Deterministic.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

HEAD_BYTES = 1024


class FileLossError(Exception):
    """Lines that should be read are gone; the text names file and positions."""


@dataclass(frozen=True)
class FileEntry:
    """How far one file was read: ``path`` is its first name, ``head`` the length and checksum of its first bytes,
    ``begin`` the position where reading began."""

    path: str
    position: int = 0
    head: str = "0:0"
    round: int = 0
    begin: int = 0


Entries = dict[str, FileEntry]
"""By ``device:inode``."""
FilesOffset = dict[str, dict[str, Any]]
"""The same in the form of a checkpoint: the fields of each entry."""


def entries_to_json(entries: Mapping[str, FileEntry]) -> FilesOffset:
    """The form of a checkpoint."""
    return {identity: asdict(entry) for identity, entry in entries.items()}


def entries_from_json(value: FilesOffset) -> Entries:
    """The inverse of :func:`entries_to_json`."""
    return {identity: FileEntry(**entry) for identity, entry in value.items()}


def identity_of(status: os.stat_result) -> str:
    """A file's identity, which a rename does not change."""
    return f"{status.st_dev}:{status.st_ino}"


def open_file(identity: str, path: str) -> BinaryIO | None:
    """The file, under the name ``path`` or, if renamed, in the same folder; ``None`` if it is gone."""
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


def is_same(file: BinaryIO, entry: FileEntry) -> bool:
    """Whether ``file`` still begins like the file that was read, and is at least as long as was read of it."""
    length = int(entry.head.partition(":")[0])
    return os.fstat(file.fileno()).st_size >= entry.position and head_of(file, length) == entry.head


def looks_like_copy(name: str, file: BinaryIO, entries: Iterable[FileEntry]) -> bool:
    """Whether ``file`` is a copy of one of ``entries``, made before that one is truncated (copytruncate): it is
    in the same folder, under the same name with a suffix, and has the same beginning."""
    return any(_is_copied_name(name, entry.path) and _begins_as(file, entry) for entry in entries)


def find_copy(entry: FileEntry, least: int) -> str | None:
    """The name of the copy of the file of ``entry``, which was truncated since; it has at least ``least`` bytes."""
    folder = os.path.dirname(entry.path) or "."
    try:
        with os.scandir(folder) as found:
            names = sorted(each.path for each in found if each.is_file() and _is_copied_name(each.path, entry.path))
    except OSError:
        return None
    return next((name for name in names if _holds(name, entry, least)), None)


def _is_copied_name(name: str, path: str) -> bool:
    # Names that os.scandir gives for "." begin with it.
    name, path = os.path.normpath(name), os.path.normpath(path)
    return name != path and name.startswith(path)


def _begins_as(file: BinaryIO, entry: FileEntry) -> bool:
    length = int(entry.head.partition(":")[0])
    return length > 0 and head_of(file, length) == entry.head


def _holds(name: str, entry: FileEntry, least: int) -> bool:
    try:
        with open(name, "rb") as file:
            return os.fstat(file.fileno()).st_size >= least and _begins_as(file, entry)
    except OSError:
        return False
