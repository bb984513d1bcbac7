"""Records of magic-2 batches, read and written."""

from __future__ import annotations

import pytest
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from kafkalite.common.errors import ApiError
from kafkalite.record.batch import CorruptRecordError, check_crc, read_header
from kafkalite.record.records import (
    Record,
    assemble,
    check_keys,
    encode_batch,
    iter_records,
    payload,
    read_varint,
    varint,
)

from .samples import APPEND_TIME, expected_records, kafka_bytes, kafka_commit_marker, records

KAFKA = kafka_bytes()


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (-65, "8101"), (8191, "fe7f"),
     (2**31 - 1, "feffffff0f"), (-(2**31), "ffffffff0f"), (2**63 - 1, "feffffffffffffffff01"),
     (-(2**63), "ffffffffffffffffff01")],
)  # fmt: skip
def test_varints(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded
    assert read_varint(b"\xff" + varint(value) + b"\xff", 1) == (value, 1 + len(encoded) // 2)


def test_varint_without_end() -> None:
    with pytest.raises(CorruptRecordError):
        read_varint(b"\xff" * 20, 0)


@pytest.mark.parametrize(("codec", "timestamp_type"), [(c, t) for c in range(5) for t in range(2)])
def test_reads_what_kafka_wrote(codec: int, timestamp_type: int) -> None:
    data = KAFKA[2, codec, timestamp_type]
    assert list(iter_records(data, read_header(data))) == expected_records(2, timestamp_type)


@pytest.mark.parametrize("timestamp_type", [0, 1])
def test_writes_what_kafka_wrote(timestamp_type: int) -> None:
    data = encode_batch(
        expected_records(2, 0),
        timestamp_type=timestamp_type,
        log_append_time=APPEND_TIME,
        leader_epoch=5,
        producer_id=7,
        producer_epoch=3,
        base_sequence=2147483646,
    )
    assert data == KAFKA[2, 0, timestamp_type]


def test_control_batch_as_kafka_wrote_it() -> None:
    marker = Record(42, 1700000000000, b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x0d")
    data = encode_batch(
        [marker], leader_epoch=9, producer_id=11, producer_epoch=2, is_transactional=True, is_control=True
    )
    assert data == kafka_commit_marker()
    assert list(iter_records(data, read_header(data))) == [marker]


@pytest.mark.parametrize("codec", range(5))
def test_client_library_reads_ours_and_we_read_its(codec: int) -> None:
    ours = encode_batch(records(20), codec=codec)
    theirs = DefaultRecordBatch(ours)
    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value) for r in theirs] == [r[:4] for r in records(20)]
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=9, producer_epoch=1, base_sequence=5,
        batch_size=100_000,
    )  # fmt: skip
    for record in records(20):
        builder.append(record.offset, record.timestamp, record.key, record.value, [("h", b"v")])
    built = bytes(builder.build())
    header = read_header(built)
    assert check_crc(built, 0, header)
    expected = [r._replace(headers=[("h", b"v")], sequence=5 + r.offset) for r in records(20)]
    assert list(iter_records(built, header)) == expected


def test_moved_batches_keep_their_gaps() -> None:
    gaps = [Record(10, 5, None, b"a"), Record(13, 4, None, b"b")]
    data = encode_batch(gaps, base_offset=1000, last_offset_delta=9)
    header = read_header(data)
    assert (header.base_offset, header.last_offset, header.record_count, header.max_timestamp) == (1000, 1009, 2, 5)
    assert [r.offset for r in iter_records(data, header)] == [1000, 1003]


def test_offsets_left_open_are_counted_up() -> None:
    data = encode_batch([Record(-1, 0, None, b"")] * 3, base_offset=7)
    assert [r.offset for r in iter_records(data, read_header(data))] == [7, 8, 9]


@pytest.mark.parametrize("bad", [[], [Record(3, 0, None, None), Record(3, 0, None, None)]])
def test_no_batch_of_nothing_or_of_descending_offsets(bad: list[Record]) -> None:
    with pytest.raises(ValueError):
        encode_batch(bad)


def test_absurd_timestamps_wrap_as_javas_do() -> None:
    wild = [Record(0, -(2**63), None, None), Record(1, 2**63 - 1, None, None)]
    data = encode_batch(wild)
    assert list(iter_records(data, read_header(data))) == wild


def test_values_that_no_header_holds() -> None:
    with pytest.raises(ApiError):
        encode_batch(records(1), producer_epoch=2**20)


@pytest.mark.parametrize("count", [0, 1, 2, 4, 1 << 30])
def test_wrong_record_counts_are_corrupt(count: int) -> None:
    data = encode_batch(records(3))
    header = read_header(data)
    header.record_count = count
    with pytest.raises(CorruptRecordError):
        list(iter_records(data, header))
    with pytest.raises(CorruptRecordError):
        check_keys(payload(data, header), count)


def test_null_keys_are_found() -> None:
    some = [Record(i, 0, None if i in (1, 3) else b"", b"x" * i * 50, [("h", None)]) for i in range(5)]
    for codec in range(5):
        data = encode_batch(some, codec=codec)
        header = read_header(data)
        assert check_keys(payload(data, header), 5) == [1, 3]


def test_assemble_recomputes_size_and_crc() -> None:
    data = encode_batch(records(3))
    header = read_header(data)
    body = bytes(payload(data, header))
    header.size = header.crc = 0
    assert assemble(header, body) == data
