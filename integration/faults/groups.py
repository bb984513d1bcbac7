"""Groups and their coordinators by single requests: the coordinator, the committed offsets, the generation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from integration.harness.raw import RawClient
from integration.harness.wait import PATIENCE, wait_for
from kafkalite.common.errors import ErrorCode
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.protocol import messages
from kafkalite.protocol.codec import decode_response, encode_request, request_class

GROUP, TRANSACTION = 0, 1
"""Key types of FindCoordinator."""
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, HEARTBEAT, DESCRIBE_GROUPS = 8, 9, 10, 12, 15
# The last versions before the flexible ones.
COMMIT_VERSION, FETCH_VERSION, FIND_VERSION, HEARTBEAT_VERSION, DESCRIBE_VERSION = 7, 5, 2, 3, 4
MOST_GENERATIONS = 200
PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors of requests during a change of the coordinator."""


class NotYetError(LookupError):
    """A passing error of a coordinator."""


class GroupMember(NamedTuple):
    """A member as its coordinator describes it."""

    member_id: str
    instance_id: str | None
    client_id: str


class GroupView(NamedTuple):
    """A group as its coordinator describes it."""

    state: str
    members: tuple[GroupMember, ...]


class GroupClient(RawClient):
    """One connection to one broker, for requests about groups. Raises :class:`NotYetError` for passing errors."""

    def coordinator(self, key: str, kind: int = GROUP) -> int:
        """The broker that coordinates a group or a transactional id."""
        answer = self.ask(FIND_COORDINATOR, FIND_VERSION, key=key, key_type=kind)
        _check(answer.error_code)
        return int(answer.node_id)

    def commit(
        self,
        group: str,
        topic: str,
        offsets: Mapping[int, int],
        generation: int = -1,
        member: str = "",
        *,
        version: int = COMMIT_VERSION,
    ) -> dict[int, ErrorCode]:
        """Commit offsets of partitions: the error of each."""
        self.send_commit(group, topic, offsets, generation, member, version=version)
        return self.committed(version=version)

    def send_commit(
        self,
        group: str,
        topic: str,
        offsets: Mapping[int, int],
        generation: int = -1,
        member: str = "",
        *,
        version: int = COMMIT_VERSION,
    ) -> None:
        """Send the request of :meth:`commit`, and do not wait for the answer."""
        kind = messages.OffsetCommitRequest.OffsetCommitRequestTopic
        partitions = [
            kind.OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
            )
            for partition, offset in offsets.items()
        ]
        self._send_library(
            OFFSET_COMMIT,
            version,
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            group_instance_id=None,
            retention_time_ms=-1,
            topics=[kind(name=topic, partitions=partitions)],
        )

    def committed(self, *, version: int = COMMIT_VERSION) -> dict[int, ErrorCode]:
        """The answer to :meth:`send_commit`: the error of each partition."""
        answer = self._receive_library(OFFSET_COMMIT, version)
        return {p.partition_index: ErrorCode(p.error_code) for p in answer.topics[0].partitions}

    def offsets(
        self, group: str, topic: str, partitions: Iterable[int], *, version: int = FETCH_VERSION
    ) -> dict[int, int]:
        """The committed offsets by OffsetFetch: partition → offset, -1 without a commit."""
        kind = messages.OffsetFetchRequest.OffsetFetchRequestTopic
        topics = [kind(name=topic, partition_indexes=list(partitions))]
        answer = self.ask(OFFSET_FETCH, version, group_id=group, topics=topics)
        if version >= 2:
            _check(answer.error_code)
        found = {}
        for partition in answer.topics[0].partitions:
            if partition.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                _check(partition.error_code)
            found[int(partition.partition_index)] = int(partition.committed_offset)
        return found

    def heartbeat(self, group: str, generation: int, member: str) -> ErrorCode:
        """The error of a heartbeat for a member."""
        answer = self.ask(
            HEARTBEAT,
            HEARTBEAT_VERSION,
            group_id=group,
            generation_id=generation,
            member_id=member,
            group_instance_id=None,
        )
        if answer.error_code in PASSING:
            raise NotYetError(ErrorCode(answer.error_code).name)
        return ErrorCode(answer.error_code)

    def describe(self, group: str) -> GroupView:
        """The group's state and members."""
        answer = self.ask(DESCRIBE_GROUPS, DESCRIBE_VERSION, groups=[group], include_authorized_operations=False)
        (found,) = answer.groups
        _check(found.error_code)
        members = [GroupMember(m.member_id, m.group_instance_id, m.client_id) for m in found.members]
        return GroupView(found.group_state, tuple(sorted(members)))

    def _send_library(self, api_key: int, version: int, **fields: Any) -> None:
        self.post(api_key, version, encode_request(api_key, version, request_class(api_key)(version=version, **fields)))

    def _receive_library(self, api_key: int, version: int) -> Any:
        return decode_response(api_key, version, self.receive())


def _check(code: int) -> None:
    error = ErrorCode(code)
    if error in PASSING:
        raise NotYetError(error.name)
    assert error is ErrorCode.NONE, error.name


def find_coordinator(
    cluster: LocalCluster, key: str, kind: int = GROUP, *, but: int = 0, timeout: float = PATIENCE
) -> int:
    """The coordinator other than ``but``, once a living broker names it and it names itself.

    A broker that has not heard yet that its predecessor is gone would refuse what it is asked.
    """

    def named_by(broker_id: int) -> int:
        with GroupClient(cluster.address(broker_id), 5.0) as client:
            return client.coordinator(key, kind)

    def found() -> int:
        for broker_id in cluster.broker_ids:
            if broker_id == but or not cluster.is_alive(broker_id):
                continue
            coordinator = named_by(broker_id)
            if coordinator != but and cluster.is_alive(coordinator) and named_by(coordinator) == coordinator:
                return coordinator
        raise LookupError("nobody")

    return wait_for(found, f"{key} has a coordinator", timeout)


def ask_coordinator(cluster: LocalCluster, group: str, *, but: int = 0) -> GroupClient:
    """A connection to a group's coordinator."""
    return GroupClient(cluster.address(find_coordinator(cluster, group, but=but)), 5.0)


def describe(cluster: LocalCluster, group: str) -> GroupView:
    """The group, once its coordinator describes it."""

    def told() -> GroupView:
        with ask_coordinator(cluster, group) as client:
            return client.describe(group)

    return wait_for(told, f"{group} is described")


def generation_of(cluster: LocalCluster, group: str, member: str) -> int:
    """The generation of a member, found by heartbeats with ascending numbers, because no request returns it."""

    def told() -> int:
        with ask_coordinator(cluster, group) as client:
            for generation in range(1, MOST_GENERATIONS):
                if client.heartbeat(group, generation, member) is ErrorCode.NONE:
                    return generation
        raise LookupError(f"{member} is in no generation of {group}")

    return wait_for(told, f"{group} has a generation")
