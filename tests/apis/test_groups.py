"""The eight requests about groups, in every version that is served."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from kafkalite.apis.dispatch import Dispatcher
from kafkalite.apis.join_group import client_host
from kafkalite.apis.registry import served
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.coordinator.placement import preferred
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_response, encode_request, request_class
from kafkalite.zk.zk_client import ConnectionLostError
from tests.apis.helpers import FakeBroker, struct

NONE = ErrorCode.NONE


def versions(key: ApiKey) -> range:
    return range(served()[key].versions.min, served()[key].versions.max + 1)


def name_for(broker_id: int) -> str:
    """A group that this one of the three brokers would coordinate."""
    return next(f"g{number}" for number in range(100) if preferred(f"g{number}", (1, 2, 3)) == broker_id)


G = name_for(1)


def join_fields(version: int, member_id: str = "", **fields: Any) -> dict[str, Any]:
    protocol = struct(ApiKey.JOIN_GROUP, "JoinGroupRequestProtocol", version, name="range", metadata=b"topics")
    return {
        "group_id": G,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000,
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [protocol],
        "reason": None,
        **fields,
    }


def join(broker: FakeBroker, version: int = 9, member_id: str = "", **fields: Any) -> Any:
    """A member that is alone, through the initial delay; its answer."""
    key = ApiKey.JOIN_GROUP
    request = request_class(key)(version=version, **join_fields(version, member_id, **fields))
    broker.send(key, version, encode_request(key, version, request))
    if broker.connection.answers:
        answer = decode_response(key, version, memoryview(broker.take()))
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            return join(broker, version, answer.member_id, **fields)
        return answer
    broker.clock.advance(3.0)
    return decode_response(key, version, memoryview(broker.take()))


def sync(broker: FakeBroker, member_id: str, version: int = 5, **fields: Any) -> Any:
    assignment = struct(
        ApiKey.SYNC_GROUP, "SyncGroupRequestAssignment", version, member_id=member_id, assignment=b"all"
    )
    values = {
        "group_id": G,
        "generation_id": 1,
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [assignment],
        **fields,
    }
    return broker.call(ApiKey.SYNC_GROUP, version, **values)


# FindCoordinator


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR))
@pytest.mark.parametrize("broker_id", [1, 2, 3])
def test_find_coordinator(version: int, broker_id: int) -> None:
    broker = FakeBroker()
    group = name_for(broker_id)
    response = broker.call(ApiKey.FIND_COORDINATOR, version, key=group, key_type=0, coordinator_keys=[group, "x" * 99])
    found = response if version < 4 else response.coordinators[0]
    assert (found.error_code, found.node_id, found.host, found.port) == (NONE, broker_id, f"host{broker_id}", 9092)
    if version >= 4:
        assert [each.key for each in response.coordinators] == [group, "x" * 99]


def test_find_coordinator_names_the_listener_of_the_client() -> None:
    broker = FakeBroker()
    broker.connection.info.listener = "EXTERNAL"
    keys = [name_for(1), name_for(2), name_for(3)]
    response = broker.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=keys)
    assert [(each.host, each.port) for each in response.coordinators[:2]] == [("ext1", 19092), ("ext2", 19092)]
    # Broker 3 has no such listener.
    assert response.coordinators[2].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


class FakeTransactions:
    def __init__(self, outcome: int | Exception | None) -> None:
        self.outcome = outcome

    async def find(self, transactional_id: str) -> int | None:
        assert transactional_id == "tid"
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.mark.parametrize(
    ("outcome", "error", "node"),
    [
        (2, NONE, 2),
        (None, ErrorCode.COORDINATOR_NOT_AVAILABLE, -1),
        (99, ErrorCode.COORDINATOR_NOT_AVAILABLE, -1),
        (ConnectionLostError("/x"), ErrorCode.COORDINATOR_NOT_AVAILABLE, -1),
        (ApiError(ErrorCode.INVALID_REQUEST, "why"), ErrorCode.INVALID_REQUEST, -1),
    ],
)
@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_find_coordinator_of_transactions(version: int, outcome: Any, error: ErrorCode, node: int) -> None:
    broker = FakeBroker()
    broker.dispatcher = Dispatcher(replace(broker.services, transactions=cast("Any", FakeTransactions(outcome))))
    response = broker.call(ApiKey.FIND_COORDINATOR, version, key="tid", key_type=1, coordinator_keys=["tid"])
    found = response if version < 4 else response.coordinators[0]
    assert (found.error_code, found.node_id) == (error, node)


def test_find_coordinator_refuses_an_unknown_key_type() -> None:
    broker = FakeBroker()
    response = broker.call(ApiKey.FIND_COORDINATOR, 6, key_type=2, coordinator_keys=["share"])
    assert response.coordinators[0].error_code == ErrorCode.INVALID_REQUEST


def test_find_coordinator_without_zookeeper() -> None:
    broker = FakeBroker()
    broker.zookeeper.clients[0].lose_connection()
    response = broker.call(ApiKey.FIND_COORDINATOR, 3, key=G, key_type=0)
    assert (response.error_code, response.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


# A member's life


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_join(version: int) -> None:
    broker = FakeBroker()
    answer = join(broker, version)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (NONE, 1, "range")
    assert answer.member_id == answer.leader and answer.member_id.startswith("client-")
    assert [(each.member_id, each.metadata) for each in answer.members] == [(answer.member_id, b"topics")]
    if version >= 7:
        assert answer.protocol_type == "consumer"
    member = next(iter(broker.groups._groups.coordinated[G].core.members))
    # Version 0 has one timeout for both.
    assert member.rebalance_timeout_ms == (20_000 if version else 10_000)
    assert (member.client_id, member.client_host) == ("client", "/peer")


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_join_refused(version: int) -> None:
    broker = FakeBroker()
    answer = join(broker, version, "unknown")
    assert (answer.error_code, answer.member_id, answer.generation_id) == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        "unknown",
        -1,
    )
    assert answer.protocol_name == ("" if version < 7 else None)
    assert answer.members == []


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_an_id_is_required_from_version_4_on(version: int) -> None:
    broker = FakeBroker()
    key = ApiKey.JOIN_GROUP
    request = request_class(key)(version=version, **join_fields(version))
    broker.send(key, version, encode_request(key, version, request))
    assert len(broker.connection.answers) == (version >= 4)
    if version >= 4:
        answer = decode_response(key, version, memoryview(broker.take()))
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED and answer.member_id.startswith("client-")


@pytest.mark.parametrize("version", [5, 8, 9])
def test_static_members(version: int) -> None:
    broker = FakeBroker()
    first = join(broker, version, group_instance_id="i")
    assert first.member_id.startswith("i-") and first.members[0].group_instance_id == "i"
    sync(broker, first.member_id)
    again = join(broker, version, group_instance_id="i")
    assert (again.error_code, again.generation_id) == (NONE, 1)
    assert again.member_id != first.member_id
    assert again.leader == (again.member_id if version >= 9 else first.member_id)
    assert bool(again.skip_assignment) == (version >= 9)


@pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
def test_sync(version: int) -> None:
    broker = FakeBroker()
    member_id = join(broker).member_id
    answer = sync(broker, member_id, version)
    assert (answer.error_code, answer.assignment) == (NONE, b"all")
    if version >= 5:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert sync(broker, "x", version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"protocol_type": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_sync_refused(fields: dict[str, Any], error: ErrorCode) -> None:
    broker = FakeBroker()
    member_id = join(broker).member_id
    assert sync(broker, member_id, **fields).error_code == error


@pytest.mark.parametrize("version", versions(ApiKey.HEARTBEAT))
def test_heartbeat(version: int) -> None:
    broker = FakeBroker()
    member_id = join(broker).member_id
    fields = {"group_id": G, "member_id": member_id, "group_instance_id": None}
    assert broker.call(ApiKey.HEARTBEAT, version, generation_id=1, **fields).error_code == NONE
    assert broker.call(ApiKey.HEARTBEAT, version, generation_id=2, **fields).error_code == ErrorCode.ILLEGAL_GENERATION
    fields["group_id"] = name_for(2)
    assert broker.call(ApiKey.HEARTBEAT, version, generation_id=1, **fields).error_code == ErrorCode.NOT_COORDINATOR


def leave(broker: FakeBroker, version: int, *members: tuple[str, str | None], group: str = G) -> Any:
    identities = [
        struct(ApiKey.LEAVE_GROUP, "MemberIdentity", version, member_id=member, group_instance_id=instance)
        for member, instance in members
        if version >= 3
    ]
    return broker.call(ApiKey.LEAVE_GROUP, version, group_id=group, member_id=members[0][0], members=identities)


@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP))
def test_leave(version: int) -> None:
    broker = FakeBroker()
    member_id = join(broker).member_id
    unknown = leave(broker, version, ("x", None))
    assert (unknown.error_code if version < 3 else unknown.members[0].error_code) == ErrorCode.UNKNOWN_MEMBER_ID
    elsewhere = leave(broker, version, ("x", None), group=name_for(2))
    assert elsewhere.error_code == ErrorCode.NOT_COORDINATOR
    answer = leave(broker, version, (member_id, None))
    assert answer.error_code == NONE
    if version >= 3:
        assert [(each.member_id, each.error_code) for each in answer.members] == [(member_id, NONE)]
    assert not broker.groups._groups.coordinated[G].core.members


def test_many_leave() -> None:
    broker = FakeBroker()
    join(broker, group_instance_id="i")
    answer = leave(broker, 5, ("", "i"), ("", "j"), ("x", None))
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in answer.members] == [
        ("", "i", NONE),
        ("", "j", ErrorCode.UNKNOWN_MEMBER_ID),
        ("x", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ]


# Administration


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
def test_describe(version: int) -> None:
    broker = FakeBroker()
    member_id = join(broker, group_instance_id="i").member_id
    sync(broker, member_id)
    response = broker.call(
        ApiKey.DESCRIBE_GROUPS, version, groups=[G, name_for(2)], include_authorized_operations=version >= 3
    )
    group, other = response.groups
    assert (group.error_code, group.group_id, group.group_state) == (NONE, G, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    [member] = group.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "client", "/peer")
    assert (member.member_metadata, member.member_assignment) == (b"topics", b"all")
    assert member.group_instance_id == ("i" if version >= 4 else None)
    if version >= 3:
        assert group.authorized_operations == {3, 6, 8}
    assert (other.error_code, other.group_state, other.members) == (ErrorCode.NOT_COORDINATOR, "", [])


@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
def test_list(version: int) -> None:
    broker = FakeBroker()
    sync(broker, join(broker).member_id)
    response = broker.call(ApiKey.LIST_GROUPS, version, states_filter=[], types_filter=[])
    assert response.error_code == NONE
    assert [(each.group_id, each.protocol_type) for each in response.groups] == [(G, "consumer")]
    if version >= 4:
        assert response.groups[0].group_state == "Stable"
        assert not broker.call(ApiKey.LIST_GROUPS, version, states_filter=["Empty"], types_filter=[]).groups
    if version >= 5:
        assert response.groups[0].group_type == "classic"
        assert not broker.call(ApiKey.LIST_GROUPS, version, states_filter=[], types_filter=["consumer"]).groups


def test_list_without_zookeeper() -> None:
    broker = FakeBroker()
    broker.zookeeper.clients[0].lose_connection()
    response = broker.call(ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=[])
    assert (response.error_code, response.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
def test_delete(version: int) -> None:
    broker = FakeBroker()
    member_id = join(broker).member_id
    names = [G, name_for(2)]

    def delete() -> list[ErrorCode]:
        response = broker.call(ApiKey.DELETE_GROUPS, version, groups_names=names)
        assert [each.group_id for each in response.results] == names
        return [each.error_code for each in response.results]

    assert delete() == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.NOT_COORDINATOR]
    leave(broker, 5, (member_id, None))
    assert delete()[0] == NONE
    assert delete()[0] == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("peer", "host"), [("127.0.0.1:4711", "/127.0.0.1"), ("::1:4711", "/::1"), ("somewhere", "/somewhere")]
)
def test_where_a_member_comes_from(peer: str, host: str) -> None:
    assert client_host(peer) == host
