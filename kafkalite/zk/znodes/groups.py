"""``/consumers/<group>/generation``: a group's current generation, and its members beneath it.

Answers to: ``org.apache.kafka.coordinator.group.generated.GroupMetadataValue``, which real Kafka keeps in a topic. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """A member as it is kept: all that a coordinator must know to go on with it. Timeouts in milliseconds."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation. ``number`` 0 with no members: nobody ever joined. ``leader``, ``protocol`` "": none."""

    number: int
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    timestamp_ms: int = -1
