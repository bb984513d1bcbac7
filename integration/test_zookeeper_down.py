"""ZooKeeper away: for longer than a session under load, and merely unreachable for a moment."""

from __future__ import annotations

import time

from integration.conftest import ClusterFactory
from integration.harness.clients import fresh_topic
from integration.harness.history import EpochWatcher, LoadProducer, LoadReader, judge, read_all, wait_in_sync
from integration.harness.wait import wait_for
from integration.test_clients_confluent import Confluent
from kafkalite.embedded.cluster import LocalCluster

PARTITIONS = 3
SESSION_TIMEOUT = 3.0
OVERRIDES = {"zookeeper.session.timeout.ms": str(int(SESSION_TIMEOUT * 1000))}


def make_topic(cluster: LocalCluster) -> str:
    """A topic in sync."""
    topic = fresh_topic("away")
    Confluent().create_topic(cluster.bootstrap, topic, PARTITIONS, 3, {})
    wait_in_sync(cluster.zookeeper, topic, PARTITIONS, 3)
    return topic


def test_killed_longer_than_a_session(make_cluster: ClusterFactory) -> None:
    """Brokers survive, nothing acknowledged is lost, work goes on: producing, electing, creating."""
    cluster = make_cluster(3, OVERRIDES)
    topic = make_topic(cluster)
    producers = [LoadProducer(cluster.bootstrap, topic, PARTITIONS, 300.0) for _ in range(3)]
    reader = LoadReader(cluster.bootstrap, topic, PARTITIONS)
    watcher = EpochWatcher(cluster.zookeeper, topic, PARTITIONS)
    for thread in (watcher, reader, *producers):
        thread.start()
    wait_for(lambda: sum(p.acknowledged for p in producers) > 500, "records are acknowledged")
    cluster.embedded_zookeeper.kill()
    time.sleep(SESSION_TIMEOUT * 2 + 1)
    assert all(cluster.is_alive(broker_id) for broker_id in cluster.broker_ids), "a broker did not survive"
    cluster.start_zookeeper()
    back = sum(p.acknowledged for p in producers)
    wait_for(lambda: sum(p.acknowledged for p in producers) > back + 1500, "work goes on", 60)
    wait_in_sync(cluster.zookeeper, topic, PARTITIONS, 3)
    cluster.wait_ready()
    # The controller works again: a death is noticed, a topic can be made.
    cluster.kill_broker(1)
    before = sum(p.acknowledged for p in producers)
    wait_for(lambda: sum(p.acknowledged for p in producers) > before + 1500, "another leads", 60)
    cluster.start_broker(1)
    make_topic(cluster)
    for producer in producers:
        producer.finish()
    log = read_all(cluster.bootstrap, topic, PARTITIONS)
    reader.finish()
    watcher.finish()
    wrong = judge(log, producers, [reader], {topic: watcher})
    assert not wrong, wrong[:10]
    assert sum(map(len, log)) >= sum(producer.acknowledged for producer in producers)


def test_producing_goes_on_while_unreachable(make_cluster: ClusterFactory) -> None:
    """A stopped ZooKeeper, for less than a session: acks=all to a full ISR never pauses."""
    cluster = make_cluster(3, {"zookeeper.session.timeout.ms": "10000"})
    topic = make_topic(cluster)
    producer = LoadProducer(cluster.bootstrap, topic, PARTITIONS, 200.0)
    producer.start()
    wait_for(lambda: producer.acknowledged > 200, "records are acknowledged")
    producer.longest_gap = 0.0
    cluster.embedded_zookeeper.pause()
    try:
        time.sleep(5.0)
        gap = producer.longest_gap
        while_away = producer.acknowledged
    finally:
        cluster.embedded_zookeeper.resume()
    assert gap < 2.0, f"no acknowledgement for {gap:.1f} s while ZooKeeper was away"
    wait_for(lambda: producer.acknowledged > while_away + 400, "work goes on")
    producer.finish()
    assert producer.failures == []
    assert sum(map(len, read_all(cluster.bootstrap, topic, PARTITIONS))) == producer.acknowledged
