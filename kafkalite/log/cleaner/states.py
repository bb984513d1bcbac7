"""What is being compacted, and how far each log has been.

Answers to: ``org.apache.kafka.storage.internals.log.{LogCleanerManager,LogCleaningState}``. Pure.

Kafka's callers wait until a cleaning is aborted, and so have to pause it. Here what an aborted round still reports is
passed over, nobody waits, and a partition is merely not given to another worker before the first one has let go of it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from kafkalite.common.types import TopicPartition


class CleaningState(enum.Enum):
    """Of one partition."""

    NONE = "none"
    IN_PROGRESS = "in progress"
    ABORTED = "aborted"
    """A worker has been told to give up and has not answered yet."""
    UNCLEANABLE = "uncleanable"
    """Its bytes cannot be compacted; it is left alone until the broker starts again."""


TRANSITIONS: Mapping[CleaningState, frozenset[CleaningState]] = {
    CleaningState.NONE: frozenset({CleaningState.IN_PROGRESS}),
    CleaningState.IN_PROGRESS: frozenset({CleaningState.NONE, CleaningState.ABORTED, CleaningState.UNCLEANABLE}),
    CleaningState.ABORTED: frozenset({CleaningState.NONE}),
    CleaningState.UNCLEANABLE: frozenset({CleaningState.NONE}),
}
"""From each state to those that may follow it."""


class CleaningStates:
    """The state of every partition that is not ``NONE``."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, CleaningState] = {}

    def get(self, topic_partition: TopicPartition) -> CleaningState:
        """The state of a partition."""
        return self._states.get(topic_partition, CleaningState.NONE)

    def move(self, topic_partition: TopicPartition, state: CleaningState) -> None:
        """Go on to ``state``. ``ValueError`` where the table does not have it."""
        current = self.get(topic_partition)
        if state not in TRANSITIONS[current]:
            raise ValueError(f"cleaning of {topic_partition} cannot go from {current.value} to {state.value}")
        if state is CleaningState.NONE:
            del self._states[topic_partition]
        else:
            self._states[topic_partition] = state


class CleanerCheckpoints:
    """The first dirty offset of every compacted partition."""

    def __init__(self) -> None:
        self._offsets: dict[TopicPartition, int] = {}

    def load(self, offsets: Mapping[TopicPartition, int], present: Iterable[TopicPartition]) -> None:
        """Take what a directory's file says of the partitions that are there."""
        self._offsets.update((tp, offsets[tp]) for tp in present if tp in offsets)

    def get(self, topic_partition: TopicPartition) -> int | None:
        """Up to where a partition is compacted; ``None`` where it never was."""
        return self._offsets.get(topic_partition)

    def put(self, topic_partition: TopicPartition, offset: int) -> None:
        """Everything below ``offset`` is compacted."""
        self._offsets[topic_partition] = offset

    def truncate(self, topic_partition: TopicPartition, offset: int) -> bool:
        """What lies at and above ``offset`` is no longer the same; returns whether that changes anything."""
        if self._offsets.get(topic_partition, 0) <= offset:
            return False
        self._offsets[topic_partition] = offset
        return True

    def remove(self, topic_partition: TopicPartition) -> bool:
        """The partition is gone; returns whether anything was known of it."""
        return self._offsets.pop(topic_partition, None) is not None

    def of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The entries of ``partitions``: what the file of their directory is to say."""
        return {tp: self._offsets[tp] for tp in partitions if tp in self._offsets}
