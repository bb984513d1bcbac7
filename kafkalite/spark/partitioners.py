"""Assigns rows to partitions.

Answers to: ``org.apache.kafka.clients.producer.{RoundRobinPartitioner,internals.BuiltInPartitioner}``. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kafkalite.common.types import TopicPartition
from kafkalite.spark import encode_kernels as kernels
from kafkalite.spark.columns import NO_INTS, Columns, frozen
from kafkalite.spark.compiled import Longs


class PartitionError(Exception):
    """A row without a topic, or with a partition that does not exist; ``row`` is its number in the columns."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row


class Partitioner:
    """Assigns rows to *slots*: the partitions of all topics, numbered in the order in which topics were added.

    ``sticky_bytes``: bytes of rows without a key that go to one partition before the next is chosen. ``seed`` decides
    the first.
    """

    def __init__(self, sticky_bytes: int, seed: int, *, round_robin: bool = False, ignore_keys: bool = False) -> None:
        self.slots: list[TopicPartition] = []
        self._topics: dict[str, int] = {}
        self._slots_at = [0]
        """Number of a topic → its first slot; the last entry is the number of all slots."""
        self._usable: list[int] = []
        """Slots for rows that name no partition, topic by topic."""
        self._usable_at = [0]
        """Number of a topic → its first entry in ``_usable``; the last entry is the number of all."""
        self._sticky = np.zeros((0, kernels.STICKY_TOPIC_FIELDS), np.int64)
        self._sticky_bytes = sticky_bytes
        self._round_robin = round_robin
        self._with_keys = not ignore_keys
        self._state = np.zeros(kernels.ASSIGN_STATES, np.int64)
        self._state[kernels.CHANCE] = (seed & ((1 << 62) - 1)) | 1

    def missing(self, topics: Sequence[str]) -> list[str]:
        """The topics of ``topics`` that were not added."""
        return [topic for topic in topics if topic not in self._topics]

    def add(self, topic: str, leaders: Mapping[int, int]) -> None:
        """Add a topic with the leaders of its partitions. A partition without one (-1) gets only rows that name it."""
        first = len(self.slots)
        count = len(leaders)
        led = [first + number for number in range(count) if leaders.get(number, -1) >= 0]
        self._topics[topic] = len(self._topics)
        self.slots += [TopicPartition(topic, number) for number in range(count)]
        self._slots_at.append(len(self.slots))
        # Without any leader all are usable, as for Kafka's BuiltInPartitioner.
        self._usable += led or range(first, first + count)
        self._usable_at.append(len(self._usable))
        grown = np.zeros((len(self._topics), kernels.STICKY_TOPIC_FIELDS), np.int64)
        grown[:-1] = self._sticky
        grown[-1, kernels.SLOT] = -1
        if self._round_robin:
            grown[-1, kernels.BYTES] = int(self._state[kernels.CHANCE]) % max(count, 1)
        self._sticky = grown

    def assign(self, columns: Columns, names: Sequence[str]) -> Longs:
        """The slot of each row. ``names``: the topics that ``columns.topics`` numbers, all added.

        Raises :class:`PartitionError`.
        """
        numbers = np.array([self._topics[name] for name in names], np.int64)
        topics = NO_INTS
        if len(columns.topics):
            topics = frozen(np.where(columns.topics < 0, -1, np.append(numbers, -1)[columns.topics]))
        elif self._topics and numbers[0]:
            # All rows go to ``names[0]``. Without an array the kernel takes the topic with number 0.
            topics = frozen(np.full(columns.rows, numbers[0], np.int64))
        slots = np.empty(columns.rows, np.int64)
        self._state[kernels.BAD_ROW] = -1
        key_ends = columns.key.ends if len(columns.key.ends) else frozen(np.zeros(columns.rows + 1, np.int32))
        kernels.assign(
            topics,
            np.array(self._slots_at, np.int64),
            np.array(self._usable_at, np.int64),
            np.array(self._usable, np.int64),
            columns.partitions,
            columns.partition_valid,
            key_ends,
            columns.key.data,
            columns.key.valid,
            columns.value.ends,
            self._with_keys and len(columns.key.ends) > 0,
            self._round_robin,
            self._sticky_bytes,
            self._sticky,
            self._state,
            slots,
        )
        bad = int(self._state[kernels.BAD_ROW])
        if bad >= 0:
            raise PartitionError(self._why(columns, names, bad), bad)
        return slots

    def _why(self, columns: Columns, names: Sequence[str], row: int) -> str:
        what = int(self._state[kernels.WHAT])
        if what == kernels.NO_TOPIC:
            return "null topic present in the data. Use the topic option for setting a default topic."
        name = names[int(columns.topics[row])] if len(columns.topics) else names[0]
        number = int(columns.partitions[row])
        if what == kernels.NEGATIVE:
            return (
                f"Invalid partition: {number} of topic {name}. Partition number should always be non-negative or null."
            )
        at = self._topics[name]
        count = self._slots_at[at + 1] - self._slots_at[at]
        return f"Partition {number} of topic {name} with partition count {count} is not present in metadata."
