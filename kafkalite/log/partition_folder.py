"""A partition's folder: the names of its files, what they share, and ``partition.metadata``, which holds the topic id.

Answers to: ``org.apache.kafka.storage.internals.log.LogFileUtils``, the file names of ``UnifiedLog`` and
``org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile``. Deterministic.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

from kafkalite.common.types import TopicPartition, uuid_from_text, uuid_to_text
from kafkalite.log.file_system import NO_DESCRIPTORS, File, FileHolder, FilePool, FileSystem

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
DELETE_DIR_SUFFIX = "-delete"
FUTURE_DIR_SUFFIX = "-future"
STRAY_DIR_SUFFIX = "-stray"

SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
MOVED_FROM = "moved-from"
"""In the folder of a replica that has just taken another's place: the log directory of that other one."""

_OFFSET_FILE = re.compile(r"^(\d+)(\.[a-z]+)$")
_METADATA_VERSION = 0
MAX_NAME = 255
"""Longest name of a file or folder."""


def file_name(offset: int, suffix: str) -> str:
    """The name of a file that belongs to ``offset``: twenty digits and the suffix."""
    return f"{offset:020d}{suffix}"


def parse_file_name(name: str) -> tuple[int, str] | None:
    """The offset and the suffix in a file's name; ``None`` for other names and for more than one suffix."""
    match = _OFFSET_FILE.match(name)
    return (int(match[1]), match[2]) if match else None


def dir_name(topic_partition: TopicPartition) -> str:
    """The folder of a partition."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def parse_dir_name(name: str) -> TopicPartition | None:
    """The partition of a folder; ``None`` where the name is no ``topic-partition``."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not number.isdigit():
        return None
    return TopicPartition(topic, int(number))


def deleted_dir_name(topic_partition: TopicPartition, unique: uuid.UUID) -> str:
    """What the folder of a deleted partition is renamed to: ``topic-partition.<32 hex>-delete``, at most 255 long."""
    tail = f"-{topic_partition.partition}.{unique.hex}{DELETE_DIR_SUFFIX}"
    return topic_partition.topic[: MAX_NAME - len(tail)] + tail


def future_dir_name(topic_partition: TopicPartition, unique: uuid.UUID) -> str:
    """The folder of a replica that is being copied to this directory: ``topic-partition.<32 hex>-future``."""
    return f"{dir_name(topic_partition)}.{unique.hex}{FUTURE_DIR_SUFFIX}"


def parse_future_dir_name(name: str) -> TopicPartition | None:
    """The partition of a folder named by :func:`future_dir_name`; ``None`` for other names."""
    head, dot, unique = name.removesuffix(FUTURE_DIR_SUFFIX).rpartition(".")
    if not name.endswith(FUTURE_DIR_SUFFIX) or not dot or not unique:
        return None
    return parse_dir_name(head)


def encode_partition_metadata(topic_id: uuid.UUID) -> bytes:
    """The bytes of ``partition.metadata``."""
    return f"version: {_METADATA_VERSION}\ntopic_id: {uuid_to_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> uuid.UUID:
    """The topic id in the bytes of ``partition.metadata``. Raises ``ValueError``."""
    fields = dict(line.split(":", 1) for line in data.decode("utf-8", "replace").splitlines() if ":" in line)
    version = fields.get("version", "").strip()
    if version != str(_METADATA_VERSION):
        raise ValueError(f"partition.metadata has version {version or 'none'}")
    return uuid_from_text(fields.get("topic_id", "").strip())


@dataclass(slots=True, eq=False)
class Folder:
    """What all files of one partition share. ``path`` changes when the folder is renamed."""

    path: str
    fs: FileSystem
    pool: FilePool

    def file(self, offset: int, suffix: str) -> str:
        """The path of a file that belongs to ``offset``."""
        return f"{self.path}/{offset:020d}{suffix}"


class OffsetFile(FileHolder):
    """A file that belongs to an offset and is opened when it is needed."""

    __slots__ = ("base_offset", "exists", "folder", "suffix")

    def __init__(self, folder: Folder, base_offset: int, suffix: str, exists: bool) -> None:
        super().__init__()
        self.folder = folder
        self.base_offset = base_offset
        self.suffix = suffix
        self.exists = exists

    @property
    def path(self) -> str:
        """Where the file is now."""
        return self.folder.file(self.base_offset, self.suffix)

    def opened(self) -> File:
        """The open file, made where it does not exist yet."""
        file = self.file
        if file is None:
            try:
                file = File(self.folder.fs, self.path, create=not self.exists)
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS:
                    raise
                self.folder.pool.shrink()
                file = File(self.folder.fs, self.path, create=not self.exists)
            self.exists = True
            self.file = file
            self.folder.pool.add(self)
        else:
            self.recently_used = True
        return file

    def release(self) -> None:
        """Let go of the open file; regions that are on their way keep it open."""
        self.folder.pool.drop(self)

    def remove(self) -> None:
        """Remove the file, wherever :meth:`add_suffix` has put it."""
        self.release()
        if self.exists:
            self.folder.fs.remove(self.path)

    def add_suffix(self, suffix: str) -> None:
        """Rename the file; what was written by :meth:`opened` before stays readable through regions."""
        if self.exists:
            try:
                self.folder.fs.rename(self.path, self.path + suffix)
            except FileNotFoundError:
                self.exists = False
        self.suffix += suffix
