"""From the fetcher to the reader: what was fetched and waits, what was handed out, how far it has been read.

Answers to: ``kafka.consumer.{KafkaStream,ConsumerIterator,PartitionTopicInfo}``. Deterministic (a lock, no thread).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
