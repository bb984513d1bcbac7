"""Kafka requests on plain sockets, which cost the client the least CPU."""

from __future__ import annotations

import socket
import struct
from typing import Any

from kafkalite.common.types import ZERO_UUID
from kafkalite.network.blocking_client import BlockingConnection
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_response, encode_request
from kafkalite.protocol.fetch import CONSUMER_REPLICA_ID, FetchPartition, FetchRequest, encode_fetch_request

CLIENT_ID = "bench"
PARTITION_BYTES = 1 << 20
"""``max.partition.fetch.bytes`` of Kafka's consumers."""
RESPONSE_BYTES = 50 << 20
"""``fetch.max.bytes`` of Kafka's consumers."""
FETCH_VERSION = 11
BATCH = struct.Struct(">qi")
LAST_DELTA = struct.Struct(">i")
LAST_DELTA_AT = 23
BATCH_OVERHEAD = 12


class RawConnection(BlockingConnection):
    """One request at a time to one broker."""

    def __init__(self, host: str, port: int, timeout: float = 30.0) -> None:
        super().__init__(socket.create_connection((host, port), timeout), CLIENT_ID)

    def roundtrip(self, api_key: int, version: int, body: bytes) -> memoryview:
        """Send a request; the body of its answer, valid until the next call. Raises ``OSError``."""
        return self.call(api_key, version, body, reuse=True)

    def ask(self, api_key: int, version: int, message: Any) -> Any:
        """A request and its answer as messages of the codec."""
        body = encode_request(api_key, version, message)
        return decode_response(api_key, version, self.roundtrip(api_key, version, body))

    def metadata_of_nothing(self) -> None:
        """Send a Metadata request without topics, the smallest request that every broker answers."""
        self.roundtrip(ApiKey.METADATA, 1, struct.pack(">i", 0))


def fetch_all(host: str, port: int, topic: str, partition: int, count: int) -> tuple[int, int]:
    """Read ``count`` records of a partition from its beginning by their batch headers: (records, bytes)."""
    offset = size = 0
    with RawConnection(host, port) as connection:
        while offset < count:
            wanted = FetchPartition(topic, ZERO_UUID, partition, fetch_offset=offset, max_bytes=PARTITION_BYTES)
            request = FetchRequest(CONSUMER_REPLICA_ID, -1, 500, 1, RESPONSE_BYTES, 0, 0, -1, [wanted], [])
            answer = connection.roundtrip(ApiKey.FETCH, FETCH_VERSION, encode_fetch_request(FETCH_VERSION, request))
            records = _records(answer, len(topic))
            next_offset = _next_offset(records)
            if next_offset <= offset:
                raise RuntimeError(f"nothing behind offset {offset} of {topic}-{partition}")
            offset = next_offset
            size += len(records)
    return offset, size


def _records(answer: memoryview, topic_length: int) -> memoryview:
    """The records in an answer (version 11) about one partition."""
    at = 4 + 2 + 4 + 4 + 2 + topic_length + 4 + 4
    (error,) = struct.unpack_from(">h", answer, at)
    if error:
        raise RuntimeError(f"Fetch was answered with error {error}")
    at += 2 + 3 * 8
    (aborted,) = struct.unpack_from(">i", answer, at)
    at += 4 + 16 * max(aborted, 0) + 4
    (length,) = struct.unpack_from(">i", answer, at)
    return answer[at + 4 : at + 4 + max(length, 0)]


def _next_offset(records: memoryview) -> int:
    at, end, result = 0, len(records), -1
    while at + BATCH_OVERHEAD + LAST_DELTA_AT <= end:
        base, length = BATCH.unpack_from(records, at)
        if at + BATCH_OVERHEAD + length > end:
            break  # the answer may end within a batch
        result = base + LAST_DELTA.unpack_from(records, at + LAST_DELTA_AT)[0] + 1
        at += BATCH_OVERHEAD + length
    return int(result)
