"""Brokers survive a ZooKeeper that is dead or silent for longer than the session timeout, and lose no record."""

from __future__ import annotations

import time

import pytest

from integration.conftest import ClusterFactory
from integration.faults.cluster import (
    compare_logs,
    controller,
    create_topic,
    is_registered,
    states,
    wait_in_sync,
    wait_led_by_others,
)
from integration.faults.workload import Load
from integration.harness.wait import wait_for
from kafkalite.embedded.cluster import LocalCluster

TOPIC = "down"
PARTITIONS = 3
RATE = 1500
SESSION_TIMEOUT = 2.0
DOWN = SESSION_TIMEOUT + 2.5


@pytest.fixture
def cluster(make_cluster: ClusterFactory) -> LocalCluster:
    """Three brokers, one topic."""
    cluster = make_cluster(3, {"zookeeper.session.timeout.ms": str(int(SESSION_TIMEOUT * 1000))})
    create_topic(cluster, TOPIC, PARTITIONS)
    return cluster


def produce_through(load: Load, seconds: float) -> None:
    """Check that acknowledgements continue for ``seconds`` without ZooKeeper."""
    end = time.monotonic() + seconds
    load.record.begin_gap()
    while time.monotonic() < end:
        load.wait_acknowledged(load.acknowledged + RATE // 10, timeout=30.0)
    print(f"longest gap without ZooKeeper: {load.record.longest_gap:.3f} s", flush=True)


def work_goes_on(cluster: LocalCluster, load: Load, pids: dict[int, int]) -> None:
    """Check that the same processes serve, all is in sync, leaders change, topics can be made, and nothing is lost."""
    assert {broker_id: cluster.pid(broker_id) for broker_id in pids} == pids
    assert all(cluster.is_alive(broker_id) for broker_id in pids)
    wait_in_sync(cluster, TOPIC, PARTITIONS)
    for broker_id in cluster.broker_ids:
        wait_for(lambda broker_id=broker_id: is_registered(cluster, broker_id), "registered")  # type: ignore[misc]
    cluster.wait_ready()
    create_topic(cluster, "after", PARTITIONS)
    victim = wait_for(lambda: controller(cluster), "there is a controller")
    cluster.kill_broker(victim)
    wait_led_by_others(cluster, TOPIC, PARTITIONS, victim)
    load.wait_acknowledged(load.acknowledged + RATE)
    cluster.start_broker(victim)
    wait_in_sync(cluster, TOPIC, PARTITIONS)
    load.stop()
    compare_logs(cluster, TOPIC, PARTITIONS)
    print(f"{load.acknowledged:,} acknowledged, none lost", flush=True)


def test_brokers_survive_a_killed_and_restarted_zookeeper(cluster: LocalCluster) -> None:
    """The full ISR acknowledges records without ZooKeeper."""
    pids = {broker_id: cluster.pid(broker_id) for broker_id in cluster.broker_ids}
    load = Load(cluster, TOPIC, PARTITIONS, rate=RATE)
    load.start()
    load.wait_acknowledged(RATE)
    cluster.embedded_zookeeper.kill()
    produce_through(load, DOWN)
    cluster.start_zookeeper()
    work_goes_on(cluster, load, pids)


@pytest.mark.full
def test_brokers_survive_a_silent_zookeeper(cluster: LocalCluster) -> None:
    """ZooKeeper is stopped (SIGSTOP); when it continues, every session has expired."""
    pids = {broker_id: cluster.pid(broker_id) for broker_id in cluster.broker_ids}
    load = Load(cluster, TOPIC, PARTITIONS, rate=RATE)
    load.start()
    load.wait_acknowledged(RATE)
    cluster.embedded_zookeeper.pause()
    produce_through(load, DOWN)
    cluster.embedded_zookeeper.resume()
    work_goes_on(cluster, load, pids)


@pytest.mark.full
def test_partitions_of_a_broker_that_dies_meanwhile_wait_for_zookeeper(cluster: LocalCluster) -> None:
    """Those that the dead broker led or was in sync for; then they are served, and no record is lost."""
    load = Load(cluster, TOPIC, PARTITIONS, rate=RATE)
    load.start()
    load.wait_acknowledged(RATE)
    victim = states(cluster, TOPIC, PARTITIONS)[0]["leader"]
    cluster.embedded_zookeeper.kill()
    time.sleep(0.3)
    cluster.kill_broker(victim)
    time.sleep(DOWN)
    cluster.start_zookeeper()
    wait_led_by_others(cluster, TOPIC, PARTITIONS, victim)
    load.wait_acknowledged(load.acknowledged + RATE)
    cluster.start_broker(victim)
    pids = {broker_id: cluster.pid(broker_id) for broker_id in cluster.broker_ids}
    work_goes_on(cluster, load, pids)
