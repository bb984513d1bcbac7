"""What is known of a group's commits, and what of it cannot be. Pure: no I/O, no clock.

- A commit that was acknowledged before a look began is what that look shows, or a newer one.
- What one onlooker sees of a partition never goes back.
- Nobody sees what no member ever sent.
"""

from __future__ import annotations

from collections.abc import Mapping

MOST_BREACHES = 50


class CommitTrail:
    """Feed it with what members sent and heard and what onlookers saw; :attr:`breaches` says what cannot be."""

    def __init__(self) -> None:
        self.breaches: list[str] = []
        self.looks = 0
        self._sent: dict[int, int] = {}
        self._acknowledged: dict[int, int] = {}
        self._seen: dict[tuple[str, int], int] = {}

    def breach(self, text: str) -> None:
        """Something that must not be."""
        if len(self.breaches) < MOST_BREACHES:
            self.breaches.append(text)

    def sent(self, partition: int, offset: int) -> None:
        """A member is about to commit ``offset``."""
        self._sent[partition] = max(offset, self._sent.get(partition, -1))

    def acknowledged(self, partition: int, offset: int) -> None:
        """It was told that it is committed."""
        self._acknowledged[partition] = max(offset, self._acknowledged.get(partition, -1))

    def floor(self) -> dict[int, int]:
        """What a look that begins now must show at least."""
        return dict(self._acknowledged)

    def seen(self, onlooker: str, offsets: Mapping[int, int], floor: Mapping[int, int]) -> None:
        """What a look showed; -1: no offset. ``floor`` is what :meth:`floor` said before, or nothing."""
        self.looks += 1
        for partition, offset in offsets.items():
            key = onlooker, partition
            if offset < floor.get(partition, -1):
                self.breach(f"{onlooker}: {offset} of partition {partition}, after {floor[partition]} was acknowledged")
            if offset < self._seen.get(key, -1):
                self.breach(f"{onlooker}: partition {partition} went back from {self._seen[key]} to {offset}")
            if offset > self._sent.get(partition, -1):
                self.breach(f"{onlooker}: {offset} of partition {partition}, which nobody committed")
            self._seen[key] = max(offset, self._seen.get(key, -1))
