"""One flush, as a value that another thread may carry out.

Answers to: ``UnifiedLog.flush``. Deterministic.
"""

from __future__ import annotations

import contextlib

from kafkalite.log.fs import File, FileSystem


class FlushWork:
    """Files to be forced to the disk so that everything below ``end`` is there.

    ``cuts`` counts the truncations that the log had seen: after one more, ``end`` may stand for other batches.
    """

    __slots__ = ("_epochs", "_files", "_folder", "_fs", "cuts", "end")

    def __init__(self, fs: FileSystem, folder: str, files: list[File], epochs: str | None, end: int, cuts: int) -> None:
        self._fs = fs
        self._folder = folder
        self._files = files
        self._epochs = epochs
        self.end = end
        self.cuts = cuts

    def run(self) -> None:
        """Do it; touches nothing of the log itself. Raises ``OSError``."""
        for file in self._files:
            self._fs.fsync(file.fd)
        # The folder may have been renamed or removed since: then there is nothing to be kept.
        with contextlib.suppress(FileNotFoundError):
            if self._epochs is not None:
                fd = self._fs.open(self._epochs)
                try:
                    self._fs.fsync(fd)
                finally:
                    self._fs.close(fd)
            self._fs.sync_dir(self._folder)
