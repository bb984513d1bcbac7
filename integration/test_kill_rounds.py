"""Rounds of kills, pauses and restarts under load lose no acknowledged record and lower no epoch.

``KAFKALITE_SEED`` repeats the plan of an earlier run; ``KAFKALITE_SOAK=1`` (``make soak``) runs the long test, too.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence

import pytest

from integration.conftest import SOAK, ClusterFactory
from integration.faults.cluster import compare_logs, create_topic, wait_in_sync
from integration.faults.plan import Fault, inject, make_plan
from integration.faults.workload import Load

pytestmark = pytest.mark.kafkalite_only  # one of the faults is the death of a guardian
PARTITIONS = 6
TOPIC = "rounds"
OVERRIDES = {
    "zookeeper.session.timeout.ms": "2000",
    # Short, so that preferred leaders are elected between the faults, which makes more elections.
    "leader.imbalance.check.interval.seconds": "3",
    "replica.lag.time.max.ms": "3000",
    "log.segment.bytes": str(4 << 20),
}


def run_rounds(make_cluster: ClusterFactory, faults: Sequence[Fault], times: int, records: int, rate: int) -> None:
    """Inject each of ``faults`` ``times`` times, with at least ``records`` acknowledged records in each round."""
    seed = int(os.environ.get("KAFKALITE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)
    plan = make_plan(seed, faults, times, PARTITIONS)
    print(f"\nKAFKALITE_SEED={seed}: {len(plan)} rounds of {records:,} records", flush=True)
    cluster = make_cluster(3, OVERRIDES)
    create_topic(cluster, TOPIC, PARTITIONS)
    load = Load(cluster, TOPIC, PARTITIONS, rate=rate, seed=seed)
    load.start()
    try:
        for this in plan:
            begun = time.monotonic()
            before = load.acknowledged
            load.wait_acknowledged(before + int(records * this.before))
            load.record.begin_gap()
            print(f"round {this.number + 1:2}: {this.fault.value}", end="", flush=True)
            done = inject(cluster, TOPIC, PARTITIONS, this)
            cluster.wait_ready()
            wait_in_sync(cluster, TOPIC, PARTITIONS)
            load.wait_acknowledged(before + records)
            load.pause()
            load.resume()
            print(
                f" ({done}): {load.acknowledged - before:,} acknowledged, "
                f"longest gap {load.record.longest_gap:.2f} s, {time.monotonic() - begun:.1f} s",
                flush=True,
            )
        load.stop()
    except BaseException as error:
        print(f"KAFKALITE_SEED={seed} failed: {error}", flush=True)
        raise
    wait_in_sync(cluster, TOPIC, PARTITIONS)
    batches = compare_logs(cluster, TOPIC, PARTITIONS)
    epochs = load.record.epochs
    assert epochs.last["controller epoch"] > 1
    assert epochs.changes.get(f"leader epoch of {TOPIC}-0", 0) > 0
    print(
        f"{load.acknowledged:,} acknowledged, none lost; {batches:,} batches equal on all replicas; "
        f"controller epoch {epochs.last['controller epoch']}, {sum(epochs.changes.values())} epochs grown",
        flush=True,
    )


@pytest.mark.short
def test_a_kill_of_all_brokers_loses_no_record(make_cluster: ClusterFactory) -> None:
    """The fault that ends the controller, all leaders and all followers."""
    run_rounds(make_cluster, (Fault.KILL_ALL,), 1, 10_000, 5000)


@pytest.mark.full
def test_each_fault_loses_no_record(make_cluster: ClusterFactory) -> None:
    """Each fault once."""
    run_rounds(make_cluster, tuple(Fault), 1, 10_000, 5000)


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="make soak, or KAFKALITE_SOAK=1")
def test_many_rounds_of_each_fault_lose_no_record(make_cluster: ClusterFactory) -> None:
    """Each fault five times, with 100,000 acknowledged records in a round."""
    run_rounds(make_cluster, tuple(Fault), 5, 100_000, 20_000)
