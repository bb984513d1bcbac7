"""Raw fetches of a range of one partition, and offsets by time.

Answers to: ``org.apache.kafka.clients.consumer.internals.{Fetcher,OffsetFetcher}``. Blocking shell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafkalite.common.types import TopicPartition
from kafkalite.spark.client.cluster import Cluster

EARLIEST, LATEST = -2, -1
"""What :func:`list_offsets` takes for a time: the first offset, the end."""


@dataclass(frozen=True)
class Fetched:
    """What one fetch brought. ``records`` is overwritten by the next; ``aborted`` are (producer id, first offset)."""

    offset: int
    records: memoryview
    aborted: tuple[tuple[int, int], ...]
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    next_offset: int


def list_offsets(cluster: Cluster, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The offset of each partition at a time: :data:`EARLIEST`, :data:`LATEST`, or the first record at or after a
    number of milliseconds (-1: there is none).

    With ``isolation.level=read_committed`` the end is the last stable offset. Raises
    :class:`~kafkalite.spark.client.errors.KafkaClientError`.
    """
    raise NotImplementedError


def fetch_range(cluster: Cluster, partition: TopicPartition, start: int, end: int) -> Iterator[Fetched]:
    """The records of a partition from offset ``start`` to before ``end``, as they come: first and last batch may
    reach beyond.

    Raises :class:`~kafkalite.spark.client.errors.OffsetOutOfRangeError` and ``KafkaClientError``.
    """
    raise NotImplementedError
