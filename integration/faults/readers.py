"""Readers of a workload's topic: consumers, raw readers of leaders and followers, an onlooker in ZooKeeper."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from integration.faults.history import decode_value
from integration.faults.worker import Record, Worker
from integration.harness.logins import login, open_socket, zookeeper_security
from integration.harness.wait import PATIENCE, wait_for
from kafkalite.common.types import ZERO_UUID
from kafkalite.embedded.znodes import ZnodeReader
from kafkalite.network.blocking_client import BlockingConnection
from kafkalite.protocol.fetch import FetchPartition, FetchRequest, decode_fetch_response, encode_fetch_request
from kafkalite.record.batch import check_crc, iter_headers
from kafkalite.record.records import iter_records

FETCH, FETCH_VERSION = 1, 11
"""The first version in which followers answer consumers; it still names topics (versions from 13 on use ids)."""
RAW_PAUSE = 0.05
WATCH_PAUSE = 0.03


class Verifier:
    """A consumer with assigned partitions; each call reads on from the last position up to given offsets."""

    def __init__(self, record: Record, bootstrap: str, topic: str, partitions: int, name: str) -> None:
        self._record = record
        self._topic = topic
        self._name = name
        self._position = [0] * partitions
        self._consumer = Consumer(
            {
                **login(bootstrap),
                "group.id": name,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])

    def read_to(self, ends: Mapping[int, int], timeout: float = 120.0) -> None:
        """Read until every partition has been read up to its end."""
        history, lock, name = self._record.history, self._record.lock, self._name
        deadline = time.monotonic() + timeout
        while any(self._position[partition] < end for partition, end in ends.items()):
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} read up to {self._position}, not to {dict(ends)}")
            messages = self._consumer.consume(5000, timeout=0.2)
            with lock:
                for message in messages:
                    if message.error() is not None:
                        if message.error().code() == KafkaError._AUTO_OFFSET_RESET:
                            history.breach(f"{name}: {message.error()}")
                        continue
                    partition, offset = message.partition(), message.offset()
                    if offset < self._position[partition]:
                        history.breach(f"{name} was given offset {offset} of partition {partition} again")
                    self._position[partition] = offset + 1
                    history.read(partition, offset, decode_value(message.value()), name)

    def ends(self, timeout: float = PATIENCE) -> dict[int, int]:
        """The leaders' high watermarks; ``timeout`` in seconds for each."""
        return {partition: self._end(partition, timeout) for partition in range(len(self._position))}

    def _end(self, partition: int, timeout: float) -> int:
        def ask() -> tuple[int]:
            try:
                low_and_high = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=5.0)
                return (int(low_and_high[1]),)
            except KafkaException as error:  # the preferred leader may be about to lead again
                raise LookupError(str(error)) from error

        return wait_for(ask, f"{self._name} learns the end of partition {partition}", timeout)[0]

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


class LiveReader(Worker):
    """Reads a topic as it grows, so that records are seen before retention deletes them or a dead leader loses them."""

    def __init__(self, verifier: Verifier, timeout: float = 120.0) -> None:
        super().__init__("live reader")
        self._verifier = verifier
        self._timeout = timeout

    def step(self) -> None:
        """Read up to the current high watermarks."""
        self._verifier.read_to(self._verifier.ends(self._timeout), self._timeout)
        self._stopping.wait(0.5)


def judge(record: Record, bootstrap: str, topic: str, partitions: int, timeout: float = 300.0) -> list[str]:
    """Read a topic from its first to its last record with a new consumer; returns all violations of the history.

    No client may produce meanwhile.
    """
    verifier = Verifier(record, bootstrap, topic, partitions, "last verifier")
    try:
        ends = verifier.ends()
        verifier.read_to(ends, timeout)
    finally:
        verifier.close()
    with record.lock:
        for partition, end in ends.items():
            record.history.ended(partition, end)
        return record.history.check() + record.epochs.breaches


class RawReader(Worker):
    """Fetches all records of one broker, leader or follower, and compares each answer with its high watermark."""

    def __init__(
        self, record: Record, address: str, topic: str, partitions: int, seen: dict[tuple[int, int], int]
    ) -> None:
        super().__init__(f"raw reader of {address}")
        host, _, port = address.rpartition(":")
        self.answers = 0
        self._record = record
        self._address = (host, int(port))
        self._topic = topic
        self._position = [0] * partitions
        # CRCs by partition and base offset, shared by the readers, so that each batch is decoded once.
        self._seen = seen
        self._connection: BlockingConnection | None = None

    def step(self) -> None:
        """One fetch of all partitions."""
        try:
            body = self._ask()
        except OSError:
            self.finish()
            self._stopping.wait(0.2)
            return
        moved = False
        for answer in decode_fetch_response(FETCH_VERSION, body).partitions:
            if answer.error == 0 and answer.records is not None and len(answer.records):
                moved |= self._take(answer.partition, memoryview(answer.records), answer.high_watermark)  # type: ignore[arg-type]
        self.answers += 1
        if not moved:
            self._stopping.wait(RAW_PAUSE)

    def finish(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take(self, partition: int, records: memoryview, high_watermark: int) -> bool:
        history, moved = self._record.history, False
        for position, header in iter_headers(records, allow_partial_tail=True):
            if header.last_offset < self._position[partition]:
                continue
            moved = True
            self._position[partition] = header.last_offset + 1
            key = partition, header.base_offset
            with self._record.lock:
                if header.last_offset >= high_watermark:
                    history.breach(
                        f"{self.name}: partition {partition} up to {header.last_offset}, "
                        f"high watermark {high_watermark}"
                    )
                if not check_crc(records, position, header):
                    history.breach(f"{self.name}: partition {partition}, wrong CRC at {header.base_offset}")
                if self._seen.setdefault(key, header.crc) == header.crc and history.end(partition) > header.last_offset:
                    continue
                for record in iter_records(records, header, position):
                    history.read(partition, record.offset, decode_value(record.value or b""), self.name)
        return moved

    def _ask(self) -> memoryview:
        if self._connection is None:
            self._connection = BlockingConnection(open_socket(*self._address, 1.0), "raw")
            self._connection.socket.settimeout(2.0)
        partitions = [
            FetchPartition(self._topic, ZERO_UUID, partition, fetch_offset=offset, max_bytes=1 << 18)
            for partition, offset in enumerate(self._position)
        ]
        request = FetchRequest(-1, -1, 0, 0, 1 << 20, 0, 0, -1, partitions, [])
        return self._connection.call(FETCH, FETCH_VERSION, encode_fetch_request(FETCH_VERSION, request))


class Onlooker(Worker):
    """Reads the epochs in ZooKeeper in a loop."""

    def __init__(self, record: Record, zookeeper: str, topic: str, partitions: int) -> None:
        super().__init__("onlooker")
        self.looks = 0
        self._record = record
        self._zookeeper = zookeeper
        self._names = [f"{topic}-{partition}" for partition in range(partitions)]
        self._paths = [f"/brokers/topics/{topic}/partitions/{partition}/state" for partition in range(partitions)]
        self._reader: ZnodeReader | None = None

    def step(self) -> None:
        """Read the epochs once."""
        try:
            if self._reader is None:
                self._reader = ZnodeReader(self._zookeeper, zookeeper_security())
            epoch = self._reader.get("/controller_epoch")
            states = [self._reader.get(path) for path in self._paths]
        except OSError:
            self.finish()
            self._stopping.wait(0.2)
            return
        with self._record.lock:
            trail = self._record.epochs
            if epoch is not None:
                trail.see("controller epoch", int(epoch))
            for name, data in zip(self._names, states, strict=True):
                if data:
                    state = json.loads(data)
                    trail.see_leader(name, state["leader_epoch"], state["leader"])
        self.looks += 1
        self._stopping.wait(WATCH_PAUSE)

    def finish(self) -> None:
        """Close the session."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
