"""Holds a history against the rules: one pass over its events, one over the logs and what was read of them.

Answers to: nothing in Kafka; the checkers of Jepsen's Kafka tests. Pure: no I/O, no clock; the time that it takes grows
with the size of the history, not with its square.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kafkalite.testing.history import events
from kafkalite.testing.history.breaches import Breach, Breaches
from kafkalite.testing.history.fencing import Fencing
from kafkalite.testing.history.groups import Groups
from kafkalite.testing.history.leaders import Leaders
from kafkalite.testing.history.logs import Logs
from kafkalite.testing.history.offsets import Offsets
from kafkalite.testing.history.pipelines import Pipelines
from kafkalite.testing.history.producers import Producers
from kafkalite.testing.history.readers import Readers


def check(history: Iterable[events.Event]) -> list[Breach]:
    """What in ``history`` cannot be; nothing, where it is as it should be.

    What was acknowledged is looked for in the partition's replicas, or, where none is part of the history, in what was
    read of it: so a history without replicas needs a reader that reads everything at its end.
    """
    breaches = Breaches()
    producers = Producers(breaches)
    readers = Readers(breaches, producers)
    offsets = Offsets(breaches)
    leaders = Leaders(breaches)
    logs = Logs(breaches)
    fencing = Fencing(breaches)
    groups = Groups(breaches)
    pipelines = Pipelines(breaches)
    takers: dict[type, tuple[Callable[[Any], None], ...]] = {
        events.Started: (producers.started,),
        events.Initialized: (fencing.initialized,),
        events.Begun: (producers.begun,),
        events.Sent: (producers.sent, fencing.sent),
        events.Acked: (producers.acked,),
        events.Failed: (producers.failed,),
        events.Unknown: (producers.unknown,),
        events.Committing: (producers.committing, fencing.committing),
        events.Committed: (producers.committed, fencing.committed),
        events.Aborted: (producers.aborted,),
        events.Positioned: (readers.positioned,),
        events.Read: (readers.read,),
        events.Reached: (readers.reached,),
        events.Owned: (groups.owned,),
        # A coordinator that was fenced may say so for a while, so these say nothing by themselves.
        events.Heartbeating: (),
        events.Heartbeat: (),
        events.OffsetCommitting: (offsets.committing, groups.committing),
        events.OffsetCommitted: (offsets.committed, groups.committed, pipelines.committed),
        # The group has a staged offset only once its transaction is committed.
        events.OffsetStaged: (),
        events.Derived: (pipelines.derived,),
        events.OffsetUnknown: (offsets.unknown,),
        events.OffsetFetching: (offsets.fetching,),
        events.OffsetFetched: (offsets.fetched,),
        events.Compacted: (logs.compacted,),
        events.GroupRemoved: (groups.removed,),
        events.Deleting: (logs.deleting,),
        events.Led: (leaders.led,),
        events.Replica: (logs.stored,),
    }
    for event in history:
        for take in takers[type(event)]:
            take(event)
    readers.tell(logs)
    logs.settle()
    logs.check(producers)
    readers.check(logs)
    leaders.check(producers, logs)
    fencing.check(producers, logs)
    pipelines.check(producers, logs)
    return breaches.found
