"""Producing, consuming and following in a healthy cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.record.records import Record, encode_batch
from kafkalite.replication.results import ProduceResult

from .simulation import SimCluster, values_of


@pytest.fixture
def cluster(tmp_path: Path) -> SimCluster:
    made = SimCluster(tmp_path)
    made.create()
    return made


def test_acks_all_waits_for_the_followers(cluster: SimCluster) -> None:
    answers = cluster[1].produce("a", "b")
    assert answers == []
    cluster.run(0.1)
    assert [(a.error, a.base_offset) for a in answers] == [(ErrorCode.NONE, 0)]
    assert [cluster[n].values() for n in (1, 2, 3)] == [["a", "b"]] * 3


def test_consumers_never_read_above_the_high_watermark(cluster: SimCluster) -> None:
    cluster.network.cut |= {(2, 1), (3, 1)}
    assert [a.error for a in cluster[1].produce("a", acks=1)] == [ErrorCode.NONE]
    (result,) = cluster[1].consume()
    assert (result.high_watermark, result.size, result.records) == (0, 0, None)
    cluster.network.cut.clear()
    cluster.run(3)
    (result,) = cluster[1].consume()
    assert result.high_watermark == 1
    assert result.records is not None
    assert values_of(result.records.read()) == ["a"]


def test_a_refusal_names_the_records_at_fault(cluster: SimCluster) -> None:
    tp = TopicPartition("compacted", 0)
    cluster.create(tp, (1,), cleanup_policy="compact")
    cluster.run(0.1)
    data = encode_batch([Record(0, 1, b"k", b"v"), Record(1, 1, None, b"v"), Record(2, 1, None, b"w")])
    results: list[ProduceResult] = []
    cluster[1].manager.append_records(100, 1, [(tp, memoryview(bytearray(data)))], results.extend)
    assert results[0].error is ErrorCode.INVALID_RECORD
    assert [index for index, _ in results[0].record_errors] == [1, 2]
    assert "without key" in results[0].record_errors[0][1]
