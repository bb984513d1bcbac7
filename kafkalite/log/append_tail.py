"""Where the latest appends ended: followers and consumers at the end of a log are answered without an index.

Answers to: nothing in Kafka, which looks the position up. Pure.
"""

from __future__ import annotations

APPENDS = 32
"""How many ends of appends are remembered; twice as many at most."""
HOT_BYTES = 8 << 20
"""What was written this recently is taken to be in memory without asking."""


class AppendTail:
    """Offsets at which appends to the active segment ended → positions in its file."""

    __slots__ = ("hot_from", "latest", "older")

    def __init__(self, size: int) -> None:
        self.hot_from = size
        """From here on this process has written the active segment."""
        self.latest: dict[int, int] = {}
        """The last :data:`APPENDS` appends at most. The end of the log is here, if anything was appended."""
        self.older: dict[int, int] = {}
        """As many before those."""

    def turn_over(self) -> None:
        """:attr:`latest` is full: it becomes :attr:`older`."""
        self.older = self.latest
        self.latest = {}

    def new_segment(self) -> None:
        """The active segment is a new one."""
        self.latest = {}
        self.older = {}
        self.hot_from = 0

    def truncated(self, size: int) -> None:
        """The active segment ends at ``size``."""
        self.latest = {}
        self.older = {}
        self.hot_from = min(self.hot_from, size)
