"""The owner of each partition of a group in each generation, and commits in ended generations.

Answers to: nothing in Kafka; the groups' part of the history checker. Pure.
"""

from __future__ import annotations

from kafkalite.testing.history.breaches import Breaches, Rule
from kafkalite.testing.history.events import GroupRemoved, OffsetCommitted, OffsetCommitting, Owned


class Groups:
    """The generations of all groups."""

    def __init__(self, breaches: Breaches) -> None:
        self._breaches = breaches
        self._owners: dict[tuple[str, int, str], str] = {}
        self._generations: dict[str, int] = {}
        self._stale: dict[tuple[str, str, int, int], int] = {}

    def owned(self, event: Owned) -> None:
        self._generations[event.group] = max(event.generation, self._generations.get(event.group, -1))
        for partition in event.partitions:
            owner = self._owners.setdefault((event.group, event.generation, partition), event.owner)
            if owner != event.owner:
                self._breaches.add(
                    Rule.OWNER,
                    f"group {event.group}: {partition} is owned by {owner} and by {event.owner} in generation "
                    f"{event.generation}",
                )

    def removed(self, event: GroupRemoved) -> None:
        self._generations.pop(event.group, None)
        self._owners = {key: owner for key, owner in self._owners.items() if key[0] != event.group}

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
