"""What a change completed runs last, when all state is consistent: first the producers, then the readers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.protocol.fetch import FetchPartition
from kafkalite.replication.delayed_operations import FetchParams, complete

from .simulation import TOPIC_ID, TP, SimCluster, batch


@pytest.fixture
def order(tmp_path: Path) -> tuple[SimCluster, list[str]]:
    """A leader without its followers, with a producer and a reader that wait for the high watermark."""
    cluster = SimCluster(tmp_path)
    cluster.create()
    cluster.network.cut |= {(2, 1), (3, 1)}
    manager = cluster[1].manager
    said: list[str] = []
    partition = FetchPartition("t", TOPIC_ID, 0, -1, 0)
    manager.fetch(FetchParams(max_wait_ms=5000), [partition], lambda _: said.append("reader"))
    manager.append_records(5000, -1, [(TP, batch("a"))], lambda _: said.append("producer"))
    assert said == []
    return cluster, said


# trap: kafkalite/replication/delayed_operations.py: An operation completes before the state of the partition is
# consistent: waiters are run last.
def test_nothing_runs_before_all_is_consistent(order: tuple[SimCluster, list[str]]) -> None:
    cluster, said = order
    partition = cluster[1].manager.partitions[TP]
    partition.high_watermark_followers = ()
    completed = partition.advance_high_watermark()
    assert partition.log.high_watermark == 1
    assert completed is not None
    assert said == []
    complete([completed])
    assert said == ["producer", "reader"]
    complete([completed])
    assert said == ["producer", "reader"]


def test_who_waits_for_a_leader_that_goes_is_told_last(order: tuple[SimCluster, list[str]]) -> None:
    cluster, said = order
    manager = cluster[1].manager
    roles: list[str] = []
    manager.append_records(5000, -1, [(TP, batch("b"))], lambda _: roles.append(manager.partitions[TP].role.value))
    cluster.elect(2, isr=(1, 2, 3))
    assert roles == ["follower"]
    assert said[0] == "producer"
