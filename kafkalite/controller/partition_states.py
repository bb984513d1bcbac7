"""The phases of a partition in the controller's eyes.

Answers to: ``kafka.controller.PartitionState`` and the table in ``PartitionStateMachine``. Pure.

::

    NON_EXISTENT ──▶ NEW ──▶ ONLINE ◀──▶ OFFLINE ──▶ NON_EXISTENT
                      └──────────────────▲
"""

from __future__ import annotations

from enum import Enum


class PartitionPhase(Enum):
    """Where a partition stands."""

    NON_EXISTENT = "NonExistentPartition"
    """Never created, or deleted."""
    NEW = "NewPartition"
    """It has replicas, but no leader was ever elected."""
    ONLINE = "OnlinePartition"
    """It has a leader that lives."""
    OFFLINE = "OfflinePartition"
    """It had a leader once; that one is gone."""


LEGAL_PREDECESSORS: dict[PartitionPhase, frozenset[PartitionPhase]] = {
    PartitionPhase.NEW: frozenset({PartitionPhase.NON_EXISTENT}),
    PartitionPhase.ONLINE: frozenset({PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE}),
    PartitionPhase.OFFLINE: frozenset({PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE}),
    PartitionPhase.NON_EXISTENT: frozenset({PartitionPhase.OFFLINE}),
}


class IllegalTransitionError(Exception):
    """A transition that the table does not allow: an error in the controller itself."""


def check_transition(what: object, before: PartitionPhase, after: PartitionPhase) -> None:
    """Raise :class:`IllegalTransitionError` unless a partition may go from ``before`` to ``after``."""
    if before not in LEGAL_PREDECESSORS[after]:
        raise IllegalTransitionError(f"partition {what} cannot go from {before.value} to {after.value}")
