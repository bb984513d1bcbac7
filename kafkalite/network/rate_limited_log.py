"""Warnings about clients and brokers that misbehave, at a limited rate.

Answers to: nothing in Kafka, where a broken client can fill the log. Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable


class RateLimitedLog:
    """Writes at most ``limit`` warnings in ``interval`` seconds; then one line says how many were left out."""

    def __init__(self, log: logging.Logger, now: Callable[[], float], limit: int = 10, interval: float = 10.0) -> None:
        self._log = log
        self._now = now
        self._limit = limit
        self._interval = interval
        self._since = now()
        self._written = 0
        self._dropped = 0

    def warning(self, text: str, *args: object) -> None:
        """Write the line, unless ``limit`` lines were written in this interval."""
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
