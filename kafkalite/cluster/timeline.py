"""The events of several brokers as one timeline: in causal order first, by clock where no cause is known.

Answers to: nothing in Kafka. Pure.

Each broker's events stay in its own order. Across brokers an event comes after the write to ZooKeeper that caused it:

- writes to ZooKeeper are in the order of their zxids;
- an event with a ``cause`` comes after the last known write up to that zxid;
- an event with a controller epoch comes after the claim that began the epoch;
- an event with a leader epoch of a partition comes after the election that began that epoch.

What remains open is ordered by the brokers' clocks, corrected by how far each differs from the asking client's.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Mapping

from kafkalite.common.events import BrokerEvent, EventKind

_Key = tuple[int, int]


def merge(events: Iterable[BrokerEvent], ahead_ms: Mapping[int, int] | None = None) -> list[BrokerEvent]:
    """All ``events`` in causal order. ``ahead_ms``: by how many ms each broker's clock is ahead of the true one."""
    known = {(event.broker, event.sequence): event for event in events}
    before = dict.fromkeys(known, 0)
    after: dict[_Key, set[_Key]] = {key: set() for key in known}
    for first, second in _edges(known):
        if first != second and second not in after[first]:
            after[first].add(second)
            before[second] += 1
    ahead = ahead_ms or {}
    by_clock = sorted(known, key=lambda key: (known[key].time_ms - ahead.get(key[0], 0), key))
    rank = {key: number for number, key in enumerate(by_clock)}
    ready = [rank[key] for key in by_clock if not before[key]]
    waiting = iter(by_clock)
    merged: list[BrokerEvent] = []
    done: set[_Key] = set()
    while len(done) < len(known):
        # A circle: one broker recorded two writes in the other order. The clock decides which event comes first.
        key = by_clock[heapq.heappop(ready)] if ready else next(key for key in waiting if key not in done)
        if key in done:
            continue
        done.add(key)
        merged.append(known[key])
        for later in after[key]:
            before[later] -= 1
            if not before[later]:
                heapq.heappush(ready, rank[later])
    return merged


def _edges(known: Mapping[_Key, BrokerEvent]) -> Iterable[tuple[_Key, _Key]]:
    last: dict[int, _Key] = {}
    for key in sorted(known):
        if key[0] in last:
            yield last[key[0]], key
        last[key[0]] = key
    writes = sorted((event.zxid, key) for key, event in known.items() if event.zxid >= 0)
    yield from zip((key for _, key in writes), (key for _, key in writes[1:]), strict=False)
    begun: dict[Hashable, _Key] = {}
    for _, key in reversed(writes):
        begun.update(dict.fromkeys(_epochs(known[key]), key))
    zxids = [zxid for zxid, _ in writes]
    for key, event in known.items():
        if event.zxid >= 0:
            continue
        for epoch in _epochs(event):
            if epoch in begun:
                yield begun[epoch], key
        number = bisect_right(zxids, event.cause)
        if event.cause >= 0 and number:
            yield writes[number - 1][1], key


def _epochs(event: BrokerEvent) -> Iterable[Hashable]:
    """The epochs that ``event`` names; the first write that names one began it."""
    if event.controller_epoch >= 0 and (event.zxid < 0 or event.kind == EventKind.CONTROLLER):
        yield event.controller_epoch
    if event.leader_epoch >= 0:
        yield event.topic, event.partition, event.leader_epoch
