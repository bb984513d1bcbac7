"""One member of a group as its coordinator knows it.

Answers to: ``kafka.coordinator.group.MemberMetadata``. Pure.
"""

from __future__ import annotations

from collections.abc import Container
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

    @classmethod
    def of(cls, record: MemberRecord) -> MemberMetadata:
        """The member that ``record`` describes."""
        return cls(
            record.member_id,
            record.instance_id,
            record.client_id,
            record.client_host,
            record.session_timeout_ms,
            record.rebalance_timeout_ms,
            record.protocols,
            record.assignment,
        )

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
