"""The source of a batch query, whose offsets are resolved when it is planned.

Answers to: ``org.apache.spark.sql.kafka010.KafkaBatch``. Shell.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafkalite.spark.housekeeping import freeze_objects
from kafkalite.spark.offset_reader import OffsetReader
from kafkalite.spark.offsets import OffsetError, OffsetRange, split
from kafkalite.spark.options import SourceOptions
from kafkalite.spark.reading import RangePartition, read_partition

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):  # type: ignore[misc]
    """Reads the records between two limits."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """The tasks. Raises ``OffsetError`` and ``KafkaClientError``."""
        options = self.options
        with contextlib.closing(OffsetReader(options)) as reader:
            starts = reader.resolve(options.start, starting=True)
            ends = reader.resolve(options.end, starting=False)
        ranges = []
        for partition, start in sorted(starts.items()):
            if partition not in ends:
                continue  # deleted in between
            end = ends[partition]
            if start > end:
                raise OffsetError(
                    f"The resolved start offset {start} is greater than the resolved end offset {end} for topic "
                    f"{partition.topic} partition {partition.partition}."
                )
            ranges.append(OffsetRange(partition, start, end))
        freeze_objects()
        pieces = split(ranges, options.min_partitions, options.max_records_per_partition)
        return [RangePartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The Arrow record batches of a task."""
        return read_partition(self.options, partition)
