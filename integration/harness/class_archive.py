"""An archive of the classes that a Java program loads: with it the program starts in half the CPU time (AppCDS)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The JVM writes what it could not archive, and why it ignores an archive, to the standard output of the program.
QUIET = "-Xlog:disable"


class ClassArchive:
    """The archive ``name`` in ``folder`` for the Java runtime ``java``. A program that ends writes it, once.

    The JVM ignores an archive of other jars or of another Java, so that a wrong one costs time and nothing else.
    """

    def __init__(self, folder: Path, java: str, name: str) -> None:
        made = os.stat(os.path.realpath(java)).st_mtime_ns
        self._file = folder / f"{name}-{made:x}.jsa"

    @property
    def exists(self) -> bool:
        """Whether a program has written it."""
        return self._file.exists()

    def reading(self) -> tuple[str, ...]:
        """Flags of a JVM that uses the archive; none if there is none."""
        return (QUIET, f"-XX:SharedArchiveFile={self._file}") if self.exists else ()

    @contextmanager
    def flags(self, *, may_write: bool) -> Iterator[tuple[str, ...]]:
        """Flags of the JVM of a program that runs inside ``with``.

        ``may_write``: the program loads what others load, too. It writes the archive if there is none, and no other
        process writes it.
        """
        if self.exists:
            yield self.reading()
            return
        if not may_write or not os.access(self._file.parent, os.W_OK):
            yield ()
            return
        with self._file.with_suffix(".lock").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield ()
                return
            partial = self._file.with_suffix(".partial")
            partial.unlink(missing_ok=True)
            yield QUIET, f"-XX:ArchiveClassesAtExit={partial}"
            if partial.exists():
                partial.rename(self._file)
