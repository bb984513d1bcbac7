"""The follower's side of the wire: sessions, backing off, the codec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future, deferred
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    decode_fetch,
    encode_fetch_response,
)
from kafkalite.replication.leader_endpoint import RemoteLeaderEndPoint

from .simulation import TOPIC_ID, TP, EndPoint, SimCluster, batch


@pytest.fixture
def cluster(tmp_path: Path) -> SimCluster:
    made = SimCluster(tmp_path)
    made.create()
    made.run(1)
    return made


def requests_of(cluster: SimCluster, broker: int) -> list[FetchRequest]:
    return [request for source, _, request in cluster.network.requests if source == broker]


def test_a_session_is_opened_once(cluster: SimCluster) -> None:
    sent = requests_of(cluster, 2)
    assert [(r.session_id != 0, r.session_epoch, len(r.partitions), r.max_wait_ms) for r in sent[:3]] == [
        (False, 0, 1, 0),
        (True, 1, 0, 500),
        (True, 2, 0, 500),
    ]
    assert {(r.replica_id, r.replica_epoch) for r in sent} == {(2, cluster.epoch(2))}


def test_a_session_that_the_leader_forgot_is_opened_again(cluster: SimCluster) -> None:
    cluster[1].sessions.clear()
    cluster.run(0.6)
    cluster.network.requests.clear()
    answers = cluster[1].produce("a")
    cluster.run(1)
    assert [a.error for a in answers] == [ErrorCode.NONE]


def test_a_leader_without_sessions(cluster: SimCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request is a full one then, and still waits for news."""
    reply = EndPoint._reply

    def without(self: EndPoint, future: Future[FetchResponse], response: FetchResponse) -> None:
        response.session_id = 0
        reply(self, future, response)

    monkeypatch.setattr(EndPoint, "_reply", without)
    cluster.elect(2)
    cluster.run(1)
    cluster.network.requests.clear()
    cluster.run(5)
    sent = requests_of(cluster, 1)
    assert all(len(r.partitions) == 1 and r.session_epoch == 0 for r in sent)
    assert 5 <= len(sent) <= 15
    answers = cluster[2].produce("a")
    cluster.run(0.1)
    assert [a.error for a in answers] == [ErrorCode.NONE]


def test_backing_off_from_a_dead_leader(cluster: SimCluster) -> None:
    cluster[1].crash()
    cluster.run(1)
    cluster.network.requests.clear()
    cluster.run(10)
    assert len(requests_of(cluster, 2)) <= 11


def test_corrupt_answers_are_asked_for_again(cluster: SimCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    reply = EndPoint._reply
    broken: list[int] = []

    def damage(self: EndPoint, future: Future[FetchResponse], response: FetchResponse) -> None:
        for answer in response.partitions:
            if answer.records and self.source == 2 and len(broken) < 2:
                data = bytearray(answer.records.read())  # type: ignore[union-attr]
                data[-1] ^= 1
                answer.records = memoryview(data)
                broken.append(1)
        reply(self, future, response)

    monkeypatch.setattr(EndPoint, "_reply", damage)
    answers = cluster[1].produce("a")
    cluster.run(1)
    assert len(broken) == 2
    assert [a.error for a in answers] == [ErrorCode.NONE]
    assert cluster[2].values() == ["a"]
    refused = [cluster[broker].manager.partitions[TP].metrics.invalid_message_crc_records for broker in (1, 2, 3)]
    assert refused == [0, 2, 0]


def test_partitions_leave_and_come_back_to_a_session(cluster: SimCluster) -> None:
    other = TopicPartition("t", 1)
    cluster.create(other)
    cluster.elect(2, tp=other)
    cluster.elect(1, tp=other)
    answers = cluster[1].produce("x", tp=other)
    cluster.run(0.1)
    assert [a.error for a in answers] == [ErrorCode.NONE]
    assert [cluster[n].values(other) for n in (2, 3)] == [["x"]] * 2


# trap: kafkalite/log/log.py: Records were deleted up to the middle of a batch: the leader sends the whole batch,
# and a new replica refuses it.
def test_a_new_replica_where_records_were_deleted_up_to_the_middle_of_a_batch(tmp_path: Path) -> None:
    """The leader sends the whole batch, which begins below its log start."""
    cluster = SimCluster(tmp_path)
    cluster.create(replicas=(1, 2))
    cluster[1].produce("a", "b", "c")
    cluster.run(1)
    cluster[1].manager.offset_queries.delete_records(1000, {TP: 2}, lambda _: None)
    cluster.reassign((1, 2, 3))
    cluster.run(3)
    log = cluster[3].logs.logs[TP]
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)
    assert sorted(cluster.read().isr) == [1, 2, 3]


# trap: kafkalite/replication/replica_fetcher.py: Both answers to two requests have the same records: the follower drops
# the second, the leader does not repeat its high watermark, and a follower of an idle partition never learns it.
@pytest.mark.parametrize(("truncates", "high_watermark"), [(False, 1), (True, 0)])
def test_the_high_watermark_of_an_answer_that_an_append_made_out_of_date(
    cluster: SimCluster, truncates: bool, high_watermark: int
) -> None:
    """After a truncation it is not taken over, because the logs may still differ below it."""
    fetcher = cluster[2].manager.fetchers._of[TP]
    number = fetcher.session.request_number
    for leaders in (0, 1):
        answer = FetchPartitionResponse(TP.topic, TOPIC_ID, TP.partition, ErrorCode.NONE, leaders, 0, 0)
        answer.records = batch("a")
        fetcher._take(FetchResponse(0, ErrorCode.NONE, 1, [answer]), number, [])
        if truncates:
            fetcher._cut(fetcher._partitions[TP], 1, 0, "the logs differ")
    log = cluster[2].logs.logs[TP]
    assert (log.log_end_offset, log.high_watermark) == (1, high_watermark)


class Wire:
    """A connection whose leader answers with one batch."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self.asked: list[FetchRequest] = []

    async def connect(self) -> None:
        self.opened += 1

    async def send(self, api_key: int, version: int, body: Any, timeout: float) -> memoryview:
        assert (api_key, timeout) == (1, 5.0)
        self.asked.append(decode_fetch(version, memoryview(body)))
        answer = FetchPartitionResponse("t", TOPIC_ID, 0, 0, 7, 7, 1, None, -1, batch("a"), (3, 4))
        parts = encode_fetch_response(version, 0, 9, [answer])
        return memoryview(b"".join(bytes(part) for part in parts))  # type: ignore[arg-type]

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("version", [12, 15])
def test_over_a_connection(version: int) -> None:
    wire = Wire()
    end_point = RemoteLeaderEndPoint(lambda: wire, 5.0)
    asked = FetchPartition("t", TOPIC_ID, 0, 4, 11, 3, 1, 1000)
    request = FetchRequest(2, 77, 500, 1, 10_000, 0, 0, 0, [asked], [])
    answers: list[FetchResponse] = []
    for _ in range(2):
        deferred(end_point.fetch(request, version)).addCallback(answers.append)
    assert (wire.opened, len(wire.asked)) == (1, 2)
    got = wire.asked[0]
    assert (got.replica_id, got.replica_epoch) == (2, 77 if version == 15 else -1)
    assert (got.partitions[0].fetch_offset, got.partitions[0].last_fetched_epoch) == (11, 3)
    (answer,) = answers[0].partitions
    assert (answers[0].session_id, answer.high_watermark, answer.diverging_epoch) == (9, 7, (3, 4))
    assert answer.records is not None
    assert bytes(answer.records) == bytes(batch("a"))  # type: ignore[arg-type]
    end_point.close()
    assert wire.closed == 1
    assert TP.topic == "t"


def test_the_number_of_fetchers_may_change_while_they_fetch(cluster: SimCluster) -> None:
    others = [TopicPartition("t", number) for number in range(1, 6)]
    for tp in others:
        cluster.create(tp)
    cluster.run(1)
    fetchers = cluster[2].manager.fetchers
    assert len(fetchers) == 1
    for number in (3, 2, 1):
        cluster[2].manager.fetchers.resize(number)
        assert len(fetchers) == number
        for tp in (TP, *others):
            cluster[1].produce(f"with {number}", tp=tp)
        cluster.run(1)
    for tp in (TP, *others):
        assert cluster[2].values(tp) == ["with 3", "with 2", "with 1"]
    cluster.network.requests.clear()
    cluster.run(2)
    assert len({request.session_id for request in requests_of(cluster, 2)}) == 1, "the others are closed"


def test_bytes_of_replicas_that_a_reassignment_adds_are_counted_apart(tmp_path: Path) -> None:
    cluster = SimCluster(tmp_path)
    cluster.create(replicas=(1, 2))
    cluster[1].produce("a")
    cluster.run(1)
    cluster.reassign((1, 2, 3), adding=(3,))
    cluster.run(2)
    size = cluster[1].manager.partitions[TP].log.size
    metrics = [cluster[broker].manager.partitions[TP].metrics for broker in (2, 3)]
    assert [each.replication_bytes_in for each in metrics] == [size, size]
    assert [each.reassignment_bytes_in for each in metrics] == [0, size]
    followers = cluster[1].manager.partitions[TP].followers
    assert {broker: follower.is_added for broker, follower in followers.items()} == {2: False, 3: True}
    cluster.reassign((1, 2, 3))
    cluster[1].produce("b")
    cluster.run(1)
    assert cluster[3].manager.partitions[TP].log.size > size
    assert metrics[1].reassignment_bytes_in == size, "the reassignment is over"
    assert not cluster[1].manager.partitions[TP].followers[3].is_added
