"""Producers of a load: plain, idempotent, transactional, and probes that address one broker, leader or not."""

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
"""Clients that give a broker up soon, and come back soon."""
LONG = 120.0
"""Seconds for what will come about once the cluster is healed."""
_SURELY_NOT = (ErrorCode.NOT_ENOUGH_REPLICAS,)
"""What a broker answers that has not written the record. One that ceased to lead may have, and others may have it."""


class Client(threading.Thread):
    """A thread of the load: steps until it is told to stop; what it dies of is noted."""

    def __init__(self, name: str, recorder: Recorder) -> None:
        super().__init__(name=name, daemon=True)
        self.recorder = recorder
        self.stopping = threading.Event()

    def run(self) -> None:
        """The thread."""
        try:
            self.begin()
            while not self.stopping.is_set():
                self.step()
            self.finish()
        except BaseException as error:
            self.recorder.failure = f"{self.name}: {error!r}\n{traceback.format_exc()}"

    def begin(self) -> None:
        """The beginning."""

    def step(self) -> None:
        """A little work."""
        raise NotImplementedError

    def finish(self) -> None:
        """The end."""


class Sender(Client):
    """``rate`` records a second to partitions by chance. After a fatal error it goes on under another name."""

    SETTINGS: ClassVar[Mapping[ProducerKind, Mapping[str, object]]] = {
        ProducerKind.PLAIN: {"enable.idempotence": False},
        # One request in flight: of several, librdkafka takes the refusal of the second for a loss where only the first
        # was refused, begins a new epoch, and sends anew what other partitions have (confluentinc/librdkafka#4953).
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
        self.chance = random.Random(f"{seed} {name}")
        self._kind = kind
        self._topic = topic
        self._partitions = partitions
        self._settings = {**PATIENT, "acks": "all", "linger.ms": 5, **self.SETTINGS[kind], **settings}
        self._rate = rate
        self._life = 0
        self._broken = False

    def begin(self) -> None:
        """The first life."""
        self._begin_life()

    def step(self) -> None:
        """Send one, hear what came."""
        if self._broken:
            self._give_up()
            self._begin_life()
        self.send(-1)
        self._producer.poll(1.0 / self._rate)

    def finish(self) -> None:
        """Nothing is left under way; of what is, nobody knows the outcome."""
        self._producer.flush(LONG)

    def send(self, transaction: int) -> None:
        """One record."""
        self._number += 1
        record = RecordId(self._who, self._number)
        partition = self.chance.randrange(self._partitions)
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
        # Without sequence numbers, librdkafka's retries overtake each other where the leader changes.
        self.recorder.note(Started(self._who, self._kind, ordered=False))
        self._producer = Producer(self._settings)

    def _give_up(self) -> None:
        """A producer that is broken tells what it knows of its records."""
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
        """Each step is a life."""

    def step(self) -> None:
        """One life: transactions until something is fatal. The next one's start ends what this one left open."""
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
        """A last life ends what the one before left open, so that readers of committed records come to the end."""
        self._begin_life()
        self._insist(self._producer.init_transactions)

    def _transaction(self, number: int) -> None:
        self._producer.begin_transaction()
        self.recorder.note(Begun(self._who, number))
        for _ in range(self.chance.randrange(1, 12)):
            self.send(number)
            self._producer.poll(1.0 / self._rate)
        if self.chance.random() < 0.2:
            # A transaction of which the coordinator has not heard yet cannot be aborted right behind another.
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
        """Call until it is done or hopeless: timing out is neither."""
        deadline = time.monotonic() + LONG
        while True:
            try:
                call(10.0)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise


class Probe(Client):
    """Sends single records to one broker, whoever leads: what that one acknowledges, it acknowledges as the leader."""

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
        """One record."""
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
        """Hang up."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    @staticmethod
    def _answer(data: bytes) -> tuple[ErrorCode, int]:
        cursor = Cursor(data)
        cursor.take("i")
        cursor.text()
        _, _, error, offset = cursor.take("iihq")
        return ErrorCode(error), int(offset)
