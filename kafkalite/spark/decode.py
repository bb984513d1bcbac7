"""Decodes record batches into Arrow columns, without a Python object for each record.

Answers to: ``org.apache.spark.sql.kafka010.KafkaRecordToRowConverter`` and
``org.apache.kafka.clients.consumer.internals.CompletedFetch``. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from kafkalite.common.errors import ApiError
from kafkalite.common.types import Buffer
from kafkalite.record.batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    ChecksumError,
    CorruptRecordError,
    check_crc,
    iter_headers,
)
from kafkalite.record.compression import decompress
from kafkalite.record.convert import up_convert
from kafkalite.record.records import read_varint
from kafkalite.spark import kernels
from kafkalite.spark.compiled import Ints, Longs, Octets

CHUNK_BYTES = 1 << 20
"""Bytes of records in an Arrow record batch: few enough for the processor's cache and for Spark's memory, and so many
that the cost of a batch itself does not matter."""
MAX_BATCH_BYTES = 1 << 30
"""Most bytes of a decompressed record batch."""
NO_TIMESTAMP_TYPE = -1
"""Spark's ``timestampType`` of records of magic 0."""

_HEADERS = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))
_FIELDS = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
]
SCHEMA = pa.schema(_FIELDS)
SCHEMA_WITH_HEADERS = pa.schema([*_FIELDS, pa.field("headers", _HEADERS)])


K = TypeVar("K", bound=np.generic)
_Array = np.ndarray[tuple[int, ...], np.dtype[K]]


class _Run(NamedTuple):
    """The decompressed records of one batch: in ``buffer`` from ``start`` to before ``end``."""

    buffer: Buffer
    start: int
    end: int
    header: BatchHeader


class BatchError(Exception):
    """Records that cannot be read. The text names the offset and the reason."""


class Decoder:
    """Decodes the records of one partition."""

    def __init__(self, topic: str, partition: int, *, include_headers: bool = False, check_crcs: bool = True) -> None:
        self.schema = SCHEMA_WITH_HEADERS if include_headers else SCHEMA
        self._topic = topic
        self._partition = partition
        self._include_headers = include_headers
        self._check_crcs = check_crcs
        self._constants: dict[int, tuple[pa.Array, pa.Array, pa.Array]] = {}

    def decode(
        self,
        records: memoryview,
        batches: Iterable[tuple[int, BatchHeader]],
        aborted: list[tuple[int, int]] | None,
        first: int,
        stop: int,
    ) -> Iterator[pa.RecordBatch]:
        """Arrow record batches of the records with offsets from ``first`` to before ``stop``, in order; control
        records are left out, and with ``aborted`` (producer id, first offset) those of aborted transactions.

        They are copies: ``records`` may be overwritten after the last one. Raises :class:`BatchError`.
        """
        runs: list[_Run] = []
        size = kind = 0
        for run, timestamp_type in self._runs(records, batches, aborted, first, stop):
            if runs and (size > CHUNK_BYTES or timestamp_type != kind):
                yield from self._columns(runs, kind, first, stop)
                size = 0
            runs.append(run)
            size += run.end - run.start
            kind = timestamp_type
        if runs:
            yield from self._columns(runs, kind, first, stop)

    def _runs(
        self,
        records: memoryview,
        batches: Iterable[tuple[int, BatchHeader]],
        aborted: list[tuple[int, int]] | None,
        first: int,
        stop: int,
    ) -> Iterator[tuple[_Run, int]]:
        """The wanted ones of ``batches``, decompressed, with their timestamp types."""
        visible = _visible(records, batches, aborted) if aborted is not None else batches
        for pos, header in visible:
            # Of magic 0 and 1 the header has the last offset of a wrapped message set, so only the end can be compared.
            if header.next_offset <= first or (header.magic == 2 and header.base_offset >= stop) or header.is_control:
                continue
            try:
                if self._check_crcs and not check_crc(records, pos, header):
                    raise ChecksumError(f"Record batch is corrupt (stored crc = {header.crc})")
                if header.magic == 2:
                    yield _unfold(records, pos, header), header.timestamp_type
                else:
                    kind = header.timestamp_type if header.magic else NO_TIMESTAMP_TYPE
                    modern = memoryview(up_convert(records[pos : pos + header.size]))
                    for at, found in iter_headers(modern):
                        yield _unfold(modern, at, found), kind
            except (CorruptRecordError, ApiError) as error:
                raise self._error(header, error) from error

    def _columns(self, runs: list[_Run], timestamp_type: int, first: int, stop: int) -> list[pa.RecordBatch]:
        """One record batch, or none. Empties ``runs``, to release decompressed records before the caller works."""
        rows = sum(run.header.record_count for run in runs)
        size = sum(run.end - run.start for run in runs)
        if rows * len(self._topic) > MAX_BATCH_BYTES:
            raise self._error(runs[-1].header, f"{rows} records are too many for one column")
        state = np.zeros(kernels.STATES, np.int64)
        state[kernels.ERROR_AT] = -1
        offsets, times = _space(rows, np.int64), _space(rows, np.int64)
        key_ends, value_ends = _space(rows + 1, np.int32), _space(rows + 1, np.int32)
        key_ends[0] = value_ends[0] = 0
        keys, values = _space(size, np.uint8), _space(size, np.uint8)
        key_valid, value_valid = np.empty(rows, np.uint8), np.empty(rows, np.uint8)
        header_at = np.empty((rows if self._include_headers else 0, 2), np.int64)
        headers = _Headers(rows, size) if self._include_headers else None
        for group in _groups(runs):
            buffer = _array(group[0].buffer)
            before = int(state[kernels.ROWS])
            kernels.read_records(
                buffer,
                _table(group),
                len(group),
                first,
                stop,
                offsets,
                times,
                key_ends,
                keys,
                key_valid,
                value_ends,
                values,
                value_valid,
                header_at,
                state,
            )
            wrong = int(state[kernels.ERROR_AT])
            if wrong >= 0:
                raise self._error(group[wrong].header, "its records are malformed")
            if headers is not None and not headers.append(buffer, header_at, before, int(state[kernels.ROWS])):
                raise self._error(group[0].header, "its record headers are malformed")
        begin = runs[0].header
        runs.clear()
        rows = int(state[kernels.ROWS])
        if not rows:
            return []
        topic, partition, kind = self._constant(timestamp_type, rows)
        arrays = [
            _binary(key_ends, keys, key_valid, rows, int(state[kernels.KEY_END]), int(state[kernels.KEY_NULLS])),
            _binary(
                value_ends, values, value_valid, rows, int(state[kernels.VALUE_END]), int(state[kernels.VALUE_NULLS])
            ),
            topic,
            partition,
            pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(offsets)], 0),
            pa.Array.from_buffers(pa.timestamp("us", tz="UTC"), rows, [None, pa.py_buffer(times)], 0),
            kind,
        ]
        if headers is not None:
            try:
                arrays.append(headers.array(rows))
            except pa.ArrowInvalid as error:
                raise self._error(begin, f"the name of a record header is not UTF-8: {error}") from None
        return [pa.RecordBatch.from_arrays(arrays, schema=self.schema)]

    def _constant(self, timestamp_type: int, rows: int) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Columns with the same value in every row: made once, then sliced."""
        found = self._constants.get(timestamp_type)
        if found is None or len(found[0]) < rows:
            room = rows + rows // 4
            found = self._constants[timestamp_type] = (
                _same_text(self._topic, room),
                _same_number(self._partition, room),
                _same_number(timestamp_type, room),
            )
        return found[0].slice(0, rows), found[1].slice(0, rows), found[2].slice(0, rows)

    def _error(self, header: BatchHeader, what: object) -> BatchError:
        return BatchError(
            f"topic {self._topic}, partition {self._partition}: the record batch at offset {header.base_offset} "
            f"(to {header.last_offset}) cannot be read: {what}"
        )


class _Headers:
    """Builds the column ``headers``. Its arrays grow with the number of headers."""

    def __init__(self, rows: int, size: int) -> None:
        self._list_ends = np.zeros(rows + 1, np.int32)
        self._list_valid = np.empty(rows, np.uint8)
        self._names = np.empty(size, np.uint8)
        self._contents = np.empty(size, np.uint8)
        self._name_ends: Ints = np.zeros(1, np.int32)
        self._content_ends: Ints = self._name_ends
        self._content_valid: Octets = np.empty(0, np.uint8)
        self._state = np.zeros(kernels.STATES, np.int64)

    def append(self, buffer: Octets, header_at: Longs, first_row: int, last_row: int) -> bool:
        """Append the headers of these rows. Returns false if they are malformed."""
        count, _ = kernels.count_headers(buffer, header_at, first_row, last_row)
        if count < 0:
            return False
        total = int(self._state[kernels.HEADERS]) + int(count)
        if total > len(self._content_valid):
            room = total + total // 2
            self._name_ends = _longer(self._name_ends, room + 1)
            self._content_ends = _longer(self._content_ends, room + 1)
            self._content_valid = _longer(self._content_valid, room)
        kernels.read_headers(
            buffer,
            header_at,
            first_row,
            last_row,
            self._list_ends,
            self._list_valid,
            self._name_ends,
            self._names,
            self._content_ends,
            self._contents,
            self._content_valid,
            self._state,
        )
        return True

    def array(self, rows: int) -> pa.Array:
        """The column. Raises ``ArrowInvalid`` for names that are not UTF-8."""
        total = int(self._state[kernels.HEADERS])
        name_end, content_end = int(self._state[kernels.NAME_END]), int(self._state[kernels.CONTENT_END])
        names = pa.Array.from_buffers(
            pa.string(), total, [None, pa.py_buffer(self._name_ends), pa.py_buffer(self._names[:name_end])], 0
        )
        names.validate(full=True)
        nulls = total - int(self._content_valid[:total].sum())
        contents = _binary(self._content_ends, self._contents, self._content_valid, total, content_end, nulls)
        pairs = pa.StructArray.from_arrays([names, contents], fields=list(_HEADERS.value_type))
        without = rows - int(self._list_valid[:rows].sum())
        return pa.Array.from_buffers(
            _HEADERS, rows, [_bits(self._list_valid, rows, without), pa.py_buffer(self._list_ends)], without, 0, [pairs]
        )


def _visible(
    records: memoryview, batches: Iterable[tuple[int, BatchHeader]], aborted: list[tuple[int, int]]
) -> Iterator[tuple[int, BatchHeader]]:
    """``batches`` without those of aborted transactions."""
    waiting = sorted(aborted, key=lambda entry: entry[1], reverse=True)
    producers: set[int] = set()
    for pos, header in batches:
        while waiting and waiting[-1][1] <= header.last_offset:
            producers.add(waiting.pop()[0])
        if header.is_control:
            if header.producer_id in producers and _is_abort(records, pos, header):
                producers.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in producers):
            yield pos, header


def _is_abort(records: memoryview, pos: int, header: BatchHeader) -> bool:
    """Whether the control batch at ``pos`` is an abort marker: the type follows the version in its record's key."""
    body = records[pos + HEADER_SIZE : pos + header.size]
    try:
        _, at = read_varint(body, 0)
        _, at = read_varint(body, at + 1)
        _, at = read_varint(body, at)
        size, at = read_varint(body, at)
        return size >= 4 and body[at + 2] == 0 and body[at + 3] == 0
    except IndexError:
        raise CorruptRecordError(f"the control batch at offset {header.base_offset} is cut short") from None


def _unfold(records: memoryview, pos: int, header: BatchHeader) -> _Run:
    if header.compression:
        body = decompress(header.compression, records[pos + HEADER_SIZE : pos + header.size], MAX_BATCH_BYTES)
        run = _Run(body, 0, len(body), header)
    else:
        run = _Run(records, pos + HEADER_SIZE, pos + header.size, header)
    if not 0 <= header.record_count * kernels.MIN_RECORD <= run.end - run.start:
        raise CorruptRecordError(f"{run.end - run.start} bytes cannot be {header.record_count} records")
    return run


def _groups(runs: list[_Run]) -> Iterator[list[_Run]]:
    """Runs in groups of the same buffer."""
    group: list[_Run] = []
    for run in runs:
        if group and group[0].buffer is not run.buffer:
            yield group
            group = []
        group.append(run)
    yield group


def _table(runs: list[_Run]) -> Longs:
    return np.array(
        [
            (
                start,
                end,
                header.record_count,
                header.base_offset,
                header.base_timestamp,
                header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else kernels.OWN_TIME,
            )
            for _, start, end, header in runs
        ],
        np.int64,
    )


def _array(buffer: Buffer) -> Octets:
    """``buffer`` as an array, read-only, because the kernels are compiled for one kind of array."""
    array = np.frombuffer(buffer, np.uint8)
    array.flags.writeable = False
    return array


def _space(count: int, kind: type[K]) -> _Array[K]:
    """An array to be filled, from Arrow's memory pool, which reuses the pages of earlier batches."""
    return np.frombuffer(pa.allocate_buffer(count * np.dtype(kind).itemsize), kind)


# Arrow's own functions for these import pandas: a quarter of a second, and 30 MB.
def _same_text(text: str, rows: int) -> pa.Array:
    data = text.encode()
    ends = np.arange(rows + 1, dtype=np.int32) * len(data)
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(ends), pa.py_buffer(data * rows)], 0)


def _same_number(number: int, rows: int) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(np.full(rows, number, np.int32))], 0)


def _longer(array: _Array[K], size: int) -> _Array[K]:
    longer = np.zeros(size, array.dtype)
    longer[: len(array)] = array
    return longer


def _bits(valid: Octets, rows: int, nulls: int) -> pa.Buffer | None:
    """Arrow's validity bitmap from one byte a row; ``None`` if there is no null."""
    return pa.py_buffer(np.packbits(valid[:rows], bitorder="little")) if nulls else None


def _binary(ends: Ints, data: Octets, valid: Octets, rows: int, size: int, nulls: int) -> pa.Array:
    # An empty column (of keys, for example) releases the memory that was allocated for it.
    content = pa.py_buffer(data[:size] if size else b"")
    return pa.Array.from_buffers(pa.binary(), rows, [_bits(valid, rows, nulls), pa.py_buffer(ends), content], nulls)
