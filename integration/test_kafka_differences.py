"""Answers to unusual requests are the same as Apache Kafka's."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from integration.faults.cluster import create_topic
from integration.faults.groups import COMMIT_VERSION, ask_coordinator, find_coordinator
from integration.harness.admin import ask_controller
from integration.harness.clients import fresh_topic
from integration.harness.java import KAFKA_3_9, run_tool
from integration.harness.raw import RawClient, ask_partition, batch
from integration.harness.wait import wait_for
from kafkalite.common.errors import ErrorCode
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import SUPPORTED, ApiKey

ZSTD = 4


def new_topic(cluster: LocalCluster, replicas: list[int], **config: str) -> str:
    """Create a topic of one partition on ``replicas``; returns when every broker has it in its metadata."""
    name = fresh_topic("differences")
    topic = NewTopic(name, 1, replica_assignment=[replicas], config=config)
    ask_controller(cluster.bootstrap, lambda client: client.create_topics([topic]), done=["TOPIC_ALREADY_EXISTS"])
    for broker_id in cluster.broker_ids:
        with RawClient(cluster.address(broker_id)) as client:
            wait_for(lambda client=client: client.leads(name, replicas[0]), f"broker {broker_id} knows {name}")  # type: ignore[misc]
    return name


@pytest.mark.parametrize(
    ("compression_type", "first_served"), [("producer", 4), ("uncompressed", 2), ("zstd", 10)], ids=str
)
def test_which_fetches_are_served_from_a_topic_with_zstd(
    shared_cluster: LocalCluster, compression_type: str, first_served: int
) -> None:
    """Versions before 4 need an older message format, which has no zstd; clients know zstd from version 10 on."""
    topic = new_topic(shared_cluster, [1], **{"compression.type": compression_type})
    with RawClient(shared_cluster.address(1)) as client:
        wait_for(lambda: client.produce(topic, batch(3, codec=ZSTD)).error == 0, "records are written")
        found = {}
        for version in range(2, 12):
            (answer,) = client.fetch([ask_partition(topic, 0)], version=version).partitions
            found[version] = ErrorCode(answer.error), bool(answer.records)
    refused = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, False
    served = ErrorCode.NONE, True
    assert found == {version: served if version >= first_served else refused for version in range(2, 12)}


def test_a_broker_without_a_replica_refers_clients_to_the_leader(shared_cluster: LocalCluster) -> None:
    topic = new_topic(shared_cluster, [2, 3])
    epochs = messages.OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    found: dict[str, list[ErrorCode]] = {}
    with RawClient(shared_cluster.address(1)) as client:
        for partition in (0, 7):
            asked = epochs.OffsetForLeaderPartition(partition=partition, current_leader_epoch=-1, leader_epoch=0)
            epoch = client.ask(
                ApiKey.OFFSET_FOR_LEADER_EPOCH,
                3,
                replica_id=-1,
                topics=[epochs(topic=topic, partitions=[asked])],
            )
            answers = {
                "Produce": client.produce(topic, batch(), partition).error,
                "Fetch": client.fetch([ask_partition(topic, 0, partition)]).partitions[0].error,
                "ListOffsets": client.list_offset(topic, -1, partition)[0],
                "OffsetForLeaderEpoch": epoch.topics[0].partitions[0].error_code,
                "DeleteRecords": client.delete_records(topic, 0, partition)[0],
            }
            for name, error in answers.items():
                found.setdefault(name, []).append(ErrorCode(error))
    expected = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert found == dict.fromkeys(found, expected)


def test_a_group_is_deleted_with_its_last_offset(shared_cluster: LocalCluster) -> None:
    topic = fresh_topic("differences")
    create_topic(shared_cluster, topic, 2)
    group = f"group-{topic}"

    def commit() -> bool:
        with ask_coordinator(shared_cluster, group) as client:
            return client.commit(group, topic, {0: 1, 1: 2}, version=COMMIT_VERSION) == dict.fromkeys((0, 1), 0)

    def groups() -> list[str]:
        flags = ("--bootstrap-server", shared_cluster.bootstrap)
        return run_tool(
            KAFKA_3_9, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *flags, "--list"
        ).lines()

    def delete(partition: int) -> None:
        kind = messages.OffsetDeleteRequest.OffsetDeleteRequestTopic
        asked = kind.OffsetDeleteRequestPartition(partition_index=partition)
        with RawClient(shared_cluster.address(find_coordinator(shared_cluster, group))) as client:
            answer = client.ask(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=[kind(name=topic, partitions=[asked])])
        assert answer.error_code == 0
        assert answer.topics[0].partitions[0].error_code == 0

    wait_for(commit, "offsets are committed")
    delete(0)
    assert group in groups()
    delete(1)
    assert group not in groups()


@pytest.mark.parametrize(
    ("api_key", "fields"),
    [
        (ApiKey.CREATE_DELEGATION_TOKEN, {"renewers": [], "max_lifetime_ms": -1}),
        (ApiKey.RENEW_DELEGATION_TOKEN, {"hmac": b"h", "renew_period_ms": -1}),
        (ApiKey.EXPIRE_DELEGATION_TOKEN, {"hmac": b"h", "expiry_time_period_ms": -1}),
        (ApiKey.DESCRIBE_DELEGATION_TOKEN, {"owners": None}),
    ],
    ids=lambda value: value.name if isinstance(value, ApiKey) else "",
)
def test_delegation_tokens_are_refused_to_clients_that_did_not_authenticate(
    shared_cluster: LocalCluster, api_key: ApiKey, fields: dict[str, Any]
) -> None:
    with RawClient(shared_cluster.address(1)) as client:
        served = {each.api_key: each for each in client.ask(ApiKey.API_VERSIONS, 0).api_keys}[api_key]
        assert (served.min_version, served.max_version) == SUPPORTED[api_key]
        for version in range(served.max_version + 1):
            answer = client.ask(api_key, version, **fields)
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            if api_key is ApiKey.CREATE_DELEGATION_TOKEN:
                assert (answer.principal_type, answer.principal_name) == ("User", "ANONYMOUS")


@pytest.mark.parametrize("version", [0, 1])
def test_no_feature_can_be_updated(shared_cluster: LocalCluster, version: int) -> None:
    kind = messages.UpdateFeaturesRequest.FeatureUpdateKey
    updates = [
        kind(version=version, feature="f", max_version_level=1, upgrade_type=1, allow_downgrade=False),
        kind(version=version, feature="g", max_version_level=0, upgrade_type=2, allow_downgrade=True),
        kind(version=version, feature="h", max_version_level=0, upgrade_type=1, allow_downgrade=False),
    ]
    answers = []
    for broker_id in shared_cluster.broker_ids:
        with RawClient(shared_cluster.address(broker_id)) as client:
            answers.append(
                client.ask(
                    ApiKey.UPDATE_FEATURES, version, timeout_ms=1000, feature_updates=updates, validate_only=False
                )
            )
    controllers = [answer for answer in answers if not answer.error_code]
    assert len(controllers) == 1
    assert {a.error_message for a in answers if a.error_code == ErrorCode.NOT_CONTROLLER} == {
        "This is not the correct controller for this cluster."
    }
    assert {result.feature: (result.error_code, result.error_message) for result in controllers[0].results} == {
        "f": (42, "Could not apply finalized feature update because the provided feature is not supported."),
        "g": (42, "Can not delete non-existing finalized feature."),
        "h": (
            42,
            "Can not provide versionLevel: 0 less than 1 without setting the SAFE downgradeType in the request.",
        ),
    }


def test_undefined_special_timestamps_are_refused(shared_cluster: LocalCluster) -> None:
    topic = new_topic(shared_cluster, [1])
    with RawClient(shared_cluster.address(1)) as client:
        found = {timestamp: client.list_offset(topic, timestamp)[0] for timestamp in (-1, -2, -6, -99, 0)}
    refused = ErrorCode.UNSUPPORTED_VERSION
    assert found == {-1: 0, -2: 0, -6: refused, -99: refused, 0: 0}


def test_tiered_storage_is_refused(shared_cluster: LocalCluster) -> None:
    topic = NewTopic(fresh_topic("differences"), 1, 1, config={"remote.storage.enable": "true"})
    with pytest.raises(KafkaException, match="Tiered Storage functionality is disabled in the broker"):
        ask_controller(shared_cluster.bootstrap, lambda client: client.create_topics([topic]))


def test_a_reassignment_that_does_not_exist_cannot_be_cancelled(shared_cluster: LocalCluster) -> None:
    topic = new_topic(shared_cluster, [1])
    kind = messages.AlterPartitionReassignmentsRequest.ReassignableTopic
    asked = [
        kind(name=name, partitions=[kind.ReassignablePartition(partition_index=index, replicas=None)])
        for name, index in ((topic, 0), (f"no-{topic}", 0))
    ]
    answers = []
    for broker_id in shared_cluster.broker_ids:
        with RawClient(shared_cluster.address(broker_id)) as client:
            answers.append(client.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, timeout_ms=10000, topics=asked))
    (answer,) = [each for each in answers if each.error_code != ErrorCode.NOT_CONTROLLER]
    for found in answer.responses:
        (partition,) = found.partitions
        assert partition.error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        assert partition.error_message == "No partition reassignment is in progress."
