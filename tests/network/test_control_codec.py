"""Control requests as Kafka's messages: what brokers of kafkalite add to them, and what Kafka's controller sends."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kafkalite.cluster.control import (
    EPOCH_DURING_DELETE,
    ControlledShutdownRequest,
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkalite.cluster.metadata import LEADER_DURING_DELETE
from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.network.control_codec import (
    ControlVersions,
    control_versions,
    controlled_shutdown_response,
    decode_control_response,
    encode_control_request,
    leader_and_isr_response,
    read_leader_and_isr,
    read_stop_replica,
    read_update_metadata,
    stop_replica_response,
)
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_request, encode_request, encode_response
from kafkalite.protocol.errors import ProtocolError
from tests.protocol.golden import GOLDEN

A, B = uuid.UUID(int=1 << 100), uuid.UUID(int=7)
FIRST = LeaderAndIsr(
    "a", 0, A, 1, 5, (1, 2), 3, 4, 1 << 40, PartitionAssignment((1, 2, 3), (3,), (1, 2)), ((1, 1 << 33), (2, -1))
)
STATES = (
    FIRST,
    LeaderAndIsr("b", 2, B, -1, 0, (), 3, 0, -1, PartitionAssignment((2,))),
    FIRST.with_(partition=1, leader=2, mzxid=9, unclean_start_epochs=(), assignment=PartitionAssignment((2, 1))),
)
BROKERS = (
    Broker(
        1, (Endpoint("PLAINTEXT", "PLAINTEXT", "one", 9092), Endpoint("OUTER", "SASL_SSL", "o", 9)), "r", 1 << 34, 5
    ),
    Broker(2, (Endpoint("PLAINTEXT", "PLAINTEXT", "two", 9092),), None, 1 << 35, -1),
    Broker(3, (Endpoint("OUTER", "SSL", "three", 9092),), None, 12, 12),
)
STOPS = (
    StopReplicaPartitionState(TopicPartition("a", 0), EPOCH_DURING_DELETE, True, A),
    StopReplicaPartitionState(TopicPartition("b", 3), 7, False, B),
    StopReplicaPartitionState(TopicPartition("a", 1), EPOCH_DURING_DELETE, True, A),
    StopReplicaPartitionState(TopicPartition("a", 1), 2, True, B),
)
HEAD = (9, 3, 1 << 40)
VERSIONS = ["2.8", "3.2", "3.4-IV0", "3.9-IV0"]


def sent(request: ControlRequest, protocol: str = "3.9") -> Any:
    """What the receiver reads of ``request``."""
    key, version, body = encode_control_request(request, control_versions(protocol), "PLAINTEXT")
    message: Any = decode_request(key, version, memoryview(body))
    if key is ApiKey.LEADER_AND_ISR:
        return read_leader_and_isr(message, "PLAINTEXT")
    if key is ApiKey.UPDATE_METADATA:
        return read_update_metadata(message, version)
    if key is ApiKey.STOP_REPLICA:
        return read_stop_replica(message, version)
    return ControlledShutdownRequest(message.broker_id, message.broker_epoch)


def by_topic_id(states: tuple[LeaderAndIsr, ...]) -> tuple[LeaderAndIsr, ...]:
    return tuple(sorted(states, key=lambda state: state.topic))


@pytest.mark.parametrize("protocol", VERSIONS)
def test_states_arrive_with_all_that_kafkas_fields_lack(protocol: str) -> None:
    request = LeaderAndIsrRequest(*HEAD, STATES, BROKERS)
    leaders = tuple(Broker(n, (Endpoint("PLAINTEXT", "", host, 9092),)) for n, host in ((1, "one"), (2, "two")))
    assert sent(request, protocol) == LeaderAndIsrRequest(*HEAD, by_topic_id(STATES), leaders)


@pytest.mark.parametrize("protocol", VERSIONS)
def test_metadata_arrive_with_all_that_kafkas_fields_lack(protocol: str) -> None:
    gone = LeaderAndIsr("gone", 0, uuid.UUID(int=99), LEADER_DURING_DELETE)
    request = UpdateMetadataRequest(*HEAD, (*STATES, gone), BROKERS, 12)
    assert sent(request, protocol) == UpdateMetadataRequest(*HEAD, (*by_topic_id(STATES), gone), BROKERS, 12)


@pytest.mark.parametrize("protocol", VERSIONS)
def test_stops_arrive_with_the_ids_of_their_topics(protocol: str) -> None:
    found = sent(StopReplicaRequest(*HEAD, STOPS), protocol)
    assert found == StopReplicaRequest(*HEAD, (STOPS[0], STOPS[2], STOPS[1], STOPS[3]))


@pytest.mark.parametrize(
    "request_",
    [
        LeaderAndIsrRequest(*HEAD, (), ()),
        UpdateMetadataRequest(*HEAD, (), ()),
        StopReplicaRequest(*HEAD, ()),
        ControlledShutdownRequest(3, 1 << 50),
    ],
)
def test_empty_requests(request_: ControlRequest) -> None:
    assert sent(request_) == request_


@pytest.mark.parametrize("protocol", VERSIONS)
@pytest.mark.parametrize("kind", [LeaderAndIsrRequest, UpdateMetadataRequest])
def test_the_bytes_are_those_of_the_schema(kind: Any, protocol: str) -> None:
    many = tuple(FIRST.with_(partition=number) for number in range(300))
    for request in (kind(*HEAD, STATES, BROKERS), kind(*HEAD, many, BROKERS), kind(*HEAD, (), ())):
        key, version, body = encode_control_request(request, control_versions(protocol), "PLAINTEXT")
        assert encode_request(key, version, decode_request(key, version, memoryview(body))) == body


def test_a_reader_of_kafkas_fields_sees_what_kafka_would_send() -> None:
    key, version, body = encode_control_request(
        UpdateMetadataRequest(*HEAD, STATES, BROKERS[:2]), ControlVersions(), ""
    )
    message: Any = decode_request(key, version, memoryview(body))
    first = message.topic_states[0].partition_states[0]
    assert (first.leader, first.isr, first.zk_version, first.replicas) == (1, [1, 2], 4, [1, 2, 3])
    assert first.offline_replicas == [3]
    assert [e.security_protocol for e in message.live_brokers[0].endpoints] == [0, 3]
    key, version, body = encode_control_request(LeaderAndIsrRequest(*HEAD, STATES, BROKERS), ControlVersions(), "OUTER")
    message = decode_request(key, version, memoryview(body))
    states = [state for topic in message.topic_states for state in topic.partition_states]
    assert [(state.adding_replicas, state.removing_replicas) for state in states] == [([3], [1, 2]), ([], []), ([], [])]
    assert [state.is_new for state in states] == [False, False, True]
    assert [(each.broker_id, each.host_name, each.port) for each in message.live_leaders] == [(1, "o", 9)]


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        ("0.10.2-IV0", ControlVersions(5, 7, 3, 3)),
        ("2.8", ControlVersions(5, 7, 3, 3)),
        ("2.8-IV1", ControlVersions(5, 7, 3, 3)),
        ("3.2-IV0", ControlVersions(6, 7, 3, 3)),
        ("3.3", ControlVersions(6, 7, 3, 3)),
        ("3.4", ControlVersions(7, 8, 4, 3)),
        ("3.9-IV0", ControlVersions(7, 8, 4, 3)),
    ],
)
def test_versions_are_kafkas_for_the_protocol_between_brokers(protocol: str, expected: ControlVersions) -> None:
    assert control_versions(protocol) == expected


# Requests of Kafka

REQUESTS = [golden for golden in GOLDEN if golden.side == "request" and golden.api_key in (4, 5, 6)]


@pytest.mark.parametrize("golden", REQUESTS, ids=str)
def test_kafkas_requests_are_read(golden: Any) -> None:
    message: Any = decode_request(golden.api_key, golden.version, memoryview(golden.data))
    values = golden.values
    if golden.api_key == ApiKey.STOP_REPLICA:
        stops = read_stop_replica(stranger(message), golden.version)
        assert (stops.controller_id, stops.controller_epoch) == (values["controllerId"], values["controllerEpoch"])
        assert stops.broker_epoch == values.get("brokerEpoch", -1)
        assert len(stops.partitions) == (2 if golden.version == 0 else 4)
        assert {stop.topic_id for stop in stops.partitions} == {ZERO_UUID}
        if golden.version < 3:
            whole = values["deletePartitions"]
            assert {(stop.leader_epoch, stop.delete) for stop in stops.partitions} == {(-1, whole)}
        return
    read = read_leader_and_isr(stranger(message), "L") if golden.api_key == 4 else None
    found: Any = read or read_update_metadata(stranger(message), golden.version)
    grouped = values.get("topicStates")
    expected = [state for topic in grouped for state in topic["partitionStates"]] if grouped else None
    expected = expected or values["ungroupedPartitionStates"]
    versions = "partitionEpoch" if golden.api_key == ApiKey.LEADER_AND_ISR else "zkVersion"
    assert [
        (s.partition, s.leader, s.leader_epoch, list(s.isr), s.controller_epoch, s.zk_version, list(s.replicas))
        for s in found.states
    ] == [
        (e["partitionIndex"], e["leader"], e["leaderEpoch"], e["isr"], e["controllerEpoch"], e[versions], e["replicas"])
        for e in expected
    ]
    assert [list(s.assignment.adding) for s in found.states] == [e.get("addingReplicas", []) for e in expected]
    names = [topic["topicName"] for topic in grouped for _ in topic["partitionStates"]] if grouped else None
    assert [s.topic for s in found.states] == (names or [e["topicName"] for e in expected])
    assert {s.mzxid for s in found.states} == {-1}
    assert {(broker.epoch, broker.unclean_start_epoch) for broker in found.brokers} == {(-1, -1)}
    assert all(broker.endpoints for broker in found.brokers)


def stranger(message: Any) -> Any:
    """``message`` of a controller in ZooKeeper mode, with security protocols that exist."""
    message.is_k_raft_controller = False
    for broker in getattr(message, "live_brokers", ()):
        for number, endpoint in enumerate(broker.endpoints):
            endpoint.security_protocol = number
    return message


def test_a_controller_of_kraft_is_refused() -> None:
    for read, message in (
        (lambda m: read_leader_and_isr(m, "L"), messages.LeaderAndIsrRequest(is_k_raft_controller=True)),
        (lambda m: read_update_metadata(m, 8), messages.UpdateMetadataRequest(is_k_raft_controller=True)),
        (lambda m: read_stop_replica(m, 4), messages.StopReplicaRequest(is_k_raft_controller=True)),
    ):
        with pytest.raises(ApiError, match="KRaft"):
            read(message)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[:-8],
        lambda data: data + bytes(8),
        lambda data: data[:8] + (1 << 62).to_bytes(8, "big") + data[16:],
        lambda data: data[:8] + (-3).to_bytes(8, "big", signed=True) + data[16:],
    ],
    ids=["odd length", "too short", "too long", "an endless count", "a negative count"],
)
def test_extras_that_do_not_fit_are_refused(damage: Any) -> None:
    for request in (LeaderAndIsrRequest(*HEAD, STATES, BROKERS), UpdateMetadataRequest(*HEAD, STATES, BROKERS)):
        key, version, body = encode_control_request(request, ControlVersions(), "PLAINTEXT")
        message: Any = decode_request(key, version, memoryview(body))
        message.partition_extras = damage(message.partition_extras)
        with pytest.raises(ApiError, match="tagged field"):
            read_leader_and_isr(message, "L") if key == 4 else read_update_metadata(message, version)


def test_broker_epochs_and_topic_ids_must_fit() -> None:
    key, version, body = encode_control_request(UpdateMetadataRequest(*HEAD, (), BROKERS), ControlVersions(), "")
    message: Any = decode_request(key, version, memoryview(body))
    message.broker_epochs = message.broker_epochs[:-16]
    with pytest.raises(ApiError, match="tagged field"):
        read_update_metadata(message, version)
    key, version, body = encode_control_request(StopReplicaRequest(*HEAD, STOPS), ControlVersions(), "")
    message = decode_request(key, version, memoryview(body))
    message.topic_ids = message.topic_ids[:-16]
    with pytest.raises(ApiError, match="tagged field"):
        read_stop_replica(message, version)


def test_an_unknown_security_protocol_is_refused() -> None:
    broker = messages.UpdateMetadataRequest.UpdateMetadataBroker
    endpoint = broker.UpdateMetadataEndpoint(version=8, port=1, host="h", listener="L", security_protocol=4)
    request = messages.UpdateMetadataRequest(
        version=8, live_brokers=[broker(version=8, id=1, endpoints=[endpoint])], topic_states=[]
    )
    with pytest.raises(ApiError, match="security protocol 4"):
        read_update_metadata(request, 8)


# Responses

REFUSED = ControlResponse(ErrorCode.STALE_BROKER_EPOCH)
ANSWERED = (
    (TopicPartition("a", 0), ErrorCode.NONE),
    (TopicPartition("a", 1), ErrorCode.KAFKA_STORAGE_ERROR),
    (TopicPartition("b", 2), ErrorCode.STALE_CONTROLLER_EPOCH),
)


@pytest.mark.parametrize("version", [5, 6, 7])
def test_responses_to_leader_and_isr(version: int) -> None:
    request = LeaderAndIsrRequest(*HEAD, STATES, BROKERS)
    for response in (ControlResponse(ErrorCode.NONE, ANSWERED), ControlResponse(ErrorCode.NONE)):
        body = encode_response(4, version, leader_and_isr_response(request, response, version))
        assert decode_control_response(request, ApiKey.LEADER_AND_ISR, version, memoryview(body)) == response
    body = encode_response(4, version, leader_and_isr_response(request, REFUSED, version))
    found = decode_control_response(request, ApiKey.LEADER_AND_ISR, version, memoryview(body))
    assert found.error is ErrorCode.STALE_BROKER_EPOCH
    assert {error for _, error in found.partitions} == {ErrorCode.STALE_BROKER_EPOCH}
    assert {tp for tp, _ in found.partitions} == {state.topic_partition for state in STATES}


@pytest.mark.parametrize("version", range(5))
def test_old_responses_to_leader_and_isr_have_names(version: int) -> None:
    request = LeaderAndIsrRequest(*HEAD, STATES, BROKERS)
    response: Any = leader_and_isr_response(request, ControlResponse(ErrorCode.NONE, ANSWERED), version)
    assert [(e.topic_name, e.partition_index, e.error_code) for e in response.partition_errors] == [
        ("a", 0, 0),
        ("a", 1, 56),
        ("b", 2, 11),
    ]
    assert encode_response(4, version, response)


def test_other_responses() -> None:
    request = StopReplicaRequest(*HEAD, STOPS)
    response = ControlResponse(ErrorCode.NONE, ANSWERED)
    body = encode_response(5, 4, stop_replica_response(request, response, 4))
    assert decode_control_response(request, ApiKey.STOP_REPLICA, 4, memoryview(body)) == response
    body = encode_response(5, 4, stop_replica_response(request, REFUSED, 4))
    found = decode_control_response(request, ApiKey.STOP_REPLICA, 4, memoryview(body))
    assert (found.error, len(found.partitions)) == (ErrorCode.STALE_BROKER_EPOCH, len(STOPS))
    left = ControlResponse(ErrorCode.NONE, ((TopicPartition("a", 0), ErrorCode.NONE),))
    body = encode_response(7, 3, controlled_shutdown_response(left, 3))
    shutdown = ControlledShutdownRequest(1, 2)
    assert decode_control_response(shutdown, ApiKey.CONTROLLED_SHUTDOWN, 3, memoryview(body)) == left


def test_a_response_about_another_topic_or_with_an_unknown_error_is_malformed() -> None:
    request = LeaderAndIsrRequest(*HEAD, STATES[:1], BROKERS)
    kind = messages.LeaderAndIsrResponse
    partition = kind.LeaderAndIsrTopicError.LeaderAndIsrPartitionError(version=7, partition_index=0, error_code=0)
    strange = kind(
        version=7,
        error_code=0,
        topics=[kind.LeaderAndIsrTopicError(version=7, topic_id=B, partition_errors=[partition])],
    )
    for response in (strange, kind(version=7, error_code=9999, topics=[])):
        body = encode_response(4, 7, response)
        with pytest.raises(ProtocolError, match="the response to LeaderAndIsrRequest names"):
            decode_control_response(request, ApiKey.LEADER_AND_ISR, 7, memoryview(body))
