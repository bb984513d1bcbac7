"""The APIs of administration, from bytes to bytes."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kafkalite.cluster.model import LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import deferred
from kafkalite.common.types import ZERO_UUID
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.zk.znodes.topics import TopicAssignment

from .helpers import TOPIC_ID, FakeBroker, struct


def versions(key: ApiKey) -> range:
    from kafkalite.apis.registry import served

    return range(served()[key].versions.min, served()[key].versions.max + 1)


def new_topic(version: int, name: str, partitions: int = 1, factor: int = 1, **fields: Any) -> Any:
    values = {"assignments": [], "configs": [], **fields}
    return struct(
        ApiKey.CREATE_TOPICS,
        "CreatableTopic",
        version,
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        **values,
    )


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_TOPICS))
def test_create_topics(version: int) -> None:
    broker = FakeBroker()
    config = struct(
        ApiKey.CREATE_TOPICS, "CreatableTopic.CreatableTopicConfig", version, name="retention.ms", value="7"
    )
    response = broker.call(
        ApiKey.CREATE_TOPICS,
        version,
        topics=[new_topic(version, "a", 2, 3, configs=[config]), new_topic(version, "t"), new_topic(version, "x/y")],
        timeout_ms=0,
    )
    assert [(t.name, t.error_code) for t in response.topics] == [
        ("a", ErrorCode.REQUEST_TIMED_OUT),
        ("t", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("x/y", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    assert "/brokers/topics/a" in broker.zookeeper.paths()
    assert b'"retention.ms":"7"' in broker.zookeeper.data("/config/topics/a")


@pytest.mark.parametrize("version", [1, 5, 7])
def test_create_topics_that_only_checks(version: int) -> None:
    broker = FakeBroker()
    response = broker.call(
        ApiKey.CREATE_TOPICS, version, topics=[new_topic(version, "a", 2, 3)], timeout_ms=100, validate_only=True
    )
    (topic,) = response.topics
    assert topic.error_code == 0
    assert "/brokers/topics/a" not in broker.zookeeper.paths()
    if version >= 5:
        assert (topic.num_partitions, topic.replication_factor) == (2, 3)
        assert {c.name: c.value for c in topic.configs}["segment.bytes"] == "1073741824"


def test_create_topics_twice_in_one_request_and_elsewhere_than_at_the_controller() -> None:
    broker = FakeBroker()
    response = broker.call(
        ApiKey.CREATE_TOPICS, 7, topics=[new_topic(7, "a"), new_topic(7, "a"), new_topic(7, "..")], timeout_ms=10
    )
    assert [(t.name, t.error_code) for t in response.topics] == [("a", 42), ("..", 17)]
    broker.controller.is_active = False
    response = broker.call(ApiKey.CREATE_TOPICS, 7, topics=[new_topic(7, "a")], timeout_ms=10)
    assert [(t.name, t.error_code) for t in response.topics] == [("a", ErrorCode.NOT_CONTROLLER)]


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_TOPICS))
def test_delete_topics(version: int) -> None:
    broker = FakeBroker()
    if version >= 6:
        make = "DeleteTopicState"
        topics = [
            struct(ApiKey.DELETE_TOPICS, make, version, name=None, topic_id=TOPIC_ID),
            struct(ApiKey.DELETE_TOPICS, make, version, name=None, topic_id=uuid.UUID(int=9)),
            struct(ApiKey.DELETE_TOPICS, make, version, name="none", topic_id=ZERO_UUID),
        ]
        response = broker.call(ApiKey.DELETE_TOPICS, version, topics=topics, timeout_ms=0)
        assert [t.error_code for t in response.responses] == [7, ErrorCode.UNKNOWN_TOPIC_ID, 3]
    else:
        response = broker.call(ApiKey.DELETE_TOPICS, version, topic_names=["t", "none"], timeout_ms=0)
        assert [(t.name, t.error_code) for t in response.responses] == [("t", 7), ("none", 3)]
    assert broker.zookeeper.paths("/admin/delete_topics") == ["/admin/delete_topics", "/admin/delete_topics/t"]


@pytest.mark.parametrize(("version", "error"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
def test_deletion_may_be_disabled(version: int, error: ErrorCode) -> None:
    broker = FakeBroker({"delete.topic.enable": "false"})
    response = broker.call(ApiKey.DELETE_TOPICS, version, topic_names=["t"], timeout_ms=0)
    assert response.responses[0].error_code == error


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_PARTITIONS))
def test_create_partitions(version: int) -> None:
    broker = FakeBroker()
    broker.call(ApiKey.CREATE_TOPICS, 4, topics=[new_topic(4, "a", 2)], timeout_ms=0)
    make = "CreatePartitionsTopic"
    topics = [
        struct(ApiKey.CREATE_PARTITIONS, make, version, name=name, count=3, assignments=None) for name in ("a", "none")
    ]
    response = broker.call(ApiKey.CREATE_PARTITIONS, version, topics=topics, timeout_ms=0, validate_only=False)
    assert [(t.name, t.error_code) for t in response.results] == [("a", 7), ("none", 3)]
    assert b'"2":' in broker.zookeeper.data("/brokers/topics/a")


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CONFIGS))
def test_describe_configs(version: int) -> None:
    broker = FakeBroker({"broker.rack": "r1"})
    make = "DescribeConfigsResource"
    resources = [
        struct(
            ApiKey.DESCRIBE_CONFIGS, make, version, resource_type=2, resource_name="t", configuration_keys=["flush.ms"]
        ),
        struct(ApiKey.DESCRIBE_CONFIGS, make, version, resource_type=4, resource_name="1", configuration_keys=None),
        struct(ApiKey.DESCRIBE_CONFIGS, make, version, resource_type=2, resource_name="none", configuration_keys=None),
    ]
    options = {"include_synonyms": True} if version >= 1 else {}
    if version >= 3:
        options["include_documentation"] = True
    topic, own, none = broker.call(ApiKey.DESCRIBE_CONFIGS, version, resources=resources, **options).results
    assert [c.name for c in topic.configs] == ["flush.ms"]
    assert none.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    configs = {c.name: c for c in own.configs}
    assert configs["broker.rack"].value == "r1"
    assert configs["broker.rack"].read_only
    if version == 0:
        assert (configs["broker.rack"].is_default, configs["num.partitions"].is_default) == (False, True)
    else:
        assert configs["broker.rack"].config_source == 4
        assert [s.value for s in configs["num.partitions"].synonyms] == ["1"]
    if version >= 3:
        assert configs["num.partitions"].config_type == 3
        assert configs["num.partitions"].documentation


@pytest.mark.parametrize("version", versions(ApiKey.ALTER_CONFIGS))
def test_alter_configs(version: int) -> None:
    broker = FakeBroker()
    config = struct(ApiKey.ALTER_CONFIGS, "AlterConfigsResource.AlterableConfig", version, name="flush.ms", value="7")
    resources = [
        struct(
            ApiKey.ALTER_CONFIGS,
            "AlterConfigsResource",
            version,
            resource_type=2,
            resource_name=name,
            configs=[config],
        )
        for name in ("t", "none")
    ]
    response = broker.call(ApiKey.ALTER_CONFIGS, version, resources=resources, validate_only=False)
    assert [(r.resource_name, r.error_code) for r in response.responses] == [("t", 0), ("none", 3)]
    assert b'"flush.ms":"7"' in broker.zookeeper.data("/config/topics/t")
    assert any(path.startswith("/config/changes/") for path in broker.zookeeper.paths("/config/changes"))


@pytest.mark.parametrize("version", versions(ApiKey.INCREMENTAL_ALTER_CONFIGS))
def test_incremental_alter_configs(version: int) -> None:
    broker = FakeBroker()
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    config = struct(
        key,
        "AlterConfigsResource.AlterableConfig",
        version,
        name="cleanup.policy",
        config_operation=2,
        value="compact",
    )
    resource = struct(key, "AlterConfigsResource", version, resource_type=2, resource_name="t", configs=[config])
    response = broker.call(key, version, resources=[resource], validate_only=False)
    assert response.responses[0].error_code == 0
    assert b"delete,compact" in broker.zookeeper.data("/config/topics/t")
    twice = broker.call(key, version, resources=[resource, resource], validate_only=False)
    assert [r.error_code for r in twice.responses] == [ErrorCode.INVALID_REQUEST] * 2


def test_a_lost_zookeeper_connection_is_a_time_out_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    broker = FakeBroker()
    broker.client.lose_connection()
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    config = struct(key, "AlterConfigsResource.AlterableConfig", 1, name="flush.ms", config_operation=0, value="7")
    resource = struct(key, "AlterConfigsResource", 1, resource_type=2, resource_name="t", configs=[config])
    (response,) = broker.call(key, 1, resources=[resource], validate_only=False).responses
    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "ZooKeeper" in response.error_message
    described = struct(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigsResource", 4, resource_type=2, resource_name="t")
    answer = broker.call(
        ApiKey.DESCRIBE_CONFIGS, 4, resources=[described], include_synonyms=False, include_documentation=False
    )
    assert [result.error_code for result in answer.results] == [ErrorCode.REQUEST_TIMED_OUT]
    assert caplog.text == ""


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CLUSTER))
def test_describe_cluster(version: int) -> None:
    broker = FakeBroker()
    response = broker.call(ApiKey.DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=True)
    assert (response.cluster_id, response.controller_id) == ("cluster", 1)
    assert [(b.broker_id, b.host) for b in response.brokers] == [(1, "host1"), (2, "host2"), (3, "host3")]
    assert 12 in response.authorized_operations


def test_describe_cluster_of_controllers_is_for_others() -> None:
    response = FakeBroker().call(ApiKey.DESCRIBE_CLUSTER, 1, endpoint_type=2)
    assert response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_LOG_DIRS))
def test_describe_log_dirs(version: int) -> None:
    broker = FakeBroker()
    topic = struct(ApiKey.DESCRIBE_LOG_DIRS, "DescribableLogDirTopic", version, topic="t", partitions=[0, 1])
    for topics, count in ((None, 1), ([topic], 2)):
        (result,) = broker.call(ApiKey.DESCRIBE_LOG_DIRS, version, topics=topics).results
        assert result.log_dir == "/logs"
        assert sum(len(t.partitions) for t in result.topics) == count
        assert (result.topics[0].partitions[0].partition_size, result.topics[0].partitions[0].offset_lag) == (10, 1)


@pytest.mark.parametrize("version", versions(ApiKey.ALTER_REPLICA_LOG_DIRS))
def test_alter_replica_log_dirs(version: int) -> None:
    def directory(path: str, **topics: list[int]) -> object:
        make = "AlterReplicaLogDir.AlterReplicaLogDirTopic"
        wanted = [
            struct(ApiKey.ALTER_REPLICA_LOG_DIRS, make, version, name=name, partitions=partitions)
            for name, partitions in topics.items()
        ]
        return struct(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDir", version, path=path, topics=wanted)

    dirs = [directory("/logs", t=[0, 1], u=[0]), directory("/nowhere", t=[2])]
    response = FakeBroker().call(ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=dirs)
    assert {
        (topic.topic_name, partition.partition_index): partition.error_code
        for topic in response.results
        for partition in topic.partitions
    } == {("t", 0): 0, ("t", 1): 0, ("u", 0): 0, ("t", 2): ErrorCode.LOG_DIR_NOT_FOUND}


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_RECORDS))
def test_delete_records(version: int) -> None:
    broker = FakeBroker()
    make = "DeleteRecordsTopic.DeleteRecordsPartition"
    partitions = [struct(ApiKey.DELETE_RECORDS, make, version, partition_index=n, offset=8) for n in (0, 9)]
    topic = struct(ApiKey.DELETE_RECORDS, "DeleteRecordsTopic", version, name="t", partitions=partitions)
    response = broker.call(ApiKey.DELETE_RECORDS, version, topics=[topic], timeout_ms=10)
    assert [(p.partition_index, p.low_watermark, p.error_code) for p in response.topics[0].partitions] == [
        (0, 8, 0),
        (9, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("version", versions(ApiKey.ELECT_LEADERS))
def test_elect_leaders(version: int) -> None:
    broker = FakeBroker()
    for chosen, expected in (([0, 1], [(0, 0), (1, 84)]), (None, [(0, 0)])):
        topics = None
        if chosen is not None:
            topics = [struct(ApiKey.ELECT_LEADERS, "TopicPartitions", version, topic="t", partitions=chosen)]
        response = broker.call(ApiKey.ELECT_LEADERS, version, topic_partitions=topics, timeout_ms=10)
        (topic,) = response.replica_election_results
        assert [(p.partition_id, p.error_code) for p in topic.partition_result] == expected


def test_elect_leaders_elsewhere_than_at_the_controller() -> None:
    broker = FakeBroker()
    broker.controller.is_active = False
    response = broker.call(ApiKey.ELECT_LEADERS, 2, topic_partitions=None, timeout_ms=10)
    assert response.error_code == ErrorCode.NOT_CONTROLLER


def test_reassignments() -> None:
    broker = FakeBroker()
    key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    partitions = [
        struct(key, "ReassignableTopic.ReassignablePartition", 0, partition_index=index, replicas=replicas)
        for index, replicas in ((0, [2, 3]), (1, None))
    ]
    topic = struct(key, "ReassignableTopic", 0, name="t", partitions=partitions)
    response = broker.call(key, 0, topics=[topic], timeout_ms=10)
    assert [(p.partition_index, p.error_code) for p in response.responses[0].partitions] == [(0, 0), (1, 85)]
    listed = broker.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None, timeout_ms=10)
    (found,) = listed.topics[0].partitions
    assert (found.replicas, found.adding_replicas, found.removing_replicas) == ([1, 2, 3], [3], [2])
    broker.controller.is_active = False
    assert broker.call(key, 0, topics=[topic], timeout_ms=10).error_code == ErrorCode.NOT_CONTROLLER
    listed = broker.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None, timeout_ms=10)
    assert listed.error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize("version", versions(ApiKey.LIST_OFFSETS))
def test_list_offsets(version: int) -> None:
    broker = FakeBroker()
    make = "ListOffsetsTopic.ListOffsetsPartition"
    asked = [(0, -1), (1, -2), (5, -1), (2, 777)]
    extra = {"max_num_offsets": 2} if version == 0 else {}
    partitions = [
        struct(ApiKey.LIST_OFFSETS, make, version, partition_index=n, timestamp=ts, current_leader_epoch=-1, **extra)
        for n, ts in asked
    ]
    broker.metadata.apply([broker.metadata.partitions("t")[0].with_(partition=2)])
    topic = struct(ApiKey.LIST_OFFSETS, "ListOffsetsTopic", version, name="t", partitions=partitions)
    isolation = {"isolation_level": 1} if version >= 2 else {}
    response = broker.call(ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=[topic], **isolation)
    latest, earliest, unknown, nowhere = response.topics[0].partitions
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if version == 0:
        assert (latest.old_style_offsets, earliest.old_style_offsets) == ([100, 50], [10])
        assert nowhere.old_style_offsets == [10]
    else:
        end = 99 if version >= 2 else 100
        assert (latest.offset, nowhere.offset, nowhere.timestamp) == (end, -1, -1)
    if version >= 4:
        assert latest.leader_epoch == 3


@pytest.mark.parametrize(
    ("version", "timestamp", "error"),
    [(6, -3, 35), (7, -3, 0), (7, -4, 35), (8, -4, 0), (8, -5, 35), (9, -5, 0), (9, -6, 35), (1, -99, 35)],
)
def test_special_timestamps_have_their_versions(version: int, timestamp: int, error: int) -> None:
    broker = FakeBroker()
    partition = struct(
        ApiKey.LIST_OFFSETS,
        "ListOffsetsTopic.ListOffsetsPartition",
        version,
        partition_index=0,
        timestamp=timestamp,
        current_leader_epoch=-1,
    )
    topics = [struct(ApiKey.LIST_OFFSETS, "ListOffsetsTopic", version, name="t", partitions=[partition])]
    response = broker.call(ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=0, topics=topics)
    assert response.topics[0].partitions[0].error_code == error
    twice = struct(ApiKey.LIST_OFFSETS, "ListOffsetsTopic", version, name="t", partitions=[partition, partition])
    response = broker.call(ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=0, topics=[twice])
    assert [p.error_code for p in response.topics[0].partitions] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FOR_LEADER_EPOCH))
def test_offset_for_leader_epoch(version: int) -> None:
    broker = FakeBroker()
    key = ApiKey.OFFSET_FOR_LEADER_EPOCH
    partitions = [
        struct(key, "OffsetForLeaderTopic.OffsetForLeaderPartition", version, partition=n, leader_epoch=2)
        for n in (0, 9)
    ]
    topic = struct(key, "OffsetForLeaderTopic", version, topic="t", partitions=partitions)
    response = broker.call(key, version, topics=[topic])
    assert [(p.partition, p.error_code, p.end_offset) for p in response.topics[0].partitions] == [
        (0, 0, 77),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]


@pytest.mark.parametrize("version", versions(ApiKey.INIT_PRODUCER_ID))
def test_init_producer_id(version: int) -> None:
    broker = FakeBroker()
    key = ApiKey.INIT_PRODUCER_ID
    for expected in (5000, 5001):
        response = broker.call(key, version, transactional_id=None, transaction_timeout_ms=0)
        assert (response.error_code, response.producer_id, response.producer_epoch) == (0, expected, 0)
    if version >= 3:
        response = broker.call(key, version, transactional_id=None, producer_id=7, producer_epoch=-1)
        assert response.error_code == ErrorCode.INVALID_REQUEST


def limit_mutations(broker: FakeBroker) -> None:
    """One partition a second, at most 11 at once."""
    broker.services.quotas.update("clients/client", {"controller_mutation_rate": "1"})


@pytest.mark.parametrize("version", [6, 7])
def test_topics_above_the_quota_of_mutations_are_refused(version: int) -> None:
    """The tokens that are left pay for any topic; the quota is exceeded after it."""
    broker = FakeBroker()
    limit_mutations(broker)
    topics = [new_topic(version, "a", 16), new_topic(version, "b", 1), new_topic(version, "t", 1)]
    response = broker.call(ApiKey.CREATE_TOPICS, version, topics=topics, timeout_ms=0)
    assert [(t.name, t.error_code, t.error_message) for t in response.topics[1:]] == [
        ("b", ErrorCode.THROTTLING_QUOTA_EXCEEDED, None),
        ("t", ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists."),
    ]
    assert "/brokers/topics/a" in broker.zookeeper.paths()
    assert "/brokers/topics/b" not in broker.zookeeper.paths()
    assert response.throttle_time_ms == 5000
    assert broker.connection.muted == [5.0]
    broker.clock.advance(5.0)
    response = broker.call(
        ApiKey.CREATE_TOPICS, version, topics=[new_topic(version, "b", 1)], timeout_ms=0, validate_only=False
    )
    assert response.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("version", [2, 5])
def test_older_clients_create_topics_above_their_quota_and_are_throttled(version: int) -> None:
    broker = FakeBroker()
    limit_mutations(broker)
    topics = [new_topic(version, "a", 16), new_topic(version, "b", 2)]
    response = broker.call(ApiKey.CREATE_TOPICS, version, topics=topics, timeout_ms=0)
    assert [t.error_code for t in response.topics] == [ErrorCode.REQUEST_TIMED_OUT] * 2
    assert response.throttle_time_ms == 7000
    assert broker.connection.muted == [7.0]


def test_topics_that_come_by_a_request_for_metadata_are_counted_and_not_refused() -> None:
    broker = FakeBroker({"num.partitions": "16"})
    limit_mutations(broker)
    topics = [struct(ApiKey.METADATA, "MetadataRequestTopic", 9, name=name) for name in ("a", "b")]
    response = broker.call(ApiKey.METADATA, 9, topics=topics, allow_auto_topic_creation=True)
    assert [t.error_code for t in response.topics] == [ErrorCode.LEADER_NOT_AVAILABLE] * 2
    assert {"/brokers/topics/a", "/brokers/topics/b"} <= set(broker.zookeeper.paths())
    assert (response.throttle_time_ms, broker.connection.muted) == (0, [])
    response = broker.call(ApiKey.CREATE_TOPICS, 6, topics=[new_topic(6, "c", 1)], timeout_ms=0)
    assert response.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_request_that_only_checks_costs_no_mutations() -> None:
    broker = FakeBroker()
    limit_mutations(broker)
    for _ in range(3):
        response = broker.call(
            ApiKey.CREATE_TOPICS, 7, topics=[new_topic(7, "a", 100)], timeout_ms=0, validate_only=True
        )
        assert (response.topics[0].error_code, response.throttle_time_ms) == (0, 0)
    assert broker.connection.muted == []


@pytest.mark.parametrize(("version", "is_strict"), [(4, False), (5, True), (6, True)])
def test_deleted_partitions_are_mutations(version: int, is_strict: bool) -> None:
    broker = FakeBroker()
    broker.services.quotas.update("users/ANONYMOUS", {"controller_mutation_rate": "0.1"})
    names: dict[str, Any] = {"topic_names": ["t", "t2"]}
    if version >= 6:
        make = "DeleteTopicState"
        topics = [struct(ApiKey.DELETE_TOPICS, make, version, name=name, topic_id=ZERO_UUID) for name in ("t", "t2")]
        names = {"topics": topics}
    broker.metadata.apply([LeaderAndIsr("t2", 0, uuid.uuid4(), 1, 4, (1,), 1, 0, 10, PartitionAssignment((1,)))])
    response = broker.call(ApiKey.DELETE_TOPICS, version, timeout_ms=0, **names)
    refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED if is_strict else ErrorCode.REQUEST_TIMED_OUT
    assert [t.error_code for t in response.responses] == [ErrorCode.REQUEST_TIMED_OUT, refused]
    assert response.throttle_time_ms == (9000 if is_strict else 19000)


@pytest.mark.parametrize(("version", "is_strict"), [(2, False), (3, True)])
def test_added_partitions_are_mutations(version: int, is_strict: bool) -> None:
    broker = FakeBroker()
    limit_mutations(broker)
    for name in ("a", "b"):
        deferred(broker.topic_store.create(name, TopicAssignment(None, {0: PartitionAssignment((1,))}), {}))
    topics = [
        struct(ApiKey.CREATE_PARTITIONS, "CreatePartitionsTopic", version, name=name, count=count, assignments=None)
        for name, count in (("a", 14), ("b", 2))
    ]
    response = broker.call(ApiKey.CREATE_PARTITIONS, version, topics=topics, timeout_ms=0, validate_only=False)
    refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED if is_strict else ErrorCode.REQUEST_TIMED_OUT
    assert [t.error_code for t in response.results] == [ErrorCode.REQUEST_TIMED_OUT, refused]
    assert response.throttle_time_ms == (2000 if is_strict else 3000)
