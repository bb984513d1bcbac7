"""Control requests as they reach the control plane, and its answers on the wire."""

from __future__ import annotations

import uuid

import pytest

from kafkalite.cluster.control import (
    ControlledShutdownRequest,
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.network.control_codec import ControlVersions, decode_control_response, encode_control_request
from kafkalite.protocol.api_keys import ApiKey

from .helpers import FakeBroker

TOPIC_ID = uuid.UUID(int=5)
STATE = LeaderAndIsr("t", 0, TOPIC_ID, 1, 2, (1,), 3, 4, 5, PartitionAssignment((1, 2)), ((1, 6),))
LEADER = Broker(1, (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092),), None, 8, 9)
STOP = StopReplicaPartitionState(TopicPartition("t", 0), 7, True, TOPIC_ID)
ERRORS = ((TopicPartition("t", 0), ErrorCode.KAFKA_STORAGE_ERROR),)


@pytest.mark.parametrize(
    ("request_", "partitions"),
    [
        (LeaderAndIsrRequest(9, 3, 77, (STATE,), (LEADER,)), ERRORS),
        (UpdateMetadataRequest(9, 3, 77, (STATE,), (LEADER,)), ()),
        (StopReplicaRequest(9, 3, 77, (STOP,)), ERRORS),
        (ControlledShutdownRequest(3, 77), ((TopicPartition("t", 0), ErrorCode.NONE),)),
    ],
    ids=["LeaderAndIsr", "UpdateMetadata", "StopReplica", "ControlledShutdown"],
)
def test_a_request_reaches_the_control_plane_and_its_answer_the_sender(
    request_: ControlRequest, partitions: tuple[tuple[TopicPartition, ErrorCode], ...]
) -> None:
    broker = FakeBroker()
    answer = ControlResponse(ErrorCode.NONE, partitions)
    broker.control.answers = [answer]
    key, version, body = encode_control_request(request_, ControlVersions(), "PLAINTEXT")
    broker.send(key, version, body)
    [(asked, connection)] = broker.control.asked
    assert connection == broker.connection.info.id
    if isinstance(asked, LeaderAndIsrRequest) and isinstance(request_, LeaderAndIsrRequest):
        assert asked.states == request_.states
    else:
        assert asked == request_
    assert decode_control_response(request_, key, version, memoryview(broker.take())) == answer


@pytest.mark.parametrize(
    ("api_key", "newest", "partition_errors"),
    [
        (ApiKey.LEADER_AND_ISR, 7, True),
        (ApiKey.UPDATE_METADATA, 8, False),
        (ApiKey.STOP_REPLICA, 4, True),
        (ApiKey.CONTROLLED_SHUTDOWN, 3, False),
    ],
)
def test_every_version_is_answered(api_key: ApiKey, newest: int, partition_errors: bool) -> None:
    for version in range(newest + 1):
        broker = FakeBroker()
        broker.control.answers = [ControlResponse(ErrorCode.STALE_CONTROLLER_EPOCH)]
        answer = broker.call(api_key, version)
        assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        if partition_errors and not (api_key is ApiKey.LEADER_AND_ISR and version >= 5):
            assert answer.partition_errors == []


def test_a_failure_of_the_control_plane_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    broker = FakeBroker()
    answer = broker.call(ApiKey.UPDATE_METADATA, 8)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "pop from empty list" in caplog.text


def test_a_request_with_a_damaged_tagged_field_is_refused() -> None:
    broker = FakeBroker()
    answer = broker.call(ApiKey.UPDATE_METADATA, 8, partition_extras=b"123")
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert broker.control.asked == []
