"""The states of a partition in the controller.

Answers to: ``kafka.controller.PartitionState`` and the table in ``PartitionStateMachine``. Pure.

::

    NON_EXISTENT ──▶ NEW ──▶ ONLINE ◀──▶ OFFLINE ──▶ NON_EXISTENT
                      └──────────────────▲
"""

from __future__ import annotations

from enum import Enum


class PartitionState(Enum):
    """Where a partition stands."""

    NON_EXISTENT = "NonExistentPartition"
    """Never created, or deleted."""
    NEW = "NewPartition"
    """It has replicas, but no leader was ever elected."""
    ONLINE = "OnlinePartition"
    """It has a leader that lives."""
    OFFLINE = "OfflinePartition"
    """It had a leader once; that one is gone."""


LEGAL_PREDECESSORS: dict[PartitionState, frozenset[PartitionState]] = {
    PartitionState.NEW: frozenset({PartitionState.NON_EXISTENT}),
    PartitionState.ONLINE: frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.OFFLINE: frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.NON_EXISTENT: frozenset({PartitionState.OFFLINE}),
}


class IllegalPartitionTransitionError(Exception):
    """A transition that the table does not allow: an error in the controller itself."""


def check_partition_transition(what: object, before: PartitionState, after: PartitionState) -> None:
    """Raise :class:`IllegalPartitionTransitionError` unless a partition may go from ``before`` to ``after``."""
    if before not in LEGAL_PREDECESSORS[after]:
        raise IllegalPartitionTransitionError(f"partition {what} cannot go from {before.value} to {after.value}")
