"""Log lines about others' misbehaviour, not more than a few a second.

Answers to: nothing in Kafka, whose log a broken client can fill. Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable


class RateLimitedLog:
    """Warnings of which at most ``limit`` are written in ``interval`` seconds; the next line says how many were not."""

    def __init__(self, log: logging.Logger, now: Callable[[], float], limit: int = 10, interval: float = 10.0) -> None:
        self._log = log
        self._now = now
        self._limit = limit
        self._interval = interval
        self._since = now()
        self._written = 0
        self._dropped = 0

    def warning(self, text: str, *args: object) -> None:
        """Write the line, unless too many have been written lately."""
        now = self._now()
        if now - self._since >= self._interval:
            if self._dropped:
                self._log.warning("%d more lines of this kind were left out", self._dropped)
            self._since = now
            self._written = self._dropped = 0
        if self._written < self._limit:
            self._written += 1
            self._log.warning(text, *args)
        else:
            self._dropped += 1
