"""Leaders die; what was acknowledged stays, and logs that parted are made one again."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.events import EventKind
from kafkalite.common.types import TopicPartition
from kafkalite.replication.partition import Role
from kafkalite.replication.results import ProduceResult

from .simulation import TP, SimCluster


@pytest.fixture
def cluster(tmp_path: Path) -> SimCluster:
    made = SimCluster(tmp_path, replica_lag_time_max_ms=10_000)
    made.create()
    return made


def test_failover_keeps_what_was_acknowledged(cluster: SimCluster) -> None:
    acknowledged = []
    pending: list[tuple[str, list[ProduceResult]]] = []
    for n in range(20):
        value = f"v{n}"
        pending.append((value, cluster[1].produce(value)))
        cluster.run(0.0007)
    cluster[1].crash()
    acknowledged = [value for value, answers in pending if answers and answers[0].error == ErrorCode.NONE]
    assert 0 < len(acknowledged) < 20
    cluster.elect(2)
    answers = cluster[2].produce("after")
    cluster.run(1)
    assert [a.error for a in answers] == [ErrorCode.NONE]
    kept = cluster[2].values()
    assert kept[: len(acknowledged)] == acknowledged
    assert kept[-1] == "after"
    cluster[1].start()
    cluster.send(TP)
    cluster.run(3)
    assert [cluster[n].values() for n in (1, 3)] == [kept, kept]
    assert sorted(cluster.read().isr) == [1, 2, 3]


def test_all_but_one_may_die(cluster: SimCluster) -> None:
    acknowledged = []
    for n in range(5):
        cluster[1].produce(f"v{n}")
        cluster.run(0.02)
        acknowledged.append(f"v{n}")
    cluster[1].crash()
    cluster[2].crash()
    cluster.elect(3, isr=(3,))
    answers = cluster[3].produce("alone")
    cluster.run(0.1)
    assert [a.error for a in answers] == [ErrorCode.NONE]
    cluster[1].start()
    cluster[2].start()
    cluster.send(TP)
    cluster.run(3)
    assert [cluster[n].values() for n in (1, 2, 3)] == [[*acknowledged, "alone"]] * 3
    assert sorted(cluster.read().isr) == [1, 2, 3]


# trap: kafkalite/replication/replica_fetcher.py: A follower truncates to its own high watermark, and loses acknowledged
# records (KIP-101).
def test_kip_101_a_restarted_follower_does_not_truncate_to_its_high_watermark(cluster: SimCluster) -> None:
    """The follower has a record above its own high watermark, restarts, and then becomes leader: the record stays."""
    answers = cluster[1].produce("m1")
    cluster.run(0.1)
    answers = cluster[1].produce("m2")
    while not answers:
        cluster.run(0.0005)
    assert answers[0].error == ErrorCode.NONE
    # Follower 2 has m2 but has not heard of its commit yet.
    assert cluster[2].logs.logs[TP].high_watermark == 1
    cluster[2].crash()
    cluster[2].start()
    cluster.send(TP, to=(2,))
    cluster.run(0.0005)
    cluster[1].crash()
    cluster[3].crash()
    cluster.elect(2, isr=(2,))
    cluster.run(0.1)
    assert cluster[2].values() == ["m1", "m2"]


def test_kip_101_logs_that_parted_are_cut_by_epoch(cluster: SimCluster) -> None:
    cluster[1].produce("m1")
    cluster.run(0.1)
    cluster.network.cut |= {(2, 1), (3, 1)}
    cluster[1].produce("old2", "old3", acks=1)
    cluster.run(0.1)
    cluster[1].crash()
    cluster.network.cut.clear()
    cluster.elect(2)
    cluster[2].produce("new2")
    cluster.run(0.1)
    cluster[1].start()
    cluster.send(TP)
    cluster.run(2)
    assert [cluster[n].values() for n in (1, 2, 3)] == [["m1", "new2"]] * 3
    assert truncations(cluster) == ["t-0: the follower truncates from 3 to 1"]


def truncations(cluster: SimCluster) -> list[str]:
    """What the brokers' events tell of them."""
    found = (event for n in (1, 2, 3) for event in cluster[n].events.snapshot().events)
    return [event.text for event in found if event.kind == EventKind.TRUNCATION]


# trap: kafkalite/replication/replica_fetcher.py: A follower truncates to the leader's log start offset, in the middle
# of a batch, and refuses that batch.
def test_a_follower_truncates_to_the_middle_of_a_batch_of_the_leader(cluster: SimCluster) -> None:
    """The leader has one batch of three records, of which two are deleted, and the follower three batches."""
    cluster.network.cut |= {(2, 1), (3, 1)}
    for value in ("old1", "old2", "old3"):
        cluster[1].produce(value, acks=1)
    cluster.run(0.1)
    cluster[1].crash()
    cluster.network.cut.clear()
    cluster.elect(2)
    cluster[2].produce("new1", "new2", "new3")
    cluster.run(0.1)
    cluster[2].manager.offset_queries.delete_records(1000, {TP: 2}, lambda _: None)
    cluster.run(0.1)
    cluster[1].start()
    cluster.send(TP)
    cluster.run(2)
    assert truncations(cluster) == ["t-0: the follower truncates from 3 to 2"]
    replica_log = cluster[1].logs.logs[TP]
    assert (replica_log.log_start_offset, replica_log.log_end_offset) == (2, 3)
    assert replica_log.epochs.entries == cluster[2].logs.logs[TP].epochs.entries == [(1, 2)]
    assert sorted(cluster.read().isr) == [1, 2, 3]


def test_an_epoch_without_records_is_forgotten_without_a_word(cluster: SimCluster) -> None:
    """The log of the former leader differs by its epoch alone, so nothing is cut off."""
    cluster[1].produce("m1")
    cluster.run(0.1)
    cluster.elect(2)
    cluster.run(0.1)
    assert dict(cluster[2].logs.logs[TP].epochs.entries) == {0: 0, 1: 1}
    cluster.elect(3)
    cluster[3].produce("m2")
    cluster.run(0.1)
    assert [cluster[n].values() for n in (1, 2, 3)] == [["m1", "m2"]] * 3
    assert [cluster[n].logs.logs[TP].epochs.entries for n in (1, 2, 3)] == [[(0, 0), (2, 1)]] * 3
    assert truncations(cluster) == []


# trap: kafkalite/replication/replica_fetcher.py: A follower truncates to the wrong end of a leader epoch after two
# quick failovers (KIP-279).
def test_kip_279_two_fast_failovers(cluster: SimCluster) -> None:
    """Each replica holds an epoch that the others never saw; they meet at the last common one."""
    cluster[1].produce("m1")
    cluster.run(0.1)
    cluster.network.cut |= {(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if a != b}
    cluster[1].produce("a2", "a3", acks=1)
    cluster.elect(2, isr=(2, 3))
    cluster[2].produce("b2", acks=1)
    cluster.elect(1, isr=(1,))
    cluster[1].produce("c4", acks=1)
    cluster.elect(3, isr=(3,))
    cluster[3].produce("d2", acks=1)
    cluster.network.cut.clear()
    cluster.run(10)
    assert [cluster[n].values() for n in (1, 2, 3)] == [["m1", "d2"]] * 3
    assert len({tuple(cluster[n].logs.logs[TP].epochs.entries) for n in (1, 2, 3)}) == 1
    assert sorted(cluster.read().isr) == [1, 2, 3]


def test_a_follower_below_the_leaders_log_start_begins_there(cluster: SimCluster) -> None:
    cluster.network.cut.add((3, 1))
    for n in range(4):
        cluster[1].produce(f"v{n}")
        cluster.run(6)
    cluster.run(20)
    log = cluster[1].logs.logs[TP]
    assert log.high_watermark == 4
    log.increment_log_start_offset(3)
    cluster.network.cut.clear()
    cluster.run(3)
    follower = cluster[3].logs.logs[TP]
    assert (follower.log_start_offset, follower.log_end_offset) == (3, 4)


def test_leadership_lost_fails_those_who_wait(cluster: SimCluster) -> None:
    cluster.network.cut |= {(2, 1), (3, 1)}
    produced = cluster[1].produce("a")
    waiting = cluster[1].consume(offset=0, max_wait_ms=30_000)
    cluster.elect(2)
    assert [a.error for a in produced] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    # A consumer may read from a follower, which has nothing that is committed.
    assert [r.error for r in waiting] == [ErrorCode.NONE]
    assert cluster[1].manager.partitions[TP].role is Role.FOLLOWER


def test_a_new_leader_hears_of_its_followers_at_once(cluster: SimCluster) -> None:
    """Partitions that are added to a fetcher during its long poll do not wait for the end of the poll."""
    other = TopicPartition("t", 1)
    cluster.create(other, replicas=(2, 1, 3))
    cluster.run(0.05)
    cluster.elect(2)
    answers = cluster[2].produce("x")
    cluster.run(0.02)
    assert [a.error for a in answers] == [ErrorCode.NONE]
