"""Fetch as it is answered: values and the codec of the response, by hand for speed.

Answers to: ``org.apache.kafka.common.requests.FetchResponse`` (0-17). Pure. Requests: ``fetch.py``.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from itertools import groupby

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import ZERO_UUID, FileRegion, Part
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.wire import (
    INT32,
    MALFORMED,
    NodeEndpoint,
    read_count,
    read_tags,
    read_text,
    skip_tags,
    write_count,
    write_endpoints,
    write_string,
    write_tags,
    write_uvarint,
)

FLEXIBLE = 12
TOPIC_IDS = 13

_SESSION = struct.Struct(">hi")
_ABORTED = struct.Struct(">qq")
_RESULT_0 = struct.Struct(">ihq")
_RESULT_4 = struct.Struct(">ihqq")
_RESULT_5 = struct.Struct(">ihqqq")
_DIVERGING = struct.Struct(">iq")
_LEADER = struct.Struct(">ii")


@dataclass(slots=True, eq=False)
class FetchPartitionResponse:
    """What one partition answers. ``aborted`` are ``(producer id, first offset)``; -1 or ``None`` where not said.

    ``diverging_epoch`` is ``(epoch, end offset)``, ``current_leader`` is ``(id, epoch)``. In a decoded response
    ``records`` is a view of the body, and empty rather than ``None`` where there are none.
    """

    topic: str | None
    topic_id: uuid.UUID = ZERO_UUID
    partition: int = 0
    error: ErrorCode | int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: list[tuple[int, int]] | None = None
    preferred_read_replica: int = -1
    records: FileRegion | bytes | bytearray | memoryview | None = None
    diverging_epoch: tuple[int, int] | None = None
    current_leader: tuple[int, int] | None = None


@dataclass(slots=True, eq=False)
class FetchResponse:
    """A decoded answer: ``error`` and ``session_id`` for the whole (from version 7), then the partitions."""

    throttle_ms: int
    error: int
    session_id: int
    partitions: list[FetchPartitionResponse]


def encode_fetch_response(
    version: int,
    error: ErrorCode | int,
    session_id: int,
    partitions: list[FetchPartitionResponse],
    throttle: int = 0,
    node_endpoints: list[NodeEndpoint] | None = None,
) -> list[Part]:
    """The body of a response; records stay the parts that they are, and partitions of one topic must stand together.

    ``node_endpoints`` are where the leaders named in ``partitions`` are; from version 16 on.
    """
    flexible = version >= FLEXIBLE
    parts: list[Part] = []
    out = bytearray()
    if version >= 1:
        out += INT32.pack(throttle)
    if version >= 7:
        out += _SESSION.pack(error, session_id)
    topics = [(key, list(group)) for key, group in groupby(partitions, lambda p: (p.topic, p.topic_id))]
    out += write_count(len(topics), flexible)
    for (topic, topic_id), entries in topics:
        out += topic_id.bytes if version >= TOPIC_IDS else write_string(topic or "", flexible)
        out += write_count(len(entries), flexible)
        for entry in entries:
            records = entry.records
            size = 0 if records is None else len(records)
            _encode_head(out, version, entry, size)
            if records is not None and size:
                parts += (out, records)
                out = bytearray()
            if flexible:
                _encode_tags(out, entry)
        if flexible:
            out.append(0)
    if flexible:
        out += write_tags({0: write_endpoints(node_endpoints)}) if node_endpoints and version >= 16 else b"\0"
    if out:
        parts.append(out)
    return parts


def _encode_head(out: bytearray, version: int, p: FetchPartitionResponse, size: int) -> None:
    """All of a partition before its records, their length included."""
    if version < 4:
        out += _RESULT_0.pack(p.partition, p.error, p.high_watermark)
        out += INT32.pack(size)
        return
    if version == 4:
        out += _RESULT_4.pack(p.partition, p.error, p.high_watermark, p.last_stable_offset)
    else:
        out += _RESULT_5.pack(p.partition, p.error, p.high_watermark, p.last_stable_offset, p.log_start_offset)
    flexible = version >= FLEXIBLE
    aborted = p.aborted
    if aborted is None:
        out += write_count(-1, flexible)
    else:
        out += write_count(len(aborted), flexible)
        for transaction in aborted:
            out += _ABORTED.pack(*transaction)
            if flexible:
                out.append(0)
    if version >= 11:
        out += INT32.pack(p.preferred_read_replica)
    out += write_uvarint(size + 1) if flexible else INT32.pack(size)


def _encode_tags(out: bytearray, p: FetchPartitionResponse) -> None:
    if p.diverging_epoch is None and p.current_leader is None:
        out.append(0)
        return
    tags = {}
    if p.diverging_epoch is not None:
        tags[0] = _DIVERGING.pack(*p.diverging_epoch) + b"\0"
    if p.current_leader is not None:
        tags[1] = _LEADER.pack(*p.current_leader) + b"\0"
    out += write_tags(tags)


def decode_fetch_response(version: int, body: memoryview) -> FetchResponse:
    """The response in ``body``; records are views of it. Raises :class:`ProtocolError`."""
    try:
        return _decode(version, body)
    except MALFORMED as error:
        raise ProtocolError(f"Fetch v{version} response cannot be decoded: {error}") from None


def _decode(version: int, body: memoryview) -> FetchResponse:
    flexible = version >= FLEXIBLE
    throttle = error = session_id = pos = 0
    if version >= 1:
        throttle = INT32.unpack_from(body, 0)[0]
        pos = 4
    if version >= 7:
        error, session_id = _SESSION.unpack_from(body, pos)
        pos += 6
    partitions: list[FetchPartitionResponse] = []
    topics, pos = read_count(body, pos, flexible)
    for _ in range(topics):
        topic: str | None = None
        topic_id = ZERO_UUID
        if version >= TOPIC_IDS:
            topic_id = uuid.UUID(bytes=bytes(body[pos : pos + 16]))
            pos += 16
        else:
            topic, pos = read_text(body, pos, flexible)
        count, pos = read_count(body, pos, flexible)
        for _ in range(count):
            entry = FetchPartitionResponse(topic, topic_id)
            pos = _decode_partition(version, body, pos, entry)
            partitions.append(entry)
        if flexible:
            pos = skip_tags(body, pos)
    if flexible:
        skip_tags(body, pos)
    return FetchResponse(throttle, error, session_id, partitions)


def _decode_partition(version: int, body: memoryview, pos: int, p: FetchPartitionResponse) -> int:
    flexible = version >= FLEXIBLE
    if version >= 5:
        p.partition, p.error, p.high_watermark, p.last_stable_offset, p.log_start_offset = _RESULT_5.unpack_from(
            body, pos
        )
        pos += 30
    elif version == 4:
        p.partition, p.error, p.high_watermark, p.last_stable_offset = _RESULT_4.unpack_from(body, pos)
        pos += 22
    else:
        p.partition, p.error, p.high_watermark = _RESULT_0.unpack_from(body, pos)
        pos += 14
    if version >= 4:
        count, pos = read_count(body, pos, flexible)
        if count >= 0:
            p.aborted = []
        for _ in range(count):
            assert p.aborted is not None
            p.aborted.append(_ABORTED.unpack_from(body, pos))
            pos = skip_tags(body, pos + 16) if flexible else pos + 16
    if version >= 11:
        p.preferred_read_replica = INT32.unpack_from(body, pos)[0]
        pos += 4
    size, pos = read_count(body, pos, flexible)
    end = pos + max(size, 0)
    if end > len(body):
        raise ProtocolError(f"Fetch: records of {size} bytes run past the end")
    p.records = body[pos:end]
    if flexible:
        tags, end = read_tags(body, end, (0, 1))
        if 0 in tags:
            p.diverging_epoch = _DIVERGING.unpack_from(tags[0])
        if 1 in tags:
            p.current_leader = _LEADER.unpack_from(tags[1])
    return end
