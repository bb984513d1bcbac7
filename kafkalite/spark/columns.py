"""The columns of a DataFrame that is written, as arrays of numbers.

Answers to: ``org.apache.spark.sql.kafka010.{KafkaRowWriter,KafkaWriter}``. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.spark.compiled import Array, Ints, Longs, Octets

A = TypeVar("A", bound=Array)


def frozen(array: A) -> A:
    """``array``, made read-only, because the kernels are compiled for one kind of array."""
    array.flags.writeable = False
    return array


NO_INTS: Longs = frozen(np.zeros(0, np.int64))
NO_ENDS: Ints = frozen(np.zeros(0, np.int32))
NO_BYTES: Octets = frozen(np.zeros(0, np.uint8))


@dataclass(frozen=True)
class Bytes:
    """A column of byte strings: row r is ``data[ends[r]:ends[r + 1]]`` if ``valid[r]``, otherwise null.

    An empty ``valid`` means no nulls, an empty ``ends`` only nulls.
    """

    ends: Ints
    data: Octets
    valid: Octets


NO_COLUMN = Bytes(NO_ENDS, NO_BYTES, NO_BYTES)


@dataclass(frozen=True)
class Columns:
    """``topics`` numbers the texts of ``topic_names`` (-1: null; empty: the first for all). ``list_ends`` says which
    ``names`` and ``contents`` are a row's headers. ``times`` are milliseconds, one for each row or one for all."""

    rows: int
    key: Bytes
    value: Bytes
    topics: Longs
    topic_names: list[str]
    partitions: Ints
    partition_valid: Octets
    list_ends: Ints
    list_valid: Octets
    names: Bytes
    contents: Bytes
    times: Longs


def read_columns(batch: pa.RecordBatch, topic: str | None, now_ms: int) -> Columns:
    """The columns of an Arrow record batch whose schema was checked; other columns are ignored."""
    rows = batch.num_rows
    names = batch.schema.names
    topics, topic_names = NO_INTS, [topic or ""]
    if topic is None:
        coded = batch.column("topic").dictionary_encode()
        topics = frozen(np.asarray(pc.fill_null(coded.indices, -1)).astype(np.int64))
        topic_names = coded.dictionary.to_pylist()
    partitions, partition_valid = NO_ENDS, NO_BYTES
    if "partition" in names:
        column = batch.column("partition")
        partitions = frozen(np.asarray(pc.fill_null(column, 0)))
        partition_valid = _valid(column)
    list_ends, list_valid, header_names, contents = NO_ENDS, NO_BYTES, NO_COLUMN, NO_COLUMN
    if "headers" in names:
        column = batch.column("headers")
        if pa.types.is_large_list(column.type):
            column = column.cast(pa.list_(column.type.value_field))
        list_ends, list_valid = frozen(np.asarray(column.offsets)), _valid(column)
        pairs = column.values
        header_names, contents = _bytes(pairs.field(0)), _bytes(pairs.field(1))
    return Columns(
        rows,
        _bytes(batch.column("key")) if "key" in names else NO_COLUMN,
        _bytes(batch.column("value")),
        topics,
        topic_names,
        partitions,
        partition_valid,
        list_ends,
        list_valid,
        header_names,
        contents,
        _times(batch, now_ms),
    )


def _times(batch: pa.RecordBatch, now_ms: int) -> Longs:
    if "timestamp" not in batch.schema.names:
        return frozen(np.array([now_ms], np.int64))
    times = batch.column("timestamp").cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    micros = np.asarray(pc.fill_null(times, now_ms * 1000))
    return frozen(micros // 1000)


def _valid(column: pa.Array) -> Octets:
    if not column.null_count:
        return NO_BYTES
    return frozen(column.is_valid().to_numpy(zero_copy_only=False).view(np.uint8))


def _bytes(column: pa.Array) -> Bytes:
    if not pa.types.is_binary(column.type):
        column = column.cast(pa.binary())
    _, ends, data = column.buffers()
    rows = len(column)
    if ends is None or not rows:
        return Bytes(frozen(np.zeros(rows + 1, np.int32)), NO_BYTES, _valid(column))
    ends = frozen(np.frombuffer(ends, np.int32)[column.offset : column.offset + rows + 1])
    return Bytes(ends, NO_BYTES if data is None else frozen(np.frombuffer(data, np.uint8)), _valid(column))
