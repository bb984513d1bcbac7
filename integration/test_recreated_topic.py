"""A topic that was deleted and created again while a replica was down has no old records and no stuck epoch."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from integration.conftest import ClusterFactory
from integration.faults.cluster import (
    compare_logs,
    create_topic,
    delete_znodes,
    move_leader,
    read_batches,
    states,
    wait_in_sync,
)
from integration.faults.workload import Load
from integration.harness.wait import wait_for
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.znodes import read_znodes

TOPIC = "again"
PARTITIONS = 3
DOWN = 3
OLD, NEW = 5000, 1500
OVERRIDES = {"log.segment.delete.delay.ms": "500"}


def fill(cluster: LocalCluster, records: int, seed: int) -> int:
    """Produce at least ``records`` records, read them back and check them; returns their number."""
    load = Load(cluster, TOPIC, PARTITIONS, rate=3000, seed=seed)
    load.start()
    load.wait_acknowledged(records)
    load.stop()
    return load.acknowledged


def delete(cluster: LocalCluster) -> None:
    """Request the deletion until ZooKeeper has it; it stays there until the broker that is down is back."""

    def asked() -> bool:
        client = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        # With timeouts, because the deletion does not complete, and a client that knows a dead controller asks no other
        # broker.
        with suppress(KafkaException, TimeoutError):
            client.delete_topics([TOPIC], operation_timeout=1)[TOPIC].result(5)
        return bool(read_znodes(cluster.zookeeper, [f"/admin/delete_topics/{TOPIC}"]))

    wait_for(asked, "the deletion is asked for", 90)


def is_gone(cluster: LocalCluster) -> bool:
    """Whether ZooKeeper has neither the topic nor the request for its deletion."""
    return not read_znodes(cluster.zookeeper, [f"/brokers/topics/{TOPIC}", f"/admin/delete_topics/{TOPIC}"])


def raise_epochs(cluster: LocalCluster) -> int:
    """Change leaders until the leader epochs are well above those of a new topic; returns the highest."""
    for leader in (1, 2, 3, 1, 2, 3):
        for partition in range(PARTITIONS):
            move_leader(cluster, TOPIC, partition, leader)
    return max(int(state["leader_epoch"]) for state in states(cluster, TOPIC, PARTITIONS).values())


def partition_dirs(cluster: LocalCluster, broker_id: int) -> list[Path]:
    """The topic's folders of a broker, also those that are marked for deletion."""
    return sorted((cluster.broker_dir(broker_id) / "data").glob(f"{TOPIC}-*"))


def judge(cluster: LocalCluster, records: int, old_epoch: int) -> None:
    """Check that all replicas have only the new topic's records, from offset 0 on, and that each can lead."""
    wait_in_sync(cluster, TOPIC, PARTITIONS)
    compare_logs(cluster, TOPIC, PARTITIONS)
    for broker_id in cluster.broker_ids:
        data = cluster.broker_dir(broker_id) / "data"
        logs = [read_batches(data / f"{TOPIC}-{partition}") for partition in range(PARTITIONS)]
        assert all(log[0].base_offset == 0 for log in logs)
        assert sum(log[-1].last_offset + 1 for log in logs) == records, "neither more nor less than the new records"
        assert all(log[-1].leader_epoch < old_epoch for log in logs), "no epoch of the old topic"
    for partition in range(PARTITIONS):
        move_leader(cluster, TOPIC, partition, DOWN)
    found = states(cluster, TOPIC, PARTITIONS)
    assert all(state["leader"] == DOWN and state["leader_epoch"] < old_epoch for state in found.values()), found
    wait_in_sync(cluster, TOPIC, PARTITIONS)


@pytest.mark.full
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_deletion_waits_for_a_broker_that_is_down(make_cluster: ClusterFactory, how: str) -> None:
    """As in Kafka, the deletion completes when the broker is back."""
    cluster = make_cluster(3, OVERRIDES)
    create_topic(cluster, TOPIC, PARTITIONS)
    old_epoch = raise_epochs(cluster)
    fill(cluster, OLD, 1)
    (cluster.kill_broker if how == "kill" else cluster.stop_broker)(DOWN)
    delete(cluster)
    assert not is_gone(cluster)
    cluster.start_broker(DOWN)
    wait_for(lambda: is_gone(cluster), "the topic is deleted")
    create_topic(cluster, TOPIC, PARTITIONS)
    judge(cluster, fill(cluster, NEW, 2), old_epoch)


@pytest.mark.parametrize("how", ["kill", pytest.param("stop", marks=pytest.mark.full)])
def test_a_topic_recreated_while_a_replica_is_down_has_no_old_records(make_cluster: ClusterFactory, how: str) -> None:
    """An operator completes the deletion by hand in ZooKeeper. The broker comes back with old logs."""
    cluster = make_cluster(3, OVERRIDES)
    create_topic(cluster, TOPIC, PARTITIONS)
    old_epoch = raise_epochs(cluster)
    fill(cluster, OLD, 1)
    (cluster.kill_broker if how == "kill" else cluster.stop_broker)(DOWN)
    delete(cluster)
    wait_for(lambda: not partition_dirs(cluster, 1) and not partition_dirs(cluster, 2), "the live ones delete it", 90)
    delete_znodes(cluster, f"/admin/delete_topics/{TOPIC}", f"/brokers/topics/{TOPIC}", f"/config/topics/{TOPIC}")
    create_topic(cluster, TOPIC, PARTITIONS, dead=1)
    records = fill(cluster, NEW, 2)
    before = {path.name for path in partition_dirs(cluster, DOWN)}
    assert before == {f"{TOPIC}-{partition}" for partition in range(PARTITIONS)}
    cluster.start_broker(DOWN)
    judge(cluster, records, old_epoch)
