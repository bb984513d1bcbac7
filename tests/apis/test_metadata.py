"""Metadata: every version, every listener, topics that are not there, and answers that are kept."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.protocol.api_keys import ApiKey

from .helpers import TOPIC_ID, FakeBroker, FakeConnection, struct


def ask(broker: FakeBroker, version: int, *names: str | None, **fields: Any) -> Any:
    topics: Any = [struct(ApiKey.METADATA, "MetadataRequestTopic", version, name=name) for name in names]
    if not names:
        topics = [] if version == 0 else None
    options = {"allow_auto_topic_creation": False} if version >= 4 else {}
    return broker.call(ApiKey.METADATA, version, topics=topics, **{**options, **fields})


@pytest.mark.parametrize("version", range(13))
def test_all_topics(version: int) -> None:
    broker = FakeBroker()
    response = ask(broker, version)
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [
        (1, "host1", 9092),
        (2, "host2", 9092),
        (3, "host3", 9092),
    ]
    (topic,) = response.topics
    assert (topic.name, topic.error_code) == ("t", 0)
    assert [(p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes) for p in topic.partitions] == [
        (0, 1, [1, 2], [1, 2]),
        (1, 2, [1, 2], [1, 2]),
    ]
    if version >= 1:
        assert response.controller_id == 1
        assert response.brokers[0].rack == "rack1"
    if version >= 2:
        assert response.cluster_id == "cluster"
    if version >= 7:
        assert topic.partitions[0].leader_epoch == 4
    if version >= 10:
        assert topic.topic_id == TOPIC_ID


def test_an_empty_list_asks_for_none_from_version_1_on() -> None:
    broker = FakeBroker()
    assert broker.call(ApiKey.METADATA, 1, topics=[]).topics == []


def test_clients_see_the_listener_that_they_came_by() -> None:
    broker = FakeBroker()
    broker.connection = FakeConnection("EXTERNAL")
    response = ask(broker, 12)
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [(1, "ext1", 19092), (2, "ext2", 19092)]


@pytest.mark.parametrize(
    ("version", "leader", "alive", "error", "leader_shown", "offline"),
    [
        (12, 2, (1, 2, 3), ErrorCode.NONE, 2, []),
        (12, 2, (1, 3), ErrorCode.LEADER_NOT_AVAILABLE, -1, [2]),
        (12, -1, (1, 2, 3), ErrorCode.LEADER_NOT_AVAILABLE, -1, []),
        (12, 1, (1, 3), ErrorCode.NONE, 1, [2]),
        (0, 1, (1, 3), ErrorCode.REPLICA_NOT_AVAILABLE, 1, []),
    ],
)
def test_leaders_and_replicas_that_are_away(
    version: int, leader: int, alive: tuple[int, ...], error: ErrorCode, leader_shown: int, offline: list[int]
) -> None:
    broker = FakeBroker()
    state = broker.metadata.partitions("t")[0]
    broker.metadata.apply([state.with_(leader=leader, leader_epoch=5)])
    broker.metadata.update_brokers({number: broker.metadata.brokers[number] for number in alive})
    partition = ask(broker, version, "t").topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (error, leader_shown)
    if version >= 5:
        assert partition.offline_replicas == offline
        assert partition.replica_nodes == [1, 2]
    if version == 0:
        assert partition.replica_nodes == [1]


def test_a_leader_without_the_clients_listener() -> None:
    broker = FakeBroker()
    broker.metadata.apply([broker.metadata.partitions("t")[0].with_(leader=3, leader_epoch=5)])
    broker.connection = FakeConnection("EXTERNAL")
    assert ask(broker, 12, "t").topics[0].partitions[0].error_code == ErrorCode.LISTENER_NOT_FOUND
    assert ask(broker, 5, "t").topics[0].partitions[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE


def test_topics_that_do_not_exist() -> None:
    broker = FakeBroker()
    response = ask(broker, 9, "t", "none", "a/b")
    assert [(t.name, t.error_code) for t in response.topics] == [
        ("t", 0),
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    assert "none" not in broker.zookeeper.paths("/brokers/topics")


@pytest.mark.parametrize(
    ("version", "allowed", "enabled", "error"),
    [
        (3, None, "true", ErrorCode.LEADER_NOT_AVAILABLE),
        (9, True, "true", ErrorCode.LEADER_NOT_AVAILABLE),
        (9, False, "true", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (9, True, "false", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_topics_that_are_created_by_being_asked_for(
    version: int, allowed: bool | None, enabled: str, error: ErrorCode
) -> None:
    broker = FakeBroker({"auto.create.topics.enable": enabled})
    fields = {} if allowed is None else {"allow_auto_topic_creation": allowed}
    response = ask(broker, version, "new", **fields)
    assert response.topics[0].error_code == error
    created = error is ErrorCode.LEADER_NOT_AVAILABLE
    assert ("/brokers/topics/new" in broker.zookeeper.paths("/brokers/topics")) is created


def test_topics_by_id() -> None:
    broker = FakeBroker()
    unknown = uuid.UUID(int=5)
    topics = [
        struct(ApiKey.METADATA, "MetadataRequestTopic", 12, topic_id=topic_id, name=None)
        for topic_id in (TOPIC_ID, unknown)
    ]
    response = broker.call(ApiKey.METADATA, 12, topics=topics, allow_auto_topic_creation=True)
    assert [(t.name, t.topic_id, t.error_code) for t in response.topics] == [
        ("t", TOPIC_ID, 0),
        (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_operations_are_told_when_asked_for() -> None:
    broker = FakeBroker()
    response = ask(broker, 8, include_topic_authorized_operations=True, include_cluster_authorized_operations=True)
    assert response.topics[0].authorized_operations == {3, 4, 5, 6, 7, 8, 10, 11}
    assert response.authorized_operations == {5, 7, 8, 9, 10, 11, 12}
    assert not ask(broker, 8).authorized_operations


def test_a_kept_answer_is_given_until_something_changes() -> None:
    broker = FakeBroker()
    ask(broker, 9)
    first = broker.services.answers.find((9, "PLAINTEXT", True, (), (), (False, False)), broker.metadata.version)
    assert first is not None
    assert ask(broker, 9).topics[0].partitions[0].leader_id == 1
    broker.metadata.apply([broker.metadata.partitions("t")[0].with_(leader=2, leader_epoch=5)])
    assert ask(broker, 9).topics[0].partitions[0].leader_id == 2
    broker.connection = FakeConnection("EXTERNAL")
    assert len(ask(broker, 9).brokers) == 2


@pytest.mark.parametrize(
    ("name", "version", "stumbles"),
    [
        ("librdkafka", "2.12.0", True),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", True),
        ("apache-kafka-java", "3.9.1", False),
        ("", "", False),
    ],
)
def test_a_broker_that_went_is_named_a_little_longer_to_librdkafka(name: str, version: str, stumbles: bool) -> None:
    broker = FakeBroker()
    broker.connection.info.software_name, broker.connection.info.software_version = name, version
    alive = dict(broker.metadata.brokers)
    ask(broker, 9)
    broker.metadata.update_brokers({i: known for i, known in alive.items() if i != 1})
    for _ in range(2):
        response = ask(broker, 9)
        assert [b.node_id for b in response.brokers] == ([2, 3, 1] if stumbles else [2, 3])
        assert response.topics[0].partitions[0].leader_id == -1
        assert response.topics[0].partitions[0].offline_replicas == [1]
        assert response.controller_id == -1
    broker.connection.info.opened = broker.clock.monotonic() + 0.1
    assert [b.node_id for b in ask(broker, 9).brokers] == [2, 3], "a client that connects later did not know it"
    broker.connection.info.opened = 0.0
    broker.clock.advance(2.1)
    assert [b.node_id for b in ask(broker, 9).brokers] == [2, 3]
    broker.metadata.update_brokers(alive)
    assert [b.node_id for b in ask(broker, 9).brokers] == [1, 2, 3]
