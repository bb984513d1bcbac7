"""What the controller has done since the broker's start: its events and how long they took, its unclean elections.

Answers to: ``kafka.controller.ControllerStats`` and the metrics of ``ControllerEventManager``. Pure.
"""

from __future__ import annotations

from typing import Final

from kafkalite.common.recent_times import RecentTimes
from kafkalite.controller import events

_NAMES: Final[dict[type, str]] = {
    events.Elect: "ControllerChange",
    events.Reload: "ControllerChange",
    # Kafka's name for a change of the live brokers, which is what most elections come from.
    events.BrokerChange: "LeaderElection",
    events.TopicChange: "TopicChange",
    events.PartitionModifications: "TopicChange",
    events.TopicDeletionRequested: "TopicDeletion",
    events.ResumeDeletions: "TopicDeletion",
    events.StopReplicaAnswered: "TopicDeletion",
    events.IsrChange: "IsrChange",
    events.LogDirEvent: "LogDirChange",
    events.LeaderAndIsrAnswered: "LeaderAndIsrResponseReceived",
    events.PartitionReassignment: "PartitionReassignment",
    events.ReassignmentProgress: "PartitionReassignment",
    events.PreferredReplicaElection: "ManualLeaderBalance",
    events.AutoRebalance: "AutoLeaderBalance",
    events.UncleanElectionAllowed: "UncleanLeaderElectionEnable",
}
_OF_CALLS: Final = {
    "controlled shutdown": "ControlledShutdown",
    "leader election": "ManualLeaderBalance",
    "reassignment": "PartitionReassignment",
}
_STATES: Final = {
    "ControllerChange": 1,
    "LeaderElection": 2,
    "TopicChange": 3,
    "TopicDeletion": 4,
    "PartitionReassignment": 5,
    "AutoLeaderBalance": 6,
    "ManualLeaderBalance": 7,
    "ControlledShutdown": 8,
    "IsrChange": 9,
    "LeaderAndIsrResponseReceived": 10,
    "LogDirChange": 11,
    "UncleanLeaderElectionEnable": 13,
}
"""The numbers of ``kafka.controller.ControllerState``, in which ``LeaderElection`` is ``BrokerChange``; 0 is idle."""


class ControllerStats:
    """``by_event``: by Kafka's name of the event's state. ``queued``: the time that events waited."""

    EVENTS: Final = tuple(dict.fromkeys((*_NAMES.values(), *_OF_CALLS.values())))

    def __init__(self) -> None:
        self.by_event = {name: RecentTimes() for name in self.EVENTS}
        self.queued = RecentTimes()
        self.unclean_elections = 0
        """Partitions that got a leader which may lack records."""

    def handled(self, event: events.Event, waited: float, took: float) -> None:
        """``event`` waited and then took so many seconds."""
        self.queued.add(waited)
        self.by_event[_name(event)].add(took)


def controller_state(event: events.Event | None) -> int:
    """Kafka's number for the state of a controller that handles ``event``."""
    return 0 if event is None else _STATES[_name(event)]


def _name(event: events.Event) -> str:
    return _OF_CALLS[event.name] if isinstance(event, events.Call) else _NAMES[type(event)]
