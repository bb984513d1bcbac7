"""History of sent, acknowledged and read records, and its checker. Pure: no I/O, no clock.

A record's value has its producer and its sequence among that producer's records of the partition. The checker tests
these rules; each violation is one line of text:

- every acknowledged record is in the log at the acknowledged offset;
- an offset has one record for all readers at all times (except that a record above the high watermark may disappear
  with a leader and be replaced by another);
- a producer's records are in the order in which they were sent, without duplicates, and none is missing between two
  others;
- the offsets of a log have no gaps;
- no reader sees a record behind the end of the log;
- epochs only grow.

``kafkalite.testing.history`` has more rules (transactions, groups, compaction) for histories that fit into memory as
events. This one has 8 bytes a record and checks in parts, because an hour's run has tens of millions of records.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

_VALUE = struct.Struct(">2sHIQ")
_MAGIC = b"kl"
_PRODUCER_SHIFT = 40
_NOTHING = -1
_UNTOLD = -2
MOST_BREACHES = 50
"""Limit of the list, because further violations mostly have the same cause."""


class Identity(NamedTuple):
    """A record: the ``number``-th (from 0) of ``producer`` in ``partition``."""

    producer: int
    partition: int
    number: int


def encode_value(identity: Identity, size: int) -> bytes:
    """The value of a record, ``size`` bytes long (at least 16)."""
    return _VALUE.pack(_MAGIC, identity.producer, identity.partition, identity.number).ljust(size, b".")


def decode_value(value: bytes) -> Identity:
    """The identity of a record. Raises ``ValueError`` for a value that no producer of the workload sends."""
    if len(value) < _VALUE.size:
        raise ValueError(f"not a record of ours: {value!r}")
    magic, producer, partition, number = _VALUE.unpack_from(value)
    if magic != _MAGIC:
        raise ValueError(f"not a record of ours: {value[:32]!r}")
    return Identity(producer, partition, number)


class History:
    """The history of all clients: add to it by :meth:`acked` and :meth:`read`, then :meth:`check` it."""

    def __init__(self, producers: int, partitions: int) -> None:
        self.breaches: list[str] = []
        self.acknowledged = 0
        self.reads = 0
        self._acks = {
            (producer, partition): array("q") for producer in range(producers) for partition in range(partitions)
        }
        self._logs = [array("q") for _ in range(partitions)]
        self._checked_log = [0] * partitions
        self._checked_acks = dict.fromkeys(self._acks, 0)
        self._last = dict.fromkeys(self._acks, -1)

    def breach(self, text: str) -> None:
        """Add a violation."""
        if len(self.breaches) < MOST_BREACHES:
            self.breaches.append(text)

    def acked(self, identity: Identity, offset: int | None) -> None:
        """The cluster acknowledged the record at ``offset``; ``None``: at an unknown offset.

        The offset is unknown if librdkafka got no answer for the record, but the acknowledgement of a later record of
        the same idempotent producer.
        """
        producer, partition, number = identity
        acks = self._acks[producer, partition]
        if number >= len(acks):
            acks.extend([_NOTHING] * (number + 1 - len(acks)))
        if acks[number] != _NOTHING:
            self.breach(f"{identity} acknowledged twice, at {acks[number]} and {offset}")
        acks[number] = _UNTOLD if offset is None else offset
        self.acknowledged += 1

    def failed(self, identity: Identity, error: str) -> None:
        """The cluster refused the record, or never answered."""
        self.breach(f"{identity} was not acknowledged: {error}")

    def read(self, partition: int, offset: int, identity: Identity, reader: str) -> None:
        """``reader`` saw the record at ``offset``."""
        self.reads += 1
        if identity.partition != partition:
            self.breach(f"{reader} read {identity} in partition {partition} at {offset}")
            return
        packed = identity.producer << _PRODUCER_SHIFT | identity.number
        log = self._logs[partition]
        if offset >= len(log):
            log.extend([_NOTHING] * (offset + 1 - len(log)))
        known = log[offset]
        if known == _NOTHING:
            log[offset] = packed
        elif known != packed:
            self.breach(
                f"two records at offset {offset} of partition {partition}: {_unpack(known, partition)} before, "
                f"{identity} now, as {reader} saw it"
            )

    def ended(self, partition: int, offset: int) -> None:
        """The log ends at ``offset``, after the last acknowledgement: no reader can have seen a record behind it."""
        if self.end(partition) > offset:
            self.breach(f"a reader saw partition {partition} up to {self.end(partition)}, the log ends at {offset}")

    def end(self, partition: int) -> int:
        """One more than the greatest offset read."""
        return len(self._logs[partition])

    def check(self) -> list[str]:
        """Check the history since the last check, after all records were read; returns all violations so far."""
        for partition in range(len(self._logs)):
            self._check_log(partition)
        for key in self._acks:
            self._check_acks(*key)
        return self.breaches

    def _check_log(self, partition: int) -> None:
        log = self._logs[partition]
        for offset in range(self._checked_log[partition], len(log)):
            packed = log[offset]
            if packed == _NOTHING:
                self.breach(f"no record at offset {offset} of partition {partition}")
                continue
            identity = _unpack(packed, partition)
            key = identity.producer, partition
            if key not in self._last:
                self.breach(f"{identity} at offset {offset}: no such producer")
            elif identity.number <= self._last[key]:
                self.breach(f"{identity} at offset {offset} comes after number {self._last[key]}: reordered or twice")
            elif identity.number != self._last[key] + 1:
                self.breach(f"{identity} at offset {offset} comes after number {self._last[key]}: some are missing")
            if key in self._last:
                self._last[key] = max(self._last[key], identity.number)
        self._checked_log[partition] = len(log)

    def _check_acks(self, producer: int, partition: int) -> None:
        acks, log = self._acks[producer, partition], self._logs[partition]
        for number in range(self._checked_acks[producer, partition], len(acks)):
            offset = acks[number]
            identity = Identity(producer, partition, number)
            if offset == _NOTHING:
                self.breach(f"{identity} was never acknowledged, later ones were")
            elif offset == _UNTOLD:
                if number > self._last[producer, partition]:
                    self.breach(f"lost: {identity}, acknowledged somewhere; the log ends at {len(log)}")
            elif offset < 0 or offset >= len(log) or log[offset] == _NOTHING:
                self.breach(f"lost: {identity}, acknowledged at offset {offset}; the log ends at {len(log)}")
            elif log[offset] != producer << _PRODUCER_SHIFT | number:
                self.breach(
                    f"lost: {identity}, acknowledged at {offset}, where {_unpack(log[offset], partition)} stands"
                )
        self._checked_acks[producer, partition] = len(acks)


def _unpack(packed: int, partition: int) -> Identity:
    return Identity(packed >> _PRODUCER_SHIFT, partition, packed & ((1 << _PRODUCER_SHIFT) - 1))


@dataclass
class EpochTrail:
    """Epochs that an onlooker read over time. ``changes`` counts how often each epoch grew."""

    breaches: list[str] = field(default_factory=list)
    changes: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    _leaders: dict[tuple[str, int], int] = field(default_factory=dict)

    def see(self, name: str, epoch: int) -> None:
        """The value of the epoch ``name`` is ``epoch`` now."""
        before = self.last.get(name)
        if before is not None and epoch < before:
            self.breaches.append(f"{name} went back from {before} to {epoch}")
        if before is not None and epoch > before:
            self.changes[name] = self.changes.get(name, 0) + 1
        self.last[name] = epoch

    def see_leader(self, partition: str, epoch: int, leader: int) -> None:
        """``partition`` has ``leader`` (-1: none) in leader epoch ``epoch``; each epoch has one leader."""
        self.see(f"leader epoch of {partition}", epoch)
        known = self._leaders.setdefault((partition, epoch), leader)
        if known != leader:
            self.breaches.append(f"{partition} has two leaders in epoch {epoch}: {known} and {leader}")


class Batch(NamedTuple):
    """A record batch in a replica's log."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    """Checksum of all bytes of the batch, the header included."""


def compare_replicas(partition: str, replicas: Mapping[int, list[Batch]]) -> list[str]:
    """Differences between the logs of one partition (broker → batches), and defects within each log."""
    breaches = []
    for broker, batches in replicas.items():
        for before, after in pairwise(batches):
            if after.base_offset != before.last_offset + 1:
                breaches.append(f"{partition} on {broker}: {after} follows {before}")
            if after.leader_epoch < before.leader_epoch:
                breaches.append(f"{partition} on {broker}: leader epoch goes back, {after} follows {before}")
    (first, expected), *others = replicas.items()
    for broker, batches in others:
        if batches != expected:
            at = next((i for i, pair in enumerate(zip(expected, batches, strict=False)) if pair[0] != pair[1]), None)
            if at is None:
                breaches.append(f"{partition}: {len(expected)} batches on {first}, {len(batches)} on {broker}")
            else:
                breaches.append(f"{partition}: {expected[at]} on {first}, {batches[at]} on {broker}")
    return breaches
