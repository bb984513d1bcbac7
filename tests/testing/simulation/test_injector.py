"""Which faults a history may inject: one machine at a time misses records, and the others keep them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkalite.common.types import TopicPartition
from kafkalite.testing.simulation.cluster import SimCluster, Status
from kafkalite.testing.simulation.injector import FaultInjector
from kafkalite.testing.simulation.world import World
from tests.testing.simulation.slice import TOPIC, Workload

TP = TopicPartition(TOPIC, 0)


@pytest.fixture
def cluster() -> Iterator[SimCluster]:
    """Three brokers that have acknowledged some records."""
    with World(1) as world, SimCluster(world) as made:
        made.start_all()
        workload = Workload(made, partitions=1)
        admin, producer = made.client_node("admin"), made.client_node("producer")
        admin.spawn(lambda: workload.create_topic(admin), "making the topic")
        assert world.run_until(lambda: workload.leader(TP) > 0, world.now + 10), world.lines
        producer.spawn(lambda: workload.produce(producer, "producer", 0.02), "producing")
        assert world.run_until(lambda: workload.acked > 20, world.now + 10), world.lines
        workload.running = False
        yield made


def serve_again(cluster: SimCluster, broker: int, inject: FaultInjector) -> None:
    inject.start(broker)
    found = cluster.brokers[broker]
    assert cluster.world.run_until(lambda: found.status is Status.SERVING, cluster.world.now + 20), cluster.world.lines


def test_while_a_machine_misses_records_the_last_member_that_has_them_is_not_killed(cluster: SimCluster) -> None:
    inject = FaultInjector(cluster)
    assert inject.lose_power(1)
    inject.kill(2)
    assert not cluster.brokers[2].is_alive, "broker 3 keeps everything"
    inject.kill(3)
    assert cluster.brokers[3].is_alive, "the last log that is known to be whole would be doubted"
    serve_again(cluster, 1, inject)
    assert cluster.world.run_until(inject.power_may_fail, cluster.world.now + 10)
    inject.kill(3)
    assert not cluster.brokers[3].is_alive, "broker 1 holds again what it lost"


def test_a_process_that_started_uncleanly_keeps_nothing_before_it_is_in_sync_again(cluster: SimCluster) -> None:
    inject = FaultInjector(cluster)
    inject.kill(2)
    inject.kill(3)
    cluster.world.run_until(cluster.world.now + 0.001)
    inject.start(2)
    inject.start(3)
    assert not inject.lose_power(1), "both other logs are doubted"
    serve_again(cluster, 1, inject)
    cluster.world.run_until(cluster.world.now + 10)
    assert inject.lose_power(1), "both were in sync again since"


def test_no_machine_loses_power_while_another_misses_records(cluster: SimCluster) -> None:
    inject = FaultInjector(cluster)
    assert inject.lose_power(1)
    assert not inject.lose_power(2)
    assert cluster.brokers[3].is_alive
