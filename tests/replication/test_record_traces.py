"""What brokers see of a traced record, on virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.trace_points import TracePoint
from kafkalite.common.types import TopicPartition
from kafkalite.replication.record_traces import LONGEST, MOST_ARMED, RecordTraces

from .simulation import TP, SimCluster


@pytest.fixture
def cluster(tmp_path: Path) -> SimCluster:
    made = SimCluster(tmp_path)
    made.create()
    made.run(0.1)
    return made


def points(cluster: SimCluster, broker: int) -> list[TracePoint]:
    return list(cluster[broker].manager.traces.frames(TP).points)


def test_leader_and_followers_see_the_record_in_the_order_of_its_way(cluster: SimCluster) -> None:
    for broker in (1, 2, 3):
        cluster[broker].manager.traces.arm(TP, 30)
    cluster[1].produce("a")
    cluster.run(0.1)
    leader = [(point.kind, point.reader, point.end) for point in points(cluster, 1) if point.end == 1]
    assert leader[0] == ("appended", -1, 1)
    assert sorted(leader[1:3]) == [("acknowledged", 2, 1), ("acknowledged", 3, 1)]
    assert leader[3:] == [("high-watermark", -1, 1)]
    for follower in (2, 3):
        seen = [point for point in points(cluster, follower) if point.end == 1]
        assert [point.kind for point in seen[:3]] == ["arrived", "replicated", "asked"]
        appended = points(cluster, 1)[0].time
        assert seen[0].time == pytest.approx(appended + cluster.network.latency)


def test_a_broker_that_traces_nothing_asks_only_whether_it_does(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    for name in ("appended", "follower_fetched", "read", "fetch_answered", "produce_answered", "replicated", "asked"):
        monkeypatch.setattr(RecordTraces, name, lambda *_, name=name: called.append(name))
    answers = cluster[1].produce("a")
    cluster.run(0.1)
    assert [each.error for each in answers] == [ErrorCode.NONE]
    assert cluster[2].values() == cluster[3].values() == ["a"]
    assert called == []
    for broker in (1, 2, 3):
        cluster[broker].manager.traces.arm(TP, 30)
    cluster[1].produce("b")
    cluster.run(0.1)
    assert {"appended", "follower_fetched", "replicated", "asked"} <= set(called), "the test sees the calls"


def test_nothing_is_kept_of_a_partition_that_is_not_traced(cluster: SimCluster) -> None:
    cluster[1].manager.traces.arm(TopicPartition("other", 0), 30)
    cluster[1].produce("a")
    cluster.run(0.1)
    assert points(cluster, 1) == []


def test_a_trace_ends_by_time_unless_it_is_armed_again(cluster: SimCluster) -> None:
    traces = cluster[1].manager.traces
    traces.arm(TP, 2)
    cluster.run(1)
    traces.arm(TP, 2)
    cluster.run(1.5)
    assert set(traces.armed) == {TP}
    cluster.run(1)
    assert not traces.armed
    traces.arm(TP, 10 * LONGEST)
    cluster.run(LONGEST + 1)
    assert not traces.armed


def test_too_many_traces_end_the_oldest(cluster: SimCluster) -> None:
    traces = cluster[1].manager.traces
    wanted = [TopicPartition("t", number) for number in range(MOST_ARMED + 1)]
    for tp in wanted:
        traces.arm(tp, 30)
    assert list(traces.armed) == wanted[1:]
