"""The phases of a replica in the controller's eyes.

Answers to: ``kafka.controller.ReplicaState`` and the table in ``ReplicaStateMachine``. Pure.

::

    NON_EXISTENT ──▶ NEW ──▶ ONLINE ◀──▶ OFFLINE ──▶ DELETION_STARTED ──▶ DELETION_SUCCESSFUL ──▶ NON_EXISTENT
                                            ▲ ▼            │
                                   DELETION_INELIGIBLE ◀───┘
"""

from __future__ import annotations

from enum import Enum

from kafkalite.controller.partition_states import IllegalTransitionError


class ReplicaPhase(Enum):
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


LEGAL_PREDECESSORS: dict[ReplicaPhase, frozenset[ReplicaPhase]] = {
    ReplicaPhase.NEW: frozenset({ReplicaPhase.NON_EXISTENT}),
    ReplicaPhase.ONLINE: frozenset(
        {ReplicaPhase.NEW, ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_INELIGIBLE}
    ),
    ReplicaPhase.OFFLINE: frozenset(
        {ReplicaPhase.NEW, ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_INELIGIBLE}
    ),
    ReplicaPhase.DELETION_STARTED: frozenset({ReplicaPhase.OFFLINE}),
    ReplicaPhase.DELETION_SUCCESSFUL: frozenset({ReplicaPhase.DELETION_STARTED}),
    ReplicaPhase.DELETION_INELIGIBLE: frozenset({ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_STARTED}),
    ReplicaPhase.NON_EXISTENT: frozenset({ReplicaPhase.DELETION_SUCCESSFUL}),
}


def check_transition(what: object, before: ReplicaPhase, after: ReplicaPhase) -> None:
    """Raise :class:`IllegalTransitionError` unless a replica may go from ``before`` to ``after``."""
    if before not in LEGAL_PREDECESSORS[after]:
        raise IllegalTransitionError(f"replica {what} cannot go from {before.value} to {after.value}")
