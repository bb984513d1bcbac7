"""How long a partition is without its leader: ``kill -9``, SIGTERM, and a broker that dies with its guardian.

The gap is the longest time between two acknowledgements of a producer with librdkafka's own settings (but for its
reconnect backoff, which would make it wait for a broker that was the victim a moment ago).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest

from integration.conftest import ClusterFactory
from integration.faults.cluster import controller, create_topic, guardian, move_leader, wait_in_sync, wait_led_by_others
from integration.faults.workload import Load
from integration.harness.wait import wait_for
from kafkalite.embedded.cluster import LocalCluster

TOPIC = "gap"
RATE = 200
TIMES = 3
SESSION_TIMEOUT = 6.0


@pytest.fixture
def cluster(make_cluster: ClusterFactory) -> LocalCluster:
    """Three brokers and a topic of one partition."""
    cluster = make_cluster(3, {"zookeeper.session.timeout.ms": str(int(SESSION_TIMEOUT * 1000))})
    create_topic(cluster, TOPIC, 1)
    return cluster


def gaps(cluster: LocalCluster, fault: Callable[[int], object], times: int = TIMES) -> list[float]:
    """The gaps when ``fault`` befalls the broker that is both leader and controller, under load, several times."""
    load = Load(cluster, TOPIC, 1, producers=1, rate=RATE, settings={"reconnect.backoff.max.ms": 500})
    load.start()
    found = []
    for _ in range(times):
        victim = wait_for(lambda: controller(cluster), "there is a controller")
        move_leader(cluster, TOPIC, 0, victim)
        load.wait_acknowledged(load.acknowledged + RATE)
        load.record.begin_gap()
        fault(victim)
        wait_led_by_others(cluster, TOPIC, 1, victim)
        load.wait_acknowledged(load.acknowledged + RATE)
        found.append(load.record.longest_gap)
        if not cluster.is_alive(victim):
            cluster.start_broker(victim)
        wait_in_sync(cluster, TOPIC, 1)
    load.stop()
    print(f"longest gaps: {', '.join(f'{gap:.3f} s' for gap in found)}", flush=True)
    return found


@pytest.mark.kafkalite_only
def test_kill(cluster: LocalCluster) -> None:
    """``kill -9`` of leader and controller: at most a second, where the session timeout is six."""
    assert statistics.median(gaps(cluster, cluster.kill_broker)) <= 1.0


def test_controlled_shutdown(cluster: LocalCluster) -> None:
    """SIGTERM of leader and controller: not longer than Kafka takes."""
    assert statistics.median(gaps(cluster, cluster.stop_broker)) <= 0.3


@pytest.mark.kafkalite_only
def test_without_guardian_the_session_timeout_does_the_work(cluster: LocalCluster) -> None:
    """The guardian is killed with its broker: a gap about as long as the session timeout, and nothing lost."""

    def kill_both(victim: int) -> None:
        guardian(cluster, victim).kill()
        cluster.kill_broker(victim)

    (gap,) = gaps(cluster, kill_both, 1)
    assert SESSION_TIMEOUT / 2 < gap < SESSION_TIMEOUT + 4
