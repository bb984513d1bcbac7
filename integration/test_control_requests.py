"""Control requests that do not come from the controller: brokers answer as Apache Kafka's do, and nothing changes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from integration.faults.cluster import create_topic, states
from integration.harness.clients import fresh_topic
from integration.harness.raw import RawClient
from kafkalite.common.errors import ErrorCode
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import SUPPORTED, ApiKey

STRANGER = 77
LAST_EPOCH = (1 << 31) - 1
ID = uuid.UUID(int=7)
FIRST_WITH_BROKER_EPOCH = {ApiKey.LEADER_AND_ISR: 2, ApiKey.STOP_REPLICA: 1, ApiKey.UPDATE_METADATA: 5}


def forged(topic: str, api_key: ApiKey, version: int, controller_epoch: int, broker_epoch: int) -> dict[str, Any]:
    """The fields of a request that would take ``topic`` away, or its log."""
    head = {"controller_id": STRANGER, "controller_epoch": controller_epoch, "broker_epoch": broker_epoch}
    state: dict[str, Any] = {
        "version": version,
        "partition_index": 0,
        "controller_epoch": controller_epoch,
        "leader": STRANGER,
        "leader_epoch": 1000,
        "isr": [STRANGER],
        "replicas": [STRANGER],
    }
    if api_key is ApiKey.STOP_REPLICA:
        return {**head, **_stop(topic, version)}
    if api_key is ApiKey.UPDATE_METADATA:
        update = messages.UpdateMetadataRequest
        state["zk_version"] = 1000
        if version < 5:
            return {
                **head,
                "ungrouped_partition_states": [update.UpdateMetadataPartitionState(topic_name=topic, **state)],
            }
        whole = update.UpdateMetadataTopicState
        states = [whole.UpdateMetadataPartitionState(**state)]
        return {
            **head,
            "topic_states": [whole(version=version, topic_name=topic, topic_id=ID, partition_states=states)],
        }
    order = messages.LeaderAndIsrRequest
    state["partition_epoch"] = 1000
    if version < 2:
        return {**head, "ungrouped_partition_states": [order.LeaderAndIsrPartitionState(topic_name=topic, **state)]}
    led = order.LeaderAndIsrTopicState
    roles = [led.LeaderAndIsrPartitionState(**state)]
    return {**head, "topic_states": [led(version=version, topic_name=topic, topic_id=ID, partition_states=roles)]}


def _stop(topic: str, version: int) -> dict[str, Any]:
    kind = messages.StopReplicaRequest
    if version == 0:
        stop = kind.StopReplicaPartitionV0(version=version, topic_name=topic, partition_index=0)
        return {"delete_partitions": True, "ungrouped_partitions": [stop]}
    if version < 3:
        stops = kind.StopReplicaTopicV1(version=version, name=topic, partition_indexes=[0])
        return {"delete_partitions": True, "topics": [stops]}
    whole = kind.StopReplicaTopicState
    state = whole.StopReplicaPartitionState(version=version, partition_index=0, leader_epoch=-2, delete_partition=True)
    return {"topic_states": [whole(version=version, topic_name=topic, partition_states=[state])]}


def partition_errors(answer: Any) -> Iterator[int]:
    """The errors of single partitions, where the answer has any."""
    for error in getattr(answer, "partition_errors", ()):
        yield error.error_code
    for topic in getattr(answer, "topics", ()):
        for error in topic.partition_errors:
            yield error.error_code


@pytest.fixture(scope="module")
def topic(shared_cluster: LocalCluster) -> str:
    name = fresh_topic("forged")
    create_topic(shared_cluster, name, 1)
    return name


@pytest.mark.parametrize("api_key", [*FIRST_WITH_BROKER_EPOCH, ApiKey.CONTROLLED_SHUTDOWN])
def test_brokers_advertise_control_requests(shared_cluster: LocalCluster, api_key: ApiKey) -> None:
    with RawClient(shared_cluster.address(1)) as client:
        served = {each.api_key: each for each in client.ask(ApiKey.API_VERSIONS, 0).api_keys}[api_key]
    assert (served.min_version, served.max_version) == SUPPORTED[api_key]


@pytest.mark.parametrize("api_key", FIRST_WITH_BROKER_EPOCH)
@pytest.mark.parametrize(
    ("controller_epoch", "broker_epoch", "error"),
    [(0, -1, ErrorCode.STALE_CONTROLLER_EPOCH), (LAST_EPOCH, 0, ErrorCode.STALE_BROKER_EPOCH)],
    ids=["of an old controller", "for another life of the broker"],
)
def test_forged_requests_are_refused_in_every_version(
    shared_cluster: LocalCluster,
    topic: str,
    api_key: ApiKey,
    controller_epoch: int,
    broker_epoch: int,
    error: ErrorCode,
) -> None:
    oldest = FIRST_WITH_BROKER_EPOCH[api_key] if broker_epoch >= 0 else 0
    before = states(shared_cluster, topic, 1)
    with RawClient(shared_cluster.address(1)) as client:
        for version in range(oldest, SUPPORTED[api_key].max + 1):
            answer = client.ask(api_key, version, **forged(topic, api_key, version, controller_epoch, broker_epoch))
            assert answer.error_code == error, version
            assert set(partition_errors(answer)) <= {error}, version
        assert client.leads(topic, before[0]["leader"])
        assert client.ask(ApiKey.METADATA, 1, topics=None).brokers, "the broker still knows the others"
    assert states(shared_cluster, topic, 1) == before


def test_a_stranger_cannot_announce_a_shutdown(shared_cluster: LocalCluster) -> None:
    """Only the controller knows brokers; an unknown one, or another life of a known one, moves nothing."""
    errors: dict[int, list[int]] = {}
    for broker_id in shared_cluster.broker_ids:
        with RawClient(shared_cluster.address(broker_id)) as client:
            for version, stopping in ((1, 4711), (3, 1)):
                answer = client.ask(ApiKey.CONTROLLED_SHUTDOWN, version, broker_id=stopping, broker_epoch=0)
                errors.setdefault(broker_id, []).append(answer.error_code)
                assert answer.remaining_partitions == []
    moved, unknown, stale = (
        int(code)
        for code in (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.STALE_BROKER_EPOCH)
    )
    assert sorted(errors.values()) == [[unknown, stale], [moved] * 2, [moved] * 2]
