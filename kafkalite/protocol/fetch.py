"""Fetch, both ways, all versions: the hot path of consumers and followers, so by hand.

Answers to: ``org.apache.kafka.common.requests.{FetchRequest,FetchResponse}`` (0-17). Pure.
"""

from __future__ import annotations

import uuid

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import ZERO_UUID, FileRegion, Part

CONSUMER_REPLICA_ID = -1
"""Replica id of a fetch that comes from a consumer."""


class FetchPartition:
    """What one partition is asked for. ``topic`` is ``None`` from version 13 on, ``topic_id`` zero before."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str | None,
        topic_id: uuid.UUID,
        partition: int,
        current_leader_epoch: int = -1,
        fetch_offset: int = 0,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        max_bytes: int = 1 << 20,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.max_bytes = max_bytes


ForgottenPartition = tuple[str | None, uuid.UUID, int]
"""Topic (or ``None``), topic id (or zero) and partition that leave a fetch session."""


class FetchRequest:
    """A fetch. ``replica_id`` is -1 for consumers; ``session_epoch`` -1 means: no session."""

    __slots__ = (
        "forgotten",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "partitions",
        "rack_id",
        "replica_epoch",
        "replica_id",
        "session_epoch",
        "session_id",
    )

    def __init__(
        self,
        replica_id: int,
        replica_epoch: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
        session_id: int,
        session_epoch: int,
        partitions: list[FetchPartition],
        forgotten: list[ForgottenPartition],
        rack_id: str = "",
    ) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.partitions = partitions
        self.forgotten = forgotten
        self.rack_id = rack_id


class FetchPartitionResponse:
    """What one partition answers. ``aborted`` are ``(producer id, first offset)``; -1 or ``None`` where not said.

    ``diverging_epoch`` is ``(epoch, end offset)``, ``current_leader`` is ``(id, epoch)``. In a decoded response
    ``records`` is a view of the body, and empty rather than ``None`` where there are none.
    """

    __slots__ = (
        "aborted",
        "current_leader",
        "diverging_epoch",
        "error",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "partition",
        "preferred_read_replica",
        "records",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str | None,
        topic_id: uuid.UUID = ZERO_UUID,
        partition: int = 0,
        error: ErrorCode | int = 0,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        aborted: list[tuple[int, int]] | None = None,
        preferred_read_replica: int = -1,
        records: FileRegion | bytes | bytearray | memoryview | None = None,
        diverging_epoch: tuple[int, int] | None = None,
        current_leader: tuple[int, int] | None = None,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.error = error
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.aborted = aborted
        self.preferred_read_replica = preferred_read_replica
        self.records = records
        self.diverging_epoch = diverging_epoch
        self.current_leader = current_leader


class FetchResponse:
    """A decoded answer: ``error`` and ``session_id`` for the whole (from version 7), then the partitions."""

    __slots__ = ("error", "partitions", "session_id", "throttle_ms")

    def __init__(self, throttle_ms: int, error: int, session_id: int, partitions: list[FetchPartitionResponse]) -> None:
        self.throttle_ms = throttle_ms
        self.error = error
        self.session_id = session_id
        self.partitions = partitions


def decode_fetch(version: int, body: memoryview) -> FetchRequest:
    """The request in ``body``. Raises :class:`ProtocolError`."""
    raise NotImplementedError


def encode_fetch_request(version: int, request: FetchRequest) -> bytes:
    """The body of a request; partitions of one topic must stand together."""
    raise NotImplementedError


def encode_fetch_response(
    version: int,
    error: ErrorCode | int,
    session_id: int,
    partitions: list[FetchPartitionResponse],
    throttle: int = 0,
) -> list[Part]:
    """The body of a response; records stay the parts that they are, and topics must stand together."""
    raise NotImplementedError


def decode_fetch_response(version: int, body: memoryview) -> FetchResponse:
    """The response in ``body``; records are views of it. Raises :class:`ProtocolError`."""
    raise NotImplementedError
