"""Time without a leader of a partition after ``kill -9``, after SIGTERM, and after a death with the guardian.

The gap is the longest time between two acknowledgements of a producer with librdkafka's default settings (except the
reconnect backoff, which would delay the connection to the last victim). The gaps are printed; `make bench` measures
them beside Kafka's. The tests assert what holds on any machine: no gap is as long as the session timeout.
"""

from __future__ import annotations

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
SHORT, LONG = 6.0, 60.0
"""Session timeouts in seconds: one whose expiry a test waits for, and one that would be noticed as a gap."""


@pytest.fixture
def cluster(make_cluster: ClusterFactory, request: pytest.FixtureRequest) -> LocalCluster:
    """Three brokers and a topic of one partition; the parameter is the session timeout."""
    cluster = make_cluster(3, {"zookeeper.session.timeout.ms": str(int(request.param * 1000))})
    create_topic(cluster, TOPIC, 1)
    return cluster


def gaps(cluster: LocalCluster, fault: Callable[[int], object], times: int = TIMES) -> list[float]:
    """The gaps of several faults under load, each of the broker that is both leader and controller."""
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
@pytest.mark.parametrize("cluster", [LONG], indirect=True)
def test_after_kill_9_the_guardian_ends_the_session(cluster: LocalCluster) -> None:
    """The victim is leader and controller."""
    assert max(gaps(cluster, cluster.kill_broker)) < LONG / 2


@pytest.mark.full
@pytest.mark.parametrize("cluster", [LONG], indirect=True)
def test_controlled_shutdown_hands_over_the_leadership(cluster: LocalCluster) -> None:
    """The victim is leader and controller, and gets SIGTERM."""
    assert max(gaps(cluster, cluster.stop_broker)) < LONG / 2


@pytest.mark.full
@pytest.mark.kafkalite_only
@pytest.mark.parametrize("cluster", [SHORT], indirect=True)
def test_without_a_guardian_the_session_expires_by_its_timeout(cluster: LocalCluster) -> None:
    """The guardian is killed with its broker; no record is lost."""

    def kill_both(victim: int) -> None:
        guardian(cluster, victim).kill()
        cluster.kill_broker(victim)

    (gap,) = gaps(cluster, kill_both, 1)
    assert gap > SHORT / 3, "nobody else ended the session: its last heartbeat was at most a third of it ago"
