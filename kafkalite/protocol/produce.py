"""Produce, both ways, all versions: the hot path, so by hand.

Answers to: ``org.apache.kafka.common.requests.{ProduceRequest,ProduceResponse}`` (0-11). Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.wire import (
    INT32,
    MALFORMED,
    NodeEndpoint,
    read_count,
    read_string,
    read_tags,
    read_text,
    read_uvarint,
    skip_tags,
    write_count,
    write_endpoints,
    write_string,
    write_tags,
)

T = TypeVar("T")

FLEXIBLE = 9
"""First version with compact lengths and tagged fields."""

_HEAD = struct.Struct(">hii")
_ACKS = struct.Struct(">hi")
_PARTITION = struct.Struct(">ii")
_RESULT_0 = struct.Struct(">ihq")
_RESULT_2 = struct.Struct(">ihqq")
_RESULT_5 = struct.Struct(">ihqqq")
_LEADER = struct.Struct(">ii")
_ONE = struct.Struct(">BihqqqBBBBiB")
"""All of a flexible response for one partition behind the topic's name: no errors of records, message or tags."""


@dataclass(slots=True, eq=False)
class ProduceRequest:
    """Records for partitions. ``timeout_ms`` bounds the wait for replicas where ``acks`` is -1."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: list[tuple[TopicPartition, memoryview]]


@dataclass(slots=True, eq=False)
class ProducePartitionResponse:
    """What became of one partition's records. ``current_leader`` is ``(id, epoch)`` where the client should look.

    ``record_errors`` are pairs (index in the batch, why) of the records for which the batch was refused.
    """

    topic: str
    partition: int
    error: ErrorCode | int = 0
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()


def decode_produce(version: int, body: memoryview) -> ProduceRequest:
    """The request in ``body``; records are views of it, empty where they were null. Raises :class:`ProtocolError`."""
    try:
        return _decode_flexible(body) if version >= FLEXIBLE else _decode_classic(version, body)
    except MALFORMED as error:
        raise ProtocolError(f"Produce v{version} cannot be decoded: {error}") from None


def _decode_classic(version: int, body: memoryview) -> ProduceRequest:
    transactional_id = None
    pos = 0
    if version >= 3:
        transactional_id, pos = read_string(body, 0, False)
    acks, timeout_ms, topics = _HEAD.unpack_from(body, pos)
    pos += 10
    end = len(body)
    partitions: list[tuple[TopicPartition, memoryview]] = []
    for _ in range(topics):
        topic, pos = read_text(body, pos, False)
        count = INT32.unpack_from(body, pos)[0]
        pos += 4
        for _ in range(count):
            index, size = _PARTITION.unpack_from(body, pos)
            pos += 8
            after = pos + size if size > 0 else pos
            if after > end:
                raise ProtocolError(f"Produce: records of {size} bytes run past the end")
            partitions.append((TopicPartition(topic, index), body[pos:after]))
            pos = after
    return ProduceRequest(transactional_id, acks, timeout_ms, partitions)


def _decode_flexible(body: memoryview) -> ProduceRequest:
    transactional_id, pos = read_string(body, 0, True)
    acks, timeout_ms = _ACKS.unpack_from(body, pos)
    topics, pos = read_uvarint(body, pos + 6)
    end = len(body)
    partitions: list[tuple[TopicPartition, memoryview]] = []
    for _ in range(topics - 1):
        size = body[pos]
        if 1 < size < 0x80:
            # What follows the name is read by position, so that a name which runs past the end does not stay unseen.
            after = pos + size
            topic = str(body[pos + 1 : after], "utf-8")
            pos = after
        else:
            topic, pos = read_text(body, pos, True)
        count, pos = read_uvarint(body, pos)
        for _ in range(count - 1):
            index = INT32.unpack_from(body, pos)[0]
            size, pos = read_uvarint(body, pos + 4)
            after = pos + size - 1 if size > 1 else pos
            if after > end:
                raise ProtocolError(f"Produce: records of {size - 1} bytes run past the end")
            partitions.append((TopicPartition(topic, index), body[pos:after]))
            # Without a call where there are no tags, because there hardly ever are any.
            pos = after + 1 if body[after] == 0 else skip_tags(body, after)
        pos = pos + 1 if body[pos] == 0 else skip_tags(body, pos)
    if body[pos]:
        skip_tags(body, pos)
    return ProduceRequest(transactional_id, acks, timeout_ms, partitions)


def encode_produce(version: int, request: ProduceRequest) -> list[bytes | memoryview]:
    """The body of a request, records not copied; partitions of one topic must stand together."""
    flexible = version >= FLEXIBLE
    topics = _by_topic(request.partitions, lambda entry: entry[0].topic)
    parts: list[bytes | memoryview] = []
    if version >= 3:
        parts.append(write_string(request.transactional_id, flexible))
    parts += (_ACKS.pack(request.acks, request.timeout_ms), write_count(len(topics), flexible))
    tags = b"\0" if flexible else b""
    for topic, entries in topics:
        parts += (write_string(topic, flexible), write_count(len(entries), flexible))
        for topic_partition, records in entries:
            parts += (INT32.pack(topic_partition.partition), write_count(len(records), flexible), records, tags)
        parts.append(tags)
    parts.append(tags)
    return parts


def encode_produce_response(
    version: int,
    partitions: list[ProducePartitionResponse],
    throttle: int = 0,
    node_endpoints: list[NodeEndpoint] | None = None,
) -> bytes:
    """The body of a response; partitions of one topic must stand together."""
    flexible = version >= FLEXIBLE
    if len(partitions) == 1:
        only = partitions[0]
        if (
            flexible
            and only.error_message is None
            and not (only.record_errors or only.current_leader or node_endpoints)
        ):
            return b"\2%b%b" % (
                write_string(only.topic, True),
                _ONE.pack(
                    2,
                    only.partition,
                    only.error,
                    only.base_offset,
                    only.log_append_time,
                    only.log_start_offset,
                    1,
                    0,
                    0,
                    0,
                    throttle,
                    0,
                ),
            )
        topics = [(only.topic, partitions)]
    else:
        topics = _by_topic(partitions, lambda entry: entry.topic)
    out = bytearray(write_count(len(topics), flexible))
    for topic, entries in topics:
        out += write_string(topic, flexible)
        out += write_count(len(entries), flexible)
        for entry in entries:
            _encode_partition(out, version, entry)
        if flexible:
            out.append(0)
    if version >= 1:
        out += INT32.pack(throttle)
    if flexible:
        out += write_tags({0: write_endpoints(node_endpoints)}) if node_endpoints and version >= 10 else b"\0"
    return bytes(out)


def _encode_partition(out: bytearray, version: int, entry: ProducePartitionResponse) -> None:
    if version >= 5:
        out += _RESULT_5.pack(
            entry.partition, entry.error, entry.base_offset, entry.log_append_time, entry.log_start_offset
        )
    elif version >= 2:
        out += _RESULT_2.pack(entry.partition, entry.error, entry.base_offset, entry.log_append_time)
    else:
        out += _RESULT_0.pack(entry.partition, entry.error, entry.base_offset)
    if version >= 8:
        flexible = version >= FLEXIBLE
        out += write_count(len(entry.record_errors), flexible)
        for index, text in entry.record_errors:
            out += INT32.pack(index) + write_string(text, flexible)
            if flexible:
                out.append(0)
        out += write_string(entry.error_message, flexible)
        if flexible:
            if entry.current_leader is not None and version >= 10:
                out += write_tags({0: _LEADER.pack(*entry.current_leader) + b"\0"})
            else:
                out.append(0)


def decode_produce_response(version: int, body: memoryview) -> list[ProducePartitionResponse]:
    """The response in ``body``. Raises :class:`ProtocolError`."""
    flexible = version >= FLEXIBLE
    partitions: list[ProducePartitionResponse] = []
    try:
        topics, pos = read_count(body, 0, flexible)
        for _ in range(topics):
            topic, pos = read_text(body, pos, flexible)
            count, pos = read_count(body, pos, flexible)
            for _ in range(count):
                entry, pos = _decode_partition(version, topic, body, pos)
                partitions.append(entry)
            if flexible:
                pos = skip_tags(body, pos)
        if flexible:
            skip_tags(body, pos + 4)
    except MALFORMED as error:
        raise ProtocolError(f"Produce v{version} response cannot be decoded: {error}") from None
    return partitions


def _decode_partition(version: int, topic: str, body: memoryview, pos: int) -> tuple[ProducePartitionResponse, int]:
    layout = _RESULT_5 if version >= 5 else _RESULT_2 if version >= 2 else _RESULT_0
    entry = ProducePartitionResponse(topic, *layout.unpack_from(body, pos))
    pos += layout.size
    flexible = version >= FLEXIBLE
    if version >= 8:
        errors, pos = read_count(body, pos, flexible)
        record_errors: list[tuple[int, str | None]] = []
        for _ in range(errors):
            index = INT32.unpack_from(body, pos)[0]
            text, pos = read_string(body, pos + 4, flexible)
            record_errors.append((index, text))
            if flexible:
                pos = skip_tags(body, pos)
        entry.record_errors = record_errors
        entry.error_message, pos = read_string(body, pos, flexible)
    if flexible:
        tags, pos = read_tags(body, pos, (0,))
        if 0 in tags:
            entry.current_leader = _LEADER.unpack_from(tags[0])
    return entry, pos


def _by_topic(entries: list[T], topic_of: Callable[[T], str]) -> list[tuple[str, list[T]]]:
    groups: list[tuple[str, list[T]]] = []
    for entry in entries:
        topic = topic_of(entry)
        if not groups or groups[-1][0] != topic:
            groups.append((topic, []))
        groups[-1][1].append(entry)
    return groups
