"""Replication quotas: the windowed rate, and who waits for it (KIP-73)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.replication.replication_quotas import UNLIMITED, ReplicationQuotaManager, is_throttled
from kafkalite.testing.clock import ManualClock

from .simulation import TP, SimCluster, batch

OTHER = TopicPartition("t", 1)
RATE = 10_000
VALUE = "x" * 1000
SIZE = len(batch(VALUE))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def quota(clock: ManualClock) -> ReplicationQuotaManager:
    made = ReplicationQuotaManager(clock)
    made.update_rate(1000)
    return made


@pytest.mark.parametrize(
    ("listed", "throttled"),
    [
        ((), False),
        (("*",), True),
        (("3:7",), True),
        (("1:7", "3:7"), True),
        (("3:8", "7:3"), False),
        (("13:7", "3:77"), False),
    ],
)
def test_the_lists_of_throttled_replicas(listed: tuple[str, ...], throttled: bool) -> None:
    assert is_throttled(listed, 3, 7) is throttled


def test_nothing_is_exceeded_without_a_rate(clock: ManualClock) -> None:
    quota = ReplicationQuotaManager(clock)
    quota.record(1 << 40)
    assert (quota.limited, quota.is_exceeded(), quota.wait_s()) == (False, False, 0.0)


def test_the_first_window_may_be_used_at_once(quota: ReplicationQuotaManager) -> None:
    quota.record(1000)
    assert not quota.is_exceeded()
    quota.record(1)
    assert quota.is_exceeded()


def test_the_measured_rate_is_that_of_the_windows(quota: ReplicationQuotaManager, clock: ManualClock) -> None:
    assert quota.measure() == 0
    quota.record(500)
    assert quota.measure() == 500, "over one window at least"
    clock.advance(4)
    quota.record(1500)
    assert quota.measure() == 500
    clock.advance(7)
    assert quota.measure() == 1500 / 7
    clock.advance(20)
    assert quota.measure() == 0


@pytest.mark.parametrize(("size", "wait"), [(1500, 1.5), (4000, 4.0), (50_000, 11.0)])
def test_a_batch_above_the_rate_is_waited_for_afterwards(
    quota: ReplicationQuotaManager, clock: ManualClock, size: int, wait: float
) -> None:
    """At most until its window expires, as in Kafka."""
    quota.record(size)
    assert quota.wait_s() == pytest.approx(wait)
    clock.advance(wait - 0.01)
    assert quota.is_exceeded()
    clock.advance(0.02)
    assert not quota.is_exceeded()


def test_a_pause_is_caught_up_within_the_windows(quota: ReplicationQuotaManager, clock: ManualClock) -> None:
    quota.record(1000)
    clock.advance(5)
    quota.record(4000)
    assert not quota.is_exceeded()
    quota.record(1)
    assert quota.is_exceeded()


def test_what_is_older_than_all_windows_counts_no_more(quota: ReplicationQuotaManager, clock: ManualClock) -> None:
    quota.record(1000)
    clock.advance(10.5)
    quota.record(1500)
    clock.advance(0.6)
    assert quota.is_exceeded()


def test_the_rate_holds_over_a_long_transfer(quota: ReplicationQuotaManager, clock: ManualClock) -> None:
    passed = 0
    for _ in range(60_000):
        if not quota.is_exceeded():
            quota.record(100)
            passed += 100
        clock.advance(0.001)
    assert passed == pytest.approx(60_000, rel=0.05)


def test_a_rate_of_zero_holds_back_until_the_windows_expire(quota: ReplicationQuotaManager) -> None:
    quota.update_rate(0)
    assert not quota.is_exceeded()
    quota.record(1)
    assert quota.is_exceeded()
    assert quota.wait_s() == pytest.approx(11.0)


def test_a_rate_that_is_taken_away(quota: ReplicationQuotaManager) -> None:
    quota.record(100_000)
    quota.update_rate(UNLIMITED)
    assert (quota.limited, quota.is_exceeded()) == (False, False)


# Whole brokers


def grown(tmp_path: Path, side: str, listed: str, *, records: int = 60) -> SimCluster:
    """Partition 0 led by 1, its followers 2 (in sync) and 3, which is left out and then has ``records`` KB to fetch."""
    cluster = SimCluster(tmp_path, replica_fetch_max_bytes=2 * SIZE, replica_lag_time_max_ms=1000)
    overrides = {f"{side}_replication_throttled_replicas": listed}
    cluster.create(TP, (1, 2, 3), **overrides)
    cluster.network.cut.add((3, 1))
    cluster.run(3)
    for _ in range(records):
        cluster[1].produce(VALUE, acks=1)
        cluster.run(0.05)
    cluster.run(2)
    assert 3 not in cluster.read().isr
    return cluster


def end(cluster: SimCluster, broker: int, tp: TopicPartition = TP) -> int:
    return int(cluster[broker].logs.logs[tp].log_end_offset)


def limit(cluster: SimCluster, side: str, rate: int = RATE) -> None:
    for broker in cluster.brokers.values():
        getattr(broker.manager.quotas, side).update_rate(rate)


def time_to_catch_up(cluster: SimCluster, records: int = 60) -> float:
    """Seconds from the first record that broker 3 has to the last."""
    cluster.network.cut.clear()
    cluster.clock.advance(0)
    waited = 0.0
    while end(cluster, 3) == 0:
        cluster.run(0.01)
    while end(cluster, 3) < records:
        cluster.run(0.01)
        waited += 0.01
        assert waited < 60, "broker 3 never caught up"
    return waited


@pytest.mark.parametrize(
    ("side", "listed"), [("leader", "0:1"), ("leader", "*"), ("follower", "0:3"), ("follower", "*")]
)
def test_a_replica_out_of_sync_is_fetched_at_the_rate(tmp_path: Path, side: str, listed: str) -> None:
    cluster = grown(tmp_path, side, listed)
    limit(cluster, side)
    assert time_to_catch_up(cluster) == pytest.approx(60 * SIZE / RATE, rel=0.2)
    cluster.run(1)
    assert sorted(cluster.read().isr) == [1, 2, 3]


@pytest.mark.parametrize(
    ("side", "listed"),
    [("leader", ""), ("leader", "0:3"), ("leader", "1:1"), ("follower", ""), ("follower", "0:1,0:2,1:3")],
)
def test_replicas_that_are_not_listed_are_not_held_back(tmp_path: Path, side: str, listed: str) -> None:
    cluster = grown(tmp_path, side, listed)
    limit(cluster, side)
    assert time_to_catch_up(cluster) < 0.5


# trap: kafkalite/replication/fetch_reader.py: The high watermark waits for a replica that a quota holds back.
@pytest.mark.parametrize("side", ["leader", "follower"])
def test_replicas_in_sync_and_consumers_never_wait(tmp_path: Path, side: str) -> None:
    cluster = grown(tmp_path, side, "*")
    limit(cluster, side, 1000)
    cluster.network.cut.clear()
    cluster.run(3)
    assert end(cluster, 3) < 20
    for _ in range(20):
        answers = cluster[1].produce(VALUE)
        cluster.run(0.02)
        assert [answer.error for answer in answers] == [ErrorCode.NONE]
    assert sum(result.size for result in cluster[1].consume(0)) > 80 * 1000


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_one_batch_passes_even_where_it_is_larger_than_the_rate(tmp_path: Path, side: str) -> None:
    cluster = grown(tmp_path, side, "*", records=5)
    limit(cluster, side, 10)
    cluster.network.cut.clear()
    cluster.run(40)
    assert end(cluster, 3) >= 3


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_limit_that_is_lifted_is_lifted_at_once(tmp_path: Path, side: str) -> None:
    cluster = grown(tmp_path, side, "*")
    limit(cluster, side, 100)
    cluster.network.cut.clear()
    cluster.run(3)
    assert end(cluster, 3) < 10
    limit(cluster, side, UNLIMITED)
    cluster.run(2)
    assert end(cluster, 3) == 60


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_other_partitions_of_the_same_fetcher_go_on(tmp_path: Path, side: str) -> None:
    cluster = grown(tmp_path, side, "0:1,0:3")
    cluster.create(OTHER)
    limit(cluster, side, 100)
    cluster.network.cut.clear()
    cluster.run(3)
    for _ in range(20):
        answers = cluster[1].produce(VALUE, tp=OTHER)
        cluster.run(0.02)
        assert [answer.error for answer in answers] == [ErrorCode.NONE]
    assert end(cluster, 3) < 10


# trap: kafkalite/replication/replica_fetcher.py: A throttled replica holds up the replicas in sync, or asks a leader
# that answers an empty request at once.
@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_follower_asks_seldom(tmp_path: Path, side: str) -> None:
    """Neither empty requests in a row nor an answer for each record that it may not have yet."""
    cluster = grown(tmp_path, side, "*")
    limit(cluster, side, 100)
    cluster.network.cut.clear()
    cluster.run(3)
    cluster.network.requests.clear()
    for _ in range(480):
        cluster[1].produce("y", acks=1)
        cluster.run(0.025)
    sent = [request for source, _, request in cluster.network.requests if source == 3]
    assert 0 < len(sent) <= 30
    # Kafka's leaders answer a request for no partition at once.
    assert side == "leader" or all(request.partitions for request in sent)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_nothing_is_recorded_while_no_rate_is_set(tmp_path: Path, side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = grown(tmp_path, side, "*")

    def refuse(*_: object) -> None:
        raise AssertionError("the quota was asked")

    monkeypatch.setattr(ReplicationQuotaManager, "record", refuse)
    monkeypatch.setattr(ReplicationQuotaManager, "is_exceeded", refuse)
    assert time_to_catch_up(cluster) < 0.5
