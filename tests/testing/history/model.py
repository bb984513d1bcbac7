"""A simulated cluster that keeps every promise; each seed gives a history without a breach."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from kafkalite.testing.history.events import (
    Aborted,
    Acked,
    Begun,
    Committed,
    Committing,
    Compacted,
    Deleting,
    Derived,
    Event,
    Failed,
    Initialized,
    Isolation,
    Led,
    LogEntry,
    OffsetCommitted,
    OffsetCommitting,
    OffsetFetched,
    OffsetFetching,
    Owned,
    Positioned,
    ProducerKind,
    Reached,
    Read,
    RecordId,
    Replica,
    Sent,
    Started,
    Unknown,
)

PARTITIONS = ("orders-0", "orders-1", "orders-2")
COMPACTED = "latest-0"
TRIMMED = "events-0"
SOURCE, TARGET = "source-0", "target-0"
PIPELINE = "pipeline"
KEYS = ("red", "green", "blue")
BROKERS = (1, 2, 3)
GROUP = "billing"
ONLOOKERS = ("onlooker-a", "onlooker-b")


@dataclass
class Partition:
    """A log, who leads it, and where its open transactions begin."""

    name: str
    log: list[LogEntry] = field(default_factory=list)
    leader: int = 1
    epoch: int = 0
    open: dict[str, int] = field(default_factory=dict)
    hidden: set[RecordId] = field(default_factory=set)
    """Records of transactions that were not committed."""

    def append(self, record: RecordId | None) -> int:
        offset = len(self.log)
        self.log.append(LogEntry(offset, self.epoch, record, zlib.crc32(f"{self.name}@{offset}".encode())))
        return offset

    def end(self, isolation: Isolation) -> int:
        """The end offset for a reader."""
        return (
            min(self.open.values(), default=len(self.log)) if isolation is Isolation.READ_COMMITTED else len(self.log)
        )

    def visible(self, offset: int, isolation: Isolation) -> RecordId | None:
        record = self.log[offset].record
        return None if isolation is Isolation.READ_COMMITTED and record in self.hidden else record


class Model:
    """Makes random steps, and records the events."""

    def __init__(self, seed: int) -> None:
        self.events: list[Event] = []
        self._chance = random.Random(seed)
        self._partitions = [Partition(name) for name in PARTITIONS]
        self._later: list[Event] = []
        self._numbers: dict[str, int] = {}
        self._transactions: dict[str, int] = {}
        self._positions: dict[tuple[str, str], int] = {}
        self._offsets: dict[str, int] = {}
        for kind in ProducerKind:
            for index in range(2):
                self._numbers[f"{kind.value}-{index}"] = 0
                self.events.append(Started(f"{kind.value}-{index}", kind))
                if kind is ProducerKind.TRANSACTIONAL:
                    self.events.append(Initialized(f"{kind.value}-{index}", f"id-{index}", 1000 + index, 0))
        self._generation = 0
        self._compacted = Partition(COMPACTED)
        self._trimmed = Partition(TRIMMED)
        self._keys: dict[RecordId, tuple[str, bool]] = {}
        self._start = 0
        self.events.append(Compacted(COMPACTED.removesuffix("-0")))
        self._source, self._target = Partition(SOURCE), Partition(TARGET)
        self._transformed = 0
        self._numbers["pipe"] = 0
        self.events.append(Started("pipe", ProducerKind.TRANSACTIONAL))
        for producer in ("keyed", "trimmed", "source"):
            self._numbers[producer] = 0
            self.events.append(Started(producer, ProducerKind.IDEMPOTENT))

    def run(self, steps: int) -> list[Event]:
        """Run ``steps`` steps, then read all records and add the replicas to the history."""
        actions: list[Callable[[], None]] = [
            *[self._send] * 8,
            *[self._transaction] * 2,
            *[self._reader] * 3,
            self._member,
            self._onlooker,
            self._elect,
            self._write_key,
            self._write_and_trim,
            self._transform,
        ]
        for _ in range(steps):
            self._chance.choice(actions)()
            # what was done is not always heard of at once
            while self._later and self._chance.random() < 0.6:
                self._hear()
        while self._later:
            self._hear()
        self._finish()
        return self.events

    def _hear(self) -> None:
        self.events.append(self._later.pop(self._chance.randrange(len(self._later))))

    def _next(self, producer: str) -> RecordId:
        self._numbers[producer] += 1
        return RecordId(producer, self._numbers[producer])

    def _send(self) -> None:
        kind = self._chance.choice((ProducerKind.PLAIN, ProducerKind.IDEMPOTENT))
        partition = self._chance.choice(self._partitions)
        record = self._next(f"{kind.value}-{self._chance.randrange(2)}")
        self.events.append(Sent(record, partition.name))
        match self._chance.random():
            case fate if fate < 0.03:
                self._later.append(Failed(record, "refused"))
            case fate if fate < 0.06:
                self._later.append(Unknown(record, "timed out"))
            case fate if fate < 0.09:
                partition.append(record)
                self._later.append(Unknown(record, "timed out"))
            case fate:
                offset = partition.append(record)
                if kind is ProducerKind.PLAIN and fate < 0.12:
                    offset = partition.append(record)
                if kind is ProducerKind.IDEMPOTENT and fate < 0.12:
                    self._later.append(Acked(record, partition.name, -1))
                    return
                who = (partition.leader, partition.epoch) if fate < 0.5 else (partition.leader, -1)
                self._later.append(Acked(record, partition.name, offset, *who))

    def _transaction(self) -> None:
        """A whole transaction, or the next step of one that is open."""
        producer = f"transactional-{self._chance.randrange(2)}"
        if any(producer in partition.open for partition in self._partitions):
            self._end(producer)
            return
        number = self._transactions[producer] = self._transactions.get(producer, 0) + 1
        self.events.append(Begun(producer, number))
        for _ in range(self._chance.randrange(1, 6)):
            partition = self._chance.choice(self._partitions)
            record = self._next(producer)
            self.events.append(Sent(record, partition.name, number))
            offset = partition.append(record)
            partition.open.setdefault(producer, offset)
            self.events.append(Acked(record, partition.name, offset))
        if self._chance.random() < 0.5:
            self._end(producer)

    def _end(self, producer: str) -> None:
        number, fate = self._transactions[producer], self._chance.random()
        asked = fate < 0.75
        if asked:
            self.events.append(Committing(producer, number))
        for partition in self._partitions:
            if producer in partition.open:
                first = partition.open.pop(producer)
                if fate >= 0.65:
                    records = (entry.record for entry in partition.log[first:])
                    partition.hidden |= {record for record in records if record and record.producer == producer}
                partition.append(None)
        # what is left is of unknown outcome, committed or not, or was never asked for
        if fate < 0.55:
            self.events.append(Committed(producer, number))
        elif fate >= 0.8:
            self.events.append(Aborted(producer, number))

    def _reader(self) -> None:
        isolation = self._chance.choice(list(Isolation))
        partition = self._chance.choice(self._partitions)
        reader = f"{isolation.value}-{self._chance.randrange(2)}"
        key = reader, partition.name
        if key not in self._positions or self._chance.random() < 0.05:
            self._positions[key] = self._chance.randrange(partition.end(isolation) + 1)
            self.events.append(Positioned(reader, partition.name, self._positions[key]))
        end = min(partition.end(isolation), self._positions[key] + self._chance.randrange(20))
        self._read(reader, isolation, partition, self._positions[key], end)
        self._positions[key] = max(end, self._positions[key])

    def _read(self, reader: str, isolation: Isolation, partition: Partition, start: int, end: int) -> None:
        for offset in range(start, end):
            record = partition.visible(offset, isolation)
            if record is not None:
                self.events.append(Read(reader, isolation, partition.name, offset, record))

    def _member(self) -> None:
        if self._chance.random() < 0.2 or self._generation == 0:
            self._rebalance()
        generation = self._generation
        partition = self._chance.choice(self._partitions)
        self.events.append(OffsetFetching("member", GROUP))
        committed = self._offsets.get(partition.name, -1)
        self.events.append(OffsetFetched("member", GROUP, partition.name, committed))
        start = max(committed, 0)
        self.events.append(Positioned("member", partition.name, start))
        end = partition.end(Isolation.READ_COMMITTED)
        self._read("member", Isolation.READ_COMMITTED, partition, start, end)
        if end <= start:
            return
        self.events.append(OffsetCommitting(GROUP, partition.name, end, generation))
        fate = self._chance.random()
        if fate < 0.9:
            self._offsets[partition.name] = end
        if fate < 0.8:
            self._later.append(OffsetCommitted(GROUP, partition.name, end, generation))

    def _rebalance(self) -> None:
        """The next generation: each partition has one random owner."""
        self._generation += 1
        owners: dict[str, list[str]] = {"member": [], "other": []}
        for partition in self._partitions:
            owners[self._chance.choice(list(owners))].append(partition.name)
        for owner, partitions in owners.items():
            self.events.append(Owned(GROUP, self._generation, owner, tuple(partitions)))

    def _write_key(self) -> None:
        record, key, tombstone = self._next("keyed"), self._chance.choice(KEYS), self._chance.random() < 0.3
        self.events.append(Sent(record, COMPACTED, -1, key, tombstone))
        if self._chance.random() < 0.1:
            self._later.append(Unknown(record))
            if self._chance.random() < 0.5:
                return
        else:
            self._later.append(Acked(record, COMPACTED, len(self._compacted.log)))
        self._compacted.append(record)
        self._keys[record] = key, tombstone

    def _write_and_trim(self) -> None:
        record = self._next("trimmed")
        self.events.append(Sent(record, TRIMMED))
        self._later.append(Acked(record, TRIMMED, self._trimmed.append(record)))
        if self._chance.random() < 0.2:
            self._start = self._chance.randrange(self._start, len(self._trimmed.log))
            self.events.append(Deleting(TRIMMED, self._start))

    def _transform(self) -> None:
        """A pipeline makes one record of each that is new, or aborts."""
        for _ in range(self._chance.randrange(4)):
            record = self._next("source")
            self.events.append(Sent(record, SOURCE))
            self._later.append(Acked(record, SOURCE, self._source.append(record)))
        number = self._transactions["pipe"] = self._transactions.get("pipe", 0) + 1
        commits = self._chance.random() < 0.7
        self.events.append(Begun("pipe", number))
        end = len(self._source.log)
        for offset in range(self._transformed, end):
            result = self._next("pipe")
            self.events += [Sent(result, TARGET, number), Derived(result, PIPELINE, SOURCE, offset)]
            self.events.append(Acked(result, TARGET, self._target.append(result)))
        self._target.append(None)
        if commits:
            self._transformed = end
            self.events += [Committing("pipe", number), OffsetCommitting(PIPELINE, SOURCE, end)]
            self.events += [Committed("pipe", number), OffsetCommitted(PIPELINE, SOURCE, end)]
        else:
            self.events.append(Aborted("pipe", number))

    def _compact(self, log: list[LogEntry]) -> list[LogEntry]:
        """The records after compaction: the last one of each key, except some tombstones."""
        end = self._chance.randrange(len(log) + 1)
        kept: list[LogEntry] = []
        for index, entry in enumerate(log):
            assert entry.record is not None
            key, tombstone = self._keys[entry.record]
            later = any(other.record and self._keys[other.record][0] == key for other in log[index + 1 : end])
            if index >= end or not (later or (tombstone and self._chance.random() < 0.5)):
                kept.append(entry)
        return kept

    def _onlooker(self) -> None:
        onlooker = self._chance.choice(ONLOOKERS)
        self.events.append(OffsetFetching(onlooker, GROUP))
        for partition in self._partitions:
            offset = self._offsets.get(partition.name, -1)
            self.events.append(OffsetFetched(onlooker, GROUP, partition.name, offset))

    def _elect(self) -> None:
        partition = self._chance.choice(self._partitions)
        partition.leader, partition.epoch = self._chance.choice(BROKERS), partition.epoch + 1
        self.events.append(Led(partition.name, partition.leader, partition.epoch))

    def _finish(self) -> None:
        for producer in self._transactions:
            if producer != "pipe" and any(producer in partition.open for partition in self._partitions):
                self._end(producer)
        for partition in self._partitions:
            for isolation in Isolation:
                reader = f"last-{isolation.value}"
                self.events.append(Positioned(reader, partition.name, 0))
                self._read(reader, isolation, partition, 0, len(partition.log))
                self.events.append(Reached(reader, isolation, partition.name, len(partition.log)))
            for broker in BROKERS:
                self.events.append(Replica(partition.name, broker, tuple(partition.log)))
        self.events.append(Positioned("last-read_uncommitted", TRIMMED, self._start))
        self._read(
            "last-read_uncommitted", Isolation.READ_UNCOMMITTED, self._trimmed, self._start, len(self._trimmed.log)
        )
        for log in (self._source, self._target):
            self.events.append(Positioned("last-read_uncommitted", log.name, 0))
            self._read("last-read_uncommitted", Isolation.READ_UNCOMMITTED, log, 0, len(log.log))
            self.events += [Replica(log.name, broker, tuple(log.log)) for broker in BROKERS]
        for reader in ("early", "late"):
            self.events.append(Positioned(reader, COMPACTED, 0))
            for entry in self._compact(self._compacted.log):
                self.events.append(Read(reader, Isolation.READ_UNCOMMITTED, COMPACTED, entry.offset, entry.record))
            self.events.append(Reached(reader, Isolation.READ_UNCOMMITTED, COMPACTED, len(self._compacted.log)))
        for broker in BROKERS:
            self.events.append(Replica(COMPACTED, broker, tuple(self._compact(self._compacted.log))))
            start = self._chance.randrange(self._start + 1)
            self.events.append(Replica(TRIMMED, broker, tuple(self._trimmed.log[start:])))


def valid_history(seed: int, steps: int = 400) -> list[Event]:
    """A history that breaks no rule."""
    return Model(seed).run(steps)
