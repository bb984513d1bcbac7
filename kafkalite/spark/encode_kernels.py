"""Assigns rows to partitions and encodes them as records, as machine code.

Answers to: ``org.apache.kafka.common.record.DefaultRecord.writeTo``, ``utils.Utils.murmur2`` and
``clients.producer.internals.BuiltInPartitioner``. Pure.

A column of bytes is three arrays: the ends of rows (one more than rows), the bytes, and one byte a row that is 0 for a
null; the last array is empty if there is no null.
"""

from __future__ import annotations

import numpy as np

from kafkalite.spark.compiled import Ints, Longs, Number, Octets, compiled
from kafkalite.spark.kernels import _copy

STICKY_TOPIC_FIELDS = 2
SLOT, BYTES = range(STICKY_TOPIC_FIELDS)
"""State of the sticky partitioner for a topic: its present slot (-1: none yet), and the bytes assigned to it."""
CHANCE, BAD_ROW, WHAT, ASSIGN_STATES = range(4)
"""Fields of the state of :func:`assign`: random state, the row that could not be assigned (-1: none), the reason."""
NO_TOPIC, NO_PARTITION, NEGATIVE = range(1, 4)
"""Why a row cannot be assigned."""
POSITION, COUNT, BASE_TIME, MAX_TIME, NEEDED, FILL_STATES = range(6)
"""Fields of the state of a batch; ``NEEDED``: bytes of a record that has no room in the array."""
NULL_NAME = -2
"""Result of :func:`fill` if a header has no name."""


@compiled()
def murmur2(data: Octets, start: Number, end: Number) -> np.uint64:
    """Kafka's hash of ``data[start:end]``, as an unsigned number of 32 bits."""
    length = end - start
    mask = np.uint64(0xFFFFFFFF)
    m = np.uint64(0x5BD1E995)
    h = np.uint64(0x9747B28C) ^ np.uint64(length)
    pos = start
    for _ in range(length // 4):
        k = (
            np.uint64(data[pos])
            | np.uint64(data[pos + 1]) << np.uint64(8)
            | np.uint64(data[pos + 2]) << np.uint64(16)
            | np.uint64(data[pos + 3]) << np.uint64(24)
        )
        k = (k * m) & mask
        k ^= k >> np.uint64(24)
        k = (k * m) & mask
        h = ((h * m) & mask) ^ k
        pos += 4
    left = length % 4
    if left == 3:
        h ^= np.uint64(data[pos + 2]) << np.uint64(16)
    if left >= 2:
        h ^= np.uint64(data[pos + 1]) << np.uint64(8)
    if left >= 1:
        h ^= np.uint64(data[pos])
        h = (h * m) & mask
    h ^= h >> np.uint64(13)
    h = (h * m) & mask
    h ^= h >> np.uint64(15)
    return h


@compiled()
def _next_slot(
    topic: Number, usable_at: Longs, usable: Longs, round_robin: bool, sticky: Longs, state: Longs
) -> np.int64:
    """The next slot of ``topic``: the following one (round robin), or a random other one."""
    first = usable_at[topic]
    count = usable_at[topic + 1] - first
    if round_robin:
        at = sticky[topic, BYTES]
        sticky[topic, BYTES] = (at + 1) % count
        return np.int64(usable[first + at % count])
    chosen = np.int64(usable[first])
    for _ in range(8):
        # xorshift: good enough to spread load, and the same on all machines.
        x = np.uint64(state[CHANCE])
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
        state[CHANCE] = np.int64(x)
        chosen = np.int64(usable[first + np.int64(x >> np.uint64(33)) % count])
        if count == 1 or chosen != sticky[topic, SLOT]:
            break
    return chosen


@compiled()
def assign(
    topics: Longs,
    slots_at: Longs,
    usable_at: Longs,
    usable: Longs,
    explicit: Ints,
    explicit_valid: Octets,
    key_ends: Ints,
    keys: Octets,
    key_valid: Octets,
    value_ends: Ints,
    with_keys: bool,
    round_robin: bool,
    sticky_bytes: int,
    sticky: Longs,
    state: Longs,
    slots: Longs,
) -> None:
    """Fill ``slots``, one for each row: the partitions of all topics, numbered one topic after the other.

    ``topics`` is each row's topic (-1: null; empty: all have the first); topic t has slots ``slots_at[t]`` to before
    ``slots_at[t + 1]``, of which ``usable`` from ``usable_at[t]`` on have a leader. ``explicit`` is empty where no
    partitions are given. A row goes where it says, else by its key (``with_keys``), else in turn or sticking to a
    partition for ``sticky_bytes`` bytes.
    """
    with_topics = len(topics) > 0
    with_explicit = len(explicit) > 0
    all_explicit = len(explicit_valid) == 0
    all_keys = len(key_valid) == 0
    topic = np.int64(0)
    for row in range(len(slots)):
        if with_topics:
            topic = np.int64(topics[row])
            if topic < 0:
                state[BAD_ROW], state[WHAT] = row, NO_TOPIC
                return
        first = slots_at[topic]
        count = slots_at[topic + 1] - first
        if with_explicit and (all_explicit or explicit_valid[row]):
            number = np.int64(explicit[row])
            if number < 0 or number >= count:
                state[BAD_ROW], state[WHAT] = row, NEGATIVE if number < 0 else NO_PARTITION
                return
            slots[row] = first + number
            continue
        if round_robin:
            slots[row] = _next_slot(topic, usable_at, usable, True, sticky, state)
            continue
        if with_keys and (all_keys or key_valid[row]):
            hashed = murmur2(keys, key_ends[row], key_ends[row + 1])
            slots[row] = first + np.int64(hashed & np.uint64(0x7FFFFFFF)) % count
            continue
        if sticky[topic, SLOT] < 0 or sticky[topic, BYTES] >= sticky_bytes:
            sticky[topic, SLOT] = _next_slot(topic, usable_at, usable, False, sticky, state)
            sticky[topic, BYTES] = 0
        slots[row] = sticky[topic, SLOT]
        sticky[topic, BYTES] += value_ends[row + 1] - value_ends[row] + key_ends[row + 1] - key_ends[row]


@compiled()
def group(slots: Longs, starts: Longs, order: Longs) -> None:
    """Fill ``order`` with the rows by slot, in each slot as they came; those of slot s begin at ``starts[s]``."""
    starts[:] = 0
    for row in range(len(slots)):
        starts[slots[row] + 1] += 1
    for slot in range(1, len(starts)):
        starts[slot] += starts[slot - 1]
    for row in range(len(slots)):
        at = starts[slots[row]]
        order[at] = row
        starts[slots[row]] = at + 1
    for slot in range(len(starts) - 1, 0, -1):
        starts[slot] = starts[slot - 1]
    starts[0] = 0


@compiled()
def _size_of(number: Number) -> Number:
    """Bytes of ``number`` as a zig-zag varint."""
    left = (np.uint64(number) << np.uint64(1)) ^ np.uint64(number >> 63)
    size = 1
    while left >= np.uint64(0x80):
        left >>= np.uint64(7)
        size += 1
    return size


@compiled()
def _put(out: Octets, at: Number, number: Number) -> Number:
    """Write ``number`` as a zig-zag varint; the position after it."""
    left = (np.uint64(number) << np.uint64(1)) ^ np.uint64(number >> 63)
    while left >= np.uint64(0x80):
        out[at] = np.uint8(left & np.uint64(0x7F)) | np.uint8(0x80)
        left >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(left)
    return at + 1


@compiled()
def fill(  # noqa: PLR0915  (each call from here would be a copy of its machine code)
    order: Longs,
    first: Number,
    last: Number,
    limit: Number,
    times: Longs,
    key_ends: Ints,
    keys: Octets,
    key_valid: Octets,
    value_ends: Ints,
    values: Octets,
    value_valid: Octets,
    list_ends: Ints,
    list_valid: Octets,
    name_ends: Ints,
    names: Octets,
    name_valid: Octets,
    content_ends: Ints,
    contents: Octets,
    content_valid: Octets,
    out: Octets,
    state: Longs,
) -> Number:
    """Append the rows ``order[first:last]`` as records to the batch in ``out``; where in ``order`` it ends.

    It ends early where the batch would pass ``limit`` bytes (one record may) or ``out`` is too short, which
    ``state[NEEDED]`` tells. ``times`` are milliseconds, one for each row or one for all; ``list_ends`` is empty where
    there are no headers. Returns :data:`NULL_NAME` where a header has no name, its place in ``state[NEEDED]``.
    """
    at = state[POSITION]
    count = state[COUNT]
    base_time = state[BASE_TIME]
    max_time = state[MAX_TIME]
    with_headers = len(list_ends) > 0
    place = first
    state[NEEDED] = 0
    while place < last:
        row = order[place]
        time = times[row] if len(times) > 1 else times[0]
        if count == 0:
            base_time = time
            max_time = time
        key_size = np.int64(-1)
        if len(key_ends) > 0 and (len(key_valid) == 0 or key_valid[row]):
            key_size = np.int64(key_ends[row + 1]) - key_ends[row]
        value_size = np.int64(-1)
        if len(value_valid) == 0 or value_valid[row]:
            value_size = np.int64(value_ends[row + 1]) - value_ends[row]
        header_first = np.int64(0)
        header_last = np.int64(0)
        if with_headers and (len(list_valid) == 0 or list_valid[row]):
            header_first = np.int64(list_ends[row])
            header_last = np.int64(list_ends[row + 1])
        headers = header_last - header_first
        size = np.int64(1) + _size_of(time - base_time) + _size_of(count) + _size_of(key_size) + _size_of(value_size)
        size += (key_size if key_size > 0 else 0) + (value_size if value_size > 0 else 0) + _size_of(headers)
        for header in range(header_first, header_last):
            if len(name_valid) > 0 and not name_valid[header]:
                state[NEEDED] = place
                return np.int64(NULL_NAME)
            name_size = np.int64(name_ends[header + 1]) - name_ends[header]
            content_size = np.int64(-1)
            if len(content_valid) == 0 or content_valid[header]:
                content_size = np.int64(content_ends[header + 1]) - content_ends[header]
            size += _size_of(name_size) + name_size + _size_of(content_size) + (content_size if content_size > 0 else 0)
        total = _size_of(size) + size
        if count > 0 and at + total > limit:
            break
        if at + total > len(out):
            state[NEEDED] = total
            break
        at = _put(out, at, size)
        out[at] = 0
        at = _put(out, at + 1, time - base_time)
        at = _put(out, at, count)
        at = _put(out, at, key_size)
        if key_size > 0:
            _copy(keys, np.int64(key_ends[row]), out, at, key_size)
            at += key_size
        at = _put(out, at, value_size)
        if value_size > 0:
            _copy(values, np.int64(value_ends[row]), out, at, value_size)
            at += value_size
        at = _put(out, at, headers)
        for header in range(header_first, header_last):
            name_size = np.int64(name_ends[header + 1]) - name_ends[header]
            at = _put(out, at, name_size)
            _copy(names, np.int64(name_ends[header]), out, at, name_size)
            at += name_size
            content_size = np.int64(-1)
            if len(content_valid) == 0 or content_valid[header]:
                content_size = np.int64(content_ends[header + 1]) - content_ends[header]
            at = _put(out, at, content_size)
            if content_size > 0:
                _copy(contents, np.int64(content_ends[header]), out, at, content_size)
                at += content_size
        max_time = max(max_time, time)
        count += 1
        place += 1
    state[POSITION] = at
    state[COUNT] = count
    state[BASE_TIME] = base_time
    state[MAX_TIME] = max_time
    return np.int64(place)
