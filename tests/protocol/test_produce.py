"""Our own Produce codec against Kafka's bytes, and against the library's codec where we write less than Kafka can."""

from __future__ import annotations

import struct

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import SUPPORTED, ApiKey
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.produce import (
    ProducePartitionResponse,
    ProduceRequest,
    decode_produce,
    decode_produce_response,
    encode_produce,
    encode_produce_response,
)
from tests.protocol.golden import GOLDEN, Golden

VERSIONS = range(SUPPORTED[ApiKey.PRODUCE].max + 1)
REQUESTS = [golden for golden in GOLDEN if golden.name == "Produce" and golden.side == "request"]
RESPONSES = [golden for golden in GOLDEN if golden.name == "Produce" and golden.side == "response"]


@pytest.mark.parametrize("golden", REQUESTS, ids=str)
def test_requests_are_read_and_written_as_kafka_does(golden: Golden) -> None:
    request = decode_produce(golden.version, memoryview(golden.data))
    values = golden.values
    assert (request.acks, request.timeout_ms) == (values["acks"], values["timeoutMs"])
    assert request.transactional_id == values.get("transactionalId")
    assert [entry for entry, _ in request.partitions] == [
        TopicPartition(topic["name"], partition["index"])
        for topic in values["topicData"]
        for partition in topic["partitionData"]
    ]
    assert all(bytes(records).startswith(b"rec") for _, records in request.partitions)
    assert b"".join(encode_produce(golden.version, request)) == golden.data


def test_records_are_views_of_the_request() -> None:
    request = ProduceRequest(None, 1, 1000, [(TopicPartition("t", 0), memoryview(b"12345678"))])
    body = bytearray(b"".join(encode_produce(9, request)))
    records = decode_produce(9, memoryview(body)).partitions[0][1]
    records[0:1] = b"X"
    assert b"X2345678" in body


@pytest.mark.parametrize("golden", REQUESTS, ids=str)
def test_requests_cut_short_anywhere_are_refused(golden: Golden) -> None:
    for end in range(len(golden.data)):
        with pytest.raises(ProtocolError):
            decode_produce(golden.version, memoryview(golden.data)[:end])


@pytest.mark.parametrize("golden", RESPONSES, ids=str)
def test_responses_are_read_as_kafka_wrote_them(golden: Golden) -> None:
    partitions = decode_produce_response(golden.version, memoryview(golden.data))
    expected = [(t["name"], p) for t in golden.values["responses"] for p in t["partitionResponses"]]
    assert len(partitions) == len(expected)
    for entry, (topic, values) in zip(partitions, expected, strict=True):
        assert (entry.topic, entry.partition, entry.error) == (topic, values["index"], values["errorCode"])
        assert entry.base_offset == values["baseOffset"]
        assert entry.log_append_time == values.get("logAppendTimeMs", -1)
        assert entry.log_start_offset == values.get("logStartOffset", -1)
        assert entry.error_message == values.get("errorMessage")
        leader = values.get("currentLeader")
        assert entry.current_leader == (leader and (leader["leaderId"], leader["leaderEpoch"]))
        errors = values.get("recordErrors", [])
        assert entry.record_errors or not errors
        assert [text for _, text in entry.record_errors] == [error["batchIndexErrorMessage"] for error in errors]
    if golden.version < 8:
        assert (
            encode_produce_response(golden.version, partitions, golden.values.get("throttleTimeMs", 0)) == golden.data
        )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_library_reads_our_responses(version: int) -> None:
    partitions = [
        ProducePartitionResponse("a", 0, 0, 17, 1000, 3),
        ProducePartitionResponse(
            "a", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER, error_message="not here", current_leader=(2, 5)
        ),
        ProducePartitionResponse("b" * 200, 2, ErrorCode.CORRUPT_MESSAGE, record_errors=[(3, "no key"), (7, None)]),
    ]
    body = encode_produce_response(version, partitions, 9, [(2, "host", 9092, None), (3, "other", 1, "rack")])
    message = codec.decode_response(ApiKey.PRODUCE, version, memoryview(body))
    assert [(topic.name, len(topic.partition_responses)) for topic in message.responses] == [("a", 2), ("b" * 200, 1)]
    first, second = message.responses[0].partition_responses
    assert (first.index, first.error_code, first.base_offset) == (0, 0, 17)
    assert second.error_code == 6
    if version >= 1:
        assert message.throttle_time_ms == 9
    if version >= 5:
        assert (first.log_append_time_ms, first.log_start_offset) == (1000, 3)
    if version >= 8:
        assert (second.error_message, first.error_message, second.record_errors) == ("not here", None, [])
        (third,) = message.responses[1].partition_responses
        errors = [(error.batch_index, error.batch_index_error_message) for error in third.record_errors]
        assert errors == [(3, "no key"), (7, None)]
        assert decode_produce_response(version, memoryview(body))[2].record_errors == errors
    if version >= 10:
        assert (second.current_leader.leader_id, second.current_leader.leader_epoch) == (2, 5)
        assert [(node.node_id, node.host, node.rack) for node in message.node_endpoints] == [
            (2, "host", None),
            (3, "other", "rack"),
        ]
    again = decode_produce_response(version, memoryview(body))
    assert [(entry.topic, entry.partition, entry.error) for entry in again] == [
        ("a", 0, 0),
        ("a", 1, 6),
        ("b" * 200, 2, 2),
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("message", [None, "why"])
def test_the_library_reads_our_response_for_one_partition(version: int, message: str | None) -> None:
    entry = ProducePartitionResponse("a", 3, ErrorCode.INVALID_RECORD, 17, 1000, 5, message)
    body = encode_produce_response(version, [entry], 9)
    read = codec.decode_response(ApiKey.PRODUCE, version, memoryview(body))
    assert codec.encode_response(ApiKey.PRODUCE, version, read) == body
    (topic,) = read.responses
    (partition,) = topic.partition_responses
    assert (topic.name, partition.index, partition.error_code, partition.base_offset) == ("a", 3, 87, 17)
    assert read.throttle_time_ms == (9 if version >= 1 else 0)
    if version >= 8:
        assert (partition.log_append_time_ms, partition.log_start_offset, partition.error_message) == (1000, 5, message)


@pytest.mark.parametrize("length", [1, 126, 127, 249])
def test_topics_of_every_length_are_read(length: int) -> None:
    request = ProduceRequest(None, 1, 1000, [(TopicPartition("t" * length, 7), memoryview(b"12345678"))])
    body = b"".join(encode_produce(9, request))
    assert decode_produce(9, memoryview(body)).partitions == request.partitions
    with pytest.raises(ProtocolError):
        decode_produce(9, memoryview(body[: 10 + length // 2]))


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (2, b""),
        (2, struct.pack(">hii", 1, 1000, 0x7FFFFFFF)),
        (2, struct.pack(">hiih", 1, 1000, 1, -1)),
        (2, struct.pack(">hiih1sii", 1, 1000, 1, 1, b"t", 1, 0) + struct.pack(">i", 0x7FFFFFFF)),
        (3, struct.pack(">h", 32767)),
        (9, b"\x00" + struct.pack(">hi", 1, 1000) + b"\xff" * 50),
        (9, b"\x00" + struct.pack(">hi", 1, 1000) + b"\x02\x02t\x02\x00\x00\x00\x00\xff\xff\xff\xff\x0f"),
    ],
    ids=["empty", "many topics", "null topic", "long records", "long id", "endless varint", "long compact records"],
)
def test_absurd_requests_are_refused(version: int, body: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_produce(version, memoryview(body))


def test_null_records_are_empty() -> None:
    body = struct.pack(">hiih1siii", 1, 1000, 1, 1, b"t", 1, 0, -1)
    assert decode_produce(2, memoryview(body)).partitions == [(TopicPartition("t", 0), memoryview(b""))]
