"""The requests and answers of the group coordinator, and the effects of a group, as values.

Answers to: ``kafka.coordinator.group.{JoinGroupResult,SyncGroupResult,LeaveGroupResult,GroupSummary,GroupOverview}``
and the callbacks ``MemberMetadata.awaitingJoinCallback``, ``awaitingSyncCallback`` and that of
``GroupMetadataManager.storeGroup``. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.zk.znodes.groups import Generation, MemberRecord
from kafkalite.zk.znodes.offsets import OffsetAndMetadata, TxnProducer

UNKNOWN_MEMBER: Final = ""
"""The member id of a member without an id yet, and of a client that is no member."""
NO_GENERATION: Final = -1
"""The generation of a client that only stores offsets in the group."""

Protocols = tuple[tuple[str, bytes], ...]
"""Assignment protocols with the member's metadata for each, the preferred protocol first."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """One JoinGroup. Timeouts in milliseconds; ``client_host`` as Kafka shows it, with a leading slash.

    ``require_known_member_id``: answer a member without an id MEMBER_ID_REQUIRED, with a new id (version 4 on).
    ``can_skip_assignment``: a static leader that rejoins may be told not to assign (version 9 on).
    """

    group: str
    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    instance_id: str | None = None
    require_known_member_id: bool = False
    can_skip_assignment: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member in the leader's answer; ``metadata`` is for the chosen protocol."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """The answer to a JoinGroup; only the leader's answer has ``members``."""

    error: ErrorCode
    member_id: str = UNKNOWN_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """One SyncGroup; only the leader's has ``assignments`` (by member id). ``None``: not in this version."""

    group: str
    member_id: str
    generation: int
    assignments: Mapping[str, bytes]
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """The answer to a SyncGroup."""

    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """One Heartbeat."""

    group: str
    member_id: str
    generation: int
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """One member of a LeaveGroup; an administrator gives only ``instance_id``."""

    member_id: str
    instance_id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LeaveAnswer:
    """``error`` for the request as a whole; ``members`` with an error for each, in the request's order."""

    error: ErrorCode
    members: tuple[tuple[LeavingMember, ErrorCode], ...] = ()


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member in DescribeGroups."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group in DescribeGroups; ``state`` is Kafka's name, empty if ``error`` is set."""

    group: str
    error: ErrorCode = ErrorCode.NONE
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[MemberDescription, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in ListGroups."""

    group: str
    protocol_type: str
    state: str
    type: str = "classic"


@dataclass(frozen=True, slots=True)
class OffsetCommitRequest:
    """Offsets that a member commits, or (generation -1, no member id) a client that is no member."""

    group: str
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    member_id: str = UNKNOWN_MEMBER
    generation: int = NO_GENERATION
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitRequest:
    """Offsets that ``producer`` commits in its transaction; they take effect when the transaction commits."""

    group: str
    producer: TxnProducer
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    member_id: str = UNKNOWN_MEMBER
    generation: int = NO_GENERATION
    instance_id: str | None = None


OffsetErrors = dict[TopicPartition, ErrorCode]
FetchedOffsets = dict[TopicPartition, "OffsetAndMetadata | ErrorCode"]
"""No entry: the group has no offset for that partition."""


Ticket = int
"""Identifies a waiting request to the caller of ``GroupMetadata``."""


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
    """Why a generation is stored, which decides what follows when it is durable."""

    ASSIGNMENT = "assignment"
    """The leader has assigned: the group becomes stable, and its members are answered."""
    EMPTY = "empty"
    """The last member has left."""
    REPLACEMENT = "replacement"
    """A static member has restarted and has another member id."""


@dataclass(frozen=True, slots=True)
class StoreGeneration:
    """Make ``generation`` durable, in the order of these effects; then call ``GroupMetadata.stored``.

    ``replaced``: the ids before and after the restart of a static member. ``ticket``: its JoinGroup.
    """

    kind: StoreKind
    generation: Generation
    members: tuple[MemberRecord, ...]
    replaced: tuple[str, str] = ("", "")
    ticket: Ticket = 0
    skip_assignment: bool = False


Effect = Joined | Synced | StoreGeneration
