"""A load whose history can be judged: producers that note what was acknowledged, readers that note what they saw.

A record's identity is a number: which producer sent it, and its how-manieth it is in its partition. Held against the
log at the end, the notes tell whether anything acknowledged was lost or reordered, whether an offset ever had two
records, and whether a reader ever saw what later was not there (that is: read above what was committed).
"""

from __future__ import annotations

import struct
import threading
import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from integration.harness.wait import wait_for
from kafkalite.embedded.znodes import ZnodeReader

SEQUENCE_BITS = 40
VALUE = struct.Struct(">q")
PADDING = bytes(92)
DEFAULT_BATCH_BYTES = 1_000_000
UNKNOWN = -1


@dataclass
class PartitionNotes:
    """Of one partition: the acknowledged records, as parallel arrays of offsets and identities."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    ids: array[int] = field(default_factory=lambda: array("q"))


class LoadProducer(threading.Thread):
    """Sends to all partitions in turn, idempotent and with acks=all, until told to stop.

    ``rate`` is in records a second (0: as fast as may be). A batch that the broker refuses (one larger than a segment,
    say) makes librdkafka raise its epoch and send what was under way again under new sequences: twice, where it had
    been written. So ``batch_bytes`` must fit what the topic allows. A fatal error makes a new producer under a new
    number, so that sequences of one number are one producer's.
    """

    _numbers = iter(range(1, 1 << 20))

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, rate: float, batch_bytes: int = DEFAULT_BATCH_BYTES
    ) -> None:
        super().__init__(name="load-producer", daemon=True)
        self.notes = [PartitionNotes() for _ in range(partitions)]
        self.acknowledged = 0
        self.failures: list[str] = []
        self.longest_gap = 0.0
        self._last_ack = 0.0
        self._servers = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._rate = rate
        self._batch_bytes = batch_bytes
        self._done = threading.Event()
        self._broken = False

    def run(self) -> None:
        """Send."""
        while not self._done.is_set():
            self._broken = False
            self._send(next(self._numbers))

    def finish(self) -> None:
        """Send no more; wait for what is under way."""
        self._done.set()
        self.join()

    def _send(self, number: int) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "acks": "all",
                "enable.idempotence": True,
                "message.timeout.ms": 120000,
                "linger.ms": 5,
                "batch.size": self._batch_bytes,
                "queue.buffering.max.messages": 20000,
                "reconnect.backoff.max.ms": 500,
                "retry.backoff.max.ms": 250,
                "topic.metadata.refresh.interval.ms": 2000,
                "log_level": 0,
            }
        )
        sequences = [0] * self._partitions
        start, count = time.monotonic(), 0
        while not self._done.is_set() and not self._broken:
            partition = count % self._partitions
            identity = (number << SEQUENCE_BITS) | sequences[partition]
            try:
                producer.produce(
                    self._topic, VALUE.pack(identity) + PADDING, partition=partition, on_delivery=self._delivered
                )
            except BufferError:
                producer.poll(0.01)
                continue
            sequences[partition] += 1
            count += 1
            if count % 50 == 0:
                producer.poll(0)
            if self._rate:
                ahead = start + count / self._rate - time.monotonic()
                if ahead > 0:
                    producer.poll(ahead)
        if self._broken:
            producer.purge()
        deadline = time.monotonic() + 150
        while len(producer) and time.monotonic() < deadline:
            producer.flush(1.0)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            if error.code() != KafkaError._PURGE_QUEUE and len(self.failures) < 1000:
                self.failures.append(str(error))
            if error.fatal() or error.code() == KafkaError._FATAL:
                self._broken = True
            return
        now = time.monotonic()
        if self._last_ack:
            self.longest_gap = max(self.longest_gap, now - self._last_ack)
        self._last_ack = now
        notes = self.notes[message.partition()]
        notes.offsets.append(message.offset())
        notes.ids.append(VALUE.unpack_from(message.value())[0])
        self.acknowledged += 1


class LoadReader(threading.Thread):
    """Reads all partitions from the beginning and notes which identity stood at which offset."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(name="load-reader", daemon=True)
        self.seen = [array("q") for _ in range(partitions)]
        self.violations: list[str] = []
        self._servers = bootstrap
        self._topic = topic
        self._done = threading.Event()

    def run(self) -> None:
        """Read."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "none",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 2000,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(self._topic, partition, 0) for partition in range(len(self.seen))])
        while not self._done.is_set():
            for record in consumer.consume(2000, timeout=0.2):
                if record.error() is None:
                    self._note(record)
                elif record.error().code() == KafkaError._AUTO_OFFSET_RESET:
                    self.violations.append(f"the reader's position is not in the log any more: {record.error()}")
        consumer.close()

    def finish(self) -> None:
        """Read no more."""
        self._done.set()
        self.join()

    def _note(self, record: Any) -> None:
        seen, offset = self.seen[record.partition()], record.offset()
        identity = VALUE.unpack_from(record.value())[0]
        while len(seen) <= offset:
            seen.append(UNKNOWN)
        if seen[offset] not in (UNKNOWN, identity):
            self.violations.append(f"{record.partition()}@{offset} was {name(seen[offset])}, now {name(identity)}")
        seen[offset] = identity


class EpochWatcher(threading.Thread):
    """Watches ZooKeeper: the controller's epoch and the leader epochs may only grow, and one epoch has one leader."""

    def __init__(self, zookeeper: str, topic: str, partitions: int, interval: float = 0.1) -> None:
        super().__init__(name="epoch-watcher", daemon=True)
        self.violations: list[str] = []
        self.controller_epochs: list[int] = []
        self.leader_changes = 0
        self._connect = zookeeper
        self._topic = topic
        self._leaders: dict[int, tuple[int, int]] = dict.fromkeys(range(partitions), (-1, -1))
        self._interval = interval
        self._done = threading.Event()

    def run(self) -> None:
        """Watch."""
        while not self._done.is_set():
            try:
                with ZnodeReader(self._connect) as reader:
                    while not self._done.wait(self._interval):
                        self._look(reader)
            except (OSError, ValueError):
                self._done.wait(self._interval)  # ZooKeeper is away

    def finish(self) -> None:
        """Watch no more."""
        self._done.set()
        self.join()

    def _look(self, reader: ZnodeReader) -> None:
        epoch = int(reader.get("/controller_epoch") or 0)
        if not self.controller_epochs or self.controller_epochs[-1] != epoch:
            if self.controller_epochs and epoch < self.controller_epochs[-1]:
                self.violations.append(f"controller epoch fell from {self.controller_epochs[-1]} to {epoch}")
            self.controller_epochs.append(epoch)
        for partition, state in partition_states(reader, self._topic, len(self._leaders)).items():
            last_epoch, last_leader = self._leaders[partition]
            if state["leader_epoch"] < last_epoch:
                self.violations.append(f"leader epoch of {partition} fell from {last_epoch} to {state['leader_epoch']}")
            if state["leader_epoch"] == last_epoch and state["leader"] != last_leader:
                self.violations.append(
                    f"epoch {last_epoch} of {partition} had leaders {last_leader} and {state['leader']}"
                )
            if last_leader not in (-1, state["leader"]):
                self.leader_changes += 1
            self._leaders[partition] = (state["leader_epoch"], state["leader"])


def partition_states(reader: ZnodeReader, topic: str, partitions: int) -> dict[int, dict[str, Any]]:
    """The partition states of a topic, as they stand in ZooKeeper."""
    import json

    found = {}
    for partition in range(partitions):
        data = reader.get(f"/brokers/topics/{topic}/partitions/{partition}/state")
        if data is not None:
            found[partition] = json.loads(data)
    return found


def wait_in_sync(zookeeper: str, topic: str, partitions: int, replicas: int, timeout: float = 90.0) -> None:
    """Wait until every partition has a leader and all its replicas in its ISR."""

    def settled() -> bool:
        with ZnodeReader(zookeeper) as reader:
            states = partition_states(reader, topic, partitions)
        return len(states) == partitions and all(
            state["leader"] >= 0 and len(state["isr"]) == replicas for state in states.values()
        )

    wait_for(settled, f"all {replicas} replicas of {topic} are in sync", timeout)


def read_all(bootstrap: str, topic: str, partitions: int, timeout: float = 120.0) -> list[array[int]]:
    """Identities by offset, of the whole topic up to its high watermarks."""
    probe = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "log_level": 0})
    ends = [
        probe.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)[1] for partition in range(partitions)
    ]
    probe.close()
    reader = LoadReader(bootstrap, topic, partitions)
    reader.start()
    try:
        wait_for(
            lambda: all(len(seen) >= end for seen, end in zip(reader.seen, ends, strict=True)), "all is read", timeout
        )
    finally:
        reader.finish()
    assert reader.violations == []
    return reader.seen


def judge(
    log: list[array[int]],
    producers: list[LoadProducer],
    readers: list[LoadReader],
    watchers: Mapping[str, EpochWatcher],
) -> list[str]:
    """All that is wrong with a history, given the ``log`` as it stands at its end."""
    wrong: list[str] = []
    for watcher in watchers.values():
        wrong += watcher.violations
    for reader in readers:
        wrong += reader.violations
        for partition, seen in enumerate(reader.seen):
            wrong += [
                f"{partition}@{offset}: a reader saw {name(identity)}, the log has {at(log[partition], offset)}"
                for offset, identity in enumerate(seen)
                if identity != UNKNOWN and (offset >= len(log[partition]) or log[partition][offset] != identity)
            ]
    for partition, records in enumerate(log):
        last: dict[int, int] = {}
        for offset, identity in enumerate(records):
            producer, sequence = divmod(identity, 1 << SEQUENCE_BITS)
            if sequence <= last.get(producer, -1):
                wrong.append(
                    f"{partition}@{offset}: {name(identity)} after sequence {last[producer]} (twice, or reordered)"
                )
            last[producer] = sequence
        present: set[int] | None = None
        for producer in producers:  # type: ignore[assignment]
            notes = producer.notes[partition]  # type: ignore[attr-defined]
            for offset, identity in zip(notes.offsets, notes.ids, strict=True):
                if 0 <= offset < len(records) and records[offset] == identity:
                    continue
                if present is None:
                    present = set(records)
                if identity not in present:
                    wrong.append(
                        f"{partition}@{offset}: acknowledged {name(identity)} is lost, there is {at(records, offset)}"
                    )
                elif offset >= 0:
                    wrong.append(f"{partition}@{offset}: acknowledged {name(identity)} stands elsewhere")
    return wrong


def name(identity: int) -> str:
    """``producer/sequence``."""
    producer, sequence = divmod(identity, 1 << SEQUENCE_BITS)
    return f"{producer}/{sequence}"


def at(records: array[int], offset: int) -> str:
    """What stands at an offset."""
    return name(records[offset]) if 0 <= offset < len(records) else "nothing"
