"""Eyes on the topic of a workload: consumers, raw readers of leaders and followers, an onlooker in ZooKeeper."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from integration.faults.history import decode_value
from integration.faults.worker import Record, Worker
from integration.harness.wait import wait_for
from kafkalite.common.types import ZERO_UUID
from kafkalite.embedded.znodes import ZnodeReader
from kafkalite.protocol.fetch import FetchPartition, FetchRequest, decode_fetch_response, encode_fetch_request
from kafkalite.protocol.frames import request_header
from kafkalite.record.batch import check_crc, iter_headers
from kafkalite.record.records import iter_records

FETCH, FETCH_VERSION = 1, 11
"""The first version in which followers answer consumers too; the last but one that names topics."""
RAW_PAUSE = 0.05
WATCH_PAUSE = 0.03
_SIZE = struct.Struct(">i")


class Verifier:
    """A consumer with assigned partitions that reads up to given offsets, again and again from where it was."""

    def __init__(self, record: Record, bootstrap: str, topic: str, partitions: int, name: str) -> None:
        self._record = record
        self._topic = topic
        self._name = name
        self._position = [0] * partitions
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": name,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
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

    def ends(self, timeout: float = 30.0) -> dict[int, int]:
        """The high watermarks, as the leaders tell them; ``timeout`` seconds for each."""
        return {partition: self._end(partition, timeout) for partition in range(len(self._position))}

    def _end(self, partition: int, timeout: float) -> int:
        def ask() -> tuple[int]:
            try:
                low_and_high = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=5.0)
                return (int(low_and_high[1]),)
            except KafkaException as error:  # a preferred leader may just be coming back
                raise LookupError(str(error)) from error

        return wait_for(ask, f"{self._name} learns the end of partition {partition}", timeout)[0]

    def close(self) -> None:
        """End it."""
        self._consumer.close()


class RawReader(Worker):
    """Asks one broker, leader or follower, for all that it has, and holds each answer against its high watermark."""

    batches_seen: dict[tuple[int, int], int]

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
        # CRCs by partition and base offset: what any reader took apart already need not be taken apart again
        self._seen = seen
        self._socket: socket.socket | None = None

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
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

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
        if self._socket is None:
            self._socket = socket.create_connection(self._address, 1.0)
            self._socket.settimeout(2.0)
        partitions = [
            FetchPartition(self._topic, ZERO_UUID, partition, fetch_offset=offset, max_bytes=1 << 18)
            for partition, offset in enumerate(self._position)
        ]
        request = FetchRequest(-1, -1, 0, 0, 1 << 20, 0, 0, -1, partitions, [])
        frame = request_header(FETCH, FETCH_VERSION, 1, "raw") + encode_fetch_request(FETCH_VERSION, request)
        self._socket.sendall(_SIZE.pack(len(frame)) + frame)
        (size,) = _SIZE.unpack(self._exactly(4))
        return memoryview(self._exactly(size))[4:]

    def _exactly(self, size: int) -> bytes:
        assert self._socket is not None
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("hung up")
            data += piece
        return bytes(data)


class Onlooker(Worker):
    """Looks at the epochs in ZooKeeper again and again."""

    def __init__(self, record: Record, zookeeper: str, topic: str, partitions: int) -> None:
        super().__init__("onlooker")
        self.looks = 0
        self._record = record
        self._zookeeper = zookeeper
        self._names = [f"{topic}-{partition}" for partition in range(partitions)]
        self._paths = [f"/brokers/topics/{topic}/partitions/{partition}/state" for partition in range(partitions)]
        self._reader: ZnodeReader | None = None

    def step(self) -> None:
        """One look."""
        try:
            if self._reader is None:
                self._reader = ZnodeReader(self._zookeeper)
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
        """Leave."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
