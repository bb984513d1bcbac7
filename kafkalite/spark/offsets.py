"""Offsets as Spark writes them, ranges of them, and how ranges are cut for tasks.

Answers to: ``org.apache.spark.sql.kafka010.{JsonUtils,KafkaOffsetRangeLimit,KafkaOffsetRangeCalculator}`` and
``KafkaMicroBatchStream.rateLimit``. Pure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafkalite.common.types import TopicPartition

Offsets = dict[TopicPartition, int]
LATEST, EARLIEST = -1, -2
"""Offsets that mean the end and the beginning of a partition."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets ``start`` to before ``end`` of one partition."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of offsets."""
        return self.end - self.start


@dataclass(frozen=True)
class Everywhere:
    """All partitions, also those created later, at :data:`EARLIEST` or :data:`LATEST`."""

    offset: int


@dataclass(frozen=True)
class Specific:
    """An offset for each partition, or :data:`EARLIEST` or :data:`LATEST`."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class ByTime:
    """The first record at or after a time in milliseconds: one for all partitions, or one for each.

    ``latest_if_none``: a start without such a record is the end of the partition. (An end always is.)
    """

    timestamp: int | None
    timestamps: Mapping[TopicPartition, int]
    latest_if_none: bool = False


Limit = Everywhere | Specific | ByTime


class OffsetError(ValueError):
    """Offsets that are invalid, by themselves or for the topics. The text is Spark's own if Spark has one."""


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


def parse_offsets(text: str, example: str = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}') -> Offsets:
    """Offsets (or timestamps) from an option's JSON. Raises :class:`OffsetError` with ``example``."""
    try:
        value = json.loads(text)
        found = {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in value.items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError, TypeError):
        found = None
    if found is None or not all(type(offset) is int for offset in found.values()):
        raise OffsetError(f"Expected e.g. {example}, got {text}")
    return found


def parse_partitions(text: str) -> list[TopicPartition]:
    """Partitions from the JSON of the option ``assign``. Raises :class:`OffsetError`."""
    try:
        return [TopicPartition(topic, int(number)) for topic, numbers in json.loads(text).items() for number in numbers]
    except (ValueError, AttributeError, TypeError):
        raise OffsetError(f'Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}') from None


def check_limits(start: Limit, end: Limit) -> None:
    """Raise :class:`OffsetError` if two limits can make no range for any content of the topics."""
    if isinstance(start, Specific) and isinstance(end, Specific):
        before, after, what = start.offsets, end.offsets, "offset"
    elif isinstance(start, ByTime) and isinstance(end, ByTime) and start.timestamp is None and end.timestamp is None:
        before, after, what = start.timestamps, end.timestamps, "timestamp"
    else:
        return
    if before.keys() != after.keys():
        raise OffsetError(
            "The specified start offset and end offset should have the same topic-partitions. "
            f"Topic-partitions for start offset: {names(before)}, topic-partitions for end offset: {names(after)}."
        )
    for partition, first in before.items():
        last = after[partition]
        if first > last and first >= 0 and last >= 0:
            raise OffsetError(
                f"The specified start {what} {first} is greater than the end {what} {last} for topic "
                f"{partition.topic} partition {partition.partition}."
            )


def names(partitions: Iterable[TopicPartition]) -> str:
    """Partitions as text, in order."""
    return ", ".join(str(partition) for partition in sorted(partitions))


def split(ranges: Iterable[OffsetRange], min_partitions: int = 0, max_records: int = 0) -> list[OffsetRange]:
    """``ranges`` without empty ones, cut so that none has more than ``max_records`` and that there are about
    ``min_partitions`` (0: no limit); larger ranges are cut into more pieces."""
    cut = [piece for whole in ranges if whole.size > 0 for piece in _cut(whole, _parts_by_records(whole, max_records))]
    if len(cut) >= min_partitions:
        return cut
    total = sum(piece.size for piece in cut)
    small = {piece for piece in cut if _parts(piece.size, total, min_partitions) == 1}
    # Ranges that are not cut do not count in the proportions of the others.
    large_total = total - sum(piece.size for piece in small)
    large_parts = max(min_partitions - len(small), 1)
    return [
        part
        for piece in cut
        for part in _cut(piece, 1 if piece in small else _parts(piece.size, large_total, large_parts))
    ]


def _parts_by_records(whole: OffsetRange, max_records: int) -> int:
    return -(-whole.size // max_records) if max_records else 1


def _parts(size: int, total: int, wanted: int) -> int:
    return max(math.floor(size / total * wanted + 0.5), 1)


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """``whole`` cut into ``parts`` of about the same size, without empty ones."""
    pieces = []
    start, left = whole.start, whole.size
    for number in range(parts):
        size = left // (parts - number)
        left -= size
        if size:
            pieces.append(OffsetRange(whole.partition, start, start + size))
        start += size
    return pieces


def rate_limit(limit: int, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Offsets:
    """``end``, lowered so that there are about ``limit`` offsets since ``start``. Partitions share them in proportion
    to their sizes, and each that is not empty gets at least one. Partitions without a start are not limited."""
    sizes = {
        partition: offset - start[partition]
        for partition, offset in end.items()
        if partition in start and offset > start[partition]
    }
    total = sum(sizes.values())
    found = dict(end)
    for partition, size in sizes.items():
        share = limit * (size / total)
        step = math.ceil(share) if share < 1 else math.floor(share)
        found[partition] = min(end[partition], start[partition] + step)
    return found


def lag(consumed: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> dict[str, float]:
    """``minOffsetsBehindLatest``, ``maxOffsetsBehindLatest`` and ``avgOffsetsBehindLatest``, as in the
    metrics of Spark's source; empty if the position in some partition is unknown."""
    behind = [offset - consumed[partition] for partition, offset in latest.items() if partition in consumed]
    if not behind or len(behind) < len(latest):
        return {}
    return {
        "minOffsetsBehindLatest": min(behind),
        "maxOffsetsBehindLatest": max(behind),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
    }
