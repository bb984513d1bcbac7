"""Sends record batches: in order to each partition, idempotent, again after errors that may pass.

Answers to: ``org.apache.kafka.clients.producer.internals.{Sender,RecordAccumulator}``. Blocking shell.

Each broker gets one request at a time, with one batch of each partition that it leads; meanwhile the caller makes the
next batches. A batch is sent again with the same bytes and sequence number, so that the broker knows a duplicate.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.produce import ProducePartitionResponse, ProduceRequest, decode_produce_response, encode_produce
from kafkalite.spark.client.cluster import ClusterConnections
from kafkalite.spark.client.connection import SparkConnection
from kafkalite.spark.client.errors import RETRIABLE, BrokerUnreachableError, KafkaClientError
from kafkalite.spark.client.transactions import InitializedProducer

PRODUCE_VERSION = 11
"""The last version before KIP-890's second part, in which Produce adds partitions to a transaction by itself."""
QUEUED_BYTES = 4 << 20
"""Bytes of unacknowledged batches above which :meth:`BatchSender.send` waits."""
_SEQUENCES = 1 << 31
_SLACK_MS = 5000
_HINTS = {
    ErrorCode.MESSAGE_TOO_LARGE: "kafka.batch.size must stay below the topic's max.message.bytes",
    ErrorCode.RECORD_LIST_TOO_LARGE: "kafka.batch.size must stay below the topic's segment.bytes",
    ErrorCode.INVALID_RECORD: "a compacted topic takes no records without a key",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "records that were acknowledged before are not there any more",
}


class SealedBatch(NamedTuple):
    """A finished record batch for a partition."""

    partition: TopicPartition
    data: memoryview
    records: int
    deadline: float


@dataclass
class _Lane:
    """The batches of one partition that are not acknowledged."""

    waiting: deque[SealedBatch] = field(default_factory=deque)
    sequence: int = 0
    end_offset: int = -1
    not_before: float = 0.0
    pause: float = 0.0
    trouble: str = ""


class BatchSender:
    """Sends batches in order to each partition. Use it in one thread.

    ``producer``: the producer id (``None``: not idempotent, records may be duplicated after errors). ``acks``: -1 all,
    1 the leader. Methods raise a :class:`KafkaClientError` that names topic, partition and offset; then only close it.
    """

    def __init__(
        self,
        cluster: ClusterConnections,
        producer: InitializedProducer | None,
        acks: int,
        request_bytes: int,
        delivery_timeout_ms: int,
    ) -> None:
        self._cluster = cluster
        self._producer = producer
        self._acks = acks
        self._request_bytes = request_bytes
        self._delivery_ms = delivery_timeout_ms
        self._lanes: dict[TopicPartition, _Lane] = {}
        # Its own connections, because answers on a shared one could be taken for those to other requests.
        self._connections: dict[int, SparkConnection] = {}
        self._under_way: dict[int, tuple[SparkConnection, int, list[SealedBatch]]] = {}
        self._queued = 0
        self.records = 0
        """Number of acknowledged records."""

    def send(self, partition: TopicPartition, count: int, seal: Callable[[int], memoryview]) -> None:
        """Queue a batch of ``count`` records. ``seal`` makes it from its first sequence number (-1: none)."""
        lane = self._lanes.setdefault(partition, _Lane())
        sequence = -1
        if self._producer is not None:
            sequence = lane.sequence
            lane.sequence = (sequence + count) % _SEQUENCES
        data = seal(sequence)
        lane.waiting.append(SealedBatch(partition, data, count, time.monotonic() + self._delivery_ms / 1000))
        self._queued += len(data)
        self._post()
        while self._queued > QUEUED_BYTES:
            self._turn()

    def flush(self) -> None:
        """Wait until all batches are acknowledged."""
        while any(lane.waiting for lane in self._lanes.values()) or self._under_way:
            self._turn()

    def close(self) -> None:
        """Drop all batches, and close the connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._under_way.clear()
        self._lanes.clear()

    def end_offsets(self) -> dict[TopicPartition, int]:
        """The offset after the last acknowledged record, of each partition that has one."""
        return {partition: lane.end_offset for partition, lane in self._lanes.items() if lane.end_offset >= 0}

    def _turn(self) -> None:
        """Send requests; then wait for one answer, or until a batch may be sent again."""
        self._post()
        if self._under_way:
            self._receive(next(iter(self._under_way)))
            return
        waits = [lane.not_before for lane in self._lanes.values() if lane.waiting]
        time.sleep(max(min(waits) - time.monotonic(), 0.001))

    def _post(self) -> None:
        """Send a request to each broker without an outstanding one."""
        now = time.monotonic()
        requests: dict[int, list[SealedBatch]] = {}
        sizes: dict[int, int] = {}
        for partition, lane in self._lanes.items():
            if not lane.waiting or lane.not_before > now:
                continue
            write = lane.waiting[0]
            try:
                leader = self._cluster.leader(partition)
            except (ApiError, BrokerUnreachableError) as error:
                self._again(write, lane, error)
                continue
            if leader in self._under_way:
                continue
            size = sizes.get(leader, 0)
            if size and size + len(write.data) > self._request_bytes:
                continue
            sizes[leader] = size + len(write.data)
            requests.setdefault(leader, []).append(write)
        for leader, writes in requests.items():
            try:
                self._under_way[leader] = (*self._request(leader, writes), writes)
            except (ApiError, BrokerUnreachableError) as error:
                for write in writes:
                    self._again(write, self._lanes[write.partition], error)
                continue
            # Move these partitions behind the others, so that a partition that had no room in the request is next.
            for write in writes:
                self._lanes[write.partition] = self._lanes.pop(write.partition)

    def _request(self, leader: int, writes: list[SealedBatch]) -> tuple[SparkConnection, int]:
        connection = self._connections.get(leader)
        host, port = self._cluster.address(leader)
        if connection is None or connection.closed or (connection.host, connection.port) != (host, port):
            connection = self._connections[leader] = SparkConnection(host, port, self._cluster.config)
        version = connection.version(ApiKey.PRODUCE, PRODUCE_VERSION)
        config = self._cluster.config
        request = ProduceRequest(
            None if self._producer is None else self._producer.transactional_id,
            self._acks,
            max(config.request_timeout_ms - _SLACK_MS, config.request_timeout_ms // 2),
            [(write.partition, write.data) for write in sorted(writes, key=lambda each: each.partition)],
        )
        connection.post(ApiKey.PRODUCE, version, *encode_produce(version, request))
        return connection, version

    def _receive(self, leader: int) -> None:
        connection, version, writes = self._under_way.pop(leader)
        try:
            found = decode_produce_response(version, connection.receive())
        except (BrokerUnreachableError, ProtocolError) as error:
            connection.close()
            for write in writes:
                self._again(write, self._lanes[write.partition], error)
            return
        answers = {TopicPartition(each.topic, each.partition): each for each in found}
        for write in writes:
            lane = self._lanes[write.partition]
            answer = answers.get(write.partition)
            if answer is None:
                self._again(write, lane, BrokerUnreachableError(f"broker {connection} did not answer for it"))
            else:
                self._settle(write, lane, answer)

    def _settle(self, write: SealedBatch, lane: _Lane, answer: ProducePartitionResponse) -> None:
        code = ErrorCode(answer.error)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            lane.waiting.popleft()
            lane.pause, lane.trouble = 0.0, ""
            if answer.base_offset >= 0:
                lane.end_offset = answer.base_offset + write.records
            self._queued -= len(write.data)
            self.records += write.records
            return
        words = [code.name, *filter(None, (answer.error_message, _HINTS.get(code)))]
        words += [f"record {index}: {why}" for index, why in answer.record_errors[:3] if why]
        error = ApiError(code, "; ".join(words[1:]))
        if code not in RETRIABLE:
            raise KafkaClientError(self._text(write, lane, "; ".join(words)))
        self._again(write, lane, error)

    def _again(self, write: SealedBatch, lane: _Lane, error: Exception) -> None:
        """Have a batch sent again. Raises :class:`KafkaClientError` if the error cannot pass, or its time is over."""
        if isinstance(error, ApiError) and error.code not in RETRIABLE:
            raise KafkaClientError(self._text(write, lane, str(error)))
        config = self._cluster.config
        lane.trouble = str(error)
        lane.pause = min(max(lane.pause * 2, config.retry_backoff_ms / 1000), config.retry_backoff_max_ms / 1000)
        lane.not_before = time.monotonic() + lane.pause
        self._cluster.forget((write.partition,))
        if lane.not_before > write.deadline:
            raise KafkaClientError(self._text(write, lane, f"{error} (tried for {self._delivery_ms} ms)"))

    def _text(self, write: SealedBatch, lane: _Lane, why: str) -> str:
        where = f" after offset {lane.end_offset - 1}" if lane.end_offset > 0 else ""
        topic, number = write.partition
        return (
            f"topic {topic}, partition {number}: {write.records} records ({len(write.data)} bytes) cannot be "
            f"written{where}: {why}"
        )
