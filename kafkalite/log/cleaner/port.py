"""Where compaction runs, as the log sees it: workers that take orders and report.

Answers to: the threads of ``kafka.log.LogCleaner``. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kafkalite.log.cleaner.job import Order, Report


class CleanerWorker(Protocol):
    """One place where rounds run, one after the other, away from the reactor."""

    def send(self, order: Order) -> None:
        """Hand an order over; a worker that is gone takes none, and says so by ``ended``."""

    def close(self) -> None:
        """End the worker, whatever it is doing. ``ended`` is not called any more."""


class CleanerPool(Protocol):
    """Where workers come from (``kafkalite.broker.cleaner``: child processes)."""

    def start(self, number: int, report: Callable[[Report], None], ended: Callable[[str], None]) -> CleanerWorker:
        """A new worker. ``report`` is called with each of its reports in order, ``ended`` with why it died."""
