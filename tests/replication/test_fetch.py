"""Fetching: waiting, waking, sessions that cost only what changed, the replica to read from."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.fetch import FetchPartition
from kafkalite.record.records import encode_marker
from kafkalite.replication.broker_topic_stats import DelayedFetchStats
from kafkalite.replication.delayed_operations import FetchParams, FetchWatch
from kafkalite.replication.replication_config import RACK_AWARE_SELECTOR
from kafkalite.replication.results import FetchResult

from .simulation import TOPIC_ID, TP, SimCluster, batch, values_of

MANY = 40


def read(results: list[FetchResult]) -> list[str]:
    return [value for r in results if r.records is not None for value in values_of(r.records.read())]


@pytest.fixture
def cluster(tmp_path: Path) -> SimCluster:
    made = SimCluster(tmp_path)
    made.create()
    return made


@pytest.fixture
def alone(tmp_path: Path) -> SimCluster:
    made = SimCluster(tmp_path, brokers=(1,))
    made.create(replicas=(1,))
    return made


def test_a_consumer_wakes_when_the_high_watermark_moves(cluster: SimCluster) -> None:
    waiting = cluster[1].consume(max_wait_ms=5000)
    cluster.network.cut |= {(2, 1), (3, 1)}
    cluster[1].produce("a", acks=1)
    cluster.run(0.1)
    assert waiting == []
    cluster.network.cut.clear()
    cluster.run(3)
    assert read(waiting) == ["a"]


def test_a_wait_ends_in_time(alone: SimCluster) -> None:
    waiting = alone[1].consume(max_wait_ms=500)
    alone.run(0.49)
    assert waiting == []
    alone.run(0.02)
    assert [(r.error, r.size) for r in waiting] == [(ErrorCode.NONE, 0)]


def test_min_bytes_are_gathered(alone: SimCluster) -> None:
    alone[1].produce("a")
    waiting = alone[1].consume(max_wait_ms=5000, min_bytes=150)
    assert waiting == []
    alone[1].produce("b")
    assert waiting == []
    alone[1].produce("c")
    assert read(waiting) == ["a", "b", "c"]


def test_a_wait_is_answered_after_the_producer_is(alone: SimCluster) -> None:
    order: list[str] = []
    partition = FetchPartition("t", TOPIC_ID, 0, -1, 0)
    manager = alone[1].manager
    manager.fetch(FetchParams(max_wait_ms=100), [partition], lambda _: order.append("consumer"))
    manager.append_records(100, 1, [(TP, batch("a"))], lambda _: order.append("producer"))
    assert order == ["producer", "consumer"]


@pytest.mark.parametrize(
    ("offset", "params", "error"),
    [
        (5, {}, ErrorCode.OFFSET_OUT_OF_RANGE),
        (0, {"replica_id": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_refused(alone: SimCluster, offset: int, params: dict[str, Any], error: ErrorCode) -> None:
    assert [r.error for r in alone[1].consume(offset, **params)] == [error]


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-1, ErrorCode.NONE),
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.NONE),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_leader_epochs(alone: SimCluster, epoch: int, error: ErrorCode) -> None:
    alone.elect(1)
    answers: list[FetchResult] = []
    partition = FetchPartition("t", TOPIC_ID, 0, epoch, 0)
    alone[1].manager.fetch(FetchParams(max_wait_ms=0), [partition], answers.extend)
    assert [r.error for r in answers] == [error]


# trap: kafkalite/replication/fetch_reader.py: A reader of a deleted topic would read its successor with the same name:
# Fetch compares the topic id.
def test_unknown_and_inconsistent_topics(alone: SimCluster) -> None:
    answers: list[FetchResult] = []
    partitions = [
        FetchPartition("nobody", TOPIC_ID, 0),
        FetchPartition(None, TOPIC_ID, 0),
        FetchPartition("t", uuid.UUID(int=5), 0),
    ]
    alone[1].manager.fetch(FetchParams(max_wait_ms=1000), partitions, answers.extend)
    assert [r.error for r in answers] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    ]


def test_max_bytes_are_shared_and_the_first_message_always_comes(alone: SimCluster) -> None:
    other = TopicPartition("t", 1)
    alone.create(other, replicas=(1,))
    alone[1].produce("a" * 500)
    alone[1].produce("b" * 500, tp=other)
    partitions = [FetchPartition("t", TOPIC_ID, n, -1, 0) for n in (0, 1)]
    for hard, sizes in ((False, [570, 0]), (True, [100, 0])):
        answers: list[FetchResult] = []
        params = FetchParams(max_wait_ms=0, max_bytes=100, hard_max_bytes=hard)
        alone[1].manager.fetch(params, partitions, answers.extend)
        assert [r.size for r in answers] == sizes


class Session:
    """A fetch session of many partitions."""

    def __init__(self, cluster: SimCluster) -> None:
        self.manager = cluster[1].manager
        self.partitions: dict[TopicPartition, FetchPartition] = {}
        self.watch = FetchWatch(self.partitions, False)
        for n in range(MANY):
            tp = TopicPartition("t", n)
            self.partitions[tp] = FetchPartition("t", TOPIC_ID, n, -1, 0)
            self.manager.replicas.watch(self.watch, tp)

    def fetch(self, *changed: FetchPartition, max_wait_ms: int = 0, **params: Any) -> list[list[FetchResult]]:
        answers: list[list[FetchResult]] = []
        self.manager.fetch(FetchParams(max_wait_ms=max_wait_ms, watch=self.watch, **params), changed, answers.append)
        return answers


@pytest.fixture
def session(alone: SimCluster) -> Session:
    for n in range(1, MANY):
        alone.create(TopicPartition("t", n), replicas=(1,))
    return Session(alone)


def test_a_session_looks_only_at_what_has_news(alone: SimCluster, session: Session) -> None:
    (first,) = session.fetch(*session.partitions.values())
    assert len(first) == MANY
    assert session.fetch() == [[]]
    waiting = session.fetch(max_wait_ms=1000)
    alone[1].produce("x", tp=TopicPartition("t", 7))
    assert [[r.topic_partition.partition for r in results] for results in waiting] == [[7]]
    # Until it asks for a later offset it is told again: the answer may have been dropped.
    ((again,),) = session.fetch()
    assert again.topic_partition.partition == 7
    moved = FetchPartition("t", TOPIC_ID, 7, -1, 1)
    session.partitions[TopicPartition("t", 7)] = moved
    ((clean,),) = session.fetch(moved)
    assert clean.size == 0
    assert session.fetch() == [[]]


def test_a_session_that_waits_for_committed_records_reads_them_once(alone: SimCluster, session: Session) -> None:
    session.fetch(*session.partitions.values())
    metrics = alone[1].manager.partitions[TP].metrics
    waiting = session.fetch(max_wait_ms=1000, isolation=1)
    before = metrics.total_fetch_requests
    alone[1].produce("x")
    ((answer,),) = waiting
    assert read([answer]) == ["x"]
    assert metrics.total_fetch_requests == before + 1


def test_a_forgotten_partition_and_a_session_that_ends(alone: SimCluster, session: Session) -> None:
    session.fetch(*session.partitions.values())
    gone = TopicPartition("t", 7)
    session.manager.replicas.unwatch(session.watch, gone)
    del session.partitions[gone]
    waiting = session.fetch(max_wait_ms=1000)
    alone[1].produce("x", tp=gone)
    assert waiting == []
    session.manager.replicas.unwatch_all(session.watch)
    assert waiting == [[]]
    alone[1].produce("x", tp=TopicPartition("t", 8))
    assert not session.watch.dirty


def test_a_second_request_of_a_session_ends_the_wait_of_the_first(session: Session) -> None:
    session.fetch(*session.partitions.values())
    first = session.fetch(max_wait_ms=1000)
    second = session.fetch(max_wait_ms=1000)
    assert (first, second) == ([[]], [])


def test_waits_without_a_session_leave_nothing_behind(alone: SimCluster) -> None:
    alone[1].consume(max_wait_ms=100)
    assert len(alone[1].manager.partitions[TP].watches) == 1
    alone.run(1)
    assert alone[1].manager.partitions[TP].watches == []


def test_the_replica_in_the_consumers_rack_is_preferred(tmp_path: Path) -> None:
    cluster = SimCluster(tmp_path, replica_selector_class=RACK_AWARE_SELECTOR)
    cluster.create()
    cluster[1].produce("a")
    cluster.run(1)
    assert [[r.preferred_read_replica for r in cluster[1].consume(rack=f"rack{n}")] for n in (1, 2, 3, 4)] == [
        [-1],
        [2],
        [3],
        [-1],
    ]
    assert read(cluster[2].consume(rack="rack2")) == ["a"]
    assert [r.error for r in cluster[2].consume(only_leader=True)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_replica_that_is_not_in_sync_is_not_preferred(tmp_path: Path) -> None:
    cluster = SimCluster(tmp_path, replica_selector_class=RACK_AWARE_SELECTOR, replica_lag_time_max_ms=1000)
    cluster.create()
    cluster[1].produce("a")
    cluster.run(1)
    cluster.network.cut.add((3, 1))
    cluster[1].produce("b", acks=1)
    cluster.run(5)
    assert cluster.read().isr == (1, 2)
    # It has the records, but falls behind.
    assert [r.preferred_read_replica for r in cluster[1].consume(rack="rack3")] == [-1]
    assert [r.preferred_read_replica for r in cluster[1].consume(rack="rack2")] == [2]


def test_an_idle_follower_asks_for_nothing(cluster: SimCluster) -> None:
    cluster.run(5)
    cluster.network.requests.clear()
    cluster.run(5)
    assert 10 < len(cluster.network.requests) < 30
    assert all(not request.partitions for _, _, request in cluster.network.requests)


# trap: kafkalite/replication/delayed_operations.py: Readers of committed records poll behind an open transaction: they
# wait for its marker.
def test_readers_of_committed_records_wait_for_markers_and_hear_what_was_aborted(cluster: SimCluster) -> None:
    leader = cluster[1]

    def append(data: memoryview, from_client: bool) -> None:
        leader.manager.append_records(1000, -1, [(TP, data)], lambda _: None, from_client=from_client)
        cluster.run(1)

    def marker(producer_id: int, commit: bool) -> memoryview:
        made = encode_marker(producer_id, 0, commit=commit, coordinator_epoch=1, timestamp_ms=1)
        return memoryview(bytearray(made))

    for producer_id, value in ((7, "lost"), (8, "kept")):
        fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        append(batch(value, **fields), True)
    waiting = leader.consume(max_wait_ms=60_000, isolation=1)
    append(marker(8, True), False)
    cluster.run(1)
    # Committed, but behind what is open still.
    assert waiting == [] and leader.consume(isolation=0)[0].size
    append(marker(7, False), False)
    cluster.run(1)
    (answer,) = waiting
    assert (answer.last_stable_offset, answer.high_watermark) == (4, 4)
    assert answer.aborted == [(7, 0)]
    (rest,) = leader.consume(offset=1, isolation=1)
    assert rest.aborted == [(7, 0)]
    assert leader.consume(isolation=0)[0].aborted is None


def test_only_fetches_whose_time_is_over_count_as_expired(alone: SimCluster, session: Session) -> None:
    stats = alone[1].manager.replicas.topic_stats.delayed_fetches
    alone[1].consume(max_wait_ms=500)
    alone[1].consume(max_wait_ms=0)
    session.fetch(*session.partitions.values())
    session.fetch(max_wait_ms=500)
    session.fetch(max_wait_ms=500)  # ends the wait of the first
    alone[1].produce("a")
    alone.run(1)
    assert stats == DelayedFetchStats()
    alone[1].consume(offset=1, max_wait_ms=500)
    alone.run(1)
    assert stats == DelayedFetchStats(consumer_expired=1)
    stranger = FetchPartition("t", TOPIC_ID, 0, -1, 1)
    alone[1].manager.fetch(FetchParams(replica_id=-2, max_wait_ms=100), [stranger], lambda _: None)
    alone.run(1)
    assert stats == DelayedFetchStats(consumer_expired=2), "a debugging reader is a consumer, too"


def test_fetches_of_followers_expire_apart(cluster: SimCluster) -> None:
    stats = cluster[1].manager.replicas.topic_stats.delayed_fetches
    cluster.run(0.5)
    before = stats.follower_expired
    cluster.run(3)
    assert stats.follower_expired > before
    assert stats.consumer_expired == 0
