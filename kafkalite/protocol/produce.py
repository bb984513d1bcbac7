"""Produce, both ways, all versions: the hot path, so by hand.

Answers to: ``org.apache.kafka.common.requests.{ProduceRequest,ProduceResponse}`` (0-11). Pure.
"""

from __future__ import annotations

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition


class ProduceRequest:
    """Records for partitions. ``timeout_ms`` bounds the wait for replicas where ``acks`` is -1."""

    __slots__ = ("acks", "partitions", "timeout_ms", "transactional_id")

    def __init__(
        self,
        transactional_id: str | None,
        acks: int,
        timeout_ms: int,
        partitions: list[tuple[TopicPartition, memoryview]],
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.partitions = partitions


class ProducePartitionResponse:
    """What became of one partition's records. ``current_leader`` is ``(id, epoch)`` where the client should look."""

    __slots__ = (
        "base_offset",
        "current_leader",
        "error",
        "error_message",
        "log_append_time",
        "log_start_offset",
        "partition",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        error: ErrorCode | int = 0,
        base_offset: int = -1,
        log_append_time: int = -1,
        log_start_offset: int = -1,
        error_message: str | None = None,
        current_leader: tuple[int, int] | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.error = error
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self.log_start_offset = log_start_offset
        self.error_message = error_message
        self.current_leader = current_leader


NodeEndpoint = tuple[int, str, int, str | None]
"""Id, host, port and rack of a broker that an answer points at."""


def decode_produce(version: int, body: memoryview) -> ProduceRequest:
    """The request in ``body``; records are views of it. Raises :class:`ProtocolError`."""
    raise NotImplementedError


def encode_produce(version: int, request: ProduceRequest) -> list[bytes | memoryview]:
    """The body of a request, records not copied."""
    raise NotImplementedError


def encode_produce_response(
    version: int,
    partitions: list[ProducePartitionResponse],
    throttle: int = 0,
    node_endpoints: list[NodeEndpoint] | None = None,
) -> bytes:
    """The body of a response; partitions of one topic must stand together."""
    raise NotImplementedError


def decode_produce_response(version: int, body: memoryview) -> list[ProducePartitionResponse]:
    """The response in ``body``. Raises :class:`ProtocolError`."""
    raise NotImplementedError
