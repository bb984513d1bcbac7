"""The offsets that groups committed, and the offsets in the brokers' answers.

Answers to: nothing in Kafka; the groups' part of the history checker. Pure.
"""

from __future__ import annotations

from collections import defaultdict

from kafkalite.testing.history.breaches import Breaches, Rule
from kafkalite.testing.history.events import (
    OffsetCommitted,
    OffsetCommitting,
    OffsetFetched,
    OffsetFetching,
    OffsetUnknown,
)

_NONE = -1


class Offsets:
    """All committed offsets.

    An answer must not be lower than the greatest offset that was acknowledged, or shown to any onlooker, before its
    request began. Therefore an offset whose commit has an unknown outcome is either shown for ever or never. Only an
    offset whose request may arrive late, because its connection was lost, may replace a greater one once.
    """

    def __init__(self, breaches: Breaches) -> None:
        self._breaches = breaches
        self._asked: dict[tuple[str, str], set[int]] = defaultdict(lambda: {_NONE})
        self._least: dict[str, dict[str, int]] = defaultdict(dict)
        self._least_at_request: dict[tuple[str, str, int], int] = {}
        self._least_of_look: dict[tuple[str, str], dict[str, int]] = {}
        self._late: set[tuple[str, str, int]] = set()

    def committing(self, event: OffsetCommitting) -> None:
        self._asked[event.group, event.partition].add(event.offset)
        least = self._least[event.group].get(event.partition, _NONE)
        self._least_at_request.setdefault((event.group, event.partition, event.offset), least)

    def committed(self, event: OffsetCommitted) -> None:
        where = f"group {event.group} in {event.partition} at offset {event.offset}"
        least = self._least_at_request.get((event.group, event.partition, event.offset))
        if least is None:
            self._breaches.add(Rule.COMMITTED, f"{where}: acknowledged, but no member committed it")
        elif event.offset < least:
            self._breaches.add(Rule.FORWARD, f"{where}: acknowledged, after {least} was")
        self._rise(event.group, event.partition, event.offset)

    def unknown(self, event: OffsetUnknown) -> None:
        self._late.add(event)

    def fetching(self, event: OffsetFetching) -> None:
        self._least_of_look[event.onlooker, event.group] = dict(self._least[event.group])

    def fetched(self, event: OffsetFetched) -> None:
        where = f"group {event.group} in {event.partition} at offset {event.offset}"
        least = self._least_of_look.get((event.onlooker, event.group), {}).get(event.partition, _NONE)
        if event.offset < least and (event.group, event.partition, event.offset) in self._late:
            # This offset is the group's position now.
            self._late.discard((event.group, event.partition, event.offset))
            self._least[event.group][event.partition] = event.offset
        elif event.offset < least:
            self._breaches.add(Rule.FORWARD, f"{where}: shown to {event.onlooker}, after {least} was committed")
        if event.offset not in self._asked[event.group, event.partition]:
            self._breaches.add(Rule.COMMITTED, f"{where}: shown to {event.onlooker}, but no member committed it")
        self._rise(event.group, event.partition, event.offset)

    def _rise(self, group: str, partition: str, offset: int) -> None:
        least = self._least[group]
        least[partition] = max(offset, least.get(partition, _NONE))
