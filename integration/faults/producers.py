"""Producers of a workload: idempotent, with acks=all, each record with a unique identity."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Producer

from integration.faults.history import Identity, decode_value, encode_value
from integration.faults.worker import FLUSH_TIMEOUT, Record, Worker
from integration.harness.logins import login
from integration.harness.wait import wait_for

TICK = 0.01
QUICK_RETRIES: Mapping[str, object] = {
    "request.timeout.ms": 10000,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 200,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
}
"""Settings of producers that retry and reconnect after at most 0.2 s; by librdkafka's defaults it is up to 10 s."""


class LoadProducer(Worker):
    """An idempotent producer with acks=all that sends ``rate`` records a second to random (seeded) partitions."""

    def __init__(
        self,
        number: int,
        record: Record,
        bootstrap: str,
        topic: str,
        partitions: int,
        rate: int,
        size: int = 100,
        seed: int = 0,
        settings: Mapping[str, object] = QUICK_RETRIES,
    ) -> None:
        super().__init__(f"producer {number}")
        self.acknowledged = 0
        self.failures: list[str] = []
        """Errors of records that were not acknowledged."""
        self._number = number
        self.record = record
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
                **login(bootstrap),
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": int(FLUSH_TIMEOUT * 1000),
                "log_level": 0,
                **settings,
            }
        )

    def pause(self) -> None:
        """Stop sending until :meth:`resume`; returns when all sent records are acknowledged or refused."""
        self._idle.clear()
        self._paused.set()
        wait_for(lambda: self._idle.is_set() or self.failure is not None, "all is acknowledged", FLUSH_TIMEOUT + 10)

    def resume(self) -> None:
        """Continue sending."""
        self._begun, self._due = time.monotonic(), 0
        self._paused.clear()

    def step(self) -> None:
        """Send the due records, and handle the delivery reports."""
        if self._paused.is_set():
            if not self._idle.is_set():
                self._flush()
                self._idle.set()
            time.sleep(TICK)
            return
        due = int((time.monotonic() - self._begun) * self._rate)
        for _ in range(min(due - self._due, self._rate // 10 + 1)):
            self._send()
        # Skip the records that could not be sent in time, because they would flood a broker that comes back.
        self._due = due
        self._producer.poll(TICK)

    def finish(self) -> None:
        """Wait for all delivery reports."""
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
            with self.record.lock:
                self.record.history.breach(f"{self.name}: no answer for {left} records")

    def _delivered(self, error: Any, message: Any) -> None:
        identity = decode_value(message.value())
        if error is None:
            self.record.acknowledged(identity, message.offset())
            self.acknowledged += 1
        else:
            self.failures.append(str(error))
            with self.record.lock:
                self.record.history.failed(identity, str(error))
