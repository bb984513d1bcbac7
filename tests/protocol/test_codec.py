"""The codec against bytes of Kafka 3.9.1's own message classes, and against bytes that are wrong."""

from __future__ import annotations

import random
import struct
from io import BytesIO
from typing import Any

import pytest

from kafkalite.common.types import Buffer
from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import SUPPORTED, ApiKey
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.wire import write_string, write_uvarint
from tests.protocol.golden import GOLDEN, Golden, assert_same

OTHERS = [golden for golden in GOLDEN if golden.name not in ("Produce", "Fetch")]
RECORDS = {"Produce", "Fetch"}


def decode(golden: Golden, data: bytes) -> Any:
    call = codec.decode_request if golden.side == "request" else codec.decode_response
    return call(golden.api_key, golden.version, memoryview(data))


def encode(golden: Golden, message: Any) -> bytes:
    call = codec.encode_request if golden.side == "request" else codec.encode_response
    return call(golden.api_key, golden.version, message)


def as_request(golden: Golden, data: bytes) -> Any:
    # ApiVersions: an error code makes the library's reader fall back to version 0; read it plainly here.
    if golden.api_key == ApiKey.API_VERSIONS and golden.side == "response":
        return codec._decode(golden.api_key, "Response", golden.version, memoryview(data))
    return decode(golden, data)


@pytest.mark.parametrize("golden", OTHERS, ids=str)
def test_every_version_is_read_and_written_as_kafka_does(golden: Golden) -> None:
    message = as_request(golden, golden.data)
    assert_same(message, golden.values)
    assert encode(golden, message) == golden.data


@pytest.mark.parametrize("golden", [g for g in GOLDEN if g.name in RECORDS], ids=str)
def test_the_library_agrees_on_produce_and_fetch_too(golden: Golden) -> None:
    assert encode(golden, decode(golden, golden.data)) == golden.data


# trap: kafkalite/protocol/api_keys.py: The codec library advertises other versions than Kafka 3.9 serves: kafkalite
# keeps its own table.
def test_golden_bytes_cover_every_version_that_is_served() -> None:
    seen = {(g.api_key, g.side, g.version) for g in GOLDEN}
    for api_key in {g.api_key for g in GOLDEN}:
        for version in range(SUPPORTED[api_key].min, SUPPORTED[api_key].max + 1):
            assert (api_key, "request", version) in seen
            assert (api_key, "response", version) in seen


@pytest.mark.parametrize("golden", OTHERS, ids=str)
def test_a_message_cut_short_anywhere_is_refused(golden: Golden) -> None:
    for end in range(0, len(golden.data), 7):
        with pytest.raises(ProtocolError):
            as_request(golden, golden.data[:end])


@pytest.mark.parametrize("golden", OTHERS, ids=str)
def test_bytes_behind_the_end_do_not_matter(golden: Golden) -> None:
    assert encode(golden, as_request(golden, golden.data + b"junk")) == golden.data


def test_random_damage_raises_nothing_but_protocol_errors() -> None:
    rng = random.Random(7)
    requests = [golden for golden in OTHERS if golden.side == "request" and golden.data]
    for _ in range(20_000):
        golden = rng.choice(requests)
        data = bytearray(golden.data)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        try:
            decode(golden, bytes(data))
        except ProtocolError:
            continue


@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        (ApiKey.METADATA, 1, struct.pack(">i", 0x7FFFFFFF)),
        (ApiKey.LIST_OFFSETS, 1, struct.pack(">iih", -1, 1, -1) + struct.pack(">i", 0)),
        (ApiKey.LIST_OFFSETS, 1, struct.pack(">ii", -1, -1)),
        (ApiKey.METADATA, 9, b"\xff" * 100_000),
        (ApiKey.METADATA, 9, b"\x02\xff\xff\xff\xff\x0fabc"),
        (ApiKey.METADATA, 1, struct.pack(">ih", 1, 2) + b"\xff\xfe"),
        (ApiKey.METADATA, 1, bytes(codec.MAX_BODY + 1)),
    ],
    ids=["huge array", "null name", "null array", "endless varint", "long string", "not UTF-8", "huge body"],
)
def test_absurd_bodies_are_refused(api_key: ApiKey, version: int, body: bytes) -> None:
    with pytest.raises(ProtocolError):
        codec.decode_request(api_key, version, memoryview(body))


# trap: kafkalite/protocol/codec.py: A request of some megabytes with an unknown tagged field in every structure keeps a
# broker busy for minutes, because the codec library copies the rest of the message for each: tagged fields are read by
# our own function.
def test_tagged_fields_are_read_without_copies_of_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []

    class Counting(BytesIO):
        def __init__(self, data: Buffer) -> None:
            copied.append(len(data))
            super().__init__(data)

    monkeypatch.setattr(codec, "BytesIO", Counting)
    monkeypatch.setattr("io.BytesIO", Counting)
    codec._decoders.clear()
    kind: Any = codec.request_class(ApiKey.METADATA)
    kind._struct._compiled_encoders.clear()
    topics = 1000
    body = write_uvarint(topics + 1) + (write_string("t", True) + b"\x02\x00\x01x\x63\x02yz") * topics + b"\1\0\0\0"
    request: Any = codec.decode_request(ApiKey.METADATA, 9, memoryview(body))
    assert [topic.name for topic in request.topics] == ["t"] * topics
    assert request.allow_auto_topic_creation is True
    assert sum(copied) <= len(body)


def test_a_known_tagged_field_is_read() -> None:
    message = codec.request_class(ApiKey.FETCH)(version=12, cluster_id="c", topics=[], forgotten_topics_data=[])
    body = codec.encode_request(ApiKey.FETCH, 12, message)
    found: Any = codec.decode_request(ApiKey.FETCH, 12, memoryview(body))
    assert found.cluster_id == "c"


@pytest.mark.parametrize("tags", [b"\x01\x63\x09x", b"\x01\x63", b"\x02\x63\x00", b"\xff\xff\xff\xff\x0f\x63\x00"])
def test_tagged_fields_that_run_past_the_end_are_refused(tags: bytes) -> None:
    with pytest.raises(ProtocolError):
        codec.decode_request(ApiKey.METADATA, 9, memoryview(b"\1\1\0\0" + tags))


def test_a_refusal_of_api_versions_is_read_in_the_oldest_version() -> None:
    refusal = codec.response_class(ApiKey.API_VERSIONS)(error_code=35, api_keys=[])
    body = codec.encode_response(ApiKey.API_VERSIONS, 0, refusal)
    assert codec.decode_response(ApiKey.API_VERSIONS, 4, memoryview(body)).error_code == 35


def test_there_is_a_class_for_every_message_with_golden_bytes() -> None:
    for golden in GOLDEN:
        assert codec.request_class(golden.api_key).__name__ == f"{golden.name}Request"
        assert codec.response_class(golden.api_key).__name__ == f"{golden.name}Response"
    with pytest.raises(LookupError):
        codec.request_class(ApiKey.ENVELOPE)
