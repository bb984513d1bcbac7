"""One task's rows into topics: Arrow record batches in, acknowledged records out.

Answers to: ``org.apache.spark.sql.kafka010.{KafkaWriteTask,KafkaRowWriter}``. Blocking shell.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.spark.client.cluster import ClusterConnections
from kafkalite.spark.client.errors import RETRIABLE, KafkaClientError
from kafkalite.spark.client.produce import BatchSender
from kafkalite.spark.client.transactions import InitializedProducer, TransactionClient
from kafkalite.spark.errors import KafkaWriteError
from kafkalite.spark.housekeeping import freeze_objects
from kafkalite.spark.reading import worker_cluster
from kafkalite.spark.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalite.spark.columns import Columns
    from kafkalite.spark.compiled import Longs

OPEN_BYTES = 32 << 20
"""Bytes of unsent batches, of all partitions together, after which all are sent."""


class RowWriter:
    """Writes the rows of a task: takes Arrow record batches, sends record batches.

    ``begin`` is called with partitions before the first records are sent to them, and returns the producer. Raises
    ``KafkaWriteError`` that names topic, partition and offset.
    """

    def __init__(
        self,
        options: SinkOptions,
        cluster: ClusterConnections,
        begin: Callable[[Collection[TopicPartition]], InitializedProducer | None],
    ) -> None:
        # Imported here, because machine code takes a while to load and the process that plans does not need it.
        from kafkalite.spark.encode import OpenBatch
        from kafkalite.spark.partitioners import Partitioner

        self._options = options
        self._cluster = cluster
        self._begin = begin
        self._begun: set[TopicPartition] = set()
        self._producer: InitializedProducer | None = None
        self._sender: BatchSender | None = None
        self._open: dict[TopicPartition, OpenBatch] = {}
        self._new_batch = partial(OpenBatch, options.batch_bytes)
        self._partitioner = Partitioner(
            options.batch_bytes,
            int.from_bytes(os.urandom(8), "big"),
            round_robin=options.round_robin,
            ignore_keys=options.ignore_keys,
        )
        self.rows = 0
        """Rows that were written or wait to be sent."""

    @property
    def topics(self) -> list[str]:
        """The topics that rows were written to."""
        return sorted({partition.topic for partition in self._begun})

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of an Arrow record batch; some of them wait in batches that are not full."""
        import numpy as np

        from kafkalite.spark import encode_kernels
        from kafkalite.spark.columns import read_columns
        from kafkalite.spark.encode import EncodeError
        from kafkalite.spark.partitioners import PartitionError

        if not batch.num_rows:
            return
        columns = read_columns(batch, self._options.topic, time.time_ns() // 1_000_000)
        try:
            for topic in self._partitioner.missing([name for name in columns.topic_names if name is not None]):
                self._partitioner.add(topic, self._leaders(topic))
            slots = self._partitioner.assign(columns, columns.topic_names)
            starts = np.empty(len(self._partitioner.slots) + 1, np.int64)
            order = np.empty(columns.rows, np.int64)
            encode_kernels.group(slots, starts, order)
            used = np.flatnonzero(np.diff(starts)).tolist()
            self._prepare([self._partitioner.slots[slot] for slot in used])
            for slot in used:
                self._append(self._partitioner.slots[slot], columns, order, int(starts[slot]), int(starts[slot + 1]))
        except (PartitionError, EncodeError) as error:
            raise KafkaWriteError(f"row {self.rows + error.row} of the task: {error}") from None
        except KafkaClientError as error:
            raise KafkaWriteError(str(error)) from None
        self.rows += columns.rows
        if sum(each.size for each in self._open.values()) > OPEN_BYTES:
            self._send_all()

    def flush(self) -> None:
        """Send all rows and wait until they are acknowledged."""
        try:
            self._send_all()
            if self._sender is not None:
                self._sender.flush()
        except KafkaClientError as error:
            raise KafkaWriteError(str(error)) from None

    def close(self) -> None:
        """Drop rows that were not sent, and close the connections."""
        if self._sender is not None:
            self._sender.close()

    def _prepare(self, partitions: list[TopicPartition]) -> None:
        fresh = [partition for partition in partitions if partition not in self._begun]
        if not fresh:
            return
        producer = self._begin(fresh)
        self._begun.update(fresh)
        if self._sender is None:
            options = self._options
            self._producer = producer
            self._sender = BatchSender(
                self._cluster, producer, options.acks, options.request_bytes, options.delivery_timeout_ms
            )

    def _append(self, partition: TopicPartition, columns: Columns, order: Longs, first: int, last: int) -> None:
        batch = self._open.get(partition)
        if batch is None:
            batch = self._open[partition] = self._new_batch()
        while (first := batch.append(columns, order, first, last)) < last:
            self._send(partition)

    def _send(self, partition: TopicPartition) -> None:
        from kafkalite.spark.encode import Stamp

        batch = self._open[partition]
        producer = self._producer
        assert self._sender is not None

        def seal(sequence: int) -> memoryview:
            stamp = Stamp()
            if producer is not None:
                transactional = producer.transactional_id is not None
                stamp = Stamp(producer.producer_id, producer.producer_epoch, sequence, transactional)
            return batch.seal(self._options.codec, stamp)

        self._sender.send(partition, batch.count, seal)

    def _send_all(self) -> None:
        for partition, batch in self._open.items():
            if batch.count:
                self._send(partition)

    def _leaders(self, topic: str) -> dict[int, int]:
        """The partitions of a topic with their leaders. Waits for the topic up to ``max.block.ms``, as Kafka does."""
        deadline = time.monotonic() + self._options.max_block_ms / 1000
        while True:
            state = self._cluster.retry(
                f"Metadata of topic {topic}",
                lambda: self._cluster.refresh((topic,), create=True),
                self._options.max_block_ms,
            ).get(topic)
            if state is not None and state.leaders and not state.error:
                return state.leaders
            code = ErrorCode(state.error if state is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if code and code not in RETRIABLE:
                raise KafkaClientError(f"topic {topic}: {code.name}")
            if time.monotonic() > deadline:
                raise KafkaClientError(f"Topic {topic} not present in metadata after {self._options.max_block_ms} ms.")
            time.sleep(self._cluster.config.retry_backoff_ms / 1000)


class Written(WriterCommitMessage):  # type: ignore[misc]
    """The report of a task at its end: the number of written rows."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows


def write_at_least_once(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
    """Write the rows of a task, and return when all are acknowledged. Raises ``KafkaWriteError``."""
    cluster = worker_cluster(options.client)
    producers: list[InitializedProducer | None] = []

    def begin(_: Collection[TopicPartition]) -> InitializedProducer | None:
        if not producers:
            producers.append(TransactionClient(cluster).init_producer(None, 0) if options.idempotent else None)
        return producers[0]

    writer = RowWriter(options, cluster, begin)
    try:
        for batch in batches:
            writer.write(batch)
        writer.flush()
        freeze_objects()
        return Written(writer.rows)
    finally:
        writer.close()
