"""Checks a history against the rules: one pass over its events, one over the logs and the records read.

Answers to: nothing in Kafka; the checkers of Jepsen's Kafka tests. Pure: no I/O, no clock; its time is linear in the
size of the history.
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
    """The violations in ``history``; none if all rules hold.

    Acknowledged records are looked up in the partition's replicas or, if the history has none, in the read records.
    Therefore a history without replicas needs a reader that reads all records at its end.
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
        # A fenced coordinator may still answer heartbeats for a while, so these events alone prove nothing.
        events.Syncing: (groups.syncing,),
        events.Heartbeating: (),
        events.Heartbeat: (),
        events.OffsetCommitting: (offsets.committing, groups.committing),
        events.OffsetCommitted: (offsets.committed, groups.committed, pipelines.committed),
        # A staged offset becomes the group's only when its transaction is committed.
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
