"""The members of a group: dynamic and static ones, pending member ids, the leader, the vote on the protocol.

Answers to: ``kafka.coordinator.group.MemberMetadata`` and the collections of ``GroupMetadata``. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from kafkalite.coordinator.group.values import Protocols, Ticket
from kafkalite.zk.znodes.groups import MemberRecord

NEW_MEMBER_TIMEOUT = 300.0
"""The session timeout, in seconds, of a member that waits for its first answer: it cannot send heartbeats yet."""


@dataclass(slots=True, eq=False)
class MemberMetadata:
    """``deadline``: when its session ends unless it sends a request, in monotonic seconds.

    ``is_new`` until its first JoinGroup is answered. ``join`` and ``sync``: the tickets of its waiting requests.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    deadline: float = float("inf")
    join: Ticket | None = None
    sync: Ticket | None = None

    def record(self, assignment: bytes | None = None) -> MemberRecord:
        """The durable record of the member, with ``assignment`` in place of its own if one is given."""
        return MemberRecord(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.session_timeout_ms,
            self.rebalance_timeout_ms,
            self.protocols,
            self.assignment if assignment is None else assignment,
        )

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def wakes_at(self) -> float:
        """When its session may end. A member that waits for an answer need not send heartbeats."""
        if not self.is_new and (self.join is not None or self.sync is not None):
            return float("inf")
        return self.deadline

    def metadata(self, protocol: str) -> bytes:
        """Its metadata for ``protocol``; empty if it does not support that protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: Container[str]) -> str:
        """The one of ``candidates`` that it prefers. Raises ``LookupError`` if it supports none of them."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise LookupError(f"member {self.member_id} supports none of the candidate protocols")


class Membership:
    """The members in the order in which they joined. ``leader`` is a member id, empty if there are no members."""

    def __init__(self) -> None:
        self._members: dict[str, MemberMetadata] = {}
        self._static: dict[str, str] = {}
        self._support: Counter[str] = Counter()
        self.pending: dict[str, float] = {}
        """Member ids that were given out (MEMBER_ID_REQUIRED) and have not joined yet, each with its deadline."""
        self.leader = ""

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._members

    def __iter__(self) -> Iterator[MemberMetadata]:
        return iter(list(self._members.values()))

    def __getitem__(self, member_id: str) -> MemberMetadata:
        return self._members[member_id]

    def get(self, member_id: str) -> MemberMetadata | None:
        return self._members.get(member_id)

    def static_id(self, instance_id: str) -> str | None:
        """The member id of a static member; ``None`` if no member has that instance id."""
        return self._static.get(instance_id)

    @property
    def ids(self) -> set[str]:
        return set(self._members)

    @property
    def joining(self) -> int:
        """How many members wait in JoinGroup."""
        return sum(member.join is not None for member in self._members.values())

    @property
    def all_joined(self) -> bool:
        """Whether all members wait in JoinGroup and no member id is pending."""
        return not self.pending and all(member.join is not None for member in self._members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self._members.values()), default=0)

    # Changes

    def add(self, member: MemberMetadata) -> None:
        """Add a new member; the first one becomes the leader."""
        self.pending.pop(member.member_id, None)
        self._members[member.member_id] = member
        self._count(member.protocols, 1)
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        if not self.leader:
            self.leader = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending id. If it was the leader, the member that joined first becomes the leader."""
        self.pending.pop(member_id, None)
        member = self._members.pop(member_id, None)
        if member is None:
            return
        self._count(member.protocols, -1)
        if member.instance_id is not None:
            self._static.pop(member.instance_id, None)
        if member_id == self.leader:
            self.leader = next(iter(self._members), "")

    def rename(self, member: MemberMetadata, member_id: str) -> None:
        """Give a static member another id; it keeps its place in the order, and stays the leader if it was."""
        assert member.instance_id is not None
        before = member.member_id
        self._members = {(member_id if known == before else known): each for known, each in self._members.items()}
        member.member_id = member_id
        self._static[member.instance_id] = member_id
        if self.leader == before:
            self.leader = member_id

    def update(
        self, member: MemberMetadata, protocols: Protocols, session_timeout_ms: int, rebalance_timeout_ms: int
    ) -> None:
        """Take over the protocols and timeouts of a member that joins again."""
        self._count(member.protocols, -1)
        self._count(protocols, 1)
        member.protocols = protocols
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader waits in JoinGroup: elect another one if needed. Returns whether that succeeded."""
        leader = self._members.get(self.leader)
        if leader is None:
            return False
        if leader.join is not None:
            return True
        joined = next((member for member in self._members.values() if member.join is not None), None)
        if joined is None:
            return False
        self.leader = joined.member_id
        return True

    # The vote

    def supports_any(self, names: Iterable[str]) -> bool:
        """Whether all members support one of ``names``."""
        return any(self._support[name] == len(self._members) for name in names)

    def select_protocol(self) -> str:
        """Of the protocols that all members support, the one with the most votes; on a tie, the one voted for first."""
        candidates = {name for name, count in self._support.items() if count == len(self._members)}
        votes = Counter(member.vote(candidates) for member in self._members.values())
        return max(votes, key=lambda name: votes[name])

    def _count(self, protocols: Protocols, by: int) -> None:
        for name in {name for name, _ in protocols}:
            self._support[name] += by
            if not self._support[name]:
                del self._support[name]
