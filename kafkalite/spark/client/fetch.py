"""Raw fetches of a range of one partition, and offsets by time.

Answers to: ``org.apache.kafka.clients.consumer.internals.{Fetcher,OffsetFetcher}``. Blocking shell.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import ZERO_UUID, TopicPartition, by_topic
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.fetch import FetchPartition, FetchRequest, encode_fetch_request
from kafkalite.protocol.fetch_response import FetchPartitionResponse, decode_fetch_response
from kafkalite.record.batch import BatchHeader, iter_headers
from kafkalite.spark.client.cluster import ClusterConnections
from kafkalite.spark.client.connection import SparkConnection
from kafkalite.spark.client.errors import BrokerUnreachableError, KafkaClientError, OffsetOutOfRangeError

EARLIEST, LATEST = -2, -1
"""Times for :func:`list_offsets` that mean the first offset and the end."""
NO_OFFSET = -1
"""Result of :func:`list_offsets` if there is no record at or after a time."""
FETCH_VERSION = 12
"""The last version with names of topics. Later ones have ids, which change when a topic is deleted and created."""
LIST_OFFSETS_VERSION = 7


@dataclass(frozen=True)
class Fetched:
    """The result of a fetch from ``offset``: whole batches, of any magic, as (position, header) in ``records``.

    ``records`` is overwritten by the next fetch. ``aborted`` are (producer id, first offset) of aborted transactions,
    ``None`` with ``read_uncommitted``. ``next_offset`` follows the last batch.
    """

    offset: int
    records: memoryview
    batches: list[tuple[int, BatchHeader]]
    aborted: list[tuple[int, int]] | None
    next_offset: int


def list_offsets(cluster: ClusterConnections, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The offset of each partition at a time: :data:`EARLIEST`, :data:`LATEST`, or the first record at or after a
    number of milliseconds (:data:`NO_OFFSET`: there is none).

    With ``isolation.level=read_committed`` the end is the last stable offset. Raises
    :class:`~kafkalite.spark.client.errors.KafkaClientError`.
    """
    found: dict[TopicPartition, int] = {}
    while len(found) < len(times):
        missing = {partition: at for partition, at in times.items() if partition not in found}
        found |= cluster.retry("ListOffsets", partial(_list_offsets, cluster, missing))
    return found


def _list_offsets(cluster: ClusterConnections, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Ask the leader of the first partition, for all partitions that it leads."""
    first = next(iter(times))
    leader = cluster.leader(first)
    led = sorted(partition for partition in times if cluster.leader(partition) == leader)
    kind = messages.ListOffsetsRequest.ListOffsetsTopic
    topics = by_topic(
        (
            partition,
            kind.ListOffsetsPartition(
                partition_index=partition.partition, current_leader_epoch=-1, timestamp=times[partition]
            ),
        )
        for partition in led
    )
    answer = cluster.broker(leader).ask(
        ApiKey.LIST_OFFSETS,
        {
            "replica_id": -1,
            "isolation_level": int(cluster.config.read_committed),
            "topics": [kind(name=name, partitions=partitions) for name, partitions in topics.items()],
        },
        LIST_OFFSETS_VERSION,
    )
    found = {}
    for topic in answer.topics:
        for item in topic.partitions:
            partition = TopicPartition(topic.name, item.partition_index)
            if item.error_code:
                raise ApiError(ErrorCode(item.error_code), f"{partition}, offset at {times[partition]}")
            found[partition] = item.offset
    return found


def fetch_range(
    cluster: ClusterConnections, partition: TopicPartition, start: int, end: int, patience_ms: int
) -> Iterator[Fetched]:
    """The records of a partition from offset ``start`` to before ``end``; first and last batch may reach beyond.

    The next fetch is sent before the caller gets an answer. Raises :class:`OffsetOutOfRangeError`, and
    ``KafkaClientError`` after ``patience_ms`` without progress; and ``CorruptRecordError``.
    """
    source = _Source(cluster, partition)
    offset = start
    deadline = time.monotonic() + patience_ms / 1000
    try:
        while offset < end:
            left = max(int((deadline - time.monotonic()) * 1000), 0)
            attempt = partial(source.fetch, offset)
            fetched = cluster.retry(f"Fetch of {partition} at offset {offset}", attempt, left)
            if fetched.batches:
                offset = max(fetched.next_offset, offset)
                deadline = time.monotonic() + patience_ms / 1000
                if offset < end:
                    source.ask(offset)
                yield fetched
            elif left == 0:
                raise KafkaClientError(
                    f"Cannot fetch record for offset {offset} of {partition} in {patience_ms} milliseconds: the "
                    f"partition ends at {source.end_offset}, but records up to {end - 1} are asked for"
                )
    finally:
        source.close()


class _Source:
    """Fetches from one partition, with at most one outstanding request."""

    def __init__(self, cluster: ClusterConnections, partition: TopicPartition) -> None:
        self.end_offset = -1
        self._cluster = cluster
        self._partition = partition
        self._asked: tuple[SparkConnection, int] | None = None

    def ask(self, offset: int) -> None:
        """Send the request for ``offset`` if that is possible now."""
        config = self._cluster.config
        try:
            connection = self._cluster.leader_connection(self._partition)
            version = connection.version(ApiKey.FETCH, FETCH_VERSION)
            wanted = FetchPartition(
                self._partition.topic,
                ZERO_UUID,
                self._partition.partition,
                fetch_offset=offset,
                max_bytes=config.max_partition_fetch_bytes,
            )
            request = FetchRequest(
                -1,
                -1,
                config.fetch_max_wait_ms,
                config.fetch_min_bytes,
                config.fetch_max_bytes,
                int(config.read_committed),
                0,
                -1,
                [wanted],
                [],
            )
            connection.post(ApiKey.FETCH, version, encode_fetch_request(version, request))
        except (ApiError, BrokerUnreachableError):
            return  # fetch() will meet the same error, and raises it
        self._asked = connection, offset

    def fetch(self, offset: int) -> Fetched:
        """The answer for ``offset``. Raises ``ApiError``, ``BrokerUnreachableError``, ``OffsetOutOfRangeError``."""
        if self._asked is None:
            self._cluster.leader_connection(self._partition)  # raises what ask() passes over
            self.ask(offset)
            if self._asked is None:
                raise BrokerUnreachableError(f"the leader of {self._partition} went away")
        connection, asked = self._asked
        self._asked = None
        assert asked == offset
        version = connection.version(ApiKey.FETCH, FETCH_VERSION)
        body = connection.receive(reuse=True)
        try:
            answer = decode_fetch_response(version, body)
        except ProtocolError as error:
            connection.close()
            raise BrokerUnreachableError(f"broker {connection}: {error}") from None
        if answer.error:
            raise ApiError(ErrorCode(answer.error), f"broker {connection}")
        (entry,) = answer.partitions
        if entry.error:
            self._refuse(entry, offset, connection)
        self.end_offset = entry.last_stable_offset if self._cluster.config.read_committed else entry.high_watermark
        records = entry.records
        assert isinstance(records, memoryview)
        batches = list(iter_headers(records, allow_partial_tail=True))
        next_offset = batches[-1][1].next_offset if batches else offset
        aborted = (entry.aborted or []) if self._cluster.config.read_committed else None
        return Fetched(offset, records, batches, aborted, next_offset)

    def close(self) -> None:
        """Close the connection if a request is outstanding, because a later one would take its answer."""
        if self._asked is not None:
            self._asked[0].close()
            self._asked = None

    def _refuse(self, entry: FetchPartitionResponse, offset: int, connection: SparkConnection) -> None:
        code = ErrorCode(entry.error)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise OffsetOutOfRangeError(
                f"offset {offset} of {self._partition} is out of range", *self._partition, offset
            )
        raise ApiError(code, f"broker {connection}, {self._partition}, offset {offset}")
