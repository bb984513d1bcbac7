"""Identifiers that every room shares: topic partitions, topic ids, regions of files.

Answers to: ``org.apache.kafka.common.{TopicPartition,Uuid}`` and ``FileRecords`` as a transfer source. Pure.
"""

from __future__ import annotations

import base64
import os
import random
import uuid
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, final

T = TypeVar("T")

NO_LEADER = -1
"""Leader id of a partition without a leader."""

ZERO_UUID = uuid.UUID(int=0)
"""Topic id on the wire of a topic that has none, or that is unknown."""


class TopicPartition(NamedTuple):
    """One partition of a topic; prints as Kafka's ``topic-partition``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(items: Iterable[tuple[TopicPartition, T]]) -> dict[str, list[T]]:
    """The items of each topic, in the order in which they come."""
    topics: dict[str, list[T]] = {}
    for tp, item in items:
        topics.setdefault(tp.topic, []).append(item)
    return topics


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of the partitions of each topic, in order."""
    return by_topic((tp, tp.partition) for tp in sorted(partitions))


def side_by_side(items: list[T], key: Callable[[T], Hashable]) -> list[T]:
    """``items`` with those of one ``key`` next to each other, in the order of the first item of each."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return items if len(groups) == 1 else [item for group in groups.values() for item in group]


def random_uuid(rng: random.Random) -> uuid.UUID:
    """A random (version 4) UUID drawn from ``rng``."""
    return uuid.UUID(int=rng.getrandbits(128), version=4)


def uuid_to_text(value: uuid.UUID) -> str:
    """Kafka's text form of a ``Uuid``: 22 characters of URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> uuid.UUID:
    """The inverse of :func:`uuid_to_text`. Raises ``ValueError`` for any other text."""
    raw = base64.urlsafe_b64decode(text + "==")
    if len(raw) != 16:
        raise ValueError(f"not a Kafka uuid: {text!r}")
    return uuid.UUID(bytes=raw)


@dataclass(slots=True, eq=False)
@final
class FileRegion:
    """``count`` bytes at ``position`` of an open file, to be sent by ``sendfile``.

    ``owner`` keeps the file descriptor open as long as a region of it is alive (a deleted segment
    may still be on its way to a reader). ``cold`` says that the bytes may have to come from the disk,
    so that the connection sends them off the reactor.
    """

    fd: int
    position: int
    count: int
    owner: object
    cold: bool = False

    def __len__(self) -> int:
        return self.count

    def read(self) -> bytes:
        """Return the bytes, for conversion and for tests."""
        return os.pread(self.fd, self.count, self.position)


Buffer = bytes | bytearray | memoryview
Part = bytes | bytearray | memoryview | FileRegion
"""One piece of an answer; a response is a list of parts, written in order."""
