"""The states of partitions and of replicas in the controller, and the legal transitions between them.

Answers to: ``kafka.controller.{PartitionState,ReplicaState}`` and the tables in ``PartitionStateMachine`` and
``ReplicaStateMachine``. Pure.

::

    Partition: NON_EXISTENT ──▶ NEW ──▶ ONLINE ◀──▶ OFFLINE ──▶ NON_EXISTENT
                                 └──────────────────▲

    Replica: NON_EXISTENT ──▶ NEW ──▶ ONLINE ◀──▶ OFFLINE ──▶ DELETION_STARTED ──▶ DELETION_SUCCESSFUL ──▶ NON_EXISTENT
                                                    ▲ ▼            │
                                           DELETION_INELIGIBLE ◀───┘
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class PartitionState(Enum):
    """Where a partition stands."""

    NON_EXISTENT = "NonExistentPartition"
    """Never created, or deleted."""
    NEW = "NewPartition"
    """It has replicas, but no leader was ever elected."""
    ONLINE = "OnlinePartition"
    """It has a live leader."""
    OFFLINE = "OfflinePartition"
    """It had a leader, which died."""


class ReplicaState(Enum):
    """Where a replica stands."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    """Sent LeaderAndIsr, in the course of a topic's creation or of a reassignment."""
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    """Its broker is down, or its log directory failed, or it was stopped."""
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """To be deleted, but its broker cannot be reached; tried again when the broker returns."""


_LIVING = frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE})
_PRESENT = frozenset({ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.DELETION_INELIGIBLE})
LEGAL_PREDECESSORS: Mapping[PartitionState | ReplicaState, frozenset[PartitionState] | frozenset[ReplicaState]] = {
    PartitionState.NEW: frozenset({PartitionState.NON_EXISTENT}),
    PartitionState.ONLINE: _LIVING,
    PartitionState.OFFLINE: _LIVING,
    PartitionState.NON_EXISTENT: frozenset({PartitionState.OFFLINE}),
    ReplicaState.NEW: frozenset({ReplicaState.NON_EXISTENT}),
    ReplicaState.ONLINE: _PRESENT,
    ReplicaState.OFFLINE: _PRESENT,
    ReplicaState.DELETION_STARTED: frozenset({ReplicaState.OFFLINE}),
    ReplicaState.DELETION_SUCCESSFUL: frozenset({ReplicaState.DELETION_STARTED}),
    ReplicaState.DELETION_INELIGIBLE: frozenset({ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED}),
    ReplicaState.NON_EXISTENT: frozenset({ReplicaState.DELETION_SUCCESSFUL}),
}


class IllegalPartitionTransitionError(Exception):
    """A transition that the table does not allow: an error in the controller itself."""


def check_transition(what: object, before: PartitionState | ReplicaState, after: PartitionState | ReplicaState) -> None:
    """Raise :class:`IllegalPartitionTransitionError` unless ``what`` may go from ``before`` to ``after``."""
    if before not in LEGAL_PREDECESSORS[after]:
        raise IllegalPartitionTransitionError(f"{what} cannot go from {before.value} to {after.value}")
