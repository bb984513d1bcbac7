"""At which offset each leader's epoch began; kept in ``leader-epoch-checkpoint``.

Answers to: ``org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache``. Deterministic.

The file is replaced, not forced to the disk, at every change; a flush of the log forces it to the disk before the
recovery point rises. What the file says below the recovery point is therefore right after lost power, and above it
recovery reads the epochs from the batches. A change that a full disk refused is therefore written by the flush, or the
recovery point does not rise.
"""

from __future__ import annotations

import bisect
import logging

from kafkalite.log.file_system import DISK_FULL
from kafkalite.log.log_dir_files import CheckpointError, decode_lines, encode_lines
from kafkalite.log.partition_folder import LEADER_EPOCH_CHECKPOINT, Folder

log = logging.getLogger(__name__)


class LeaderEpochCache:
    """Epochs and their first offsets, both strictly ascending."""

    __slots__ = ("_doubtful", "_epochs", "_folder", "_is_stale", "_starts", "changes", "latest_epoch", "synced")

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self._doubtful: dict[int, int] = {}
        self._is_stale = False
        self.latest_epoch: int | None = None
        self.changes = 0
        """How often the file was replaced, or should have been."""
        self.synced = 0
        """The value of ``changes`` that the last flush has forced to the disk."""

    def load(self) -> bool:
        """Read the file; returns false if it is missing or malformed, and recovery must find the epochs."""
        try:
            lines = decode_lines(self._folder.fs.read_file(self.path))
            entries = sorted((int(epoch), int(start)) for epoch, start in lines)
        except (FileNotFoundError, CheckpointError, ValueError):
            return False
        for epoch, start in entries:
            self._put(epoch, start)
        return True

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), ascending."""
        return list(zip(self._epochs, self._starts, strict=True))

    def _put(self, epoch: int, start: int) -> bool:
        if self._epochs and epoch == self._epochs[-1] and start >= self._starts[-1]:
            return False
        # A new entry contradicts those that have its epoch or a later one, or begin where it begins or later.
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start)
        self.latest_epoch = epoch
        return True

    def assign(self, epoch: int, start: int) -> bool:
        """Note that ``epoch`` begins at ``start``; returns whether that was new."""
        if epoch < 0 or (epoch == self.latest_epoch and start >= self._starts[-1]):
            return False
        if not self._put(epoch, start):
            return False
        self.write()
        return True

    def doubt_from(self, offset: int) -> None:
        """Forget entries that begin at or after ``offset``, until :meth:`recover` meets their batches.

        After a crash the file may be older or newer than the log, or name an epoch whose batches were replaced by
        another leader's.
        """
        at = bisect.bisect_left(self._starts, offset)
        self._doubtful = dict(zip(self._epochs[at:], self._starts[at:], strict=True))
        del self._epochs[at:], self._starts[at:]
        self.latest_epoch = self._epochs[-1] if self._epochs else None

    def recover(self, epoch: int, first_offset: int, previous_end: int) -> None:
        """Take note of a batch that a recovery reads; ``previous_end`` is where the batch before it ends.

        An entry of the epoch, or of a later one, stays as it is. Compaction may have removed the first batches of an
        epoch: the start that the file named counts where no batch contradicts it.
        """
        if epoch < 0 or (self.latest_epoch is not None and epoch <= self.latest_epoch):
            return
        start = self._doubtful.get(epoch, first_offset)
        self._put(epoch, start if previous_end <= start <= first_offset else first_offset)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch not above ``epoch`` and the offset at which it ended; (-1, -1) where it is not known."""
        if epoch < 0 or not self._epochs:
            return -1, -1
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        at = bisect.bisect_right(self._epochs, epoch)
        if at == len(self._epochs):
            # An epoch that this replica has not seen yet.
            return -1, -1
        if at == 0:
            # All known epochs are later, so the requested epoch ended where the first of them begins.
            return epoch, self._starts[0]
        return self._epochs[at - 1], self._starts[at]

    def epoch_for(self, offset: int) -> int:
        """The epoch in which ``offset`` was written; -1 where it is not known."""
        at = bisect.bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else -1

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that begin at or after ``end_offset``."""
        at = bisect.bisect_left(self._starts, end_offset)
        if at < len(self._epochs):
            del self._epochs[at:], self._starts[at:]
            self.latest_epoch = self._epochs[-1] if self._epochs else None
            self.write()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget what ended before ``start_offset``; the epoch that is current there begins there."""
        at = bisect.bisect_right(self._starts, start_offset)
        if at and (at > 1 or self._starts[0] != start_offset):
            del self._epochs[: at - 1], self._starts[: at - 1]
            self._starts[0] = start_offset
            self.write()

    def clear(self) -> None:
        """Forget everything."""
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self.latest_epoch = None
            self.write()

    @property
    def path(self) -> str:
        """The checkpoint file."""
        return f"{self._folder.path}/{LEADER_EPOCH_CHECKPOINT}"

    def write(self) -> None:
        """Replace the file."""
        self.changes += 1
        try:
            self._replace_file()
        except OSError as error:
            # Continue, because memory and the batches have the epochs; the next change or flush writes the file again.
            if error.errno not in DISK_FULL:
                raise
            log.warning("%s was not written: %s", self.path, error)

    def write_stale(self) -> None:
        """Replace the file if its last change was refused by a full disk. Raises ``OSError``."""
        if self._is_stale:
            self._replace_file()

    def _replace_file(self) -> None:
        data = encode_lines(f"{epoch} {start}" for epoch, start in self.entries)
        self._is_stale = True
        self._folder.fs.write_file(self.path, data, sync=False)
        self._is_stale = False
