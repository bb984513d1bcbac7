"""Record batches as columns: held to the reader of records that makes one object of each."""

from __future__ import annotations

import gc
import random
import struct
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from kafkalite.record.batch import crc32c, iter_headers
from kafkalite.record.compression import ZSTD, decompress
from kafkalite.record.legacy import encode_message_set
from kafkalite.record.records import Record, encode_batch, encode_marker
from kafkalite.spark import decode
from kafkalite.spark.decode import SCHEMA, SCHEMA_WITH_HEADERS, BatchError, Decoder
from kafkalite.spark.source import read_schema
from tests.record.samples import expected_records, kafka_bytes

END = 1 << 62
Row = tuple[int, int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]


def read(
    data: bytes,
    first: int = 0,
    stop: int = END,
    *,
    aborted: list[tuple[int, int]] | None = None,
    check_crcs: bool = True,
) -> list[Row]:
    """Offset, timestamp (milliseconds), its type, key, value, headers."""
    decoder = Decoder("topic", 7, include_headers=True, check_crcs=check_crcs)
    view = memoryview(bytearray(data))
    rows: list[Row] = []
    for batch in decoder.decode(view, iter_headers(view), aborted, first, stop):
        batch.validate(full=True)
        columns = batch.to_pydict()
        assert set(columns["topic"]) == {"topic"}
        assert set(columns["partition"]) == {7}
        times = batch.column("timestamp").cast("int64").to_pylist()
        for number in range(batch.num_rows):
            headers = columns["headers"][number]
            rows.append(
                (
                    columns["offset"][number],
                    times[number] // 1000,
                    columns["timestampType"][number],
                    columns["key"][number],
                    columns["value"][number],
                    None if headers is None else [(pair["key"], pair["value"]) for pair in headers],
                )
            )
        view[:0] = b""
    return rows


def rows_of(records: Sequence[Record], kind: int = 0) -> list[Row]:
    return [
        (record.offset, record.timestamp, kind, record.key, record.value, list(record.headers) or None)
        for record in records
    ]


def many(count: int, seed: int = 1) -> list[Record]:
    """Records of all sizes, with holes in their offsets."""
    rng = random.Random(seed)
    offset = 0
    records = []
    for number in range(count):
        offset += rng.choice((1, 1, 1, 2, 70_000))
        some = rng.choice((None, b"", b"k", rng.randbytes(100)))
        value = rng.choice((None, b"", b"value" * rng.randrange(50), rng.randbytes(rng.choice((63, 64, 9000)))))
        headers = tuple(
            (rng.choice(("", "name", "ключ")), rng.choice((None, b"", b"x" * 200)))
            for _ in range(rng.choice((0, 0, 1, 3)))
        )
        records.append(Record(offset, 1_700_000_000_000 + rng.choice((number, -number * 99_999)), some, value, headers))
    return records


def test_columns_are_what_spark_expects() -> None:
    assert to_arrow_schema(read_schema(False), timezone="UTC").equals(SCHEMA)
    assert to_arrow_schema(read_schema(True), timezone="UTC").equals(SCHEMA_WITH_HEADERS)


@pytest.mark.parametrize("codec", range(5), ids=("none", "gzip", "snappy", "lz4", "zstd"))
def test_every_codec(codec: int) -> None:
    records = many(300)
    data = b"".join(encode_batch(records[at : at + 70], codec=codec) for at in range(0, 300, 70))
    assert read(data) == rows_of(records)


@pytest.mark.parametrize(("magic", "codec", "kind"), sorted(kafka_bytes()))
def test_batches_of_real_kafka_are_decoded(magic: int, codec: int, kind: int) -> None:
    data = kafka_bytes()[magic, codec, kind]
    assert read(data) == rows_of(expected_records(magic, kind), kind if magic else -1)


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_cut_to_the_range(magic: int, codec: int) -> None:
    records = [Record(offset, -1 if magic == 0 else 5, b"k", b"%d" % offset) for offset in range(10, 20)]
    data = encode_message_set(records, magic, codec=codec)
    assert [row[0] for row in read(data, 12, 15)] == [12, 13, 14]


def test_the_range_is_cut_at_both_ends() -> None:
    records = many(200)
    data = b"".join(encode_batch(records[at : at + 50]) for at in range(0, 200, 50))
    first, stop = records[60].offset, records[140].offset
    assert read(data, first, stop) == rows_of(records[60:140])
    assert read(data, first + 1, first + 1) == []
    assert read(data, records[-1].offset + 1) == []


def test_log_append_time_is_everyones() -> None:
    records = [Record(at, 1000 + at, None, b"v") for at in range(3)]
    data = encode_batch(records, timestamp_type=1, log_append_time=77)
    assert [row[1:3] for row in read(data)] == [(77, 1)] * 3
    mixed = data + encode_batch([Record(5, 1, None, b"v")])
    assert [row[1:3] for row in read(mixed)] == [(77, 1)] * 3 + [(1, 0)]


def test_times_before_and_after_a_delete_horizon() -> None:
    records = [Record(0, 5000, b"a", None), Record(1, 4000, b"b", None)]
    assert [row[1] for row in read(encode_batch(records, delete_horizon_ms=9000))] == [5000, 4000]


def transaction(producer: int, offset: int, values: Sequence[bytes]) -> bytes:
    records = [Record(offset + at, 1, None, value) for at, value in enumerate(values)]
    return encode_batch(records, producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True)


def marker(producer: int, offset: int, *, commit: bool) -> bytes:
    data = bytearray(encode_marker(producer, 0, commit=commit, coordinator_epoch=0, timestamp_ms=1))
    struct.pack_into(">q", data, 0, offset)
    return bytes(data)


def test_transactions() -> None:
    data = b"".join(
        (
            transaction(1, 0, [b"lost"]),
            transaction(2, 1, [b"kept"]),
            encode_batch([Record(2, 1, None, b"plain")]),
            marker(1, 3, commit=False),
            transaction(1, 4, [b"again"]),
            marker(2, 5, commit=True),
            marker(1, 6, commit=True),
            transaction(2, 7, [b"lost"]),
            marker(2, 8, commit=False),
        )
    )
    committed = [(offset, value) for offset, _, _, _, value, _ in read(data, aborted=[(2, 7), (1, 0)])]
    assert committed == [(1, b"kept"), (2, b"plain"), (4, b"again")]
    everything = [row[0] for row in read(data)]
    assert everything == [0, 1, 2, 4, 7], "read_uncommitted sees all but the markers"


def test_full_chunks_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "CHUNK_BYTES", 100)
    records = [Record(at, 1, None, b"v" * 60) for at in range(10)]
    data = b"".join(encode_batch([record]) for record in records)
    view = memoryview(data)
    batches = list(Decoder("t", 0).decode(view, iter_headers(view), None, 0, END))
    assert [batch.num_rows for batch in batches] == [2, 2, 2, 2, 2]
    assert read(data) == rows_of(records)


def test_yielded_columns_outlive_the_bytes() -> None:
    data = bytearray(encode_batch([Record(0, 1, b"key", b"value", (("h", b"x"),))]))
    view = memoryview(data)
    (batch,) = Decoder("t", 0, include_headers=True).decode(view, iter_headers(view), None, 0, END)
    data[:] = bytes(len(data))
    (row,) = batch.to_pylist()
    assert (row["key"], row["value"], row["headers"]) == (b"key", b"value", [{"key": "h", "value": b"x"}])


def test_columns_keep_no_more_than_their_bytes() -> None:
    view = memoryview(encode_batch([Record(at, 0, None, bytes(10_000)) for at in range(100)]))
    gc.collect()
    before = pa.total_allocated_bytes()
    (batch,) = Decoder("t", 0).decode(view, iter_headers(view), None, 0, END)
    size = batch.column("value").nbytes
    assert size <= pa.total_allocated_bytes() - before < 1.1 * size, "nothing is kept for keys that are not there"


def test_decompressed_records_are_released_before_the_caller_works(monkeypatch: pytest.MonkeyPatch) -> None:
    unfolded: list[weakref.ref[Any]] = []

    def remembered(*arguments: Any) -> Any:
        found = np.frombuffer(decompress(*arguments), np.uint8)
        unfolded.append(weakref.ref(found))
        return found

    monkeypatch.setattr(decode, "CHUNK_BYTES", 100)
    monkeypatch.setattr(decode, "decompress", remembered)
    view = memoryview(b"".join(encode_batch([Record(at, 0, None, bytes(200))], codec=ZSTD) for at in range(2)))
    batches = Decoder("t", 0).decode(view, iter_headers(view), None, 0, END)
    next(batches)
    first, second = unfolded
    assert first() is None
    assert second() is not None, "the batch that comes next"


def test_a_flipped_bit_is_named_with_its_place() -> None:
    data = bytearray(encode_batch(many(5)))
    data[-3] ^= 1
    with pytest.raises(BatchError, match=r"topic topic, partition 7: the record batch at offset \d+ .*stored crc"):
        read(bytes(data))


@pytest.mark.parametrize("codec", [0, 4])
def test_no_bytes_are_read_beyond_a_batch(codec: int) -> None:
    """Any changed bytes (under a new CRC) give an error or records, never a crash."""
    rng = random.Random(5)
    records = [Record(at, at, b"k" * (at % 3), b"v" * (at % 5), (("h", b"x"),) * (at % 2)) for at in range(20)]
    good = encode_batch(records, codec=codec)
    refused = 0
    for _ in range(400):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(57, len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
        try:
            read(bytes(data))
        except BatchError:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize("count", [0, 1, 3, 1 << 30, -1])
def test_a_wrong_count_of_records(count: int) -> None:
    data = bytearray(encode_batch([Record(0, 1, None, b"a"), Record(1, 1, None, b"b")]))
    struct.pack_into(">i", data, 57, count)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    with pytest.raises(BatchError, match="at offset 0"):
        read(bytes(data))


def test_unknown_codec() -> None:
    data = bytearray(encode_batch([Record(0, 1, None, b"a")]))
    data[22] |= 5
    with pytest.raises(BatchError, match="compression 5"):
        read(bytes(data), check_crcs=False)


def test_a_header_name_that_is_no_text() -> None:
    data = bytearray(encode_batch([Record(0, 1, None, b"a", (("name", b""),))]))
    data[data.index(b"name")] = 0xFF
    with pytest.raises(BatchError, match="not UTF-8"):
        read(bytes(data), check_crcs=False)
