"""What all logs of a broker are given: files, time and chance.

Answers to: the constructor arguments that ``kafka.log.UnifiedLog`` shares (scheduler, time). Deterministic.
"""

from __future__ import annotations

import random

from kafkalite.common.clock import Clock
from kafkalite.log.file_system import FilePool, FileSystem


class LogServices:
    """Shared by every log. ``producer_expiration_ms`` is ``producer.id.expiration.ms``, which changes at run time."""

    __slots__ = ("clock", "fs", "pool", "producer_expiration_ms", "rng")

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
