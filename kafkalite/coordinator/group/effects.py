"""What a step of a group wants done: answers to requests that waited, and generations to be made durable.

Answers to: ``MemberMetadata.awaitingJoinCallback``, ``awaitingSyncCallback`` and the callback of
``GroupMetadataManager.storeGroup``. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kafkalite.coordinator.group.values import JoinAnswer, SyncAnswer
from kafkalite.zk.znodes.groups import Generation, MemberRecord

Ticket = int
"""Stands for a request that waits; whoever handed it in knows which."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Answer a JoinGroup."""

    ticket: Ticket
    answer: JoinAnswer


@dataclass(frozen=True, slots=True)
class Synced:
    """Answer a SyncGroup."""

    ticket: Ticket
    answer: SyncAnswer


class StoreKind(Enum):
    """Why a generation is stored, hence what happens once it is."""

    ASSIGNMENT = "assignment"
    """The leader has assigned: the group becomes stable and its members are answered."""
    EMPTY = "empty"
    """The last member is gone."""
    REPLACEMENT = "replacement"
    """A static member came back under another id."""


@dataclass(frozen=True, slots=True)
class StoreGeneration:
    """Make ``generation`` durable, in the order in which stores were asked for; then call ``persistence.stored``.

    ``replaced``: ids before and after, where a static member was replaced. ``ticket``: its JoinGroup.
    """

    kind: StoreKind
    generation: Generation
    members: tuple[MemberRecord, ...]
    replaced: tuple[str, str] = ("", "")
    ticket: Ticket = 0
    skip_assignment: bool = False


Effect = Joined | Synced | StoreGeneration
