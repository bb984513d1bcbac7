"""The cluster for users' tests, secured: its clients log in, and faults do to it what they do to an open one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType

from integration.harness.logins import grant
from integration.harness.wait import wait_for
from kafkalite.embedded.security import ADMIN, CLIENT, ClusterSecurity
from kafkalite.embedded.znodes import read_znodes
from kafkalite.testing.cluster import KafkaliteCluster

pytestmark = pytest.mark.kafkalite_only
TOPIC = "orders"


def send(cluster: KafkaliteCluster, value: str) -> None:
    """Produce one record with acks=all."""
    errors: list[object] = []
    producer = Producer({**cluster.get_client_properties(), "acks": "all", "log_level": 0})
    producer.produce(TOPIC, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None]


def state(cluster: KafkaliteCluster) -> dict[str, Any]:
    """The partition's znode, read with the cluster's own certificate. Raises ``LookupError`` if it does not exist."""
    security = ClusterSecurity.find(cluster.directory)
    assert security is not None
    path = f"/brokers/topics/{TOPIC}/partitions/0/state"
    found: dict[str, Any] = json.loads(read_znodes(cluster.zookeeper, [path], security.zookeeper_security())[path])
    return found


def wait_in_sync(cluster: KafkaliteCluster, replicas: int) -> None:
    wait_for(lambda: len(state(cluster)["isr"]) == replicas, f"{replicas} replicas are in sync")


@pytest.mark.full
@pytest.mark.kafkalite(brokers=2, secure=True, overrides={"replica.lag.time.max.ms": "1500"})
def test_faults_of_a_secured_cluster(kafkalite_cluster: KafkaliteCluster) -> None:
    login = kafkalite_cluster.get_client_properties(ADMIN)
    admin = AdminClient({**login, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1, 2)])[TOPIC].result(30)
    grant(login, CLIENT, (ResourceType.TOPIC, TOPIC, AclOperation.ALL))
    wait_in_sync(kafkalite_cluster, 2)
    send(kafkalite_cluster, "whole")
    leader = state(kafkalite_cluster)["leader"]
    follower = 3 - leader
    kafkalite_cluster.partition(follower, leader)
    send(kafkalite_cluster, "cut")
    wait_in_sync(kafkalite_cluster, 1)
    kafkalite_cluster.heal()
    wait_in_sync(kafkalite_cluster, 2)
    kafkalite_cluster.expire_session(leader)
    wait_in_sync(kafkalite_cluster, 2)
    send(kafkalite_cluster, "expired")
    kafkalite_cluster.kill(leader)
    kafkalite_cluster.restart(leader)
    wait_in_sync(kafkalite_cluster, 2)
    consumer = Consumer({**kafkalite_cluster.get_client_properties(ADMIN), "group.id": "none", "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = [message.value().decode() for message in consumer.consume(3, 30)]
    consumer.close()
    assert found == ["whole", "cut", "expired"]


def test_a_secured_cluster_needs_a_zookeeper_of_its_own(kafkalite_cluster: KafkaliteCluster) -> None:
    """Its certificates come from an authority of its own; the clients of an open cluster need no login."""
    with pytest.raises(ValueError, match="leave zookeeper out"):
        KafkaliteCluster(kafkalite_cluster.directory, zookeeper=kafkalite_cluster.zookeeper, secure=True)
    assert kafkalite_cluster.get_client_properties() == {"bootstrap.servers": kafkalite_cluster.get_bootstrap_server()}
