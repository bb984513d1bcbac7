"""Fetch: parameters, sessions over the wire, old clients."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import ZERO_UUID, FileRegion, TopicPartition
from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    decode_fetch_response,
    encode_fetch_request,
)
from kafkalite.record.records import Record, encode_batch
from kafkalite.replication.results import FetchResult

from .helpers import TOPIC_ID, FakeBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def ask(*partitions: TopicPartition, ids: bool = False, **fields: Any) -> FetchRequest:
    values = {
        "replica_id": -1,
        "replica_epoch": -1,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "forgotten": [],
        **fields,
    }
    return FetchRequest(
        partitions=[
            FetchPartition(None if ids else tp.topic, TOPIC_ID if ids else ZERO_UUID, tp.partition, fetch_offset=3)
            for tp in partitions
        ],
        **values,
    )


def fetch(broker: FakeBroker, version: int, request: FetchRequest) -> FetchResponse:
    broker.send(ApiKey.FETCH, version, encode_fetch_request(version, request))
    return decode_fetch_response(version, memoryview(broker.take()))


def stored(data: bytes) -> FileRegion:
    handle = tempfile.TemporaryFile()  # noqa: SIM115 - the region keeps it open
    handle.write(data)
    handle.flush()
    return FileRegion(handle.fileno(), 0, len(data), handle)


def data_of(records: FileRegion | bytes | bytearray | memoryview | None) -> bytes:
    assert not isinstance(records, FileRegion)
    return bytes(records or b"")


def batch(offset: int = 0, codec: int = 0) -> bytes:
    return encode_batch([Record(offset, 1000, b"k", b"v", (), -1)], base_offset=offset, codec=codec)


def has_records(tp: TopicPartition, data: bytes) -> FetchResult:
    return FetchResult(tp, high_watermark=9, log_start_offset=0, records=stored(data), size=len(data))


@pytest.mark.parametrize("version", range(4, 18))
def test_records_arrive_as_they_are_stored(version: int) -> None:
    broker = FakeBroker()
    data = batch()
    broker.replicas.results[T0] = has_records(T0, data)
    response = fetch(broker, version, ask(T0, T1, ids=version >= 13))
    first, second = response.partitions
    assert (first.partition, data_of(first.records), first.high_watermark) == (0, data, 9)
    assert (second.partition, data_of(second.records)) == (1, b"")
    if version >= 13:
        assert first.topic_id == TOPIC_ID


@pytest.mark.parametrize(
    ("version", "only_leader", "hard"),
    [(0, True, True), (2, True, True), (3, True, False), (10, True, False), (11, False, False)],
)
def test_what_a_version_implies(version: int, only_leader: bool, hard: bool) -> None:
    broker = FakeBroker()
    fetch(broker, version, ask(T0))
    params = broker.replicas.fetches[0][0]
    assert (params.only_leader, params.hard_max_bytes) == (only_leader, hard)
    assert params.replica_id == -1
    assert params.max_wait_ms == 500


def test_sizes_are_bounded_by_the_broker() -> None:
    broker = FakeBroker({"fetch.max.bytes": "2000"})
    fetch(broker, 12, ask(T0, max_bytes=1 << 30, min_bytes=5000, isolation_level=1, rack_id="r"))
    params = broker.replicas.fetches[0][0]
    assert (params.max_bytes, params.min_bytes, params.isolation, params.rack) == (2000, 2000, 1, "r")


def test_an_unknown_topic_id_is_told() -> None:
    broker = FakeBroker()
    request = ask(T0, ids=True)
    request.partitions.append(FetchPartition(None, uuid.UUID(int=99), 0))
    response = fetch(broker, 13, request)
    assert [(p.topic_id, p.error) for p in response.partitions] == [
        (TOPIC_ID, 0),
        (uuid.UUID(int=99), ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert broker.replicas.fetches[0][0].max_wait_ms == 0


def test_a_failure_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    broker = FakeBroker()
    broker.replicas.broken = True
    response = fetch(broker, 12, ask(T0, T1))
    assert [p.error for p in response.partitions] == [-1, -1]
    assert "broken" in caplog.text


def test_a_fetch_that_waits_is_given_up_when_its_client_goes() -> None:
    class Waiting:
        completed = False

        def complete(self) -> None:
            self.completed = True

    broker = FakeBroker()
    waiting, answers = Waiting(), []
    broker.replicas.fetch = lambda *asked: answers.append(asked[-1]) or waiting  # type: ignore
    broker.send(ApiKey.FETCH, 12, encode_fetch_request(12, ask(T0)))
    (give_up,) = (broker.connection.info.waiting or {}).values()
    give_up()
    assert waiting.completed
    answers[0]([FetchResult(T0)])
    assert broker.connection.info.waiting == {}, "what is answered waits no more"


def test_a_leader_hint_reaches_new_clients_only() -> None:
    broker = FakeBroker()
    result = FetchResult(T0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    result.leader_hint = (2, 7)
    broker.replicas.results[T0] = result
    assert fetch(broker, 12, ask(T0)).partitions[0].current_leader == (2, 7)
    assert fetch(broker, 11, ask(T0)).partitions[0].current_leader is None
    request = ask(T0, ids=True)
    broker.send(ApiKey.FETCH, 16, encode_fetch_request(16, request))
    (node,) = codec.decode_response(ApiKey.FETCH, 16, memoryview(broker.take())).node_endpoints
    leader = broker.metadata.broker(2)
    assert leader is not None
    endpoint = leader.endpoint("PLAINTEXT")
    assert endpoint is not None
    assert (node.node_id, node.host, node.port, node.rack) == (2, endpoint.host, endpoint.port, "rack2")


class TestSessions:
    """One client's way through a session."""

    @pytest.fixture
    def broker(self) -> Iterator[FakeBroker]:
        yield FakeBroker()

    @pytest.mark.parametrize("version", [7, 12, 13, 17])
    def test_full_then_what_changed(self, broker: FakeBroker, version: int) -> None:
        ids = version >= 13
        opened = fetch(broker, version, ask(T0, T1, ids=ids, session_epoch=0))
        assert opened.session_id > 0
        assert len(opened.partitions) == 2
        assert broker.replicas.watched == [T0, T1]
        quiet = fetch(broker, version, ask(ids=ids, session_id=opened.session_id, session_epoch=1))
        assert quiet.partitions == []
        assert broker.replicas.fetches[-1][1] == []
        watch = broker.replicas.fetches[-1][0].watch
        assert watch is not None
        watch.dirty[T1] = None
        broker.replicas.results[T1] = has_records(T1, batch())
        news = fetch(broker, version, ask(ids=ids, session_id=opened.session_id, session_epoch=2))
        assert [p.partition for p in news.partitions] == [1]
        assert news.session_id == opened.session_id

    def test_a_high_watermark_or_an_error_is_news(self, broker: FakeBroker) -> None:
        session = fetch(broker, 12, ask(T0, session_epoch=0)).session_id
        watch = broker.replicas.fetches[-1][0].watch
        assert watch is not None
        for epoch, result, expected in [
            (1, FetchResult(T0, high_watermark=5, log_start_offset=0), 0),
            (2, FetchResult(T0, high_watermark=6, log_start_offset=0), 1),
            (3, FetchResult(T0, high_watermark=6, log_start_offset=0), 0),
            (4, FetchResult(T0, high_watermark=6, log_start_offset=2), 1),
            (5, FetchResult(T0, ErrorCode.NOT_LEADER_OR_FOLLOWER), 1),
            (6, FetchResult(T0, ErrorCode.NOT_LEADER_OR_FOLLOWER), 1),
        ]:
            broker.replicas.results[T0] = result
            watch.dirty[T0] = None
            response = fetch(broker, 12, ask(session_id=session, session_epoch=epoch))
            assert len(response.partitions) == expected, epoch

    def test_the_answer_to_an_overtaken_request_is_repeated(self, broker: FakeBroker) -> None:
        session = fetch(broker, 12, ask(T0, session_epoch=0)).session_id
        answers: list[Callable[[list[FetchResult]], object]] = []
        at_once = broker.replicas.fetch
        broker.replicas.fetch = lambda *asked: answers.append(asked[-1])  # type: ignore
        for epoch in (1, 2):
            request = ask(*([T0] if epoch == 2 else []), session_id=session, session_epoch=epoch)
            broker.send(ApiKey.FETCH, 12, encode_fetch_request(12, request))
        news = FetchResult(T0, high_watermark=6, log_start_offset=0)
        answers[1]([FetchResult(T0, high_watermark=5, log_start_offset=0)])
        answers[0]([news])
        broker.replicas.fetch = at_once  # type: ignore
        broker.replicas.results[T0] = news
        broker.take()
        broker.take()
        told = fetch(broker, 12, ask(session_id=session, session_epoch=3))
        assert [partition.high_watermark for partition in told.partitions] == [6]

    def test_what_was_just_read_comes_last(self, broker: FakeBroker) -> None:
        session = fetch(broker, 12, ask(T0, T1, session_epoch=0)).session_id
        watch = broker.replicas.fetches[-1][0].watch
        assert watch is not None
        for tp in (T0, T1):
            watch.dirty[tp] = None
            broker.replicas.results[tp] = has_records(tp, batch())
        response = fetch(broker, 12, ask(T0, session_id=session, session_epoch=1))
        assert [p.partition for p in response.partitions] == [1, 0]

    def test_partitions_come_and_go(self, broker: FakeBroker) -> None:
        session = fetch(broker, 12, ask(T0, session_epoch=0)).session_id
        request = ask(T1, session_id=session, session_epoch=1, forgotten=[("t", ZERO_UUID, 0)])
        response = fetch(broker, 12, request)
        assert [p.partition for p in response.partitions] == [1]
        assert broker.replicas.watched == [T1]

    def test_a_session_without_partitions_ends(self, broker: FakeBroker) -> None:
        session = fetch(broker, 12, ask(T0, session_epoch=0)).session_id
        last = fetch(broker, 12, ask(session_id=session, session_epoch=1, forgotten=[("t", ZERO_UUID, 0)]))
        assert last.session_id == 0
        assert len(broker.dispatcher.fetch.sessions) == 0

    def test_a_session_is_closed(self, broker: FakeBroker) -> None:
        session = fetch(broker, 12, ask(T0, session_epoch=0)).session_id
        closed = fetch(broker, 12, ask(session_id=session, session_epoch=-1))
        assert (closed.session_id, closed.error) == (0, 0)
        assert broker.replicas.watched == []
        gone = fetch(broker, 12, ask(session_id=session, session_epoch=1))
        assert gone.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_a_new_session_replaces_the_old_one(self, broker: FakeBroker) -> None:
        old = fetch(broker, 12, ask(T0, session_epoch=0)).session_id
        new = fetch(broker, 12, ask(T1, session_id=old, session_epoch=0)).session_id
        assert len(broker.dispatcher.fetch.sessions) == 1
        assert broker.replicas.watched == [T1]
        assert new != 0

    @pytest.mark.parametrize(
        ("version", "known", "epoch", "error"),
        [
            (12, False, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
            (12, True, 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
            (13, True, 1, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
        ],
    )
    def test_errors(self, broker: FakeBroker, version: int, known: bool, epoch: int, error: ErrorCode) -> None:
        session = fetch(broker, 12, ask(T0, session_epoch=0)).session_id
        request = ask(session_id=session if known else session % 1000 + 5, session_epoch=epoch)
        response = fetch(broker, version, request)
        assert (response.error, response.partitions) == (error, [])

    def test_a_topic_id_that_becomes_known_is_served(self, broker: FakeBroker) -> None:
        request = ask(T0, ids=True, session_epoch=0)
        late = uuid.UUID(int=77)
        request.partitions.append(FetchPartition(None, late, 0))
        opened = fetch(broker, 13, request)
        assert [p.error for p in opened.partitions] == [0, ErrorCode.UNKNOWN_TOPIC_ID]
        again = fetch(broker, 13, ask(ids=True, session_id=opened.session_id, session_epoch=1))
        assert [(p.topic_id, p.error) for p in again.partitions] == [(late, ErrorCode.UNKNOWN_TOPIC_ID)]
        state = broker.metadata.state(T0)
        assert state is not None
        broker.metadata.apply([state.with_(topic="late", topic_id=late)])
        found = fetch(broker, 13, ask(ids=True, session_id=opened.session_id, session_epoch=2))
        assert [(p.topic_id, p.error) for p in found.partitions] == [(late, 0)]
        assert broker.replicas.watched == [T0, TopicPartition("late", 0)]

    def test_without_a_place_there_is_no_session(self) -> None:
        broker = FakeBroker({"max.incremental.fetch.session.cache.slots": "0"})
        response = fetch(broker, 12, ask(T0, session_epoch=0))
        assert (response.session_id, response.error, len(response.partitions)) == (0, 0, 1)


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_old_clients_get_old_messages(version: int, magic: int) -> None:
    broker = FakeBroker()
    broker.replicas.results[T0] = has_records(T0, batch(3))
    records = data_of(fetch(broker, version, ask(T0)).partitions[0].records)
    assert records[:8] == (3).to_bytes(8, "big")
    assert records[16] == magic


def test_old_clients_read_on_past_batches_without_records_to_the_high_watermark() -> None:
    broker = FakeBroker()
    marker = encode_batch([Record(3, 1000, b"\0\0\0\1", b"", (), -1)], base_offset=3, is_control=True)
    broker.replicas.results[T0] = has_records(T0, marker)
    broker.logs.records[4] = stored(batch(4))
    records = data_of(fetch(broker, 3, ask(T0)).partitions[0].records)
    assert records[:8] == (4).to_bytes(8, "big")
    assert broker.logs.reads == [(4, 1 << 20, 9)]


def test_conversion_may_be_forbidden() -> None:
    broker = FakeBroker()
    broker.logs.message_downconversion_enable = False
    broker.replicas.results[T0] = has_records(T0, batch(3))
    answer = fetch(broker, 3, ask(T0)).partitions[0]
    assert (answer.error, data_of(answer.records)) == (ErrorCode.UNSUPPORTED_VERSION, b"")


@pytest.mark.parametrize("compression_type", ["producer", "gzip"])
@pytest.mark.parametrize("version", [4, 9, 10])
def test_a_zstd_batch_of_a_producer_reaches_every_client_that_reads_batches(
    version: int, compression_type: str
) -> None:
    broker = FakeBroker()
    broker.logs.compression_type = compression_type
    data = batch(3, codec=4)
    broker.replicas.results[T0] = has_records(T0, data)
    answer = fetch(broker, version, ask(T0)).partitions[0]
    assert (answer.error, data_of(answer.records)) == (0, data)


def test_a_zstd_batch_has_no_older_form() -> None:
    broker = FakeBroker()
    broker.replicas.results[T0] = has_records(T0, batch(3, codec=4))
    assert fetch(broker, 2, ask(T0)).partitions[0].error == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    broker.replicas.results[T0] = has_records(T0, batch(3) + batch(4) + batch(5, codec=4))
    assert fetch(broker, 2, ask(T0)).partitions[0].error == 0


# trap: kafkalite/apis/fetch_conversion.py: A client that does not know zstd would be sent zstd batches.
@pytest.mark.parametrize(
    ("version", "error"),
    [
        (2, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (4, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (10, ErrorCode.NONE),
    ],
)
@pytest.mark.parametrize("data", [b"", batch(3), batch(3, codec=4)], ids=["empty", "uncompressed", "zstd"])
def test_a_topic_of_compression_type_zstd_is_kept_from_old_clients(version: int, error: ErrorCode, data: bytes) -> None:
    broker = FakeBroker()
    broker.logs.compression_type = "zstd"
    broker.replicas.results[T0] = has_records(T0, data) if data else FetchResult(T0, high_watermark=3)
    answer = fetch(broker, version, ask(T0)).partitions[0]
    assert (answer.error, data_of(answer.records)) == (error, b"" if error else data)


def test_converted_records_and_bytes_for_added_replicas_are_counted() -> None:
    broker = FakeBroker()
    stats = broker.replicas.topic_stats
    metrics = stats.enter("t")
    data = batch(3)
    broker.replicas.results[T0] = has_records(T0, data)
    fetch(broker, 3, ask(T0))
    fetch(broker, 4, ask(T0))
    assert metrics.fetch_message_conversions == stats.fetch_conversions.latest[0].records == 1
    assert stats.fetch_conversions.count == 1, "version 4 knows the stored format"
    broker.logs.message_downconversion_enable = False
    fetch(broker, 3, ask(T0))
    assert (metrics.fetch_message_conversions, stats.fetch_conversions.count) == (1, 1)

    fetch(broker, 17, ask(T0, ids=True, replica_id=2))
    assert (metrics.replication_bytes_out, metrics.reassignment_bytes_out) == (len(data), 0)
    broker.replicas.results[T0].to_added = True
    fetch(broker, 17, ask(T0, ids=True, replica_id=2))
    assert (metrics.replication_bytes_out, metrics.reassignment_bytes_out) == (2 * len(data), len(data))
