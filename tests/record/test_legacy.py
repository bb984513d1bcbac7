"""Message formats 0 and 1, against Kafka's bytes and the client library."""

from __future__ import annotations

import struct
import zlib

import pytest
from kafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.record.batch import CorruptRecordError, iter_headers, read_any_header
from kafkalite.record.compression import compress
from kafkalite.record.convert import records_of
from kafkalite.record.legacy import encode_message, encode_message_set, read_message, unwrap
from kafkalite.record.records import Record

from .samples import APPEND_TIME, expected_records, kafka_bytes, records

KAFKA = kafka_bytes()
OLD = sorted(kind for kind in KAFKA if kind[0] < 2)


def all_records(data: bytes) -> list[Record]:
    return [record for pos, header in iter_headers(data) for record in records_of(data, header, pos)]


@pytest.mark.parametrize("kind", OLD)
def test_reads_what_kafka_wrote(kind: tuple[int, int, int]) -> None:
    assert all_records(KAFKA[kind]) == expected_records(kind[0], kind[2])


@pytest.mark.parametrize("kind", [kind for kind in OLD if kind[1] == 0])
def test_writes_what_kafka_wrote(kind: tuple[int, int, int]) -> None:
    plain = [record._replace(sequence=-1) for record in expected_records(kind[0], kind[2])]
    assert encode_message_set(plain, kind[0], timestamp_type=kind[2]) == KAFKA[kind]


@pytest.mark.parametrize("kind", [kind for kind in OLD if kind[1]])
def test_wrappers_hold_what_kafkas_hold(kind: tuple[int, int, int]) -> None:
    magic, codec, timestamp_type = kind
    data = encode_message_set(
        expected_records(magic, timestamp_type), magic, codec=codec, timestamp_type=timestamp_type
    )
    ours, theirs = read_any_header(data), read_any_header(KAFKA[kind])
    for field in ("base_offset", "attributes", "max_timestamp", "magic"):
        assert getattr(ours, field) == getattr(theirs, field)
    inner = [
        [(m.header.base_offset, m.header.attributes, m.header.max_timestamp, m.header.crc) for _, m in unwrap(d, h)]
        for d, h in ((data, ours), (KAFKA[kind], theirs))
    ]
    assert inner[0] == inner[1]


@pytest.mark.parametrize(("magic", "codec"), [(m, c) for m in range(2) for c in range(4) if (m, c) != (0, 3)])
def test_client_library_reads_ours_and_we_read_its(magic: int, codec: int) -> None:
    some = [record if magic else record._replace(timestamp=-1) for record in records(10)]
    ours = encode_message_set(some, magic, codec=codec)
    seen = []
    for pos, header in iter_headers(ours):
        batch = LegacyRecordBatch(ours[pos : pos + header.size], magic)
        assert batch.validate_crc()
        seen += [(r.offset, r.timestamp if magic else -1, r.key, r.value) for r in batch]
    assert seen == [record[:4] for record in some]
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=100_000)
    for record in some:
        builder.append(record.offset, timestamp=record.timestamp, key=record.key, value=record.value)
    built = bytes(builder.build())
    # The library leaves a wrapper's offset at 0, as producers did: the broker assigns.
    assert [record[1:4] for record in all_records(built)] == [record[1:4] for record in some]


def test_append_time_of_a_wrapper_is_everyones() -> None:
    assert {record.timestamp for record in all_records(KAFKA[1, 2, 1])} == {APPEND_TIME}


def wrapper(magic: int, inner: bytes | None, codec: int = 1) -> bytes:
    return encode_message(9, magic, codec, 5, None, None if inner is None else compress(codec, inner, magic=magic))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (wrapper(1, None), "null value"),
        (wrapper(1, b""), "without messages"),
        (wrapper(1, encode_message(0, 0, 0, 0, None, b"x")), "does not match"),
        (wrapper(1, encode_message(0, 1, 1, 0, None, b"x")), "must not be compressed"),
    ],
)
def test_sets_that_no_producer_may_write(data: bytes, why: str) -> None:
    with pytest.raises(ApiError, match=why) as caught:
        records_of(data, read_any_header(data))
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_inner_crc_counts() -> None:
    inner = bytearray(encode_message(0, 1, 0, 0, None, b"x"))
    inner[-1] ^= 1
    data = wrapper(1, bytes(inner))
    [(record, message)] = unwrap(data, read_any_header(data))
    assert (record.value, message.valid) == (b"y", False)
    with pytest.raises(CorruptRecordError):
        records_of(data, read_any_header(data))


def test_partial_inner_message_is_left_out() -> None:
    inner = encode_message(0, 1, 0, 0, None, b"x") + encode_message(1, 1, 0, 0, None, b"y")
    data = wrapper(1, inner[:-3])
    assert [record.value for record in records_of(data, read_any_header(data))] == [b"x"]


@pytest.mark.parametrize(("key", "value"), [(100, 1), (-1, 100), (-1, 0)])
def test_lengths_that_do_not_fill_the_message(key: int, value: int) -> None:
    rest = struct.pack(">BBqii", 1, 0, 5, key, value) + b"x"
    data = struct.pack(">qiI", 0, len(rest) + 4, zlib.crc32(rest)) + rest
    with pytest.raises(CorruptRecordError):
        read_message(data, read_any_header(data))


def test_zstd_has_no_old_form() -> None:
    with pytest.raises(ApiError) as caught:
        encode_message_set(records(1), 1, codec=4)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
