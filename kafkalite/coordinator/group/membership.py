"""Who belongs to a group: members, static instances, those who have only been given an id, the leader, the vote.

Answers to: the collections of ``kafka.coordinator.group.GroupMetadata``. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kafkalite.coordinator.group.member_metadata import MemberMetadata
from kafkalite.coordinator.group.values import Protocols


class Membership:
    """Members in the order in which they came. ``leader`` is a member's id, empty where there are no members."""

    def __init__(self) -> None:
        self._members: dict[str, MemberMetadata] = {}
        self._static: dict[str, str] = {}
        self._support: Counter[str] = Counter()
        self.pending: dict[str, float] = {}
        """Ids that were given out (MEMBER_ID_REQUIRED) and have not joined, each with its deadline."""
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
        """The member id of a static member, ``None`` where there is no such instance."""
        return self._static.get(instance_id)

    @property
    def ids(self) -> set[str]:
        return set(self._members)

    @property
    def joining(self) -> int:
        """How many wait in JoinGroup."""
        return sum(member.join is not None for member in self._members.values())

    @property
    def all_joined(self) -> bool:
        """Whether nobody has to be waited for."""
        return not self.pending and all(member.join is not None for member in self._members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asks for."""
        return max((member.rebalance_timeout_ms for member in self._members.values()), default=0)

    # Changes

    def add(self, member: MemberMetadata) -> None:
        """A new member; the first one leads."""
        self.pending.pop(member.member_id, None)
        self._members[member.member_id] = member
        self._count(member.protocols, 1)
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        if not self.leader:
            self.leader = member.member_id

    def remove(self, member_id: str) -> None:
        """A member, or somebody with an id only, goes; whoever came first of those who stay leads."""
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
        """A static member goes on under another id, in its place in the order, and leads if it led."""
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
        """What a member says of itself when it joins again."""
        self._count(member.protocols, -1)
        self._count(protocols, 1)
        member.protocols = protocols
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is one of those who wait in JoinGroup; whether there is such a leader."""
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
        """Whether one of ``names`` is spoken by all members."""
        return any(self._support[name] == len(self._members) for name in names)

    def select_protocol(self) -> str:
        """The protocol with the most votes of those that all speak; a tie goes to the one voted for first."""
        candidates = {name for name, count in self._support.items() if count == len(self._members)}
        votes = Counter(member.vote(candidates) for member in self._members.values())
        return max(votes, key=lambda name: votes[name])

    def _count(self, protocols: Protocols, by: int) -> None:
        for name in {name for name, _ in protocols}:
            self._support[name] += by
            if not self._support[name]:
                del self._support[name]
