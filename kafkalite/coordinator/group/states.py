"""The states of a group, and which may follow which.

Answers to: ``kafka.coordinator.group.GroupState`` and ``GroupMetadata.validPreviousStates``. Pure.

``python -m kafkalite.coordinator.group.states`` prints the diagram of ``docs/groups.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class GroupState(Enum):
    """Where a group stands; the values are Kafka's names, as DescribeGroups shows them."""

    EMPTY = "Empty"
    """No members. What was committed stays; members may come."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are called (their heartbeats are answered REBALANCE_IN_PROGRESS); JoinGroup waits until all are there."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The next generation has begun; SyncGroup waits for the leader's assignment, and for it to be durable."""
    STABLE = "Stable"
    """Every member has, or can get, its assignment."""
    DEAD = "Dead"
    """Deleted, or not this broker's any more: the end of what this broker has of it in memory."""


_DEAD: Final = "deleted, expired, or coordinated elsewhere"
TRANSITIONS: Final[Mapping[GroupState, Mapping[GroupState, str]]] = {
    GroupState.EMPTY: {
        GroupState.PREPARING_REBALANCE: "the first member joins",
        GroupState.DEAD: _DEAD,
    },
    GroupState.PREPARING_REBALANCE: {
        GroupState.COMPLETING_REBALANCE: "all members have joined, or time is up",
        GroupState.EMPTY: "nobody is left",
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
"""From each state: which may follow, and when."""


class IllegalGroupTransitionError(Exception):
    """A transition that the table does not have: an error in the coordinator itself."""


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
