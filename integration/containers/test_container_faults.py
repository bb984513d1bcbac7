"""Faults of real containers under load break no guarantee.

Each run makes one history of producers, readers and groups, which the history checker checks. ``KAFKALITE_SEED``
repeats an earlier run; ``KAFKALITE_SOAK=1`` (``make soak``) runs the long histories with three seeds each.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from integration.conftest import SOAK
from integration.containers.faults import FAULTS, FULL, Stage, cut_leader_from_zookeeper
from integration.containers.system import READY, System
from integration.containers.workload import Load, judge
from integration.faults.cluster import create_topic, wait_in_sync
from integration.faults.disk import small_disk
from integration.harness.clients import fresh_topic

pytestmark = pytest.mark.kafkalite_only
PARTITIONS = 3
DISK_MEGABYTES = 400 if SOAK else 100
FEW = (cut_leader_from_zookeeper,)
"""Faults of ``make test``; ``make test-all`` runs all faults."""
SHORT, LONG = 3_000, 10_000
"""Least number of acknowledged records in a short and in a long history."""
SEEDS = (1, 2, 3)
LAST_LINES = 25


class Place(NamedTuple):
    """The system and the folders that all faults share."""

    system: System
    disk: Path


@pytest.fixture(scope="module")
def place(zookeeper_image: str, broker_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One ensemble and three brokers for all faults, healed after each fault; one broker has a small disk."""
    if os.getuid() != 0:
        pytest.skip("faults of a container's network and disk need root")
    directory = tmp_path_factory.mktemp("containers")
    system = System(directory, zookeeper_image, broker_image)
    with small_disk(system.data_dir(FULL), DISK_MEGABYTES) as disk:
        try:
            system.start()
            yield Place(system, disk)
        finally:
            system.close()


def run(place: Place, fault: Callable[[Stage], str], seed: int, records: int) -> None:
    """Run a history of at least ``records`` acknowledged records, a third before the fault and a third during it."""
    system, begun = place.system, time.monotonic()
    system.wait_ready()
    topic = fresh_topic(fault.__name__.replace("_", "-"))
    create_topic(system, topic, PARTITIONS)
    load = Load(system, topic, PARTITIONS, f"{seed} {fault.__name__}")
    print(f"\nKAFKALITE_SEED={seed} {fault.__name__}: ", end="", flush=True)
    try:
        load.start()
        load.wait_more(records // 3)
        seen = fault(Stage(system, load, random.Random(f"{seed} {fault.__name__}"), records // 3, place.disk))
        print(seen, flush=True)
        system.wait_ready()
        wait_in_sync(system, topic, PARTITIONS, timeout=READY)
        load.wait_more(records // 3)
        history = load.finish()
        print(f"  {judge(history)}; {load.acknowledged:,} acknowledged, {time.monotonic() - begun:.1f} s", flush=True)
        load.forget()
    except BaseException as error:
        print(f"KAFKALITE_SEED={seed} {fault.__name__} failed: {error}", flush=True)
        for broker in system.broker_ids:
            lines = system.logs(system.broker(broker)).splitlines()
            print(f"---- broker {broker}, the last of {len(lines)} lines", *lines[-LAST_LINES:], sep="\n", flush=True)
        raise
    finally:
        load.close()
    assert load.acknowledged >= records


# trap: kafkalite/replication/replica_stopper.py: A leader that is frozen past its session timeout goes on as if it
# still led.
# trap: kafkalite/replication/replica_manager.py: A broker whose session ZooKeeper has ended still takes records from
# its clients.
@pytest.mark.parametrize(
    "fault",
    [fault if fault in FEW else pytest.param(fault, marks=pytest.mark.full) for fault in FAULTS],
    ids=lambda fault: fault.__name__,
)
def test_a_short_history_with_a_fault_breaks_no_guarantee(place: Place, fault: Callable[[Stage], str]) -> None:
    """Each fault, with one seed."""
    run(place, fault, int(os.environ.get("KAFKALITE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30), SHORT)


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="make soak, or KAFKALITE_SOAK=1")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_long_history_with_a_fault_breaks_no_guarantee(
    place: Place, fault: Callable[[Stage], str], seed: int
) -> None:
    """Each fault, with several seeds and more records."""
    run(place, fault, seed, LONG)
