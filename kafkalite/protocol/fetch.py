"""Fetch as a consumer or a follower asks: values and the codec of the request, by hand for speed.

Answers to: ``org.apache.kafka.common.requests.FetchRequest`` (0-17). Pure. Responses: ``fetch_response.py``.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from itertools import groupby

from kafkalite.common.types import ZERO_UUID
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.fetch_response import (
    FetchPartitionResponse,
    FetchResponse,
    decode_fetch_response,
    encode_fetch_response,
)
from kafkalite.protocol.wire import (
    INT32,
    MALFORMED,
    read_count,
    read_string,
    read_tags,
    read_text,
    skip_tags,
    write_count,
    write_string,
    write_tags,
)

__all__ = [
    "CONSUMER_REPLICA_ID",
    "FetchPartition",
    "FetchPartitionResponse",
    "FetchRequest",
    "FetchResponse",
    "ForgottenPartition",
    "decode_fetch",
    "decode_fetch_response",
    "encode_fetch_request",
    "encode_fetch_response",
]

FLEXIBLE = 12
TOPIC_IDS = 13
"""First version that names topics by id alone."""
REPLICA_STATE = 15
"""First version with the replica's id and epoch in a tagged field (KIP-903)."""

_WAIT = struct.Struct(">ii")
_SESSION = struct.Struct(">ii")
_REPLICA = struct.Struct(">iq")
_PARTITION_0 = struct.Struct(">iqi")
_PARTITION_5 = struct.Struct(">iqqi")
_PARTITION_9 = struct.Struct(">iiqqi")
_PARTITION_12 = struct.Struct(">iiqiqi")

CONSUMER_REPLICA_ID = -1
"""Replica id of a fetch that comes from a consumer."""


@dataclass(slots=True, eq=False)
class FetchPartition:
    """What one partition is asked for. ``topic`` is ``None`` from version 13 on, ``topic_id`` zero before."""

    topic: str | None
    topic_id: uuid.UUID
    partition: int
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    max_bytes: int = 1 << 20


ForgottenPartition = tuple[str | None, uuid.UUID, int]
"""Topic (or ``None``), topic id (or zero) and partition that leave a fetch session."""


@dataclass(slots=True, eq=False)
class FetchRequest:
    """A fetch. ``replica_id`` is -1 for consumers; ``session_epoch`` -1 means: no session."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    partitions: list[FetchPartition]
    forgotten: list[ForgottenPartition]
    rack_id: str = ""


def decode_fetch(version: int, body: memoryview) -> FetchRequest:
    """The request in ``body``. Raises :class:`ProtocolError`."""
    try:
        return _decode(version, body)
    except MALFORMED as error:
        raise ProtocolError(f"Fetch v{version} cannot be decoded: {error}") from None


def _decode(version: int, body: memoryview) -> FetchRequest:
    flexible = version >= FLEXIBLE
    pos = 0
    replica_id = CONSUMER_REPLICA_ID
    replica_epoch = -1
    if version < REPLICA_STATE:
        replica_id = INT32.unpack_from(body, 0)[0]
        pos = 4
    max_wait_ms, min_bytes = _WAIT.unpack_from(body, pos)
    pos += 8
    max_bytes = 0x7FFFFFFF
    isolation_level = session_id = 0
    session_epoch = -1
    if version >= 3:
        max_bytes = INT32.unpack_from(body, pos)[0]
        pos += 4
    if version >= 4:
        isolation_level = body[pos]
        pos += 1
    if version >= 7:
        session_id, session_epoch = _SESSION.unpack_from(body, pos)
        pos += 8
    partitions, pos = _decode_partitions(version, body, pos)
    forgotten: list[ForgottenPartition] = []
    if version >= 7:
        pos = _decode_forgotten(version, body, pos, forgotten)
    rack_id = ""
    if version >= 11:
        rack_id, pos = read_text(body, pos, flexible)
    if flexible and body[pos] != 0:
        tags, pos = read_tags(body, pos, (1,))
        if version >= REPLICA_STATE and 1 in tags:
            replica_id, replica_epoch = _REPLICA.unpack_from(tags[1])
    return FetchRequest(
        replica_id,
        replica_epoch,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        partitions,
        forgotten,
        rack_id,
    )


def _decode_partitions(version: int, body: memoryview, pos: int) -> tuple[list[FetchPartition], int]:
    flexible = version >= FLEXIBLE
    partitions: list[FetchPartition] = []
    topics, pos = read_count(body, pos, flexible)
    for _ in range(topics):
        topic, topic_id, pos = _read_topic(version, body, pos)
        count, pos = read_count(body, pos, flexible)
        for _ in range(count):
            epoch = last_epoch = log_start = -1
            if flexible:
                index, epoch, offset, last_epoch, log_start, size = _PARTITION_12.unpack_from(body, pos)
                pos = skip_tags(body, pos + 32)
            elif version >= 9:
                index, epoch, offset, log_start, size = _PARTITION_9.unpack_from(body, pos)
                pos += 28
            elif version >= 5:
                index, offset, log_start, size = _PARTITION_5.unpack_from(body, pos)
                pos += 24
            else:
                index, offset, size = _PARTITION_0.unpack_from(body, pos)
                pos += 16
            partitions.append(FetchPartition(topic, topic_id, index, epoch, offset, last_epoch, log_start, size))
        if flexible:
            pos = skip_tags(body, pos)
    return partitions, pos


def _decode_forgotten(version: int, body: memoryview, pos: int, forgotten: list[ForgottenPartition]) -> int:
    flexible = version >= FLEXIBLE
    topics, pos = read_count(body, pos, flexible)
    for _ in range(topics):
        topic, topic_id, pos = _read_topic(version, body, pos)
        count, pos = read_count(body, pos, flexible)
        for _ in range(count):
            forgotten.append((topic, topic_id, INT32.unpack_from(body, pos)[0]))
            pos += 4
        if flexible:
            pos = skip_tags(body, pos)
    return pos


def _read_topic(version: int, body: memoryview, pos: int) -> tuple[str | None, uuid.UUID, int]:
    if version >= TOPIC_IDS:
        return None, uuid.UUID(bytes=bytes(body[pos : pos + 16])), pos + 16
    topic, pos = read_string(body, pos, version >= FLEXIBLE)
    if topic is None:
        raise ProtocolError("Fetch: a topic's name is null")
    return topic, ZERO_UUID, pos


def encode_fetch_request(version: int, request: FetchRequest) -> bytes:
    """The body of a request; partitions of one topic must stand together."""
    flexible = version >= FLEXIBLE
    out = bytearray()
    if version < REPLICA_STATE:
        out += INT32.pack(request.replica_id)
    out += _WAIT.pack(request.max_wait_ms, request.min_bytes)
    if version >= 3:
        out += INT32.pack(request.max_bytes)
    if version >= 4:
        out.append(request.isolation_level)
    if version >= 7:
        out += _SESSION.pack(request.session_id, request.session_epoch)
    topics = [(key, list(group)) for key, group in groupby(request.partitions, lambda p: (p.topic, p.topic_id))]
    out += write_count(len(topics), flexible)
    for (topic, topic_id), partitions in topics:
        out += _write_topic(version, topic, topic_id)
        out += write_count(len(partitions), flexible)
        for partition in partitions:
            _encode_partition(out, version, partition)
        if flexible:
            out.append(0)
    if version >= 7:
        leaving = [(key, list(group)) for key, group in groupby(request.forgotten, lambda entry: entry[:2])]
        out += write_count(len(leaving), flexible)
        for (topic, topic_id), entries in leaving:
            out += _write_topic(version, topic, topic_id)
            out += write_count(len(entries), flexible)
            out += struct.pack(f">{len(entries)}i", *(entry[2] for entry in entries))
            if flexible:
                out.append(0)
    if version >= 11:
        out += write_string(request.rack_id, flexible)
    if version >= REPLICA_STATE and request.replica_id != CONSUMER_REPLICA_ID:
        out += write_tags({1: _REPLICA.pack(request.replica_id, request.replica_epoch) + b"\0"})
    elif flexible:
        out.append(0)
    return bytes(out)


def _encode_partition(out: bytearray, version: int, p: FetchPartition) -> None:
    if version >= FLEXIBLE:
        out += _PARTITION_12.pack(
            p.partition,
            p.current_leader_epoch,
            p.fetch_offset,
            p.last_fetched_epoch,
            p.log_start_offset,
            p.max_bytes,
        )
        out.append(0)
    elif version >= 9:
        out += _PARTITION_9.pack(p.partition, p.current_leader_epoch, p.fetch_offset, p.log_start_offset, p.max_bytes)
    elif version >= 5:
        out += _PARTITION_5.pack(p.partition, p.fetch_offset, p.log_start_offset, p.max_bytes)
    else:
        out += _PARTITION_0.pack(p.partition, p.fetch_offset, p.max_bytes)


def _write_topic(version: int, topic: str | None, topic_id: uuid.UUID) -> bytes:
    return topic_id.bytes if version >= TOPIC_IDS else write_string(topic or "", version >= FLEXIBLE)
