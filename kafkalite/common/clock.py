"""Time, handed in: nothing below the reactor shell reads a clock of its own.

Answers to: ``org.apache.kafka.common.utils.Time``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call; has no effect if it was made or cancelled already."""


class Clock(Protocol):
    """The source of time."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary point; never goes backward."""

    def time_ms(self) -> int:
        """Wall-clock milliseconds since the epoch, as in Kafka's timestamps."""

    def call_later(self, delay: float, call: Callable[..., object], *args: object) -> Timer:
        """Make ``call(*args)`` on the reactor after ``delay`` seconds."""
