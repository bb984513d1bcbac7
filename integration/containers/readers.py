"""Readers of a load: consumers, members of a group that commit, onlookers of offsets and of leaders."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from integration.containers.recorder import Recorder, decode
from integration.containers.senders import LONG, PATIENT, Client
from kafkalite.embedded.znodes import ZnodeReader
from kafkalite.testing.history.events import (
    Isolation,
    Led,
    OffsetCommitted,
    OffsetCommitting,
    OffsetFetched,
    OffsetFetching,
    Positioned,
    Reached,
    Read,
)

POLL = 0.2
COMMIT_EVERY = 0.3


def consumer(bootstrap: str, group: str, isolation: Isolation, **more: object) -> Consumer:
    """A consumer without automatic commits and without an offset reset policy."""
    return Consumer(
        {
            **PATIENT,
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": isolation.value,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    )


def check_error(message: Any) -> None:
    """Raises the error in ``message``, unless it is a passing error."""
    if message.error().code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        raise KafkaException(message.error())


class Reader(Client):
    """Reads all partitions from the beginning and follows the writes."""

    def __init__(
        self, name: str, recorder: Recorder, bootstrap: str, topic: str, partitions: int, isolation: Isolation
    ) -> None:
        super().__init__(name, recorder)
        self._isolation = isolation
        self._topic = topic
        self._consumer = consumer(bootstrap, name, isolation, enable_partition_eof=True)
        self._ends: dict[int, int] = {}
        for partition in range(partitions):
            recorder.note(Positioned(name, f"{topic}-{partition}", 0))
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])

    def step(self) -> None:
        """Poll one record, or the end of a partition."""
        message = self._consumer.poll(POLL)
        if message is None:
            return
        partition, offset = f"{self._topic}-{message.partition()}", message.offset()
        if message.error() is None:
            self.recorder.note(Read(self.name, self._isolation, partition, offset, decode(message.value())))
        elif message.error().code() == KafkaError._PARTITION_EOF:
            self.recorder.note(Reached(self.name, self._isolation, partition, offset))
            self._ends[message.partition()] = offset
        else:
            check_error(message)

    def read_to(self, ends: Mapping[int, int]) -> None:
        """Read on the caller's thread until all of ``ends`` are reached."""
        deadline = time.monotonic() + LONG
        while any(self._ends.get(partition, -1) < end for partition, end in ends.items()):
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.name} came to {self._ends}, not to {dict(ends)}")
            self.step()

    def ends(self, partitions: int) -> dict[int, int]:
        """The leaders' high watermarks."""
        return {partition: self._end(partition) for partition in range(partitions)}

    def _end(self, partition: int) -> int:
        deadline = time.monotonic() + LONG
        while True:
            try:
                return int(self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=5)[1])
            except KafkaException:
                if time.monotonic() > deadline:
                    raise

    def finish(self) -> None:
        """Close the client."""
        self._consumer.close()


class Member(Client):
    """A member of a group that reads on from the committed offsets, and commits its positions."""

    def __init__(self, name: str, recorder: Recorder, bootstrap: str, topic: str, group: str) -> None:
        super().__init__(name, recorder)
        self._topic = topic
        self._group = group
        self._due: dict[int, int] = {}
        self._committed = time.monotonic()
        self._consumer = consumer(
            bootstrap, group, Isolation.READ_COMMITTED, session_timeout_ms=6000, heartbeat_interval_ms=1000
        )
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def step(self) -> None:
        """Poll one record; commit from time to time."""
        message = self._consumer.poll(POLL)
        if message is not None and message.error() is None:
            partition = f"{self._topic}-{message.partition()}"
            record = decode(message.value())
            self.recorder.note(Read(self.name, Isolation.READ_COMMITTED, partition, message.offset(), record))
            self._due[message.partition()] = message.offset() + 1
        elif message is not None:
            check_error(message)
        if self._due and time.monotonic() - self._committed > COMMIT_EVERY:
            self._commit()

    def finish(self) -> None:
        """Close the client."""
        self._consumer.close()

    def _commit(self) -> None:
        offsets = [TopicPartition(self._topic, partition, offset) for partition, offset in self._due.items()]
        for one in offsets:
            self.recorder.note(OffsetCommitting(self._group, f"{self._topic}-{one.partition}", one.offset))
        self._due.clear()
        try:
            done = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            done = []  # the outcome of the commit is unknown
        for one in done:
            if one.error is None:
                self.recorder.note(OffsetCommitted(self._group, f"{self._topic}-{one.partition}", one.offset))
        self._committed = time.monotonic()

    def _assigned(self, which: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._due.clear()
        if not partitions:
            return
        found = look(which, self.recorder, self.name, self._group, partitions, self.stopping.is_set)
        for one in found:
            one.offset = max(one.offset, 0)
            self.recorder.note(Positioned(self.name, f"{one.topic}-{one.partition}", one.offset))
        which.assign(found)

    def _revoked(self, _which: Consumer, _partitions: Sequence[TopicPartition]) -> None:
        self._due.clear()


def look(
    which: Consumer,
    recorder: Recorder,
    onlooker: str,
    group: str,
    partitions: Sequence[TopicPartition],
    hopeless: Any = lambda: False,
) -> list[TopicPartition]:
    """The group's committed offsets, requested until there is an answer; empty once ``hopeless`` is true."""
    while not hopeless():
        recorder.note(OffsetFetching(onlooker, group))
        try:
            found = which.committed([TopicPartition(one.topic, one.partition) for one in partitions], timeout=5.0)
        except KafkaException:
            continue
        if any(one.error is not None for one in found):
            continue
        for one in found:
            shown = one.offset if one.offset >= 0 else -1
            recorder.note(OffsetFetched(onlooker, group, f"{one.topic}-{one.partition}", shown))
        return list(found)
    return []


class OffsetOnlooker(Client):
    """Reads a group's committed offsets in a loop, without being a member."""

    PAUSE = 0.1

    def __init__(self, name: str, recorder: Recorder, bootstrap: str, topic: str, partitions: int, group: str) -> None:
        super().__init__(name, recorder)
        self._group = group
        self._partitions = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._consumer = consumer(bootstrap, group, Isolation.READ_COMMITTED)

    def step(self) -> None:
        """Read the committed offsets once."""
        look(self._consumer, self.recorder, self.name, self._group, self._partitions, self.stopping.is_set)
        self.stopping.wait(self.PAUSE)

    def finish(self) -> None:
        """Close the client."""
        self._consumer.close()


class LeaderOnlooker(Client):
    """Reads the leaders and leader epochs in ZooKeeper in a loop."""

    PAUSE = 0.1

    def __init__(self, recorder: Recorder, zookeeper: str, topic: str, partitions: int) -> None:
        super().__init__("leader-onlooker", recorder)
        self._zookeeper = zookeeper
        self._paths = {
            f"{topic}-{partition}": f"/brokers/topics/{topic}/partitions/{partition}/state"
            for partition in range(partitions)
        }
        self._known: set[Led] = set()
        self._reader: ZnodeReader | None = None

    def step(self) -> None:
        """Read the states once; record the changes."""
        try:
            if self._reader is None:
                self._reader = ZnodeReader(self._zookeeper)
            states = {name: self._reader.get(path) for name, path in self._paths.items()}
        except OSError:
            self.finish()
            self.stopping.wait(0.3)
            return
        for name, data in states.items():
            state = json.loads(data or "{}")
            led = Led(name, state.get("leader", -1), state.get("leader_epoch", -1))
            if led.broker >= 0 and led not in self._known:
                self._known.add(led)
                self.recorder.note(led)
        self.stopping.wait(self.PAUSE)

    def finish(self) -> None:
        """Close the client."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
