"""History of a group's commits, and its checker. Pure: no I/O, no clock.

- A read shows the last commit that was acknowledged before the read began, or a newer one.
- The offsets that one onlooker reads of a partition never decrease.
- No onlooker reads an offset that no member has sent.
"""

from __future__ import annotations

from collections.abc import Mapping

MOST_BREACHES = 50


class CommitTrail:
    """Takes the commits of members, their acknowledgements and the reads of onlookers; :attr:`breaches` has the
    violations."""

    def __init__(self) -> None:
        self.breaches: list[str] = []
        self.looks = 0
        self._sent: dict[int, int] = {}
        self._acknowledged: dict[int, int] = {}
        self._seen: dict[tuple[str, int], int] = {}

    def breach(self, text: str) -> None:
        """Add a violation."""
        if len(self.breaches) < MOST_BREACHES:
            self.breaches.append(text)

    def sent(self, partition: int, offset: int) -> None:
        """A member is about to commit ``offset``."""
        self._sent[partition] = max(offset, self._sent.get(partition, -1))

    def acknowledged(self, partition: int, offset: int) -> None:
        """The member got the acknowledgement of ``offset``."""
        self._acknowledged[partition] = max(offset, self._acknowledged.get(partition, -1))

    def floor(self) -> dict[int, int]:
        """The least offsets that a read which begins now may show."""
        return dict(self._acknowledged)

    def seen(self, onlooker: str, offsets: Mapping[int, int], floor: Mapping[int, int]) -> None:
        """An onlooker read ``offsets`` (-1: none). ``floor`` is :meth:`floor` from before the read, or empty."""
        self.looks += 1
        for partition, offset in offsets.items():
            key = onlooker, partition
            if offset < floor.get(partition, -1):
                self.breach(f"{onlooker}: {offset} of partition {partition}, after {floor[partition]} was acknowledged")
            if offset < self._seen.get(key, -1):
                self.breach(f"{onlooker}: partition {partition} went back from {self._seen[key]} to {offset}")
            if offset > self._sent.get(partition, -1):
                self.breach(f"{onlooker}: {offset} of partition {partition}, which no consumer committed")
            self._seen[key] = max(offset, self._seen.get(key, -1))
