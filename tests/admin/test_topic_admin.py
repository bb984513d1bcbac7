"""Creating, deleting and widening topics."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.admin.topic_admin import MorePartitions, NewTopic, TopicOutcome
from kafkalite.cluster.model import PartitionAssignment
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import ZERO_UUID
from tests.support import run

from .helpers import AdminCluster, pending


def create(cluster: AdminCluster, topic: NewTopic, timeout_ms: int = 0, **options: Any) -> TopicOutcome:
    (outcome,) = run(cluster.topics.create([topic], timeout_ms, **options))
    return outcome


def test_a_topic_is_written_and_the_answer_waits_for_its_leaders() -> None:
    cluster = AdminCluster()
    outcomes = pending(cluster.topics.create([NewTopic("t", 4, 2, configs={"retention.ms": "5"})], 1000))
    assert not outcomes
    found = run(cluster.topic_store.assignment("t"))
    assert found is not None
    assert sorted(found[0].partitions) == [0, 1, 2, 3]
    assert all(len(set(p.replicas)) == 2 for p in found[0].partitions.values())
    assert run(cluster.config_store.topic("t")) == {"retention.ms": "5"}
    cluster.lead("t")
    ((outcome,),) = outcomes
    assert outcome.error is ErrorCode.NONE
    assert outcome.topic_id == found[0].topic_id != ZERO_UUID
    assert (outcome.partitions, outcome.replication_factor) == (4, 2)


def test_a_request_outlasts_a_lost_connection() -> None:
    cluster = AdminCluster()
    cluster.client.lose_connection()
    outcomes = pending(cluster.topics.create([NewTopic("t", 1, 1)], 5000))
    cluster.clock.advance(1.0)
    assert not outcomes
    cluster.client.reconnect()
    cluster.clock.advance(0.2)
    cluster.lead("t")
    ((outcome,),) = outcomes
    assert outcome.error is ErrorCode.NONE


def test_time_runs_out_without_zookeeper() -> None:
    cluster = AdminCluster()
    cluster.add("old", None, {0: PartitionAssignment((1,))})
    cluster.client.lose_connection()
    waiting = [
        pending(cluster.topics.create([NewTopic("t", 1, 1)], 1000)),
        pending(cluster.topics.delete(["old"], 1000)),
        pending(cluster.topics.create_partitions([MorePartitions("old", 3)], 1000)),
    ]
    cluster.clock.advance(0.9)
    assert waiting == [[], [], []]
    cluster.clock.advance(0.3)
    assert [outcome.error for outcomes in waiting for (outcome,) in outcomes] == [ErrorCode.REQUEST_TIMED_OUT] * 3


def test_time_runs_out_without_leaders() -> None:
    cluster = AdminCluster()
    outcomes = pending(cluster.topics.create([NewTopic("t", 1, 1)], 1000))
    cluster.clock.advance(0.9)
    assert not outcomes
    cluster.clock.advance(0.2)
    assert outcomes[0][0].error is ErrorCode.REQUEST_TIMED_OUT


def test_without_time_to_wait_the_outcome_is_a_time_out_as_in_kafka() -> None:
    cluster = AdminCluster()
    assert create(cluster, NewTopic("t", 1, 1)).error is ErrorCode.REQUEST_TIMED_OUT
    assert run(cluster.topic_store.names()) == ["t"]


def test_defaults_are_the_brokers() -> None:
    cluster = AdminCluster({"num.partitions": "5", "default.replication.factor": "3"})
    outcome = create(cluster, NewTopic("t"), validate_only=True)
    assert (outcome.error, outcome.partitions, outcome.replication_factor) == (ErrorCode.NONE, 5, 3)
    assert outcome.topic_id == ZERO_UUID
    assert run(cluster.topic_store.names()) == []


def test_given_assignments_are_taken() -> None:
    cluster = AdminCluster()
    create(cluster, NewTopic("t", assignments={0: [1, 2], 1: [2, 9]}))
    found = run(cluster.topic_store.assignment("t"))
    assert found is not None
    assert {index: p.replicas for index, p in found[0].partitions.items()} == {0: (1, 2), 1: (2, 9)}


@pytest.mark.parametrize(
    ("topic", "error", "message"),
    [
        (NewTopic("a/b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "invalid"),
        (NewTopic("there", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS, "already exists"),
        (NewTopic("with_dot", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topics: with.dot"),
        (NewTopic("t", 0, 1), ErrorCode.INVALID_PARTITIONS, "larger than 0"),
        (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (NewTopic("t", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than available brokers: 3"),
        (NewTopic("t", 1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST, "Both"),
        (NewTopic("t", assignments={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consecutive"),
        (NewTopic("t", assignments={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "at least one"),
        (NewTopic("t", assignments={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Duplicate"),
        (NewTopic("t", assignments={0: [1], 1: [1, 2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "same number"),
        (NewTopic("t", 1, 1, configs={"nonsense": "1"}), ErrorCode.INVALID_CONFIG, "Unknown topic config name"),
        (NewTopic("t", 1, 1, configs={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG, "retention.ms"),
        (NewTopic("t", 1, 1, configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG, "Null value"),
    ],
)
def test_refusals(topic: NewTopic, error: ErrorCode, message: str) -> None:
    cluster = AdminCluster()
    for name in ("there", "with.dot"):
        create(cluster, NewTopic(name, 1, 1))
        cluster.lead(name)
    outcome = create(cluster, topic)
    assert outcome.error is error
    assert message in (outcome.message or "")
    assert run(cluster.topic_store.names()) == ["there", "with.dot"]


def test_a_topic_that_metadata_does_not_show_yet_is_not_created_twice() -> None:
    cluster = AdminCluster()
    create(cluster, NewTopic("t", 1, 1))
    assert create(cluster, NewTopic("t", 1, 1)).error is ErrorCode.TOPIC_ALREADY_EXISTS


def test_one_wrong_topic_does_not_disturb_the_others() -> None:
    cluster = AdminCluster()
    good, bad = run(cluster.topics.create([NewTopic("good", 1, 1), NewTopic("..", 1, 1)], 0, validate_only=True))
    assert (good.error, bad.error) == (ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION)


def test_deletion_waits_until_the_topic_is_gone() -> None:
    cluster = AdminCluster()
    create(cluster, NewTopic("t", 1, 1))
    cluster.lead("t")
    outcomes = pending(cluster.topics.delete(["t"], 1000))
    assert run(cluster.admin_store.delete_topics()) == ["t"]
    assert not outcomes
    cluster.metadata.remove_topics(["t"])
    cluster.topics.metadata_changed(["t"])
    assert outcomes[0][0].error is ErrorCode.NONE


def test_widening() -> None:
    cluster = AdminCluster()
    create(cluster, NewTopic("t", 2, 2))
    cluster.lead("t")
    outcomes = pending(cluster.topics.create_partitions([MorePartitions("t", 5)], 1000))
    found = run(cluster.topic_store.assignment("t"))
    assert found is not None
    assert [len(p.replicas) for p in found[0].partitions.values()] == [2] * 5
    assert not outcomes
    cluster.lead("t")
    assert outcomes[0][0].error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("widening", "error"),
    [
        (MorePartitions("none", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (MorePartitions("t", 2), ErrorCode.INVALID_PARTITIONS),
        (MorePartitions("t", 1), ErrorCode.INVALID_PARTITIONS),
        (MorePartitions("t", 3, [[9, 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions("t", 4, [[1, 2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions("t", 3, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions("t", 3, [[]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions("t", 3, [[1, 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_widening_refused(widening: MorePartitions, error: ErrorCode) -> None:
    cluster = AdminCluster()
    create(cluster, NewTopic("t", 2, 2))
    cluster.lead("t")
    (outcome,) = run(cluster.topics.create_partitions([widening], 0))
    assert outcome.error is error
    found = run(cluster.topic_store.assignment("t"))
    assert found is not None
    assert len(found[0].partitions) == 2


def test_topics_are_created_by_themselves_once() -> None:
    cluster = AdminCluster()
    assert cluster.topics.auto_create(["t"]) == {"t": ErrorCode.LEADER_NOT_AVAILABLE}
    assert run(cluster.topic_store.names()) == ["t"]
    assert cluster.topics.auto_create(["t"]) == {"t": ErrorCode.LEADER_NOT_AVAILABLE}


def test_topics_that_are_created_by_themselves_are_charged() -> None:
    cluster = AdminCluster({"num.partitions": "3"})
    charged: list[int] = []
    cluster.topics.auto_create(["t"], charge=charged.append)
    assert run(cluster.topic_store.names()) == ["t"]
    assert charged == [3]


def test_too_few_brokers_for_that_are_told() -> None:
    cluster = AdminCluster({"default.replication.factor": "4"})
    assert cluster.topics.auto_create(["t"]) == {"t": ErrorCode.INVALID_REPLICATION_FACTOR}
    assert run(cluster.topic_store.names()) == []
