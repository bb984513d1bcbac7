"""Effects of kills, pauses and power losses on a simulated broker, its session and its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalite.cluster.metadata import MetadataCache
from kafkalite.common.types import TopicPartition
from kafkalite.testing.simulation.cluster import BrokerStatus, SimBroker, SimCluster
from kafkalite.testing.simulation.disk import SimDisk
from kafkalite.testing.simulation.world import World
from tests.testing.simulation.slice import TOPIC, Workload

SESSION = 6.0


@pytest.fixture
def cluster() -> Iterator[SimCluster]:
    with World(1) as world, SimCluster(world) as made:
        made.start_all()
        yield made


def is_registered(cluster: SimCluster, broker: int) -> bool:
    return f"/brokers/ids/{broker}" in cluster.zookeeper.paths("/brokers/ids/")


def gone_after(cluster: SimCluster, broker: int) -> float:
    """Seconds until the broker's registration is gone."""
    begin = cluster.world.now
    assert cluster.world.run_until(lambda: not is_registered(cluster, broker), begin + 30), cluster.world.lines
    return cluster.world.now - begin


@pytest.mark.parametrize(
    ("fate", "least", "most"),
    [
        pytest.param(lambda broker: broker.kill(), 0.0, 0.1, id="killed"),
        pytest.param(lambda broker: broker.kill(guardian_dies_too=True), 3.9, 9.0, id="killed with its guardian"),
        pytest.param(lambda broker: broker.lose_power(), 3.9, 9.0, id="power lost"),
        pytest.param(lambda broker: broker.pause(), 3.9, 9.0, id="paused"),
        pytest.param(lambda broker: broker.hang(), SESSION, SESSION + 0.1, id="hung"),
        pytest.param(lambda broker: broker.stop(), 0.0, 2.0, id="stopped"),
    ],
)
def test_when_the_others_learn_of_it(
    cluster: SimCluster, fate: Callable[[SimBroker], object], least: float, most: float
) -> None:
    cluster.world.run_until(cluster.world.now + 1.0)
    fate(cluster.brokers[2])
    assert least <= gone_after(cluster, 2) <= most


@pytest.mark.parametrize("fate", [SimBroker.pause, SimBroker.hang], ids=["paused", "hung"])
def test_a_broker_that_is_back_after_its_session_registers_again(
    cluster: SimCluster, fate: Callable[[SimBroker], object]
) -> None:
    broker = cluster.brokers[2]
    assert broker.zk is not None
    session = broker.zk.session
    fate(broker)
    cluster.world.run_until(cluster.world.now + 12.0)
    assert not is_registered(cluster, 2)
    assert broker.is_alive
    broker.resume()
    assert cluster.world.run_until(lambda: is_registered(cluster, 2), cluster.world.now + 5.0)
    assert broker.zk.session != session
    assert cluster.world.failures == []


def test_a_short_pause_costs_nothing(cluster: SimCluster) -> None:
    cluster.pause(2)
    cluster.world.run_until(cluster.world.now + 1.5)
    cluster.resume(2)
    cluster.world.run_until(cluster.world.now + 10.0)
    assert not any("EXPIRED" in line.text.upper() for line in cluster.world.lines)
    assert is_registered(cluster, 2)


def test_a_broker_that_ended_can_be_started_again(cluster: SimCluster) -> None:
    broker = cluster.brokers[1]
    for end in (broker.kill, broker.stop, broker.lose_power):
        end()
        assert cluster.world.run_until(lambda: not broker.is_alive, cluster.world.now + 10.0)
        assert broker.status is BrokerStatus.DOWN
        assert broker.services is None
        broker.start()
        assert cluster.world.run_until(lambda: broker.status is BrokerStatus.SERVING, cluster.world.now + 30.0)
    with pytest.raises(RuntimeError, match="runs already"):
        broker.start()
    assert cluster.world.failures == []


def test_a_broker_that_is_stopped_while_it_starts_is_killed(cluster: SimCluster) -> None:
    broker = cluster.brokers[1]
    broker.kill()
    broker.start()
    assert broker.status is BrokerStatus.STARTING
    broker.stop()
    assert not broker.is_alive
    assert cluster.world.failures == []


def test_a_broker_that_cannot_start_ends_and_says_why(cluster: SimCluster) -> None:
    cluster.kill(3)
    cluster.start(3, {"log.dirs": "broker-2/logs"})
    assert cluster.world.run_until(lambda: not cluster.brokers[3].is_alive, cluster.world.now + 10.0)
    assert "broker.id" in cluster.brokers[3].fatal, cluster.brokers[3].fatal
    assert cluster.world.failures == []


class NotingDisk(SimDisk):
    """Notes what happens to its machine."""

    fates: list[str] = []

    def process_died(self) -> None:
        super().process_died()
        self.fates.append("process")

    def power_lost(self, rng: Any) -> None:
        super().power_lost(rng)
        self.fates.append("power")


def test_the_disk_gets_its_machines_kills_and_power_losses() -> None:
    with World(1) as world, SimCluster(world, 1, {"min.insync.replicas": "1"}, make_disk=NotingDisk) as cluster:
        cluster.start_all()
        NotingDisk.fates.clear()
        cluster.lose_power(1)
        cluster.start(1)
        world.run_until(world.now + 10.0)
        assert cluster.brokers[1].status is BrokerStatus.SERVING
        cluster.kill(1)
        cluster.lose_power(1)
        assert NotingDisk.fates == ["power", "process", "power"]


def test_a_compacted_topic_is_compacted(cluster: SimCluster) -> None:
    """By the broker's own compactor, on the simulated machine's files."""
    workload = Workload(cluster, 1)
    workload.configs = {"cleanup.policy": "compact", "segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01"}
    workload.keys = 3
    node = cluster.client_node("client")
    node.spawn(lambda: workload.create_topic(node), "creating the topic")
    tp = TopicPartition(TOPIC, 0)
    assert cluster.world.run_until(lambda: workload.leader(tp) > 0, 10.0)
    node.spawn(lambda: workload.produce(node, "p", 0.05), "producing")

    def is_compacted() -> bool:
        services = cluster.brokers[1].services
        found = services.logs.logs.get(tp) if services is not None else None
        return found is not None and workload.acked > 200 and found.size < workload.acked * 60

    assert cluster.world.run_until(is_compacted, 60.0), workload.acked
    assert cluster.world.failures == []


def test_the_state_of_a_broker_can_be_read(cluster: SimCluster) -> None:
    services = cluster.brokers[1].services
    assert services is not None
    assert isinstance(services.metadata, MetadataCache)
    assert services.broker_id == 1
