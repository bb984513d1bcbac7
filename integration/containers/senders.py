"""Producers of a load: plain, idempotent, transactional, and probes that send to one broker, leader or not."""

from __future__ import annotations

import contextlib
import random
import threading
import time
import traceback
from collections.abc import Mapping
from typing import Any, ClassVar

from confluent_kafka import KafkaError, KafkaException, Producer

from integration.containers.recorder import Recorder, encode
from integration.harness.garbage import batch, produce_body
from integration.harness.wire import PRODUCE, Cursor, Wire
from kafkalite.common.errors import ErrorCode
from kafkalite.testing.history.events import (
    Aborted,
    Acked,
    Begun,
    Committed,
    Committing,
    Failed,
    ProducerKind,
    RecordId,
    Sent,
    Started,
    Unknown,
)

PATIENT: Mapping[str, object] = {
    "socket.timeout.ms": 6000,
    "socket.connection.setup.timeout.ms": 3000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 2000,
    "log_level": 0,
}
"""Settings of clients that close a silent connection soon, and reconnect soon."""
LONG = 120.0
"""Seconds to wait for an effect of the healed cluster."""
_SURELY_NOT = (ErrorCode.NOT_ENOUGH_REPLICAS,)
"""Errors after which the record is surely not in the log. A former leader, for example, may have written the record and
replicated it before its error."""


class Client(threading.Thread):
    """A thread of the load that repeats :meth:`step` until it is stopped; the recorder keeps its failure."""

    def __init__(self, name: str, recorder: Recorder) -> None:
        super().__init__(name=name, daemon=True)
        self.recorder = recorder
        self.stopping = threading.Event()

    def run(self) -> None:
        """Run :meth:`begin`, repeat :meth:`step`, then :meth:`finish`."""
        try:
            self.begin()
            while not self.stopping.is_set():
                self.step()
            self.finish()
        except BaseException as error:
            self.recorder.failure = f"{self.name}: {error!r}\n{traceback.format_exc()}"

    def begin(self) -> None:
        """Set up, on the thread."""

    def step(self) -> None:
        """A little work."""
        raise NotImplementedError

    def finish(self) -> None:
        """Clean up, on the thread."""


class Sender(Client):
    """Sends ``rate`` records a second to random partitions. After a fatal error it continues under another name."""

    SETTINGS: ClassVar[Mapping[ProducerKind, Mapping[str, object]]] = {
        ProducerKind.PLAIN: {"enable.idempotence": False},
        # One request in flight, because librdkafka with several takes the refusal of the second for a loss though only
        # the first was refused, begins a new epoch, and repeats the records of other partitions
        # (confluentinc/librdkafka#4953).
        ProducerKind.IDEMPOTENT: {"enable.idempotence": True, "max.in.flight": 1},
        ProducerKind.TRANSACTIONAL: {"transaction.timeout.ms": 20000},
    }

    def __init__(
        self,
        name: str,
        recorder: Recorder,
        kind: ProducerKind,
        topic: str,
        partitions: int,
        settings: Mapping[str, object],
        *,
        rate: int,
        seed: str,
    ) -> None:
        super().__init__(name, recorder)
        self.rng = random.Random(f"{seed} {name}")
        self._kind = kind
        self._topic = topic
        self._partitions = partitions
        self._settings = {**PATIENT, "acks": "all", "linger.ms": 5, **self.SETTINGS[kind], **settings}
        self._rate = rate
        self._life = 0
        self._broken = False

    def begin(self) -> None:
        """Start the first producer."""
        self._begin_life()

    def step(self) -> None:
        """Send one record, and handle the delivery reports."""
        if self._broken:
            self._give_up()
            self._begin_life()
        self.send(-1)
        self._producer.poll(1.0 / self._rate)

    def finish(self) -> None:
        """Wait for all delivery reports; the outcome of records without a report is unknown."""
        self._producer.flush(LONG)

    def send(self, transaction: int) -> None:
        """Send one record."""
        self._number += 1
        record = RecordId(self._who, self._number)
        partition = self.rng.randrange(self._partitions)
        self.recorder.note(Sent(record, f"{self._topic}-{partition}", transaction))
        try:
            self._producer.produce(
                self._topic, encode(record), partition=partition, on_delivery=self._told(record, partition)
            )
        except BufferError:
            self.recorder.note(Failed(record, "the queue is full"))
            self._producer.poll(0.1)

    def _begin_life(self) -> None:
        self._life += 1
        self._number = 0
        self._broken = False
        self._who = f"{self.name}.{self._life}"
        # Not ordered, because librdkafka's retries without sequence numbers overtake each other at a change of leaders.
        self.recorder.note(Started(self._who, self._kind, ordered=False))
        self._producer = Producer(self._settings)

    def _give_up(self) -> None:
        """Purge a failed producer, so that it reports the outcome of its outstanding records."""
        with contextlib.suppress(KafkaException):
            self._producer.purge()
        with contextlib.suppress(KafkaException):
            self._producer.flush(1.0)

    def _told(self, record: RecordId, partition: int) -> Any:
        def told(error: Any, message: Any) -> None:
            if error is None:
                known = -1 if message.offset() is None else message.offset()
                self.recorder.acked(Acked(record, f"{self._topic}-{partition}", known))
                return
            never_left = error.code() == KafkaError._PURGE_QUEUE
            self.recorder.note((Failed if never_left else Unknown)(record, error.name()))
            self._broken |= bool(error.fatal()) or error.code() == KafkaError._FATAL

        return told


class TransactionSender(Sender):
    """Transactions of some records each; every fifth is aborted."""

    def begin(self) -> None:
        """Nothing, because each step starts its own producer."""

    def step(self) -> None:
        """One producer: transactions until a fatal error. The next producer's start aborts its open transaction."""
        self._begin_life()
        try:
            self._insist(self._producer.init_transactions)
            number = 0
            while not self.stopping.is_set():
                number += 1
                self._transaction(number)
        except KafkaException:
            self._give_up()

    def finish(self) -> None:
        """Start a last producer, which aborts the open transaction, so that read_committed readers reach the end."""
        self._begin_life()
        self._insist(self._producer.init_transactions)

    def _transaction(self, number: int) -> None:
        self._producer.begin_transaction()
        self.recorder.note(Begun(self._who, number))
        for _ in range(self.rng.randrange(1, 12)):
            self.send(number)
            self._producer.poll(1.0 / self._rate)
        if self.rng.random() < 0.2:
            # Flush first, because a transaction that the coordinator does not know yet cannot be aborted right behind
            # another one.
            self._producer.flush(10.0)
            self._abort(number)
            return
        self.recorder.note(Committing(self._who, number))
        try:
            self._insist(self._producer.commit_transaction)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._abort(number)
        else:
            self.recorder.note(Committed(self._who, number))

    def _abort(self, number: int) -> None:
        self._insist(self._producer.abort_transaction)
        self.recorder.note(Aborted(self._who, number))

    def _insist(self, call: Any) -> None:
        """Call until success or a permanent error; repeat after a timeout."""
        deadline = time.monotonic() + LONG
        while True:
            try:
                call(10.0)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise


class Probe(Client):
    """Sends single records to one broker, leader or not, because a broker that acknowledges a record claims to lead."""

    PAUSE = 0.05
    PATIENCE = 8.0

    def __init__(self, recorder: Recorder, broker: int, address: str, topic: str, partitions: int, seed: str) -> None:
        super().__init__(f"probe-{broker}", recorder)
        self._broker = broker
        self._address = address
        self._topic = topic
        self._partitions = partitions
        self._chance = random.Random(f"{seed} {self.name}")
        self._number = 0
        self._wire: Wire | None = None
        recorder.note(Started(self.name, ProducerKind.PLAIN))

    def step(self) -> None:
        """Send one record."""
        self._number += 1
        record = RecordId(self.name, self._number)
        number = self._chance.randrange(self._partitions)
        partition = f"{self._topic}-{number}"
        try:
            if self._wire is None:
                self._wire = Wire(self._address, self.PATIENCE)
            self.recorder.note(Sent(record, partition))
            body = produce_body(self._topic, number, batch([encode(record)]))
            error, offset = self._answer(self._wire.call(PRODUCE, 7, body))
        except OSError as problem:
            self.recorder.note(Unknown(record, str(problem)))
            self.finish()
            self.stopping.wait(0.3)
            return
        if error is ErrorCode.NONE:
            self.recorder.acked(Acked(record, partition, offset, self._broker))
        else:
            self.recorder.refuse(self._broker, partition, error.name)
            self.recorder.note((Failed if error in _SURELY_NOT else Unknown)(record, error.name))
        self.stopping.wait(self.PAUSE)

    def finish(self) -> None:
        """Close the connection."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    @staticmethod
    def _answer(data: memoryview) -> tuple[ErrorCode, int]:
        cursor = Cursor(data)
        cursor.take("i")
        cursor.text()
        _, _, error, offset = cursor.take("iihq")
        return ErrorCode(error), int(offset)
