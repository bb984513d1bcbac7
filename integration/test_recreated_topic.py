"""A topic deleted and recreated under its name while one of its replicas is down."""

from __future__ import annotations

import json

from integration.conftest import AGAINST_KAFKA, ClusterFactory
from integration.harness.clients import fresh_topic
from integration.harness.history import partition_states, wait_in_sync
from integration.harness.records import assert_same, make_items
from integration.harness.wait import wait_for
from integration.test_clients_confluent import Confluent
from kafkalite.embedded.znodes import ZnodeReader


def test_no_old_data_and_no_stuck_epoch(make_cluster: ClusterFactory) -> None:
    """The replica that slept through it all has the new data and nothing of the old, and can lead."""
    cluster = make_cluster(3, {"replica.lag.time.max.ms": "3000"})
    client = Confluent()
    topic = fresh_topic("again")
    client.create_topic(cluster.bootstrap, topic, 2, 3, {})
    wait_in_sync(cluster.zookeeper, topic, 2, 3)
    client.produce(cluster.bootstrap, topic, make_items(1, 500, 2))
    for broker_id in (1, 2):  # epochs of the old topic shall be higher than those of the new one
        cluster.restart_broker(broker_id)
        wait_in_sync(cluster.zookeeper, topic, 2, 3)

    def topic_id() -> str:
        with ZnodeReader(cluster.zookeeper) as reader:
            return str(json.loads(reader.get(f"/brokers/topics/{topic}") or b"{}").get("topic_id"))

    old_id = topic_id()
    cluster.kill_broker(3)
    alive = f"{cluster.address(1)},{cluster.address(2)}"
    wait_for(lambda: "3" not in str(live(cluster.zookeeper)), "broker 3 has gone")
    client.delete_topic(alive, topic)
    if AGAINST_KAFKA:
        # Kafka cannot finish a deletion while a replica is down; the topic stays until it is back.
        return
    wait_for(lambda: topic not in client.topics(alive), "the topic has gone for clients")
    cluster.start_broker(3)
    wait_for(lambda: topic_id() in ("None", "") or topic_id() != old_id, "the old topic has gone", 60)
    wait_for(lambda: topic not in client.topics(cluster.bootstrap), "it has gone everywhere")
    client.create_topic(cluster.bootstrap, topic, 2, 3, {})
    wait_in_sync(cluster.zookeeper, topic, 2, 3)
    assert topic_id() != old_id
    items = make_items(2, 300, 2)
    client.produce(cluster.bootstrap, topic, items)
    assert_same(items, client.consume(cluster.bootstrap, topic, {0: 0, 1: 0}, len(items)))
    # Everyone in turn leads, broker 3 among them: alone, it must have just the new data.
    wait_in_sync(cluster.zookeeper, topic, 2, 3)
    for broker_id in (1, 2):
        cluster.kill_broker(broker_id)

    def led_by_3() -> bool:
        with ZnodeReader(cluster.zookeeper) as reader:
            return all(state["leader"] == 3 for state in partition_states(reader, topic, 2).values())

    wait_for(led_by_3, "broker 3 leads alone")
    assert_same(
        items, wait_for(lambda: client.consume(cluster.address(3), topic, {0: 0, 1: 0}, len(items)), "it serves")
    )


def live(zookeeper: str) -> list[str]:
    """Registered brokers."""
    with ZnodeReader(zookeeper) as reader:
        return reader.children("/brokers/ids")
