"""Offsets as Spark writes them, ranges of them, and how ranges are cut for tasks.

Answers to: ``org.apache.spark.sql.kafka010.{JsonUtils,KafkaOffsetRangeCalculator,KafkaOffsetRange}``. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafkalite.common.types import TopicPartition

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets ``start`` to before ``end`` of one partition."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets that is."""
        return self.end - self.start


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """``{"topic": {"0": 12}}``, topics and partitions in order, as Spark's checkpoints have it."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def offsets_from_json(value: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The reverse of :func:`offsets_to_json`."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in value.items()
        for partition, offset in partitions.items()
    }


def split(ranges: Iterable[OffsetRange], min_partitions: int = 0, max_records: int = 0) -> list[OffsetRange]:
    """``ranges`` without empty ones, cut into at least ``min_partitions`` and so that none has more than
    ``max_records`` (0: no matter)."""
    raise NotImplementedError
