"""What is asked of the group coordinator and what it answers, as values; the handlers in ``apis/`` only translate.

Answers to: ``kafka.coordinator.group.{JoinGroupResult,SyncGroupResult,LeaveGroupResult,GroupSummary,GroupOverview}``.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.offsets.values import OffsetAndMetadata, TxnProducer

UNKNOWN_MEMBER: Final = ""
"""Member id of a member that has none yet, and of whoever is no member."""
NO_GENERATION: Final = -1
"""Generation of whoever uses a group for its offsets only."""

Protocols = tuple[tuple[str, bytes], ...]
"""Assignment protocols by name with the member's metadata for each, the preferred one first."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """One JoinGroup. Timeouts in milliseconds; ``client_host`` as Kafka shows it, with a leading slash.

    ``require_known_member_id``: a member without an id is given one and sent back with MEMBER_ID_REQUIRED (version 4
    on). ``can_skip_assignment``: a static leader that comes back may be told not to assign (version 9 on).
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
    """A member as its leader sees it: ``metadata`` for the protocol that was chosen."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """The answer to a JoinGroup; ``members`` is for the leader alone."""

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
    """One SyncGroup; ``assignments`` by member id come from the leader alone. ``None``: not said in this version."""

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
    """One member of a LeaveGroup; an administrator gives ``instance_id`` alone."""

    member_id: str
    instance_id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LeaveAnswer:
    """``error`` for the request, ``members`` with an error each, in order."""

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
    """A group in DescribeGroups; ``state`` is Kafka's name of it, empty where ``error`` is set."""

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
    """Offsets that a member, or (generation -1, no member id) somebody without membership, commits."""

    group: str
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    member_id: str = UNKNOWN_MEMBER
    generation: int = NO_GENERATION
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitRequest:
    """Offsets that a transaction commits; they take effect when ``producer``'s transaction does."""

    group: str
    producer: TxnProducer
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    member_id: str = UNKNOWN_MEMBER
    generation: int = NO_GENERATION
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetFetchRequest:
    """Whose offsets are asked for; ``partitions`` ``None``: all that the group has."""

    group: str
    partitions: Sequence[TopicPartition] | None
    require_stable: bool = False


@dataclass(frozen=True, slots=True)
class OffsetDeleteRequest:
    """Offsets that an administrator removes."""

    group: str
    partitions: Sequence[TopicPartition] = field(default=())


OffsetErrors = dict[TopicPartition, ErrorCode]
FetchedOffsets = dict[TopicPartition, "OffsetAndMetadata | ErrorCode"]
"""No entry: the group has no offset for that partition."""
