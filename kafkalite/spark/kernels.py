"""Decodes the records of batches into columns, as machine code.

Answers to: ``org.apache.kafka.common.record.DefaultRecord`` and ``utils.ByteUtils.readVarint``. Pure.

Every position is checked before it is read, because lengths from a broker may be wrong.
"""

from __future__ import annotations

import numpy as np

from kafkalite.spark.compiled import Ints, Longs, Number, Octets, compiled

ROWS, KEY_END, VALUE_END, KEY_NULLS, VALUE_NULLS, ERROR_AT, HEADERS, NAME_END, CONTENT_END, STATES = range(10)
"""Fields of the array with the sizes of the columns so far, and the batch that is malformed (-1: none)."""
RUN_START, RUN_END, RUN_COUNT, RUN_OFFSET, RUN_TIME, RUN_APPEND, RUN_FIELDS = range(7)
"""Fields of a batch in the table of batches: start, end and number of its records, base offset and base timestamp, and
the log append time (:data:`OWN_TIME`: each record has its own)."""
OWN_TIME = -(1 << 63)
MIN_RECORD = 7
"""Bytes of the smallest record."""


@compiled()
def _varint(buf: Octets, pos: Number, end: Number) -> tuple[Number, Number]:
    """The zig-zag varint at ``pos`` and the position after it, or -1 if it does not end before ``end``."""
    value = np.int64(0)
    shift = np.int64(0)
    while pos < end and shift < 70:
        byte = np.int64(buf[pos])
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # The mask clears the sign bits that the shift has brought in, as of an unsigned number.
            return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), pos
        shift += 7
    return np.int64(0), np.int64(-1)


@compiled()
def _copy(source: Octets, pos: Number, target: Octets, at: Number, size: Number) -> None:
    """Copy ``size`` bytes."""
    take = source[pos : pos + size]
    give = target[at : at + size]
    for i in range(size):
        give[i] = take[i]


@compiled()
def read_records(  # noqa: PLR0915  (each call from here would be a copy of its machine code)
    buf: Octets,
    runs: Longs,
    count: int,
    first: Number,
    stop: int,
    offsets: Longs,
    times: Longs,
    key_ends: Ints,
    keys: Octets,
    key_valid: Octets,
    value_ends: Ints,
    values: Octets,
    value_valid: Octets,
    header_at: Longs,
    state: Longs,
) -> None:
    """Append the records of ``count`` batches (rows of ``runs``) with offsets from ``first`` to before ``stop``.

    Times are microseconds. ``header_at`` gets the position of each record's headers if its length is not zero.
    ``state[ERROR_AT]`` becomes the row of ``runs`` whose records are malformed, or stays -1.
    """
    row = state[ROWS]
    key_end = state[KEY_END]
    value_end = state[VALUE_END]
    key_nulls = state[KEY_NULLS]
    value_nulls = state[VALUE_NULLS]
    with_headers = len(header_at) > 0
    for run in range(count):
        pos = runs[run, RUN_START]
        end = runs[run, RUN_END]
        base_offset = runs[run, RUN_OFFSET]
        base_time = runs[run, RUN_TIME]
        append_time = runs[run, RUN_APPEND]
        bad = False
        for _ in range(runs[run, RUN_COUNT]):
            length, pos = _varint(buf, pos, end)
            if pos < 0 or length < 0 or length > end - pos:
                bad = True
                break
            next_pos = pos + length
            time_delta, pos = _varint(buf, pos + 1, next_pos)
            if pos < 0:
                bad = True
                break
            offset_delta, pos = _varint(buf, pos, next_pos)
            if pos < 0 or offset_delta < 0 or offset_delta > 0x7FFFFFFF:
                bad = True
                break
            offset = base_offset + offset_delta
            key_size, pos = _varint(buf, pos, next_pos)
            if pos < 0 or key_size > next_pos - pos:
                bad = True
                break
            key_pos = pos
            if key_size > 0:
                pos += key_size
            value_size, pos = _varint(buf, pos, next_pos)
            if pos < 0 or value_size > next_pos - pos:
                bad = True
                break
            value_pos = pos
            if value_size > 0:
                pos += value_size
            header_pos = pos
            headers, pos = _varint(buf, pos, next_pos)
            if pos < 0 or headers < 0 or headers * 2 > next_pos - pos or (headers == 0 and pos != next_pos):
                bad = True
                break
            pos = next_pos
            if offset < first or offset >= stop:
                continue
            offsets[row] = offset
            times[row] = (base_time + time_delta if append_time == OWN_TIME else append_time) * 1000
            if key_size >= 0:
                _copy(buf, key_pos, keys, key_end, key_size)
                key_end += key_size
                key_valid[row] = 1
            else:
                key_valid[row] = 0
                key_nulls += 1
            if value_size >= 0:
                _copy(buf, value_pos, values, value_end, value_size)
                value_end += value_size
                value_valid[row] = 1
            else:
                value_valid[row] = 0
                value_nulls += 1
            if with_headers:
                header_at[row, 0] = header_pos
                header_at[row, 1] = next_pos
            row += 1
            key_ends[row] = key_end
            value_ends[row] = value_end
        if bad or pos != end:
            state[ERROR_AT] = run
            break
    state[ROWS] = row
    state[KEY_END] = key_end
    state[VALUE_END] = value_end
    state[KEY_NULLS] = key_nulls
    state[VALUE_NULLS] = value_nulls


@compiled()
def count_headers(buf: Octets, header_at: Longs, first_row: Number, last_row: Number) -> tuple[Number, Number]:
    """The number of headers of records ``first_row`` to before ``last_row`` (-1 if they are malformed), and the most
    bytes that their names and values can have."""
    total = np.int64(0)
    size = np.int64(0)
    for row in range(first_row, last_row):
        pos, end = header_at[row, 0], header_at[row, 1]
        size += end - pos
        headers, pos = _varint(buf, pos, end)
        for _ in range(headers):
            name_size, pos = _varint(buf, pos, end)
            if pos < 0 or name_size < 0 or name_size > end - pos:
                return np.int64(-1), size
            value_size, pos = _varint(buf, pos + name_size, end)
            if pos < 0 or value_size > end - pos:
                return np.int64(-1), size
            if value_size > 0:
                pos += value_size
        if pos != end:
            return np.int64(-1), size
        total += headers
    return total, size


@compiled()
def read_headers(
    buf: Octets,
    header_at: Longs,
    first_row: Number,
    last_row: Number,
    list_ends: Ints,
    list_valid: Octets,
    name_ends: Ints,
    names: Octets,
    content_ends: Ints,
    contents: Octets,
    content_valid: Octets,
    state: Longs,
) -> None:
    """Append the headers of rows that :func:`count_headers` found good. No headers are a null, as in Spark's source."""
    total = state[HEADERS]
    name_end = state[NAME_END]
    content_end = state[CONTENT_END]
    for row in range(first_row, last_row):
        pos, end = header_at[row, 0], header_at[row, 1]
        headers, pos = _varint(buf, pos, end)
        list_valid[row] = 1 if headers > 0 else 0
        for _ in range(headers):
            size, pos = _varint(buf, pos, end)
            _copy(buf, pos, names, name_end, size)
            name_end += size
            size, pos = _varint(buf, pos + size, end)
            if size >= 0:
                _copy(buf, pos, contents, content_end, size)
                content_end += size
                pos += size
                content_valid[total] = 1
            else:
                content_valid[total] = 0
            total += 1
            name_ends[total] = name_end
            content_ends[total] = content_end
        list_ends[row + 1] = total
    state[HEADERS] = total
    state[NAME_END] = name_end
    state[CONTENT_END] = content_end


def warm_up() -> None:
    """Compile all machine code, or load it from its cache."""
    nothing = np.zeros(0, np.uint8)
    nothing.flags.writeable = False
    table, pairs = np.zeros((1, RUN_FIELDS), np.int64), np.zeros((0, 2), np.int64)
    numbers, state = np.zeros(STATES, np.int64), np.zeros(STATES, np.int64)
    ends, octets = np.zeros(STATES, np.int32), np.zeros(STATES, np.uint8)
    read_records(nothing, table, 0, 0, 0, numbers, numbers, ends, octets, octets, ends, octets, octets, pairs, state)
    count_headers(nothing, pairs, 0, 0)
    read_headers(nothing, pairs, 0, 0, ends, octets, ends, octets, ends, octets, octets, state)
