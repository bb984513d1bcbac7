"""Records that carry their identity, so that a reader knows which record it has read.

Answers to: nothing in Kafka; the values of a Jepsen workload. Pure.
"""

from __future__ import annotations

import random

from kafkalite.record.records import Record
from kafkalite.testing.history.events import RecordId

IDENTITY = "id"
"""Header of a tombstone, which has no value to carry the identity."""


def record_of(record: RecordId, timestamp: int, key: bytes | None = None, padding: int = 0) -> Record:
    """A record whose value is its identity, followed by ``padding`` bytes."""
    return Record(-1, timestamp, key, _text(record) + b"|" * min(padding, 1) + b"." * (padding - 1))


def tombstone_of(record: RecordId, timestamp: int, key: bytes) -> Record:
    """A record that deletes ``key``."""
    return Record(-1, timestamp, key, None, ((IDENTITY, _text(record)),))


def random_record(
    rng: random.Random, record: RecordId, timestamp: int, keys: int, tombstones: float, padding: int
) -> Record:
    """A record with one of ``keys`` random keys, or (0) without one; ``tombstones``: the probability of a tombstone."""
    if not keys:
        return record_of(record, timestamp, None, padding)
    key = f"k{rng.randrange(keys)}".encode()
    if rng.random() < tombstones:
        return tombstone_of(record, timestamp, key)
    return record_of(record, timestamp, key, padding)


def identity_of(record: Record) -> RecordId | None:
    """The identity of a record; ``None`` if no client of a simulation wrote it."""
    text = record.value
    if text is None:
        text = next((content for name, content in record.headers if name == IDENTITY), None)
    if text is None:
        return None
    producer, separator, number = text.partition(b"|")[0].rpartition(b"#")
    if not separator or not number.isdigit():
        return None
    return RecordId(producer.decode("utf-8", "replace"), int(number))


def _text(record: RecordId) -> bytes:
    return f"{record.producer}#{record.number}".encode()
