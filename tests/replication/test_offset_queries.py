"""Questions about offsets, and the deletion of records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.replication.results import DeleteRecordsResult, EpochEndOffset, OffsetResult

from .simulation import TP, SimCluster

STAMP = 1_700_000_000_000


@pytest.fixture
def cluster(tmp_path: Path) -> SimCluster:
    made = SimCluster(tmp_path)
    made.create()
    made[1].produce("a", "b")
    made.run(0.1)
    made.elect(1)
    made.run(0.1)
    made[1].produce("c")
    made.run(1)
    return made


def ask(cluster: SimCluster, timestamp: int, broker: int = 1, **more: Any) -> OffsetResult:
    return cluster[broker].manager.offset_queries.list_offset(TP, timestamp, more.pop("isolation", 0), **more)


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, OffsetResult(ErrorCode.NONE, -1, 3, 1)),
        (-2, OffsetResult(ErrorCode.NONE, -1, 0, 0)),
        (-4, OffsetResult(ErrorCode.NONE, -1, 0, 0)),
        (STAMP, OffsetResult(ErrorCode.NONE, STAMP, 0, 0)),
        (STAMP + 1, OffsetResult(ErrorCode.NONE, -1, -1, -1)),
        (-5, OffsetResult(ErrorCode.NONE, -1, -1, -1)),
    ],
)
def test_list_offset(cluster: SimCluster, timestamp: int, expected: OffsetResult) -> None:
    assert ask(cluster, timestamp) == expected


def test_offsets_before_are_those_below_the_high_watermark(cluster: SimCluster) -> None:
    manager = cluster[1].manager
    assert manager.offset_queries.offsets_before(TP, -1, 10) == [3, 0]
    assert manager.offset_queries.offsets_before(TP, -1, 1) == [3]
    assert manager.offset_queries.offsets_before(TP, -2, 10) == [0]
    with pytest.raises(ApiError) as refused:
        cluster[2].manager.offset_queries.offsets_before(TP, -1, 1)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster[2].manager.offset_queries.offsets_before(TP, -1, 1, from_follower_ok=True) == [3]


def test_a_consumer_is_told_of_the_high_watermark_instead_of_the_end(cluster: SimCluster) -> None:
    cluster[1].produce("not committed")
    manager = cluster[1].manager
    assert manager.offset_queries.offsets_before(TP, -1, 10) == [3, 0]
    assert manager.offset_queries.offsets_before(TP, -1, 10, to_consumer=False) == [4, 0]


def test_list_offset_is_the_leaders(cluster: SimCluster) -> None:
    assert ask(cluster, -1, broker=2).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ask(cluster, -1, broker=2, from_follower_ok=True).offset == 3
    assert ask(cluster, -1, current_leader_epoch=0).error == ErrorCode.FENCED_LEADER_EPOCH


def test_a_new_leader_does_not_go_back(cluster: SimCluster) -> None:
    cluster.network.cut |= {(2, 1), (3, 1)}
    cluster[1].produce("d", acks=1)
    cluster.elect(1)
    assert ask(cluster, -1).error == ErrorCode.OFFSET_NOT_AVAILABLE
    assert ask(cluster, -1, isolation=None).offset == 4


@pytest.mark.parametrize(
    ("current", "epoch", "expected"),
    [
        (-1, 0, (ErrorCode.NONE, 0, 2)),
        (1, 1, (ErrorCode.NONE, 1, 3)),
        (1, 7, (ErrorCode.NONE, -1, -1)),
        (0, 0, (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)),
        (2, 0, (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)),
    ],
)
def test_end_offset_for_epoch(cluster: SimCluster, current: int, epoch: int, expected: Any) -> None:
    assert cluster[1].manager.offset_queries.end_offset_for_epoch(TP, current, epoch) == EpochEndOffset(TP, *expected)


def delete(cluster: SimCluster, offset: int, timeout_ms: int = 5000) -> list[DeleteRecordsResult]:
    answers: list[DeleteRecordsResult] = []
    cluster[1].manager.offset_queries.delete_records(timeout_ms, {TP: offset}, lambda found: answers.append(found[TP]))
    return answers


def test_delete_records_waits_for_the_followers(cluster: SimCluster) -> None:
    answers = delete(cluster, 2)
    assert answers == []
    cluster.run(1.5)
    assert answers == [DeleteRecordsResult(2, ErrorCode.NONE)]
    assert [cluster[n].logs.logs[TP].log_start_offset for n in (1, 2, 3)] == [2, 2, 2]


def test_delete_records_does_not_wait_for_the_dead(cluster: SimCluster) -> None:
    cluster.network.cut.add((3, 1))
    answers = delete(cluster, -1, 60_000)
    cluster.run(5)
    assert answers == []
    cluster[3].crash()
    assert answers == [DeleteRecordsResult(3, ErrorCode.NONE)]


def test_delete_records_refused(cluster: SimCluster) -> None:
    assert delete(cluster, 4) == [DeleteRecordsResult(-1, ErrorCode.OFFSET_OUT_OF_RANGE)]
    answers: list[Any] = []
    missing = TopicPartition("nobody", 0)
    cluster[1].manager.offset_queries.delete_records(100, {missing: 0}, answers.append)
    assert answers == [{missing: DeleteRecordsResult(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}]


def test_delete_records_times_out(cluster: SimCluster) -> None:
    cluster.network.cut |= {(2, 1), (3, 1)}
    cluster.run(1)
    answers = delete(cluster, 2, 300)
    cluster.run(0.5)
    assert [a.error for a in answers] == [ErrorCode.REQUEST_TIMED_OUT]


def test_describe_log_dirs(cluster: SimCluster) -> None:
    found, empty = cluster[1].manager.offset_queries.describe_log_dirs()
    assert (empty.error, empty.replicas) == (ErrorCode.NONE, ())
    assert found.log_dir == str(cluster[1].logs.path)
    assert [(r.topic_partition, r.offset_lag) for r in found.replicas] == [(TP, 0)]
    assert found.replicas[0].size == cluster[1].logs.logs[TP].size > 0
    assert found.usable_bytes > 0
    cluster[1].logs.handle_failure(found.log_dir)
    found, _ = cluster[1].manager.offset_queries.describe_log_dirs([TP])
    assert (found.error, found.replicas) == (ErrorCode.KAFKA_STORAGE_ERROR, ())
