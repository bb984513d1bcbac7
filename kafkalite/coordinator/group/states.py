"""The states of a group and the legal transitions between them.

Answers to: ``kafka.coordinator.group.GroupState`` and ``GroupMetadata.validPreviousStates``. Pure.

``python -m kafkalite.coordinator.group.states`` prints the diagram of ``docs/groups.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class GroupState(Enum):
    """The state of a group; the values are Kafka's names, as DescribeGroups shows them."""

    EMPTY = "Empty"
    """The group has no members. It keeps its committed offsets, and members may join."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Heartbeats are answered REBALANCE_IN_PROGRESS, so that members join again; JoinGroup waits for all members."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The next generation has begun; SyncGroup waits until the leader's assignment is durable."""
    STABLE = "Stable"
    """Every member has its assignment or can fetch it."""
    DEAD = "Dead"
    """The group was deleted, or another broker coordinates it now; this broker drops it from memory."""


_DEAD: Final = "deleted, expired, or coordinated elsewhere"
TRANSITIONS: Final[Mapping[GroupState, Mapping[GroupState, str]]] = {
    GroupState.EMPTY: {
        GroupState.PREPARING_REBALANCE: "the first member joins",
        GroupState.DEAD: _DEAD,
    },
    GroupState.PREPARING_REBALANCE: {
        GroupState.COMPLETING_REBALANCE: "all members have joined, or time is up",
        GroupState.EMPTY: "no member is left",
        GroupState.DEAD: _DEAD,
    },
    GroupState.COMPLETING_REBALANCE: {
        GroupState.STABLE: "the leader's assignment is durable",
        GroupState.PREPARING_REBALANCE: "a member joins, leaves, dies or does not sync",
        GroupState.DEAD: _DEAD,
    },
    GroupState.STABLE: {
        GroupState.PREPARING_REBALANCE: "a member joins, changes, leaves or dies",
        GroupState.DEAD: _DEAD,
    },
    GroupState.DEAD: {},
}
"""The legal transitions from each state, each with its cause."""


class IllegalGroupTransitionError(Exception):
    """A transition that is not in the table: an error in the coordinator, never in a client."""


def check_transition(group: str, before: GroupState, after: GroupState) -> None:
    """Raise :class:`IllegalGroupTransitionError` unless ``group`` may go from ``before`` to ``after``."""
    if after not in TRANSITIONS[before]:
        raise IllegalGroupTransitionError(f"group {group} cannot go from {before.value} to {after.value}")


def diagram() -> str:
    """The table as a state diagram for mermaid."""
    lines = ["stateDiagram-v2", f"    [*] --> {GroupState.EMPTY.value}"]
    for before, followers in TRANSITIONS.items():
        lines += [f"    {before.value} --> {after.value}: {when}" for after, when in followers.items()]
    return "\n".join([*lines, f"    {GroupState.DEAD.value} --> [*]"])


if __name__ == "__main__":
    print(diagram())
