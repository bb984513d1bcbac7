"""The membership of one member of a consumer group: join, sync, heartbeat, leave, offsets.

Answers to: ``org.apache.kafka.clients.consumer.internals.{AbstractCoordinator,ConsumerCoordinator}``. Deterministic.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import spawn
from kafkalite.common.types import TopicPartition
from kafkalite.network.client import ConnectionLost
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.testing.history.events import (
    Heartbeat,
    Heartbeating,
    OffsetCommitted,
    OffsetCommitting,
    OffsetFetched,
    OffsetFetching,
    OffsetUnknown,
    Owned,
    Syncing,
)
from kafkalite.testing.simulation.clients.cluster import ClusterClient
from kafkalite.testing.simulation.clients.consumer_protocol import (
    RANGE,
    STICKY,
    ConsumerProtocolSubscription,
    assign_ranges,
    assign_sticky,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kafkalite.testing.simulation.clients.coordinator_lookup import GROUP, CoordinatorLookup
from kafkalite.testing.simulation.clients.errors import COORDINATOR_MOVED, RETRIABLE

E = ErrorCode
PROTOCOL_TYPE = "consumer"
NO_GENERATION = -1
_VERSIONS = {
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 7,
}
_OffsetsTopic: TypeAlias = messages.OffsetCommitRequest.OffsetCommitRequestTopic
_Offsets: TypeAlias = Mapping[TopicPartition, tuple[int, int]]
"""Offset of each partition, and the leader epoch before it."""
_LATE_REFUSALS: Final = RETRIABLE | {
    E.ILLEGAL_GENERATION,
    E.UNKNOWN_MEMBER_ID,
    E.FENCED_INSTANCE_ID,
    E.REBALANCE_IN_PROGRESS,
}
"""Answers to requests of a generation that is over."""


class _Membership(NamedTuple):
    """A member id in a generation."""

    member_id: str
    generation: int


class EvictedError(Exception):
    """Another process has the member's instance id: the member ends."""


@dataclass(frozen=True)
class MembershipSettings:
    """The group, and the timeouts. Times in seconds."""

    group: str
    topics: tuple[str, ...]
    instance: str | None = None
    protocol: str = RANGE
    session_timeout: float = 6.0
    rebalance_timeout: float = 6.0
    heartbeat: float = 0.5


class ConsumerCoordinator:
    """The requests to the coordinator. ``owner`` is the member's name in the history. After a lost connection, or
    a retriable error, each call returns a value for failure; :class:`EvictedError` is final.

    After each join it repeats a heartbeat and a commit of the generation before, as if the network had held them back;
    the coordinator must refuse them.
    """

    def __init__(self, cluster: ClusterClient, owner: str, settings: MembershipSettings) -> None:
        self.settings = settings
        self.member_id = ""
        self.generation = NO_GENERATION
        self.lost = False
        """Whether the coordinator has removed the member: its partitions may belong to another one."""
        self.rejoin = True
        """Whether it has to join (again)."""
        self.owned: tuple[TopicPartition, ...] = ()
        """The partitions that it reported as owned at its last join; the caller sets them."""
        self._cluster = cluster
        self._host = cluster.host
        self._owner = owner
        self._coordinator = CoordinatorLookup(cluster, GROUP, settings.group)
        self._given = _Membership("", NO_GENERATION)
        """The membership with the last assignment."""
        self._answered: _Offsets = {}
        """The last commit with an answer under that membership."""

    def close(self) -> None:
        """Send no more requests."""
        self._coordinator.close()

    # Joining

    async def join(self) -> tuple[TopicPartition, ...] | None:
        """Join the next generation; returns the assignment, or ``None`` if that failed and must be tried again."""
        settings = self.settings
        subscription = encode_subscription(ConsumerProtocolSubscription(settings.topics, self.owned))
        kind = messages.JoinGroupRequest
        version = _VERSIONS[ApiKey.JOIN_GROUP]
        answer = await self._ask(
            ApiKey.JOIN_GROUP,
            # The coordinator answers when the other members have joined, or after the rebalance timeout.
            settings.rebalance_timeout + self._cluster.patience.request,
            session_timeout_ms=int(settings.session_timeout * 1000),
            rebalance_timeout_ms=int(settings.rebalance_timeout * 1000),
            member_id=self.member_id,
            group_instance_id=settings.instance,
            protocol_type=PROTOCOL_TYPE,
            protocols=[kind.JoinGroupRequestProtocol(version=version, name=settings.protocol, metadata=subscription)],
            reason="",
        )
        if answer is None:
            return None
        code = ErrorCode(answer.error_code)
        if code is E.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return None
        if code:
            self._refused("JoinGroup", code)
            return None
        self.member_id, self.generation = answer.member_id, answer.generation_id
        assignments: dict[str, bytes] = {}
        if answer.leader == answer.member_id and not answer.skip_assignment:
            assignments = self._assign(answer.members)
        return await self._sync(assignments)

    def _assign(self, members: Iterable[messages.JoinGroupResponse.JoinGroupResponseMember]) -> dict[str, bytes]:
        """The leader's task: compute the assignment of all members."""
        subscriptions: dict[str, ConsumerProtocolSubscription] = {}
        instances: dict[str, str | None] = {}
        for member in members:
            try:
                subscriptions[member.member_id] = decode_subscription(bytes(member.metadata))
            except (struct.error, UnicodeDecodeError) as error:
                self._host.violation(f"{self._owner}: the subscription of {member.member_id} is damaged: {error}")
                subscriptions[member.member_id] = ConsumerProtocolSubscription(())
            instances[member.member_id] = member.group_instance_id
        topics = dict.fromkeys(topic for each in subscriptions.values() for topic in each.topics)
        self._cluster.want(topics)
        counts = {topic: self._cluster.topics[topic] for topic in topics if topic in self._cluster.topics}
        if self.settings.protocol == STICKY:
            found = assign_sticky(subscriptions, counts)
        else:
            found = assign_ranges(subscriptions, counts, instances)
        return {member: encode_assignment(partitions) for member, partitions in found.items()}

    async def _sync(self, assignments: Mapping[str, bytes]) -> tuple[TopicPartition, ...] | None:
        kind = messages.SyncGroupRequest
        version = _VERSIONS[ApiKey.SYNC_GROUP]
        self._host.note(Syncing(self.settings.group, self._owner))
        answer = await self._ask(
            ApiKey.SYNC_GROUP,
            self.settings.rebalance_timeout + self._cluster.patience.request,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.settings.instance,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.settings.protocol,
            assignments=[
                kind.SyncGroupRequestAssignment(version=version, member_id=member, assignment=data)
                for member, data in assignments.items()
            ],
        )
        if answer is None:
            return None
        if answer.error_code:
            self._refused("SyncGroup", ErrorCode(answer.error_code))
            return None
        try:
            assigned = decode_assignment(bytes(answer.assignment))
        except (struct.error, UnicodeDecodeError) as error:
            self._host.violation(f"{self._owner}: the assignment is damaged: {error}")
            return None
        self.rejoin = self.lost = False
        names = tuple(map(str, assigned))
        self._host.note(Owned(self.settings.group, self.generation, self._owner, names, self._coordinator.broker))
        former, commit = self._given, self._answered
        self._given, self._answered = _Membership(self.member_id, self.generation), {}
        if NO_GENERATION < former.generation < self.generation:
            spawn(self._repeat(former, commit), f"late requests of {self._owner}")
        return assigned

    async def _repeat(self, former: _Membership, commit: _Offsets) -> None:
        """Send a heartbeat and a commit of the generation before again; promises judge an acknowledgement."""
        if former.member_id == self.member_id:
            code = await self._heartbeat(former)
            if code and code not in _LATE_REFUSALS:
                self._host.unexpected(self._owner, "late Heartbeat", code)
        if commit:
            answer = await self._send_commit(former, commit)
            for code in self._note_committed(former, commit, answer).values():
                if code not in _LATE_REFUSALS:
                    self._host.unexpected(self._owner, "late OffsetCommit", code)

    async def heartbeat(self) -> bool:
        """Send a heartbeat; returns whether the coordinator received it."""
        code = await self._heartbeat(_Membership(self.member_id, self.generation))
        if code:
            self._refused("Heartbeat", code)
        return code in (E.NONE, E.REBALANCE_IN_PROGRESS)

    async def _heartbeat(self, membership: _Membership) -> ErrorCode | None:
        """Send a heartbeat; the error of the answer, ``None`` without an answer."""
        who = self.settings.group, membership.generation, self._owner, membership.member_id
        self._host.note(Heartbeating(*who))
        answer = await self._ask(ApiKey.HEARTBEAT, None, **self._identity(membership))
        if answer is None:
            return None
        code = ErrorCode(answer.error_code)
        if not code:
            self._host.note(Heartbeat(*who, self._coordinator.broker))
        return code

    async def leave(self) -> None:
        """Leave the group; static members do not, because they will come back."""
        if not self.member_id or self.settings.instance is not None:
            return
        kind = messages.LeaveGroupRequest
        version = _VERSIONS[ApiKey.LEAVE_GROUP]
        member = kind.MemberIdentity(
            version=version, member_id=self.member_id, group_instance_id=None, reason="the client ends"
        )
        answer = await self._ask(ApiKey.LEAVE_GROUP, None, members=[member])
        if answer is not None and answer.error_code:
            self._refused("LeaveGroup", ErrorCode(answer.error_code))
        self.member_id, self.generation = "", NO_GENERATION

    # Offsets

    async def commit(self, offsets: _Offsets) -> bool:
        """Commit offsets (with the leader epochs before them); returns whether that succeeded."""
        group, host = self.settings.group, self._host
        membership = _Membership(self.member_id, self.generation)
        answer = await self._send_commit(membership, offsets)
        if answer is None:
            for partition, (offset, _) in offsets.items():
                host.note(OffsetUnknown(group, str(partition), offset))
            return False
        if membership == self._given:
            self._answered = dict(offsets)
        refused = self._note_committed(membership, offsets, answer)
        for partition, code in refused.items():
            if code is E.REQUEST_TIMED_OUT:
                # The coordinator may still execute the commit.
                host.note(OffsetUnknown(group, str(partition), offsets[partition][0]))
            self._refused("OffsetCommit", code)
        return not refused

    async def _send_commit(self, membership: _Membership, offsets: _Offsets) -> Any:
        """Send a commit; its answer, ``None`` without one."""
        host = self._host
        kind = _OffsetsTopic
        version = _VERSIONS[ApiKey.OFFSET_COMMIT]
        topics: dict[str, list[_OffsetsTopic.OffsetCommitRequestPartition]] = {}
        for (topic, number), (offset, epoch) in sorted(offsets.items()):
            host.note(OffsetCommitting(self.settings.group, f"{topic}-{number}", offset, membership.generation))
            topics.setdefault(topic, []).append(
                kind.OffsetCommitRequestPartition(
                    version=version,
                    partition_index=number,
                    committed_offset=offset,
                    committed_leader_epoch=epoch,
                    committed_metadata="",
                )
            )
        return await self._ask(
            ApiKey.OFFSET_COMMIT,
            None,
            generation_id_or_member_epoch=membership.generation,
            member_id=membership.member_id,
            group_instance_id=self.settings.instance,
            topics=[kind(version=version, name=name, partitions=found) for name, found in topics.items()],
        )

    def _note_committed(
        self, membership: _Membership, offsets: _Offsets, answer: Any
    ) -> dict[TopicPartition, ErrorCode]:
        """Note the acknowledged offsets of an answer to a commit; returns the errors of the others."""
        refused: dict[TopicPartition, ErrorCode] = {}
        for topic in () if answer is None else answer.topics:
            for found in topic.partitions:
                partition = TopicPartition(topic.name, found.partition_index)
                if found.error_code:
                    refused[partition] = ErrorCode(found.error_code)
                else:
                    offset = offsets[partition][0]
                    self._host.note(OffsetCommitted(self.settings.group, str(partition), offset, membership.generation))
        return refused

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int] | None:
        """The group's committed offsets of these partitions, -1 for none; ``None`` if no answer is possible now."""
        group = self.settings.group
        wanted = sorted(partitions)
        if not wanted:
            return {}
        kind = messages.OffsetFetchRequest.OffsetFetchRequestTopic
        version = _VERSIONS[ApiKey.OFFSET_FETCH]
        topics: dict[str, list[int]] = {}
        for topic, number in wanted:
            topics.setdefault(topic, []).append(number)
        self._host.note(OffsetFetching(self._owner, group))
        answer = await self._ask(
            ApiKey.OFFSET_FETCH,
            None,
            topics=[kind(version=version, name=name, partition_indexes=found) for name, found in topics.items()],
            require_stable=True,
        )
        if answer is None:
            return None
        found: dict[TopicPartition, int] = {}
        codes = [ErrorCode(answer.error_code)]
        for topic in answer.topics:
            for entry in topic.partitions:
                codes.append(ErrorCode(entry.error_code))
                found[TopicPartition(topic.name, entry.partition_index)] = entry.committed_offset
        refused = next((code for code in codes if code), None)
        if refused is not None:
            self._refused("OffsetFetch", refused)
            return None
        if sorted(found) != wanted:
            self._host.violation(f"{self._owner}: OffsetFetch answered for {sorted(found)}, not for {wanted}")
            return None
        for partition, offset in found.items():
            self._host.note(OffsetFetched(self._owner, group, str(partition), offset, self._coordinator.broker))
        return found

    # Errors

    async def _ask(self, key: ApiKey, timeout: float | None, /, **fields: object) -> Any:
        try:
            return await self._coordinator.ask(key, _VERSIONS[key], timeout, group_id=self.settings.group, **fields)
        except (ConnectionLost, ApiError):
            return None

    def _identity(self, membership: _Membership) -> dict[str, object]:
        return {
            "generation_id": membership.generation,
            "member_id": membership.member_id,
            "group_instance_id": self.settings.instance,
        }

    def _refused(self, what: str, code: ErrorCode) -> None:
        if code in COORDINATOR_MOVED or (code is E.REQUEST_TIMED_OUT and what == "OffsetCommit"):
            self._coordinator.forget()
        elif code is E.FENCED_INSTANCE_ID:
            raise EvictedError
        elif code is E.UNKNOWN_MEMBER_ID:
            self.member_id, self.generation = "", NO_GENERATION
            self.rejoin = self.lost = True
        elif code is E.ILLEGAL_GENERATION:
            self.generation = NO_GENERATION
            self.rejoin = self.lost = True
        elif code is E.REBALANCE_IN_PROGRESS:
            self.rejoin = True
        elif code not in RETRIABLE:
            self._host.unexpected(self._owner, what, code)
