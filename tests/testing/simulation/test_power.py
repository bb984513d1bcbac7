"""Whole brokers whose machines lose power: nothing acknowledged is lost, and every log that is loaded is sound."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkalite.common.types import TopicPartition
from kafkalite.testing.simulation.cluster import BrokerStatus, SimCluster
from kafkalite.testing.simulation.durability import Durability
from kafkalite.testing.simulation.loaded_log import checked_logs
from kafkalite.testing.simulation.world import World
from tests.testing.simulation.slice import TOPIC, Workload, run_slice


def one_after_the_other(cluster: SimCluster, workload: Workload) -> None:
    """Machines lose power, processes are killed or stopped; the next fault comes when the last broker serves again."""
    world = cluster.world
    rng = world.rng("faults")
    for _ in range(4):
        leader = workload.leader(TopicPartition(TOPIC, 0))
        broker = cluster.brokers[rng.choice([1, 2, 3, leader if leader > 0 else 1])]
        fate = rng.choice([broker.lose_power, broker.lose_power, broker.kill, broker.stop])
        fate()
        world.run_until(world.now + rng.uniform(0.1, 4.0))
        assert world.run_until(lambda broker=broker: not broker.is_alive, world.now + 15.0)  # type: ignore[misc]
        broker.start()
        serving = world.run_until(lambda broker=broker: broker.status is BrokerStatus.SERVING, world.now + 30.0)  # type: ignore[misc]
        assert serving, "\n".join(map(str, world.lines))
        world.run_until(world.now + rng.uniform(0.5, 4.0))
    world.run_until(world.now + 5.0)


@pytest.mark.parametrize("seed", range(4))
def test_machines_lose_power_one_after_the_other(seed: int) -> None:
    faults: list[str] = []
    with checked_logs(faults.append, Durability({}, faults.append)):
        outcome = run_slice(seed, one_after_the_other)
    story = "\n".join(outcome.lines)
    assert not outcome.breaches, f"{outcome.breaches}\n{story}"
    assert not faults, f"{faults}\n{story}"
    assert not outcome.failures, story
    assert sum("lost power" in line for line in outcome.lines)


def serve_again(cluster: SimCluster) -> None:
    """Start the brokers that are down, wait until all of them serve, and 5 s more."""
    world = cluster.world
    for broker in cluster.brokers.values():
        if not broker.is_alive:
            broker.start()
    served = world.run_until(
        lambda: all(broker.status is BrokerStatus.SERVING for broker in cluster.brokers.values()), world.now + 30.0
    )
    assert served, "\n".join(map(str, world.lines))
    world.run_until(world.now + 5.0)


def assert_nothing_is_lost(disturb: Callable[[SimCluster, Workload], None]) -> None:
    """Run the workload under six seeds while ``disturb`` works."""
    for seed in range(6):
        outcome = run_slice(seed, disturb)
        assert not outcome.breaches, f"seed {seed}: {outcome.breaches}\n" + "\n".join(outcome.lines)


def test_killed_members_of_an_isr_keep_the_records_of_the_machine_without_power() -> None:
    """The leader's machine loses power, and before its session ends, or just after, both followers are killed."""
    tp = TopicPartition(TOPIC, 0)

    def disturb(cluster: SimCluster, workload: Workload) -> None:
        world = cluster.world
        leader = workload.leader(tp)
        followers = [broker for broker in cluster.brokers.values() if broker.id != leader]
        cluster.lose_power(leader)
        path = f"/brokers/ids/{leader}"
        assert world.run_until(lambda: path not in cluster.zookeeper.paths("/brokers/ids/"), world.now + 15.0)
        for broker in followers:
            broker.kill()
        world.run_until(world.now + 0.5)
        cluster.start(leader)
        world.run_until(world.now + 5.0)
        serve_again(cluster)

    assert_nothing_is_lost(disturb)


def test_a_leader_that_was_left_alone_keeps_what_it_acknowledged_before() -> None:
    """Both followers are killed, the leader takes them out of the ISR, and then its machine loses power."""
    tp = TopicPartition(TOPIC, 0)

    def disturb(cluster: SimCluster, workload: Workload) -> None:
        world = cluster.world
        leader = workload.leader(tp)
        followers = [broker for broker in cluster.brokers.values() if broker.id != leader]
        for broker in followers:
            broker.kill()

        def is_alone() -> bool:
            partition = cluster.brokers[leader].last_partition(tp)
            return partition is not None and partition.isr.committed == (leader,)

        assert world.run_until(is_alone, world.now + 15.0), "\n".join(map(str, world.lines))
        cluster.lose_power(leader)
        serve_again(cluster)

    assert_nothing_is_lost(disturb)


def test_a_killed_process_keeps_its_unclean_start_epoch_and_one_that_lost_power_does_not() -> None:
    with World(1) as world, SimCluster(world) as cluster:
        cluster.start_all()

        def started_with(broker: int) -> int:
            services = cluster.brokers[broker].services
            assert services is not None
            return services.logs.unclean_start_epoch

        first = {broker: started_with(broker) for broker in cluster.brokers}
        cluster.kill(1)
        cluster.lose_power(2)
        cluster.kill(3)
        cluster.lose_power(3)
        world.run_until(world.now + 10.0)
        cluster.start_all()
        again = {broker: started_with(broker) for broker in cluster.brokers}
        assert again[1] == first[1]
        assert again[2] > first[2]
        assert again[3] > first[3], "its machine went after its process"
