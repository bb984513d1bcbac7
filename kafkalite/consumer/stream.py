"""From the fetcher to the reader: fetched records that wait, the record handed out, and how far it has been read.

Answers to: ``kafka.consumer.{KafkaStream,ConsumerIterator,PartitionTopicInfo}``. Deterministic (locks, no thread).

A record counts as read once the next one is requested: if a reader is killed while it processes a record, its successor
reads that record again. (The 0.8 consumer counts a record when it hands it out, and so may lose the one in process.)
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkalite.common.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Record:
    """One record. ``timestamp_ms`` is -1 where its message format has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


@dataclass(slots=True)
class _InHand:
    """The record that the reader processes; ``position`` is how far its partition was read before this record."""

    record: Record
    generation: int
    position: int


class Stream:
    """The records of the partitions that this member owns now. Used by three threads: reader, rebalancer, fetcher.

    ``generation`` counts the assignments: records fetched for an earlier one are dropped, and a record handed out
    under an earlier one no longer counts. ``max_chunks``: how many fetched chunks may wait.
    """

    def __init__(self, max_chunks: int) -> None:
        self.generation = 0
        self._max_chunks = max_chunks
        self._changed = threading.Condition()
        self._chunks: deque[tuple[TopicPartition, deque[Record]]] = deque()
        self._positions: dict[TopicPartition, int | None] = {}
        self._in_hand: _InHand | None = None
        self._failure: Exception | None = None
        self._closed = False

    # The reader's side

    def next(self, timeout: float | None) -> Record | None:
        """The next record; the previous one counts as read. ``None`` after ``timeout`` seconds, and once closed.

        Raises the error that :meth:`fail` was given.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            self._settle()
            while not self._chunks:
                if self._failure is not None:
                    raise self._failure
                left = None if deadline is None else deadline - time.monotonic()
                if self._closed or (left is not None and left <= 0):
                    return None
                self._changed.wait(left)
            tp, records = self._chunks[0]
            record = records.popleft()
            if not records:
                self._chunks.popleft()
                self._changed.notify_all()
            position = self._positions[tp]
            self._in_hand = _InHand(record, self.generation, record.offset if position is None else position)
            return record

    def settle(self) -> None:
        """Count the record that the reader processes as read."""
        with self._changed:
            self._settle()

    # The rebalancer's side

    def begin(self, starts: Mapping[TopicPartition, int | None]) -> tuple[int, dict[TopicPartition, int | None]]:
        """Own these partitions from now on, read as far as ``starts`` (``None``: never). Returns the generation and the
        offsets to fetch from: the record that the reader processes is not fetched again."""
        with self._changed:
            self.generation += 1
            self._positions = dict(starts)
            self._failure = None
            fetch = dict(starts)
            held = self._in_hand
            if held is not None:
                tp = TopicPartition(held.record.topic, held.record.partition)
                if starts.get(tp) == held.position:
                    held.generation = self.generation
                    fetch[tp] = held.record.offset + 1
            return self.generation, fetch

    def end(self) -> dict[TopicPartition, int]:
        """Own no partition any more: waiting records are dropped. Returns how far each has been read, where it was."""
        with self._changed:
            read = self._read()
            self.generation += 1
            self._positions = {}
            self._chunks.clear()
            self._changed.notify_all()
            return read

    def read(self) -> dict[TopicPartition, int]:
        """The next offset to read of each owned partition."""
        with self._changed:
            return self._read()

    def fail(self, error: Exception) -> None:
        """Raise ``error`` in the reader, after the waiting records, until a new generation begins."""
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def close(self) -> None:
        """The reader gets the waiting records and no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # The fetcher's side

    def put(self, generation: int, tp: TopicPartition, records: Sequence[Record]) -> bool:
        """Add records of ``tp``, at least one; ``False`` if they are of an earlier generation and were dropped."""
        with self._changed:
            if generation != self.generation:
                return False
            self._chunks.append((tp, deque(records)))
            self._changed.notify_all()
            return True

    def move(self, generation: int, tp: TopicPartition, offset: int) -> None:
        """Begin ``tp`` at ``offset``, because it has no committed offset, or one that its log no longer has."""
        with self._changed:
            if generation == self.generation:
                self._positions[tp] = offset

    def wait_for_room(self, timeout: float) -> bool:
        """Whether there is room for another chunk, after a wait of at most ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._chunks) < self._max_chunks, timeout)

    def _settle(self) -> None:
        held, self._in_hand = self._in_hand, None
        if held is not None and held.generation == self.generation:
            self._positions[TopicPartition(held.record.topic, held.record.partition)] = held.record.offset + 1

    def _read(self) -> dict[TopicPartition, int]:
        return {tp: position for tp, position in self._positions.items() if position is not None}
