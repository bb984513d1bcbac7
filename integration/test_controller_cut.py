"""A broker that the controller's requests never reach learns its states from ZooKeeper."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import pytest

from integration.conftest import ClusterFactory
from integration.faults.black_hole import BlackHole
from integration.faults.cluster import (
    compare_logs,
    controller,
    create_topic,
    is_registered,
    move_leader,
    states,
    wait_in_sync,
    wait_led_by_others,
)
from integration.faults.workload import Load
from integration.harness.wait import wait_for
from integration.harness.wire import Wire, leaders
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.probe import ask
from kafkalite.embedded.processes import free_ports

TOPIC = "cut"
PARTITIONS = 3
CUT = 3
"""Id of the broker whose listener for control requests does not answer."""
CHANGES = 20
USUAL = 1.0
"""Seconds within which its metadata is right in most cases, also on a busy machine."""

pytestmark = pytest.mark.kafkalite_only


@pytest.fixture
def black_hole() -> Iterator[BlackHole]:
    """The address to which the controller sends the broker's requests."""
    black_hole = BlackHole()
    yield black_hole
    black_hole.close()


@pytest.fixture
def cluster(make_cluster: ClusterFactory, black_hole: BlackHole) -> LocalCluster:
    """Three brokers, one of them cut off from the controller, which is another broker."""
    cluster = make_cluster(3, {"auto.leader.rebalance.enable": "false"})
    wait_for(lambda: controller(cluster), "there is a controller")
    # If the last broker is the controller, its controlled shutdown makes another broker the controller.
    for broker_id, port in zip((1, 2, CUT), free_ports(3), strict=True):
        listeners = f"PLAINTEXT://{cluster.address(broker_id)},CONTROLLER://127.0.0.1:{port}"
        black = f"PLAINTEXT://{cluster.address(CUT)},CONTROLLER://127.0.0.1:{black_hole.port}"
        cluster.restart_broker(
            broker_id,
            {
                "listeners": listeners,
                "advertised.listeners": black if broker_id == CUT else listeners,
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "control.plane.listener.name": "CONTROLLER",
            },
        )
    assert controller(cluster) != CUT
    return cluster


def seconds_until(condition: Callable[[], bool], what: str) -> float:
    """Seconds until ``condition`` is true."""
    begun = time.monotonic()
    wait_for(condition, what, interval=0.005)
    return time.monotonic() - begun


def test_the_cut_broker_follows_leader_changes(cluster: LocalCluster, black_hole: BlackHole) -> None:
    """Its metadata equals ZooKeeper's states within a second; it leads and follows; no record is lost."""
    create_topic(cluster, TOPIC, PARTITIONS)
    load = Load(cluster, TOPIC, PARTITIONS, rate=300)
    load.start()
    delays = []
    with Wire(cluster.address(CUT)) as wire:
        for change in range(CHANGES):
            partition = change % PARTITIONS
            before = states(cluster, TOPIC, PARTITIONS)[partition]["leader"]
            leader = before % 3 + 1
            move_leader(cluster, TOPIC, partition, leader)
            delays.append(
                seconds_until(
                    lambda partition=partition, leader=leader: leaders(wire, TOPIC)[partition] == leader,  # type: ignore[misc]
                    f"broker {CUT} knows that {leader} leads {TOPIC}-{partition}",
                )
            )
            load.wait_acknowledged(load.acknowledged + 30)
    wait_in_sync(cluster, TOPIC, PARTITIONS)
    load.stop()
    compare_logs(cluster, TOPIC, PARTITIONS)
    assert controller(cluster) != CUT
    assert black_hole.swallowed > 0, "the controller did try"
    print(f"{CHANGES} leader changes, known after {max(delays):.3f} s at most, {load.acknowledged:,} acknowledged")
    assert statistics.median(delays) <= USUAL


@pytest.mark.full
def test_the_cut_broker_sees_brokers_and_topics_come_and_go(cluster: LocalCluster) -> None:
    """It learns of brokers, their deaths and topics without the controller."""
    host, _, port = cluster.address(CUT).rpartition(":")
    create_topic(cluster, TOPIC, PARTITIONS)
    with Wire(cluster.address(CUT)) as wire:
        delays = [seconds_until(lambda: len(leaders(wire, TOPIC)) == PARTITIONS, "the topic is known")]
        victim = next(broker_id for broker_id in cluster.broker_ids if broker_id not in (CUT, controller(cluster)))
        cluster.kill_broker(victim)
        wait_for(lambda: not is_registered(cluster, victim), "its session ends")
        delays.append(seconds_until(lambda: victim not in ask(host, int(port)).brokers, "its death is known"))
        wait_led_by_others(cluster, TOPIC, PARTITIONS, victim)
        expected = {partition: state["leader"] for partition, state in states(cluster, TOPIC, PARTITIONS).items()}
        delays.append(seconds_until(lambda: leaders(wire, TOPIC) == expected, "its heirs are known"))
        cluster.start_broker(victim, wait=False)
        wait_for(lambda: is_registered(cluster, victim), "it is back")
        delays.append(seconds_until(lambda: victim in ask(host, int(port)).brokers, "its return is known"))
    wait_in_sync(cluster, TOPIC, PARTITIONS)
    print(f"known after {', '.join(f'{delay:.3f}' for delay in delays)} s")
