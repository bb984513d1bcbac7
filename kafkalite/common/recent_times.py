"""How often something was done and how long it took lately: plain numbers, from which metrics take percentiles.

Answers to: ``com.yammer.metrics.core.Timer``, Kafka's ``…RateAndTimeMs``. Pure.
"""

from __future__ import annotations

from collections import deque
from typing import Final

WINDOW: Final = 1024
"""How many of the latest times are kept."""


class RecentTimes:
    """``count`` of all times and the latest :data:`WINDOW` of them, in seconds."""

    __slots__ = ("count", "latest")

    def __init__(self) -> None:
        self.count = 0
        self.latest: deque[float] = deque(maxlen=WINDOW)

    def add(self, seconds: float) -> None:
        """Count one more run, which took ``seconds``."""
        self.count += 1
        self.latest.append(seconds)
