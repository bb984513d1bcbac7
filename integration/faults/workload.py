"""Load on a topic by real clients, and eyes on it: producers, consumers, raw readers, an onlooker in ZooKeeper.

Everything that they learn goes into one :class:`Record`, under its lock.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from integration.faults.history import EpochTrail, History, Identity, decode_value, encode_value
from integration.harness.wait import wait_for
from kafkalite.common.types import ZERO_UUID
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.znodes import ZnodeReader
from kafkalite.protocol.fetch import FetchPartition, FetchRequest, decode_fetch_response, encode_fetch_request
from kafkalite.protocol.frames import request_header
from kafkalite.record.batch import check_crc, iter_headers
from kafkalite.record.records import iter_records

TICK = 0.01
FLUSH_TIMEOUT = 120.0
FETCH, FETCH_VERSION = 1, 11
"""The first version in which followers answer consumers too; the last but one that names topics."""
RAW_PAUSE = 0.05
WATCH_PAUSE = 0.03
_SIZE = struct.Struct(">i")
QUICK_RETRIES: Mapping[str, object] = {
    "request.timeout.ms": 10000,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 200,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
}
"""Producers that hammer a broker that is gone; without, librdkafka's defaults."""


class Record:
    """What is known so far: the history of the clients and the epochs, with the lock under which to touch them."""

    def __init__(self, producers: int, partitions: int) -> None:
        self.lock = threading.Lock()
        self.history = History(producers, partitions)
        self.epochs = EpochTrail()
        self.last_ack = time.monotonic()
        self.longest_gap = 0.0
        """Seconds between two acknowledgements, of any producers, since it was last set to 0."""

    def acknowledged(self, identity: Identity, offset: int) -> None:
        """One delivery report."""
        now = time.monotonic()
        with self.lock:
            self.history.acked(identity, offset)
            self.longest_gap = max(self.longest_gap, now - self.last_ack)
            self.last_ack = now

    def begin_gap(self) -> None:
        """Measure gaps from now on."""
        with self.lock:
            self.last_ack, self.longest_gap = time.monotonic(), 0.0


class Worker(threading.Thread):
    """A thread that does one step after the other until it is stopped, and remembers what it died of."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.failure: BaseException | None = None
        self._stopping = threading.Event()

    def run(self) -> None:
        """The thread."""
        try:
            while not self._stopping.is_set():
                self.step()
        except BaseException as error:
            self.failure = error
        finally:
            self.finish()

    def step(self) -> None:
        """A little work."""
        raise NotImplementedError

    def finish(self) -> None:
        """The end, on the thread."""

    def stop(self) -> None:
        """End it; raises what it died of."""
        self._stopping.set()
        self.join(FLUSH_TIMEOUT)
        assert not self.is_alive(), f"{self.name} does not end"
        if self.failure is not None:
            raise self.failure


class LoadProducer(Worker):
    """An idempotent producer with acks=all, ``rate`` records a second, each to a partition by (seeded) chance."""

    def __init__(
        self,
        number: int,
        record: Record,
        bootstrap: str,
        topic: str,
        partitions: int,
        rate: int,
        size: int,
        seed: int,
        settings: Mapping[str, object],
    ) -> None:
        super().__init__(f"producer {number}")
        self._number = number
        self._record = record
        self._topic = topic
        self._rate = rate
        self._size = size
        self._chance = random.Random(seed * 1000 + number)
        self._sent = [0] * partitions
        self._paused = threading.Event()
        self._idle = threading.Event()
        self._begun = time.monotonic()
        self._due = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": int(FLUSH_TIMEOUT * 1000),
                "log_level": 0,
                **settings,
            }
        )

    def pause(self) -> None:
        """Send no more until :meth:`resume`; returns when everything that was sent is acknowledged (or refused)."""
        self._idle.clear()
        self._paused.set()
        wait_for(lambda: self._idle.is_set() or self.failure is not None, "all is acknowledged", FLUSH_TIMEOUT + 10)

    def resume(self) -> None:
        """Go on."""
        self._begun, self._due = time.monotonic(), 0
        self._paused.clear()

    def step(self) -> None:
        """Send what is due, hear what came."""
        if self._paused.is_set():
            if not self._idle.is_set():
                self._flush()
                self._idle.set()
            time.sleep(TICK)
            return
        due = int((time.monotonic() - self._begun) * self._rate)
        for _ in range(min(due - self._due, self._rate // 10 + 1)):
            self._send()
        # what could not be sent in time is not made up for: a broker that comes back is not to be flooded
        self._due = due
        self._producer.poll(TICK)

    def finish(self) -> None:
        """Nothing is left under way."""
        self._flush()
        self._idle.set()

    def _send(self) -> None:
        partition = self._chance.randrange(len(self._sent))
        identity = Identity(self._number, partition, self._sent[partition])
        value = encode_value(identity, self._size)
        try:
            self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
        except BufferError:
            self._producer.poll(TICK)
            return
        self._sent[partition] += 1

    def _flush(self) -> None:
        left = self._producer.flush(FLUSH_TIMEOUT)
        if left:
            with self._record.lock:
                self._record.history.breach(f"{self.name}: no answer for {left} records")

    def _delivered(self, error: Any, message: Any) -> None:
        identity = decode_value(message.value())
        if error is None:
            self._record.acknowledged(identity, message.offset())
        else:
            with self._record.lock:
                self._record.history.failed(identity, str(error))


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

    def ends(self) -> dict[int, int]:
        """The high watermarks, as the leaders tell them."""
        return {partition: self._end(partition) for partition in range(len(self._position))}

    def _end(self, partition: int) -> int:
        def ask() -> tuple[int]:
            try:
                low_and_high = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=5.0)
                return (int(low_and_high[1]),)
            except KafkaException as error:  # a preferred leader may just be coming back
                raise LookupError(str(error)) from error

        return wait_for(ask, f"{self._name} learns the end of partition {partition}")[0]

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


class Load:
    """All of it together on one topic of a cluster: start, pause to judge, go on, stop."""

    def __init__(
        self,
        cluster: LocalCluster,
        topic: str,
        partitions: int,
        *,
        producers: int = 3,
        rate: int = 3000,
        size: int = 64,
        seed: int = 0,
        settings: Mapping[str, object] = QUICK_RETRIES,
    ) -> None:
        self.record = Record(producers, partitions)
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions
        bootstrap = cluster.bootstrap
        self._producers = [
            LoadProducer(number, self.record, bootstrap, topic, partitions, rate // producers, size, seed, settings)
            for number in range(producers)
        ]
        self._verifier = Verifier(self.record, bootstrap, topic, partitions, "verifier")
        seen: dict[tuple[int, int], int] = {}
        self._readers = [
            RawReader(self.record, cluster.address(broker_id), topic, partitions, seen)
            for broker_id in cluster.broker_ids
        ]
        self._onlooker = Onlooker(self.record, cluster.zookeeper, topic, partitions)
        self._workers: list[Worker] = [*self._producers, *self._readers, self._onlooker]

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return self.record.history.acknowledged

    def start(self) -> None:
        """Begin."""
        for worker in self._workers:
            worker.start()

    def wait_acknowledged(self, total: int, timeout: float = 120.0) -> None:
        """Wait until ``total`` records have been acknowledged since the start."""
        wait_for(lambda: self.acknowledged >= total or self._failure() is not None, f"{total} acknowledged", timeout)
        self._raise_failure()

    def pause(self) -> None:
        """Stop producing, wait until all is acknowledged, read all, and judge. Raises ``AssertionError``."""
        for producer in self._producers:
            producer.pause()
        self._raise_failure()
        self._verifier.read_to(self._verifier.ends())
        self.judge()

    def resume(self) -> None:
        """Go on producing."""
        for producer in self._producers:
            producer.resume()

    def judge(self) -> None:
        """Raises ``AssertionError`` with all breaches so far."""
        with self.record.lock:
            breaches = self.record.history.check() + self.record.epochs.breaches
        assert not breaches, "\n".join(breaches)

    def stop(self) -> None:
        """Pause, read everything once more with a fresh consumer, judge, and end all threads."""
        self.pause()
        again = Verifier(self.record, self._cluster.bootstrap, self._topic, self._partitions, "second verifier")
        again.read_to(again.ends(), 300.0)
        again.close()
        self.close()
        self.judge()

    def close(self) -> None:
        """End all threads; raises what one of them died of."""
        for worker in self._workers:
            worker._stopping.set()
        for worker in self._workers:
            worker.stop()
        self._verifier.close()

    def _failure(self) -> BaseException | None:
        return next((worker.failure for worker in self._workers if worker.failure is not None), None)

    def _raise_failure(self) -> None:
        failure = self._failure()
        if failure is not None:
            raise failure
