"""Whole brokers whose machines lose power: nothing acknowledged is lost, and every log that is loaded is sound."""

from __future__ import annotations

import pytest

from kafkalite.common.types import TopicPartition
from kafkalite.testing.simulation.cluster import SimCluster, Status
from kafkalite.testing.simulation.loaded_log import checked_loads
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
        serving = world.run_until(lambda broker=broker: broker.status is Status.SERVING, world.now + 30.0)  # type: ignore[misc]
        assert serving, "\n".join(map(str, world.lines))
        world.run_until(world.now + rng.uniform(0.5, 4.0))
    world.run_until(world.now + 5.0)


@pytest.mark.parametrize("seed", range(4))
def test_machines_lose_power_one_after_the_other(seed: int) -> None:
    faults: list[str] = []
    with checked_loads(faults.append):
        outcome = run_slice(seed, one_after_the_other)
    story = "\n".join(outcome.lines)
    assert not outcome.breaches, f"{outcome.breaches}\n{story}"
    assert not faults, f"{faults}\n{story}"
    assert not outcome.failures, story
    assert sum("lost power" in line for line in outcome.lines)
