"""The owner of each partition of a group in each generation, and commits in ended generations.

Answers to: nothing in Kafka; the groups' part of the history checker. Pure.
"""

from __future__ import annotations

from kafkalite.testing.history.breaches import Breaches, Rule
from kafkalite.testing.history.events import GroupRemoved, OffsetCommitted, OffsetCommitting, Owned, Syncing


class Groups:
    """The generations of all groups."""

    def __init__(self, breaches: Breaches) -> None:
        self._breaches = breaches
        self._owners: dict[tuple[str, int, int, str], str] = {}
        """Group, number of its removals, generation and partition → the owner."""
        self._removals: dict[str, int] = {}
        self._asked: dict[tuple[str, str], int] = {}
        """Group and member → number of removals when the member last requested its assignment."""
        self._generations: dict[str, int] = {}
        self._stale: dict[tuple[str, str, int, int], int] = {}

    def syncing(self, event: Syncing) -> None:
        self._asked[event.group, event.owner] = self._removals.get(event.group, 0)

    def owned(self, event: Owned) -> None:
        """A member got its assignment, perhaps late: its group may have been removed since it requested it."""
        now = self._removals.get(event.group, 0)
        removals = self._asked.get((event.group, event.owner), now)
        if removals == now:
            self._generations[event.group] = max(event.generation, self._generations.get(event.group, -1))
        for partition in event.partitions:
            owner = self._owners.setdefault((event.group, removals, event.generation, partition), event.owner)
            if owner != event.owner:
                self._breaches.add(
                    Rule.OWNER,
                    f"group {event.group}: {partition} is owned by {owner} and by {event.owner} in generation "
                    f"{event.generation}",
                )

    def removed(self, event: GroupRemoved) -> None:
        self._generations.pop(event.group, None)
        self._removals[event.group] = self._removals.get(event.group, 0) + 1

    def committing(self, event: OffsetCommitting) -> None:
        newest = self._generations.get(event.group, -1)
        if 0 <= event.generation < newest:
            self._stale[event] = newest

    def committed(self, event: OffsetCommitted) -> None:
        newest = self._stale.get((event.group, event.partition, event.offset, event.generation))
        if newest is not None:
            self._breaches.add(
                Rule.GENERATION,
                f"group {event.group} in {event.partition} at offset {event.offset}: committed in generation "
                f"{event.generation}, after {newest} had begun",
            )
