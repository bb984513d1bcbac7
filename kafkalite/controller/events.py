"""The controller's events. Callbacks create and queue them; the controller's lane handles one at a time.

Answers to: ``kafka.controller.ControllerEvent``. Pure. Equal events that wait are one event, because the handler reads
ZooKeeper again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kafkalite.common.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Elect:
    """There may be no controller: stand for election."""


@dataclass(frozen=True, slots=True)
class Reload:
    """The connection was lost, or a write's outcome is unknown: read everything from ZooKeeper again."""


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """``/brokers/ids`` changed."""


@dataclass(frozen=True, slots=True)
class TopicChange:
    """``/brokers/topics`` changed."""


@dataclass(frozen=True, slots=True)
class PartitionModifications:
    """The assignment of a topic changed."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicDeletionRequested:
    """``/admin/delete_topics`` changed."""


@dataclass(frozen=True, slots=True)
class ResumeDeletions:
    """Resume the deletion of topics."""


@dataclass(frozen=True, slots=True)
class StopReplicaAnswered:
    """A broker answered StopReplica for replicas of topics that are being deleted."""

    broker_id: int
    broker_epoch: int
    deleted: tuple[TopicPartition, ...]
    failed: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class IsrChange:
    """``/isr_change_notification`` changed."""


@dataclass(frozen=True, slots=True)
class LogDirEvent:
    """``/log_dir_event_notification`` changed."""


@dataclass(frozen=True, slots=True)
class LeaderAndIsrAnswered:
    """A broker's answer to LeaderAndIsr names replicas whose log directory failed, or works again."""

    broker_id: int
    broker_epoch: int
    offline: tuple[TopicPartition, ...]
    online: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """``/admin/reassign_partitions`` changed."""


@dataclass(frozen=True, slots=True)
class ReassignmentProgress:
    """The state of a partition that is being reassigned changed; an empty topic means all of them."""

    topic: str = ""
    partition: int = -1


@dataclass(frozen=True, slots=True)
class PreferredReplicaElection:
    """``/admin/preferred_replica_election`` was written."""


@dataclass(frozen=True, slots=True)
class AutoRebalance:
    """The interval is over after which the balance of leaderships is checked."""


@dataclass(frozen=True, slots=True)
class UncleanElectionAllowed:
    """``unclean.leader.election.enable`` became true for a topic, or for the cluster."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A request of an API that needs the controller; ``fail`` gets the error if ``run`` cannot be called or fails."""

    name: str
    run: Callable[[], Awaitable[None]]
    fail: Callable[[BaseException], None]


Event = (
    Elect
    | Reload
    | BrokerChange
    | TopicChange
    | PartitionModifications
    | TopicDeletionRequested
    | ResumeDeletions
    | StopReplicaAnswered
    | IsrChange
    | LogDirEvent
    | LeaderAndIsrAnswered
    | PartitionReassignment
    | ReassignmentProgress
    | PreferredReplicaElection
    | AutoRebalance
    | UncleanElectionAllowed
    | Call
)
