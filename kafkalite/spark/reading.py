"""One task of a read: a range of offsets of one partition, as Arrow record batches.

Answers to: ``org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer``. Blocking shell.

A Python worker of Spark runs many tasks, and keeps its connections from one task to the next.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from kafkalite.record.batch import CorruptRecordError
from kafkalite.spark.client.cluster import ClusterConnections
from kafkalite.spark.client.config import ClientConfig
from kafkalite.spark.client.errors import KafkaClientError, OffsetOutOfRangeError
from kafkalite.spark.client.fetch import EARLIEST, LATEST, fetch_range, list_offsets
from kafkalite.spark.errors import KafkaDataLossError, KafkaReadError
from kafkalite.spark.housekeeping import freeze_objects
from kafkalite.spark.offsets import OffsetRange
from kafkalite.spark.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)
KEPT = 4
"""Most clusters to which a worker keeps connections."""
_clusters: dict[ClientConfig, ClusterConnections] = {}


class RangePartition(InputPartition):  # type: ignore[misc]
    """A task: the range that it reads."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(wanted)
        self.wanted = wanted


def read_partition(options: SourceOptions, task: InputPartition) -> Iterator[pa.RecordBatch]:
    """The Arrow record batches of a task; none for the partition that Spark makes for a plan without tasks.

    Raises :class:`KafkaDataLossError` if records are gone and ``failOnDataLoss`` is set, and :class:`KafkaReadError`.
    """
    if isinstance(task, RangePartition):
        yield from read_range(options, task.wanted)


def read_range(options: SourceOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The records of a range. Raises as :func:`read_partition`."""
    # Imported here, because machine code takes a while to load and the process that plans does not need it.
    from kafkalite.spark.decode import BatchError, Decoder

    freeze_objects()
    topic, number = wanted.partition
    cluster = worker_cluster(options.client)
    decoder = Decoder(topic, number, include_headers=options.include_headers, check_crcs=options.client.check_crcs)
    offset: int | None = wanted.start
    while offset is not None and offset < wanted.end:
        try:
            for fetched in fetch_range(cluster, wanted.partition, offset, wanted.end, options.poll_timeout_ms):
                yield from decoder.decode(fetched.records, fetched.batches, fetched.aborted, offset, wanted.end)
                offset = max(offset, fetched.next_offset)
            return
        except OffsetOutOfRangeError:
            offset = _after_loss(cluster, options, wanted, offset)
        except (KafkaClientError, BatchError, CorruptRecordError) as error:
            raise KafkaReadError(
                f"topic {topic}, partition {number}: cannot read from offset {offset} (of {wanted.start} to "
                f"{wanted.end - 1}): {error}"
            ) from None


def _after_loss(cluster: ClusterConnections, options: SourceOptions, wanted: OffsetRange, offset: int) -> int | None:
    """The offset to read on from after ``offset`` was found to be gone; ``None`` if the range is over."""
    if options.fail_on_data_loss:
        raise KafkaDataLossError(
            "COULD_NOT_READ_OFFSET_RANGE",
            f"Could not read records in offset [{offset}, {wanted.end}) for topic partition {wanted.partition}.",
        ) from None
    earliest = list_offsets(cluster, {wanted.partition: EARLIEST})[wanted.partition]
    latest = list_offsets(cluster, {wanted.partition: LATEST})[wanted.partition]
    go_on = None if offset >= latest or earliest >= wanted.end else max(offset, earliest)
    log.warning(
        "Some data may be lost: offset %d of %s is out of range (it has %d to %d); records in [%d, %d) are skipped",
        offset,
        wanted.partition,
        earliest,
        latest,
        offset,
        wanted.end if go_on is None else go_on,
    )
    return go_on


def worker_cluster(config: ClientConfig) -> ClusterConnections:
    """The connections of the worker's earlier tasks with the same options, or new ones."""
    cluster = _clusters.pop(config, None) or ClusterConnections(config)
    while len(_clusters) >= KEPT:
        _clusters.pop(next(iter(_clusters))).close()
    _clusters[config] = cluster
    return cluster
