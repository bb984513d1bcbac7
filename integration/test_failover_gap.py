"""How long a partition is without its leader: ``kill -9``, SIGTERM, and a broker that dies with its guardian.

The gap is the longest time between two acknowledgements of a producer with librdkafka's own settings (but for its
reconnect backoff, which would make it wait for a broker that was the victim a moment ago). The gaps are printed; `make
bench` measures them beside Kafka's. What is asserted is what must be so on any machine: nobody waited for the session.
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
"""Session timeouts in seconds: one to be waited for, and one that would be noticed."""


@pytest.fixture
def cluster(make_cluster: ClusterFactory, request: pytest.FixtureRequest) -> LocalCluster:
    """Three brokers and a topic of one partition; the parameter is the session timeout."""
    cluster = make_cluster(3, {"zookeeper.session.timeout.ms": str(int(request.param * 1000))})
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
@pytest.mark.parametrize("cluster", [LONG], indirect=True)
def test_kill(cluster: LocalCluster) -> None:
    """``kill -9`` of leader and controller: the guardian ends the session."""
    assert max(gaps(cluster, cluster.kill_broker)) < LONG / 2


@pytest.mark.full
@pytest.mark.parametrize("cluster", [LONG], indirect=True)
def test_controlled_shutdown(cluster: LocalCluster) -> None:
    """SIGTERM of leader and controller: it hands over."""
    assert max(gaps(cluster, cluster.stop_broker)) < LONG / 2


@pytest.mark.full
@pytest.mark.kafkalite_only
@pytest.mark.parametrize("cluster", [SHORT], indirect=True)
def test_without_guardian_the_session_timeout_does_the_work(cluster: LocalCluster) -> None:
    """The guardian is killed with its broker: then the session expires, and nothing is lost."""

    def kill_both(victim: int) -> None:
        guardian(cluster, victim).kill()
        cluster.kill_broker(victim)

    (gap,) = gaps(cluster, kill_both, 1)
    assert gap > SHORT / 3, "nobody else ended the session: its last heartbeat was at most a third of it ago"
