"""What all logs of a broker are given: files, time, chance, and whom to tell.

Answers to: the constructor arguments that ``kafka.log.UnifiedLog`` shares (scheduler, time, logDirFailureChannel).
Deterministic.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkalite.common.clock import Clock
from kafkalite.log.file_system import FilePool, FileSystem

if TYPE_CHECKING:
    from kafkalite.log.base import LogBase


class LogServices:
    """Shared by every log. The callbacks are the manager's; alone, a log deletes at once and flushes inline.

    ``failed(log_dir, error)``: the directory is of no more use. ``flush_later(log)``: segments wait to be forced to the
    disk. ``delete_later(paths, delay_ms)``: files that may be removed. ``cutting(log, first, end)``: what lies at
    and above ``first`` is about to go, and the log will end at ``end``; when the call returns, no checkpoint on the
    disk may name an offset above ``end`` (else ``OSError``).
    """

    __slots__ = (
        "clock",
        "cutting",
        "delete_later",
        "failed",
        "flush_later",
        "fs",
        "pool",
        "producer_expiration_ms",
        "rng",
    )

    def __init__(
        self,
        fs: FileSystem,
        clock: Clock,
        pool: FilePool | None = None,
        rng: random.Random | None = None,
        producer_expiration_ms: int = 86_400_000,
    ) -> None:
        self.fs = fs
        self.clock = clock
        self.pool = FilePool(64) if pool is None else pool
        self.rng = rng or random.Random()
        self.producer_expiration_ms = producer_expiration_ms
        self.failed: Callable[[str, OSError], None] = _ignore_failure
        self.flush_later: Callable[[LogBase], None] = _flush_now
        self.delete_later: Callable[[list[str], int], None] = self._delete_now
        self.cutting: Callable[[LogBase, int, int], None] = _ignore_cut

    def _delete_now(self, paths: list[str], _delay_ms: int) -> None:
        for path in paths:
            self.fs.remove(path)


def _ignore_failure(_log_dir: str, _error: OSError) -> None:
    """Nobody to tell."""


def _ignore_cut(_log: LogBase, _first: int, _end: int) -> None:
    """There are no checkpoints."""


def _flush_now(log: LogBase) -> None:
    log.flush(log.segments.active.base_offset)
