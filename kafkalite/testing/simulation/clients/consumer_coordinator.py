"""One member of a consumer group as its coordinator sees it: join, sync, heartbeat, leave, offsets.

Answers to: ``org.apache.kafka.clients.consumer.internals.{AbstractCoordinator,ConsumerCoordinator}``. Deterministic.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.network.client import ConnectionLost
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import request_class
from kafkalite.testing.history.events import (
    Heartbeat,
    Heartbeating,
    OffsetCommitted,
    OffsetCommitting,
    OffsetFetched,
    OffsetFetching,
    OffsetUnknown,
    Owned,
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
    a retriable error, each call returns a value for failure; :class:`EvictedError` is final."""

    def __init__(self, cluster: ClusterClient, owner: str, settings: MembershipSettings) -> None:
        self.settings = settings
        self.member_id = ""
        self.generation = NO_GENERATION
        self.lost = False
        """Whether the coordinator has removed the member: its partitions may belong to another one."""
        self.rejoin = True
        """Whether it has to join (again)."""
        self.owned: tuple[TopicPartition, ...] = ()
        """What it reported as owned at its last join; kept by the caller."""
        self._cluster = cluster
        self._host = cluster.host
        self._owner = owner
        self._coordinator = CoordinatorLookup(cluster, GROUP, settings.group)

    def close(self) -> None:
        """Send no more requests."""
        self._coordinator.close()

    # Joining

    async def join(self) -> tuple[TopicPartition, ...] | None:
        """Join the next generation; returns the assignment, or ``None`` if that failed and must be tried again."""
        settings = self.settings
        subscription = encode_subscription(ConsumerProtocolSubscription(settings.topics, self.owned))
        kind = request_class(ApiKey.JOIN_GROUP)
        version = _VERSIONS[ApiKey.JOIN_GROUP]
        answer = await self._ask(
            ApiKey.JOIN_GROUP,
            # The coordinator answers when the other members have joined, or their time is over.
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

    def _assign(self, members: Iterable[Any]) -> dict[str, bytes]:
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
        kind = request_class(ApiKey.SYNC_GROUP)
        version = _VERSIONS[ApiKey.SYNC_GROUP]
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
        return assigned

    async def heartbeat(self) -> bool:
        """Send a heartbeat; returns whether the coordinator received it."""
        who = self.settings.group, self.generation, self._owner, self.member_id
        self._host.note(Heartbeating(*who))
        answer = await self._ask(ApiKey.HEARTBEAT, None, **self._identity())
        if answer is None:
            return False
        code = ErrorCode(answer.error_code)
        if code:
            self._refused("Heartbeat", code)
        else:
            self._host.note(Heartbeat(*who, self._coordinator.broker))
        return code in (E.NONE, E.REBALANCE_IN_PROGRESS)

    async def leave(self) -> None:
        """Leave the group; static members do not, because they will come back."""
        if not self.member_id or self.settings.instance is not None:
            return
        kind = request_class(ApiKey.LEAVE_GROUP)
        version = _VERSIONS[ApiKey.LEAVE_GROUP]
        member = kind.MemberIdentity(
            version=version, member_id=self.member_id, group_instance_id=None, reason="the client ends"
        )
        answer = await self._ask(ApiKey.LEAVE_GROUP, None, members=[member])
        if answer is not None and answer.error_code:
            self._refused("LeaveGroup", ErrorCode(answer.error_code))
        self.member_id, self.generation = "", NO_GENERATION

    # Offsets

    async def commit(self, offsets: Mapping[TopicPartition, tuple[int, int]]) -> bool:
        """Commit offsets (with the leader epochs before them); returns whether that succeeded."""
        group, generation, host = self.settings.group, self.generation, self._host
        kind = request_class(ApiKey.OFFSET_COMMIT).OffsetCommitRequestTopic
        version = _VERSIONS[ApiKey.OFFSET_COMMIT]
        topics: dict[str, list[Any]] = {}
        for (topic, number), (offset, epoch) in sorted(offsets.items()):
            host.note(OffsetCommitting(group, f"{topic}-{number}", offset, generation))
            topics.setdefault(topic, []).append(
                kind.OffsetCommitRequestPartition(
                    version=version,
                    partition_index=number,
                    committed_offset=offset,
                    committed_leader_epoch=epoch,
                    committed_metadata="",
                )
            )
        answer = await self._ask(
            ApiKey.OFFSET_COMMIT,
            None,
            generation_id_or_member_epoch=generation,
            member_id=self.member_id,
            group_instance_id=self.settings.instance,
            topics=[kind(version=version, name=name, partitions=found) for name, found in topics.items()],
        )
        if answer is None:
            for partition, (offset, _) in offsets.items():
                host.note(OffsetUnknown(group, str(partition), offset))
            return False
        done = True
        for topic in answer.topics:
            for found in topic.partitions:
                partition = TopicPartition(topic.name, found.partition_index)
                if found.error_code:
                    done = False
                    code = ErrorCode(found.error_code)
                    if code is E.REQUEST_TIMED_OUT:
                        # The coordinator goes on with it.
                        host.note(OffsetUnknown(group, str(partition), offsets[partition][0]))
                    self._refused("OffsetCommit", code)
                else:
                    host.note(OffsetCommitted(group, str(partition), offsets[partition][0], generation))
        return done

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int] | None:
        """The group's committed offsets of these partitions, -1 for none; ``None`` if no answer is possible now."""
        group = self.settings.group
        wanted = sorted(partitions)
        if not wanted:
            return {}
        kind = request_class(ApiKey.OFFSET_FETCH).OffsetFetchRequestTopic
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

    # What errors mean

    async def _ask(self, key: ApiKey, timeout: float | None, /, **fields: Any) -> Any:
        try:
            return await self._coordinator.ask(key, _VERSIONS[key], timeout, group_id=self.settings.group, **fields)
        except (ConnectionLost, ApiError):
            return None

    def _identity(self) -> dict[str, Any]:
        return {
            "generation_id": self.generation,
            "member_id": self.member_id,
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
