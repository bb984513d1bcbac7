"""Arrow columns as record batches: held to the writer of batches that makes one object of each record."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kafkalite.record.batch import check_crc, iter_headers
from kafkalite.record.compression import CODECS
from kafkalite.record.records import Record, encode_batch, iter_records
from kafkalite.spark import encode_kernels
from kafkalite.spark.columns import Columns, frozen, read_columns
from kafkalite.spark.encode import EncodeError, OpenBatch, Stamp

NOW = 1_700_000_000_000
NOBODY = Stamp()
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
Headers = list[tuple[str, bytes | None]] | None


def in_order(rows: int) -> Any:
    return np.arange(rows, dtype=np.int64)


def make_records(seed: int, count: int) -> list[Record]:
    rng = random.Random(seed)

    def some(size: int) -> bytes | None:
        return None if rng.random() < 0.2 else rng.randbytes(rng.randrange(size))

    return [
        Record(
            at,
            NOW + rng.randrange(-1000, 100_000),
            some(200),
            some(9000),
            [(rng.choice(("", "n", "é" * 40)), some(100)) for _ in range(rng.choice((0, 0, 1, 3)))],
        )
        for at in range(count)
    ]


def to_arrow(records: list[Record], *, padding: int = 0, large: bool = False) -> Any:
    """The records as columns; with ``padding`` they are the middle of longer ones."""
    pad = [Record(0, 5, b"pad", b"pad", [("pad", b"pad")])] * padding
    rows = [*pad, *records, *pad]
    kind = pa.large_binary() if large else pa.binary()
    headers: list[Headers] = [list(row.headers) if row.headers or at % 2 else None for at, row in enumerate(rows)]
    whole = pa.record_batch(
        {
            "key": pa.array([row.key for row in rows], kind),
            "value": pa.array([row.value for row in rows], kind),
            "headers": pa.array(headers, HEADERS),
            "timestamp": pa.array([row.timestamp * 1000 for row in rows], pa.timestamp("us", tz="UTC")),
        }
    )
    return whole.slice(padding, len(records))


def columns_of(**columns: Any) -> Columns:
    return read_columns(pa.record_batch(columns), "t", NOW)


def seal_all(columns: Columns, limit: int, codec: int = 0, stamp: Stamp = NOBODY) -> list[bytes]:
    batch = OpenBatch(limit)
    order = in_order(columns.rows)
    sealed, first = [], 0
    while (first := batch.append(columns, order, first, columns.rows)) < columns.rows:
        sealed.append(bytes(batch.seal(codec, stamp)))
    if batch.count:
        sealed.append(bytes(batch.seal(codec, stamp)))
    return sealed


def read_all(batches: list[bytes]) -> list[Record]:
    found = []
    for data in batches:
        ((pos, header),) = iter_headers(memoryview(data))
        assert check_crc(memoryview(data), pos, header)
        found += list(iter_records(data, header, pos))
    return found


@pytest.mark.parametrize("codec", sorted(set(CODECS.values())))
@pytest.mark.parametrize("padding", [0, 3])
def test_the_bytes_are_those_of_the_other_writer(codec: int, padding: int) -> None:
    records = make_records(codec, 60)
    columns = read_columns(to_arrow(records, padding=padding), "t", NOW)
    stamp = Stamp(producer_id=7, producer_epoch=2, base_sequence=2_147_483_640, transactional=True)
    (found,) = seal_all(columns, 1 << 24, codec, stamp)
    assert found == encode_batch(
        records,
        codec=codec,
        producer_id=7,
        producer_epoch=2,
        base_sequence=2_147_483_640,
        is_transactional=True,
    )


def test_large_columns_and_texts() -> None:
    records = make_records(11, 20)
    assert seal_all(read_columns(to_arrow(records, large=True), "t", NOW), 1 << 24) == [encode_batch(records)]
    columns = columns_of(key=pa.array(["é", None]), value=pa.array(["a", "b"], pa.large_string()))
    assert [(each.key, each.value, each.timestamp) for each in read_all(seal_all(columns, 1 << 20))] == [
        ("é".encode(), b"a", NOW),
        (None, b"b", NOW),
    ]


def test_batches_stay_below_their_limit() -> None:
    records = make_records(5, 300)
    limit = 4096
    batches = seal_all(read_columns(to_arrow(records), "t", NOW), limit)
    assert len(batches) > 10
    assert [(each[2:4], *each.headers) for each in read_all(batches)] == [
        (each[2:4], *each.headers) for each in records
    ]
    assert [each.timestamp for each in read_all(batches)] == [each.timestamp for each in records]
    for data in batches:
        assert len(data) <= limit or len(read_all([data])) == 1


def test_rows_of_several_arrow_batches_share_one() -> None:
    batch = OpenBatch(1 << 20)
    for key in (b"a", b"b"):
        columns = columns_of(key=pa.array([key]), value=pa.array([None], pa.binary()))
        assert batch.append(columns, in_order(1), 0, 1) == 1
    assert [(each.key, each.value) for each in read_all([bytes(batch.seal(0, Stamp()))])] == [
        (b"a", None),
        (b"b", None),
    ]
    assert (batch.count, batch.size) == (0, 61)


def test_only_the_rows_that_are_named() -> None:
    columns = columns_of(value=pa.array([b"%d" % at for at in range(6)]))
    batch = OpenBatch(1 << 20)
    order = np.array([9, 5, 0, 3, 9], np.int64)
    assert batch.append(columns, order, 1, 4) == 4
    assert [each.value for each in read_all([bytes(batch.seal(0, Stamp()))])] == [b"5", b"0", b"3"]


def test_a_header_without_a_name() -> None:
    headers = pa.array([[("a", b"x")], [("b", None), (None, b"x")]], HEADERS)
    columns = columns_of(value=pa.array([b"1", b"2"]), headers=headers)
    with pytest.raises(EncodeError, match="Null header keys") as caught:
        OpenBatch(1000).append(columns, in_order(2), 0, 2)
    assert caught.value.row == 1


def test_a_null_timestamp_is_now() -> None:
    times = pa.array([None, 5_000], pa.timestamp("us"))
    (only,) = seal_all(columns_of(value=pa.array([b"1", b"2"]), timestamp=times), 1000)
    assert [each.timestamp for each in read_all([only])] == [NOW, 5]
    (single,) = seal_all(columns_of(value=pa.array([b"1"]), timestamp=times.slice(1)), 1000)
    assert [each.timestamp for each in read_all([single])] == [5]


def test_one_machine_code_for_all_kinds_of_columns() -> None:
    """Each kind of array would cost a task seconds of compiling."""
    for kind in (pa.binary(), pa.string(), pa.large_string()):
        for values in (["a", None], ["a", "b"], []):
            columns = columns_of(key=pa.array(values, kind), value=pa.array(values, kind))
            seal_all(columns, 1000)
            seal_all(read_columns(to_arrow(make_records(1, 3), padding=1), "t", NOW), 1000)
    assert len(encode_kernels.fill.signatures) == 1  # type: ignore[attr-defined]
    assert not frozen(np.zeros(1)).flags.writeable
