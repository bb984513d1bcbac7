"""One segment: a ``.log`` file and its indexes.

Answers to: ``org.apache.kafka.storage.internals.log.LogSegment``. Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from kafkalite.log import batch_scan
from kafkalite.log.file_system import File
from kafkalite.log.indexes import OffsetIndex, TimeIndex, TransactionIndex
from kafkalite.log.partition_folder import DELETED_SUFFIX, LOG_SUFFIX, Folder, OffsetFile
from kafkalite.log.values import AbortedTxn
from kafkalite.record.batch import BatchHeader, CorruptRecordError
from kafkalite.record.convert import records_of

log = logging.getLogger(__name__)
MAX_RELATIVE_OFFSET = (1 << 31) - 1
MAX_SEGMENT_BYTES = (1 << 31) - 1
_UNREAD = -2
_REBUILT_INTERVAL = 4096
"""Bytes between the entries of an index that was found to be wrong while it was in use."""


class LogSegment(OffsetFile):
    """Batches from ``base_offset`` on. ``size`` is in bytes; ``created_ms`` and timestamps in milliseconds."""

    __slots__ = (
        "_first_timestamp",
        "_max_timestamp",
        "_max_timestamp_offset",
        "bytes_since_index",
        "created_ms",
        "full",
        "index",
        "roll_jitter_ms",
        "size",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        folder: Folder,
        base_offset: int,
        *,
        index_bytes: int,
        created_ms: int,
        size: int = 0,
        exists: frozenset[str] | set[str] = frozenset(),
        roll_jitter_ms: int = 0,
    ) -> None:
        super().__init__(folder, base_offset, LOG_SUFFIX, LOG_SUFFIX in exists)
        self.size = size
        self.created_ms = created_ms
        self.roll_jitter_ms = roll_jitter_ms
        self.bytes_since_index = 0
        self.full = False
        self.index = OffsetIndex(folder, base_offset, index_bytes, ".index" in exists)
        self.time_index = TimeIndex(folder, base_offset, index_bytes, ".timeindex" in exists)
        self.txn_index: TransactionIndex | None = None
        if ".txnindex" in exists:
            self.txn_index = TransactionIndex(folder, base_offset, True)
        self._max_timestamp = _UNREAD if size else -1
        self._max_timestamp_offset = base_offset
        self._first_timestamp = _UNREAD if size else -1

    # -- writing

    def append(self, buffer: bytes | bytearray | memoryview, headers: list[BatchHeader], interval: int) -> None:
        """Write ``buffer``, which holds just the batches of ``headers``; index entries follow every ``interval`` bytes.

        Raises ``OSError``; the segment's own figures are then as before.
        """
        position = self.size
        file = self.file
        if file is None:
            file = self.opened()
        self.folder.fs.pwrite(file.fd, buffer, position)
        if not position:
            self._first_timestamp = headers[0].max_timestamp
        elif self._max_timestamp == _UNREAD:
            self._load_max_timestamp()
        for header in headers:
            self.note(header, position, interval)
            position += header.size
        self.size = position

    def note(self, header: BatchHeader, position: int, interval: int) -> None:
        """Bring times and indexes up to date with the batch at ``position``."""
        if header.max_timestamp > self._max_timestamp:
            self._max_timestamp = header.max_timestamp
            self._max_timestamp_offset = header.base_offset + header.last_offset_delta
        if self.bytes_since_index > interval:
            self.index.append(header.base_offset + header.last_offset_delta, position)
            self.time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset)
            self.full = self.index.is_full or self.time_index.is_full
            self.bytes_since_index = 0
        self.bytes_since_index += header.size

    def start_over(self) -> None:
        """Empty the indexes and forget the times: recovery is going to :meth:`note` every batch."""
        self.index.reset()
        self.time_index.reset()
        if self.txn_index is not None:
            self.txn_index.reset()
        self.bytes_since_index = 0
        self.full = False
        self._max_timestamp = -1
        self._max_timestamp_offset = self.base_offset
        self._first_timestamp = _UNREAD

    def add_aborted(self, txn: AbortedTxn) -> None:
        """Add an aborted transaction to the index, which is made where there was none."""
        if self.txn_index is None:
            self.txn_index = TransactionIndex(self.folder, self.base_offset)
        self.txn_index.append(txn)

    def undo_append(self) -> None:
        """Cut the bytes that a failed write may have left behind the segment's end, and force that to the disk.

        The recovery point may be at that end. If the next segment begins there, no flush and no recovery looks at this
        file, and lost power could restore the piece of a batch in the middle of the log.
        """
        if self.exists:
            fd = self.opened().fd
            self.folder.fs.truncate(fd, self.size)
            self.folder.fs.fsync(fd)

    def create_files(self) -> None:
        """Create the file and the indexes, even if they are empty, so that a restart finds the base offset."""
        self.opened()
        self.index.write_out()
        self.time_index.write_out()

    def write_indexes(self) -> None:
        """Write index entries that are still buffered; nothing for a segment that has no file yet."""
        if self.exists:
            self.index.write_out()
            self.time_index.write_out()
            self.write_aborted()

    def write_aborted(self) -> None:
        """Write the aborted transactions that a full disk refused. Raises ``OSError``."""
        if self.txn_index is not None:
            self.txn_index.write_out()

    def become_inactive(self) -> None:
        """The last largest timestamp goes into the time index; entries go to the files."""
        if self.size:
            timestamp, offset = self.max_timestamp()
            if timestamp >= 0:
                self.time_index.maybe_append(timestamp, offset, closing=True)
        self.write_indexes()

    # -- figures

    def max_timestamp(self) -> tuple[int, int]:
        """The largest timestamp, and the last offset of its batch; -1 where there is none."""
        if self._max_timestamp == _UNREAD:
            self._load_max_timestamp()
        return self._max_timestamp, self._max_timestamp_offset

    def _load_max_timestamp(self) -> None:
        timestamp, offset = self.time_index.last() if self.time_index.exists else (-1, self.base_offset)
        self._max_timestamp, self._max_timestamp_offset = timestamp, offset

    def first_timestamp(self) -> int:
        """The timestamp of the first batch, by which the age of the segment counts; -1 when empty."""
        if self._first_timestamp == _UNREAD or (self._first_timestamp < 0 and self.size):
            self._first_timestamp = -1
            for _, header in self.headers():
                self._first_timestamp = header.max_timestamp
                break
        return self._first_timestamp

    def largest_timestamp(self) -> int:
        """The timestamp for retention: the largest one, or without timestamps when the file was last written."""
        timestamp = self.max_timestamp()[0]
        if timestamp >= 0:
            return timestamp
        return self.last_modified_ms

    @property
    def last_modified_ms(self) -> int:
        """When the file was last written; when the segment was made, where there is no file yet."""
        return self.folder.fs.modified_ms(self.path) if self.exists else self.created_ms

    def reset_times(self, now_ms: int) -> None:
        """Forget the cached times, after the file was cut."""
        self._max_timestamp = self._first_timestamp = _UNREAD
        if not self.size:
            self._max_timestamp = self._first_timestamp = -1
            self._max_timestamp_offset = self.base_offset
            self.created_ms = now_ms

    def fits(self, offset: int) -> bool:
        """Whether ``offset`` can be told relative to the base in four bytes."""
        return 0 <= offset - self.base_offset <= MAX_RELATIVE_OFFSET

    # -- reading

    def find(self, offset: int) -> tuple[int, int, int, int] | None:
        """(position, size, base offset, last offset) of the first batch that ends at or above ``offset``."""
        if not self.size:
            return None
        start = self.start_for(offset)
        return batch_scan.find_batch(self.folder.fs, self.opened().fd, start, self.size, offset)

    def start_for(self, offset: int) -> int:
        """The position of a batch at or before the one that holds ``offset``, as near as the index knows.

        The batch at that position is read, because only it shows whether an index that has been on a disk is right. A
        wrong index is rebuilt.
        """
        position = self.index.lookup(offset)
        if position and not self._begins_batch(position, offset):
            log.warning("%s: the index is wrong and is rebuilt", self.path)
            self._rebuild_index()
            position = self.index.lookup(offset)
        return position

    def indexes_sane(self) -> bool:
        """Whether all indexes are there and look right at their ends."""
        if not (self.index.sane() and self.time_index.sane()):
            return False
        if self.txn_index is not None and not self.txn_index.sane():
            return False
        count = len(self.index)
        if not count:
            return True
        offset, position = self.index.entry(count - 1)
        return self._begins_batch(position, offset)

    def _begins_batch(self, position: int, offset: int) -> bool:
        file = self.opened()
        return batch_scan.begins_batch(self.folder.fs, file.fd, position, self.size, self.base_offset, offset)

    def _rebuild_index(self) -> None:
        entries, since = [], 0
        try:
            for position, header in self.headers():
                if since > _REBUILT_INTERVAL:
                    entries.append((header.base_offset + header.last_offset_delta, position))
                    since = 0
                since += header.size
        except CorruptRecordError as error:
            log.warning("%s: %s; the index ends there", self.path, error)
        self.index.reset()
        for entry in entries:
            self.index.append(*entry)
        self.index.write_out()

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Every batch from ``position`` on, without its records."""
        if not self.size:
            return iter(())
        return batch_scan.headers(self.folder.fs, self.opened().fd, position, self.size)

    def find_by_timestamp(self, timestamp: int, least_offset: int) -> tuple[int, int] | None:
        """Timestamp and offset of the first record from ``least_offset`` on that is not older than ``timestamp``."""
        start = max(self.time_index.lookup(timestamp), least_offset)
        for position, header in self.headers(self.start_for(start)):
            if header.max_timestamp < timestamp or header.last_offset < least_offset:
                continue
            for record in records_of(self.read(position, header.size), header):
                if record.timestamp >= timestamp and record.offset >= least_offset:
                    return record.timestamp, record.offset
        return None

    def first_of_max_timestamp(self) -> tuple[int, int] | None:
        """The largest timestamp and the offset of the first record that has it; ``None`` without timestamps."""
        timestamp, offset = self.max_timestamp()
        found = self.find(offset)
        if timestamp < 0 or found is None:
            return None
        position, size, _, _ = found
        _, header = next(self.headers(position))
        for record in records_of(self.read(position, size), header):
            if record.timestamp >= timestamp:
                return record.timestamp, record.offset
        return timestamp, offset

    def tail(self) -> tuple[int, int]:
        """The offset that follows the last batch (the base offset when empty), and the position where that ends."""
        following, end = self.base_offset, 0
        count = len(self.index) if self.size else 0
        start = self.index.entry(count - 1)[1] if count else 0
        for position, header in self.headers(start):
            following, end = header.next_offset, position + header.size
        return following, end

    def read(self, position: int, count: int) -> bytes:
        """Bytes of the ``.log`` file."""
        return self.folder.fs.pread(self.opened().fd, count, position)

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Cut every batch that ends at or above ``offset``; returns how many bytes went."""
        found = self.find(offset)
        self.index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        if self.txn_index is not None:
            self.txn_index.truncate_to(offset)
        if found is None:
            return 0
        gone = self.size - found[0]
        self.folder.fs.truncate(self.opened().fd, found[0])
        self.size = found[0]
        self.bytes_since_index = 0
        self.reset_times(now_ms)
        self._scan_max_timestamp()
        return gone

    def _scan_max_timestamp(self) -> None:
        """The largest timestamp from the last time index entry on: what was cut may have been it."""
        if not self.size:
            return
        self._load_max_timestamp()
        for _, header in self.headers(self.start_for(self._max_timestamp_offset)):
            if header.max_timestamp > self._max_timestamp:
                self._max_timestamp, self._max_timestamp_offset = header.max_timestamp, header.last_offset

    # -- the end

    def _all_files(self) -> list[OffsetFile]:
        files: list[OffsetFile] = [self, self.index, self.time_index]
        if self.txn_index is not None:
            files.append(self.txn_index)
        return files

    def close(self) -> None:
        """Write the indexes out and let go of all files."""
        self.become_inactive()
        self.release_all()

    def release_all(self) -> None:
        """Let go of all files without writing anything."""
        for file in self._all_files():
            file.release()

    def mark_deleted(self) -> list[str]:
        """Rename all files to ``.deleted``; returns where they are now."""
        for file in self._all_files():
            file.release()
            file.add_suffix(DELETED_SUFFIX)
        return [file.path for file in self._all_files() if file.exists]

    def remove_files(self) -> None:
        """Remove all files, renamed or not."""
        for file in self._all_files():
            file.remove()

    def files_to_sync(self) -> list[File]:
        """Write the indexes out and return the open files that have to be forced to the disk."""
        self.write_indexes()
        files: list[OffsetFile] = [self] if self.exists else []
        files.extend(index for index in (self.index, self.time_index) if index.needs_sync)
        if self.txn_index is not None and self.txn_index.exists:
            files.append(self.txn_index)
        return [file.opened() for file in files]
