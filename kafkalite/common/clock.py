"""Time, handed in: nothing below the reactor shell reads a clock of its own.

Answers to: ``org.apache.kafka.common.utils.Time``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    """A call that is to come."""

    def cancel(self) -> None:
        """Forget the call; harmless when it was made or cancelled already."""


class Clock(Protocol):
    """Where time comes from."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary point; never goes backward."""

    def time_ms(self) -> int:
        """Wall-clock milliseconds since the epoch, as Kafka's timestamps have it."""

    def call_later(self, delay: float, call: Callable[..., object], *args: Any) -> Timer:
        """Make ``call(*args)`` on the reactor after ``delay`` seconds."""
