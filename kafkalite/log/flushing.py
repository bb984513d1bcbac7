"""One flush, as a value that another thread may carry out.

Answers to: ``UnifiedLog.flush``. Deterministic.
"""

from __future__ import annotations

import contextlib

from kafkalite.log.file_system import File, FileSystem


class FlushWork:
    """Files to be forced to the disk so that everything below ``end`` is there.

    ``files`` are segments and their indexes, ``small_files`` the paths of what is replaced as a whole (epochs,
    snapshots), ``folders`` the folders that name them. ``cuts`` counts the truncations that the log had seen: after
    one more, ``end`` may stand for other batches. ``epoch_changes`` counts the changes of the epoch file;
    ``snapshots`` are the producer snapshots among the small files, by offset.
    """

    __slots__ = ("_files", "_folders", "_fs", "_small_files", "cuts", "end", "epoch_changes", "snapshots")

    def __init__(
        self,
        fs: FileSystem,
        folders: list[str],
        files: list[File],
        small_files: list[str],
        end: int,
        cuts: int,
        epoch_changes: int,
        snapshots: list[int],
    ) -> None:
        self._fs = fs
        self._folders = folders
        self._files = files
        self._small_files = small_files
        self.end = end
        self.cuts = cuts
        self.epoch_changes = epoch_changes
        self.snapshots = snapshots

    def run(self) -> None:
        """Do it; touches nothing of the log itself. Raises ``OSError``."""
        for file in self._files:
            self._fs.fsync(file.fd)
        for path in self._small_files:
            # The folder may have been renamed or removed since, or the snapshot removed: there is nothing to be kept.
            with contextlib.suppress(FileNotFoundError):
                fd = self._fs.open(path)
                try:
                    self._fs.fsync(fd)
                finally:
                    self._fs.close(fd)
        for folder in self._folders:
            with contextlib.suppress(FileNotFoundError):
                self._fs.sync_dir(folder)
