"""The source of a streaming query: where the next micro-batch ends, and which records were lost.

Answers to: ``org.apache.spark.sql.kafka010.KafkaMicroBatchStream``. Shell.

Needs PySpark 4.2: earlier ones have no admission control for Python sources.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from kafkalite.spark.errors import KafkaDataLossError
from kafkalite.spark.offset_reader import OffsetReader
from kafkalite.spark.offsets import (
    LATEST,
    Everywhere,
    Limit,
    OffsetRange,
    Offsets,
    Specific,
    names,
    offsets_from_json,
    offsets_to_json,
    rate_limit,
    split,
)
from kafkalite.spark.options import SourceOptions
from kafkalite.spark.reading import RangePartition, read_partition

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads topics in micro-batches. Spark makes one for planning and others for reading, which share no state."""

    def __init__(self, options: SourceOptions, now: Callable[[], float] = time.time) -> None:
        self.options = options
        self._now = now
        self._reader: OffsetReader | None = None
        self._latest: Offsets | None = None
        self._all_data: Offsets | None = None
        """Where a query with the trigger *available now* ends; ``None`` for other triggers."""
        self._last_trigger = 0.0
        self._initial: Offsets | None = None
        self._begins_empty = False
        """Whether the next micro-batch is the empty one that writes the beginning to the checkpoint."""

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802
        """The offsets at which a new query begins, the same at each call.

        A beginning at the end of a partition would have moved after a restart, and Spark stores only the ends of
        micro-batches. Therefore the first micro-batch of such a query is empty: the checkpoint has the beginning then.
        """
        if self._initial is None:
            self._initial = self._offset_reader().resolve(self.options.start, starting=True)
            self._begins_empty = _is_at_end(self.options.start)
            if self._all_data is not None:
                # prepareForTriggerAvailableNow came first: records since then lie before the beginning.
                ends = self._all_data
                self._all_data = {
                    partition: max(end, self._initial.get(partition, end)) for partition, end in ends.items()
                }
        return offsets_to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limits of the options. Python has no composite of two limits: :meth:`latestOffset` applies both."""
        if self.options.max_offsets_per_trigger:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger:
            return ReadMinRows(self.options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, dict[str, int]], limit: ReadLimit) -> dict[str, dict[str, int]]:  # noqa: N802
        """The end offsets of the next micro-batch; ``start`` if there is none now."""
        begun = offsets_from_json(start)
        latest = self._all_data if self._all_data is not None else self._offset_reader().latest(begun)
        self._latest = latest
        if self._begins_empty:
            self._begins_empty = False
            return start
        if isinstance(limit, ReadAllAvailable):
            return offsets_to_json(latest)
        least, most = self.options.min_offsets_per_trigger, self.options.max_offsets_per_trigger
        if least and self._all_data is None and self._too_early(least, begun, latest):
            return start
        if most:
            new_starts = self._offset_reader().earliest(latest.keys() - begun.keys())
            latest = rate_limit(most, {**new_starts, **begun}, latest)
        return offsets_to_json(latest)

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:  # noqa: N802
        """The ends of the partitions at the last :meth:`latestOffset`, without limits."""
        return offsets_to_json(self._latest) if self._latest else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read up to the present ends, and no further."""
        self._all_data = self._offset_reader().latest()

    def partitions(self, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]) -> list[InputPartition]:
        """The tasks of a micro-batch. Raises :class:`KafkaDataLossError` if ``failOnDataLoss`` is set."""
        starts, ends = offsets_from_json(start), offsets_from_json(end)
        self._check_new(starts, ends)
        gone = starts.keys() - ends.keys()
        if gone:
            self._lost("PARTITIONS_DELETED", f"Partitions {names(gone)} have been deleted.")
        if starts == self._initial and _is_at_end(self.options.start):
            # The first micro-batch, which is empty, runs again after a restart, and the ends have moved meanwhile.
            starts = {partition: min(offset, ends.get(partition, offset)) for partition, offset in starts.items()}
        ranges = []
        for partition in sorted(ends.keys() & starts.keys()):
            before, after = starts[partition], ends[partition]
            if after < before:
                self._lost(
                    "PARTITION_OFFSET_CHANGED",
                    f"Partition {partition} offset was changed from {before} to {after}. This could either be a user "
                    "error that the start offset is set too high and this is the first batch, or the kafka "
                    "topic-partition is broken, and some data may have been missed.",
                )
            ranges.append(OffsetRange(partition, before, after))
        pieces = split(ranges, self.options.min_partitions, self.options.max_records_per_partition)
        return [RangePartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The Arrow record batches of a task."""
        return read_partition(self.options, partition)

    def commit(self, end: dict[str, dict[str, int]]) -> None:
        """Does nothing: the checkpoint has the offsets."""

    def stop(self) -> None:
        """Close the connections."""
        if self._reader is not None:
            self._reader.close()

    def _check_new(self, starts: Offsets, ends: Offsets) -> None:
        """Give partitions that are new since ``starts`` their first offsets."""
        new = ends.keys() - starts.keys()
        found = self._offset_reader().earliest(new)
        missing = new - found.keys()
        if missing:
            self._lost(
                "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS",
                f"Cannot find initial offsets for partitions {names(missing)}. They may have been deleted.",
            )
        for partition, offset in found.items():
            if offset != 0:
                self._lost(
                    "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
                    f"Added partition {partition} starts from {offset} instead of 0.",
                )
        starts.update(found)

    def _too_early(self, least: int, begun: Offsets, latest: Offsets) -> bool:
        """Whether there are fewer than ``least`` offsets and ``maxTriggerDelay`` has not passed."""
        now = self._now()
        available = sum(offset - begun.get(partition, 0) for partition, offset in latest.items())
        if available < least and (now - self._last_trigger) * 1000 < self.options.max_trigger_delay_ms:
            return True
        self._last_trigger = now
        return False

    def _lost(self, kind: str, reason: str) -> None:
        if self.options.fail_on_data_loss:
            raise KafkaDataLossError(kind, reason)
        log.warning("Some data may have been lost: %s", reason)

    def _offset_reader(self) -> OffsetReader:
        if self._reader is None:
            self._reader = OffsetReader(self.options)
        return self._reader


def _is_at_end(limit: Limit) -> bool:
    """Whether ``limit`` means the end of a partition, which moves."""
    if isinstance(limit, Everywhere):
        return limit.offset == LATEST
    return LATEST in limit.offsets.values() if isinstance(limit, Specific) else limit.latest_if_none
