"""Our own Fetch codec against Kafka's bytes, and against the library's codec where we write less than Kafka can."""

from __future__ import annotations

import struct
import tracemalloc
import uuid

import pytest

from kafkalite.common.types import ZERO_UUID, FileRegion, Part, uuid_from_text
from kafkalite.protocol import codec, messages
from kafkalite.protocol.api_keys import SUPPORTED, ApiKey
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    ForgottenPartition,
    decode_fetch,
    decode_fetch_response,
    encode_fetch_request,
    encode_fetch_response,
)
from kafkalite.protocol.wire import write_uvarint
from tests.protocol.golden import GOLDEN, Golden

VERSIONS = range(SUPPORTED[ApiKey.FETCH].max + 1)
REQUESTS = [golden for golden in GOLDEN if golden.name == "Fetch" and golden.side == "request"]
RESPONSES = [golden for golden in GOLDEN if golden.name == "Fetch" and golden.side == "response"]
TOPIC_ID = uuid.UUID(int=77)


def joined(parts: list[Part]) -> bytes:
    return b"".join(part.read() if isinstance(part, FileRegion) else part for part in parts)


@pytest.mark.parametrize("golden", REQUESTS, ids=str)
def test_requests_are_read_as_kafka_wrote_them(golden: Golden) -> None:
    request = decode_fetch(golden.version, memoryview(golden.data))
    values = golden.values
    state = values.get("replicaState", {"replicaId": values.get("replicaId"), "replicaEpoch": -1})
    assert (request.replica_id, request.replica_epoch) == (state["replicaId"], state["replicaEpoch"])
    assert (request.max_wait_ms, request.min_bytes) == (values["maxWaitMs"], values["minBytes"])
    assert request.max_bytes == values.get("maxBytes", 0x7FFFFFFF)
    assert request.isolation_level == values.get("isolationLevel", 0)
    assert (request.session_id, request.session_epoch) == (values.get("sessionId", 0), values.get("sessionEpoch", -1))
    assert request.rack_id == values.get("rackId", "")
    expected = [(topic, p) for topic in values["topics"] for p in topic["partitions"]]
    assert len(request.partitions) == len(expected)
    for partition, (topic, p) in zip(request.partitions, expected, strict=True):
        assert partition.topic == topic.get("topic")
        assert partition.topic_id == (uuid_from_text(topic["topicId"]) if "topicId" in topic else ZERO_UUID)
        assert partition.partition == p["partition"]
        assert partition.current_leader_epoch == p.get("currentLeaderEpoch", -1)
        assert partition.fetch_offset == p["fetchOffset"]
        assert partition.last_fetched_epoch == p.get("lastFetchedEpoch", -1)
        assert partition.log_start_offset == p.get("logStartOffset", -1)
        assert partition.max_bytes == p["partitionMaxBytes"]
    assert [entry[2] for entry in request.forgotten] == [
        partition for topic in values.get("forgottenTopicsData", []) for partition in topic["partitions"]
    ]
    if golden.version < 12:  # above, Kafka's bytes hold a cluster id and directory ids, which we have no use for
        assert encode_fetch_request(golden.version, request) == golden.data


@pytest.mark.parametrize("version", VERSIONS)
def test_the_library_reads_our_requests(version: int) -> None:
    partitions = [
        FetchPartition("t", TOPIC_ID, 0, 3, 100, 2, 5, 1 << 20),
        FetchPartition("t", TOPIC_ID, 1),
        FetchPartition("u", uuid.UUID(int=78), 0),
    ]
    forgotten: list[ForgottenPartition] = [("t", TOPIC_ID, 4), ("t", TOPIC_ID, 5)]
    body = encode_fetch_request(version, FetchRequest(2, 99, 500, 1, 1 << 23, 0, 7, 8, partitions, forgotten, "r"))
    message = codec.decode_request(ApiKey.FETCH, version, memoryview(body))
    assert isinstance(message, messages.FetchRequest)
    assert [len(topic.partitions) for topic in message.topics] == [2, 1]
    first = message.topics[0].partitions[0]
    assert (first.partition, first.fetch_offset, first.partition_max_bytes) == (0, 100, 1 << 20)
    if version >= 13:
        assert message.topics[0].topic_id == TOPIC_ID
    else:
        assert message.topics[0].topic == "t"
    if version >= 12:
        assert (first.current_leader_epoch, first.last_fetched_epoch) == (3, 2)
    again = decode_fetch(version, memoryview(body))
    assert again.replica_id == 2
    assert again.replica_epoch == (99 if version >= 15 else -1)
    assert again.rack_id == ("r" if version >= 11 else "")


@pytest.mark.parametrize("golden", RESPONSES, ids=str)
def test_responses_are_read_as_kafka_wrote_them(golden: Golden) -> None:
    response = decode_fetch_response(golden.version, memoryview(golden.data))
    values = golden.values
    assert (response.throttle_ms, response.error, response.session_id) == (
        values.get("throttleTimeMs", 0),
        values.get("errorCode", 0),
        values.get("sessionId", 0),
    )
    expected = [(topic, p) for topic in values["responses"] for p in topic["partitions"]]
    assert len(response.partitions) == len(expected)
    for entry, (topic, p) in zip(response.partitions, expected, strict=True):
        assert entry.topic == topic.get("topic")
        assert entry.topic_id == (uuid_from_text(topic["topicId"]) if "topicId" in topic else ZERO_UUID)
        assert (entry.partition, entry.error) == (p["partitionIndex"], p["errorCode"])
        assert entry.high_watermark == p["highWatermark"]
        assert entry.last_stable_offset == p.get("lastStableOffset", -1)
        assert entry.log_start_offset == p.get("logStartOffset", -1)
        aborted = p.get("abortedTransactions")
        assert entry.aborted == (aborted and [(a["producerId"], a["firstOffset"]) for a in aborted])
        assert entry.preferred_read_replica == p.get("preferredReadReplica", -1)
        diverging = p.get("divergingEpoch")
        assert entry.diverging_epoch == (diverging and (diverging["epoch"], diverging["endOffset"]))
        leader = p.get("currentLeader")
        assert entry.current_leader == (leader and (leader["leaderId"], leader["leaderEpoch"]))
        assert isinstance(entry.records, memoryview)
        assert bytes(entry.records).startswith(b"rec")
    if golden.version < 12:  # above, Kafka's bytes hold snapshot ids and endpoints
        parts = encode_fetch_response(
            golden.version, response.error, response.session_id, response.partitions, response.throttle_ms
        )
        assert joined(parts) == golden.data


@pytest.mark.parametrize("version", VERSIONS)
def test_the_library_reads_our_responses(version: int) -> None:
    partitions = [
        FetchPartitionResponse("t", TOPIC_ID, 0, 0, 10, 9, 1, [(5, 6)], 3, b"records!" * 40),
        FetchPartitionResponse("t", TOPIC_ID, 1, 1, diverging_epoch=(4, 44), current_leader=(2, 5)),
        FetchPartitionResponse("u", uuid.UUID(int=78), 0, 0, 10, 9, 1, records=b"x"),
    ]
    parts = encode_fetch_response(version, 0, 12, partitions, 1, [(2, "host", 9092, None)])
    assert any(part is partitions[0].records for part in parts)
    message = codec.decode_response(ApiKey.FETCH, version, memoryview(joined(parts)))
    assert [len(topic.partitions) for topic in message.responses] == [2, 1]
    first, second = message.responses[0].partitions
    assert (first.partition_index, first.high_watermark, first.records) == (0, 10, b"records!" * 40)
    assert (second.error_code, second.records) == (1, b"")
    if version >= 5:
        assert (first.last_stable_offset, first.log_start_offset) == (9, 1)
        assert [(a.producer_id, a.first_offset) for a in first.aborted_transactions] == [(5, 6)]
        assert second.aborted_transactions is None
    if version >= 11:
        assert first.preferred_read_replica == 3
    if version >= 12:
        assert (second.diverging_epoch.epoch, second.diverging_epoch.end_offset) == (4, 44)
        assert (second.current_leader.leader_id, second.current_leader.leader_epoch) == (2, 5)
    if version >= 16:
        (node,) = message.node_endpoints
        assert (node.node_id, node.host, node.port, node.rack) == (2, "host", 9092, None)
    again = decode_fetch_response(version, memoryview(joined(parts)))
    assert [bytes(entry.records) for entry in again.partitions] == [b"records!" * 40, b"", b"x"]  # type: ignore[arg-type]


@pytest.mark.parametrize("golden", REQUESTS + RESPONSES, ids=str)
def test_messages_cut_short_anywhere_are_refused(golden: Golden) -> None:
    decode = decode_fetch if golden.side == "request" else decode_fetch_response
    for end in range(len(golden.data)):
        with pytest.raises(ProtocolError):
            decode(golden.version, memoryview(golden.data)[:end])


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (4, struct.pack(">iiiibi", -1, 500, 1, 1, 0, 0x7FFFFFFF)),
        (4, struct.pack(">iiiibih", -1, 500, 1, 1, 0, 1, -1)),
        (12, struct.pack(">iiiibii", -1, 500, 1, 1, 0, 0, -1) + b"\xff" * 20),
        (13, struct.pack(">iiiibii", -1, 500, 1, 1, 0, 0, -1) + b"\x02abc"),
    ],
    ids=["many topics", "null topic", "endless varint", "short id"],
)
def test_absurd_requests_are_refused(version: int, body: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_fetch(version, memoryview(body))


def test_unknown_tagged_fields_take_no_memory() -> None:
    tags = range(1000, 11_000)
    body = encode_fetch_request(12, FetchRequest(-1, -1, 500, 1, 1 << 20, 0, 0, -1, [], []))
    body = body[:-1] + write_uvarint(len(tags)) + b"".join(write_uvarint(tag) + b"\0" for tag in tags)
    # The least of several runs, because tracemalloc also counts what other threads of the test process allocate.
    assert min(_peak_of_decoding(body) for _ in range(3)) < len(body)


def _peak_of_decoding(body: bytes) -> int:
    """The most bytes that are allocated at a time while a Fetch request of version 12 is decoded."""
    tracemalloc.start()
    try:
        assert decode_fetch(12, memoryview(body)).max_wait_ms == 500
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
