"""Producing, consuming and following in a healthy cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.cluster.model import LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.record.legacy import encode_message_set
from kafkalite.record.records import Record, encode_batch
from kafkalite.replication.broker_topic_stats import BrokerTopicMetrics
from kafkalite.replication.results import DeleteRecordsResult, OffsetResult, ProduceResult

from .simulation import TOPIC_ID, SimCluster, values_of


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


@pytest.mark.parametrize(
    ("is_known", "error"),
    [(True, ErrorCode.NOT_LEADER_OR_FOLLOWER), (False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
    ids=["replicas elsewhere", "no such partition"],
)
def test_a_partition_without_a_replica_here(cluster: SimCluster, is_known: bool, error: ErrorCode) -> None:
    tp = TopicPartition("t", 7)
    broker = cluster[1]
    if is_known:
        assignment = PartitionAssignment((2, 3))
        broker.metadata.apply([LeaderAndIsr("t", 7, TOPIC_ID, 2, 4, (2, 3), 1, 0, 10, assignment)])
    produced = broker.produce("a", tp=tp)
    fetched = broker.consume(tp=tp, max_wait_ms=1000)
    deleted: list[dict[TopicPartition, DeleteRecordsResult]] = []
    broker.manager.offset_queries.delete_records(100, {tp: 0}, deleted.append)
    offsets: list[OffsetResult] = []
    offsets.append(broker.manager.offset_queries.list_offset(tp, -1, 0))
    with pytest.raises(ApiError) as refused:
        broker.manager.offset_queries.offsets_before(tp, -1, 1)
    assert {
        "Produce": produced[0].error,
        "Fetch": fetched[0].error,
        "DeleteRecords": deleted[0][tp].error,
        "ListOffsets": offsets[0].error,
        "ListOffsets 0": refused.value.code,
        "OffsetForLeaderEpoch": broker.manager.offset_queries.end_offset_for_epoch(tp, -1, 0).error,
    } == dict.fromkeys(
        ["Produce", "Fetch", "DeleteRecords", "ListOffsets", "ListOffsets 0", "OffsetForLeaderEpoch"], error
    )
    assert fetched[0].leader_hint == ((2, 4) if is_known else None)


def test_refused_and_converted_records_are_counted(cluster: SimCluster) -> None:
    tp = TopicPartition("compacted", 0)
    cluster.create(tp, (1,), cleanup_policy="compact")
    cluster.run(0.1)
    manager = cluster[1].manager
    stats = manager.replicas.topic_stats
    results: list[ProduceResult] = []

    def produce(*batches: bytes) -> None:
        manager.append_records(100, 1, [(tp, memoryview(bytearray(data))) for data in batches], results.extend)

    records = [Record(n, 1, b"k", b"v") for n in range(3)]
    whole = encode_batch(records)
    produce(whole)
    assert stats.topics["compacted"] == BrokerTopicMetrics(
        bytes_in=len(whole), messages_in=3, total_produce_requests=1
    ), "a plain batch is no conversion"
    produce(whole[:-1] + b"?")
    produce(encode_batch([Record(0, 1, None, b"v"), Record(1, 1, None, b"v")]))
    old = encode_message_set(records, 1)
    produce(old, old[: len(old) // 3])
    assert [result.error for result in results] == [
        ErrorCode.NONE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]
    found = stats.topics["compacted"]
    assert (found.invalid_message_crc_records, found.no_key_compacted_topic_records) == (1, 2)
    assert (found.invalid_magic_number_records, found.invalid_offset_or_sequence_records) == (0, 0)
    assert found.produce_message_conversions == 4
    assert stats.produce_conversions.count == 1, "one request, of two batches"
    assert [cost.records for cost in stats.produce_conversions.latest] == [4]
    assert stats.fetch_conversions.count == 0
