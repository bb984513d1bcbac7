"""The states of a replica in the controller.

Answers to: ``kafka.controller.ReplicaState`` and the table in ``ReplicaStateMachine``. Pure.

::

    NON_EXISTENT ──▶ NEW ──▶ ONLINE ◀──▶ OFFLINE ──▶ DELETION_STARTED ──▶ DELETION_SUCCESSFUL ──▶ NON_EXISTENT
                                            ▲ ▼            │
                                   DELETION_INELIGIBLE ◀───┘
"""

from __future__ import annotations

from enum import Enum

from kafkalite.controller.partition_states import IllegalPartitionTransitionError


class ReplicaState(Enum):
    """Where a replica stands."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    """Told to follow, in the course of a topic's creation or of a reassignment."""
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    """Its broker is down, or its log directory failed, or it was stopped."""
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """To be deleted, but out of reach; tried again when it returns."""


LEGAL_PREDECESSORS: dict[ReplicaState, frozenset[ReplicaState]] = {
    ReplicaState.NEW: frozenset({ReplicaState.NON_EXISTENT}),
    ReplicaState.ONLINE: frozenset(
        {ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.DELETION_INELIGIBLE}
    ),
    ReplicaState.OFFLINE: frozenset(
        {ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.DELETION_INELIGIBLE}
    ),
    ReplicaState.DELETION_STARTED: frozenset({ReplicaState.OFFLINE}),
    ReplicaState.DELETION_SUCCESSFUL: frozenset({ReplicaState.DELETION_STARTED}),
    ReplicaState.DELETION_INELIGIBLE: frozenset({ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED}),
    ReplicaState.NON_EXISTENT: frozenset({ReplicaState.DELETION_SUCCESSFUL}),
}


def check_replica_transition(what: object, before: ReplicaState, after: ReplicaState) -> None:
    """Raise :class:`IllegalPartitionTransitionError` unless a replica may go from ``before`` to ``after``."""
    if before not in LEGAL_PREDECESSORS[after]:
        raise IllegalPartitionTransitionError(f"replica {what} cannot go from {before.value} to {after.value}")
