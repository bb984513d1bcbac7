"""An idempotent producer that writes to every partition at a steady rate, and records the times of acknowledgements.

The time between two acknowledgements of a partition is the time for which its producers waited.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from integration.harness.wait import wait_for


class SteadyLoad:
    """Sends ``rate`` records a second, to the partitions of ``topic`` in turn, inside ``with``."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate: int = 300) -> None:
        self.errors: list[str] = []
        self.longest = [0.0] * partitions
        self.acknowledged = 0
        self.sent = 0
        self._topic = topic
        self._pause = 1 / rate
        self._last: list[float | None] = [None] * partitions
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="steady-load")
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                # Short, because a longer backoff after a restart would count as the broker's gap.
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )

    def wait_for_more(self, count: int) -> None:
        """Wait until ``count`` more records have been acknowledged."""
        goal = self.acknowledged + count
        wait_for(lambda: self.acknowledged >= goal, f"{count} more records acknowledged", timeout=120)

    def forget_gaps(self) -> list[float]:
        """The longest gap of each partition in seconds since the last call; starts the measurement again."""
        longest, self.longest = self.longest, [0.0] * len(self.longest)
        return longest

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        partitions = len(self._last)
        while not self._stopping.is_set():
            partition = self.sent % partitions
            self._producer.produce(self._topic, str(self.sent), partition=partition, on_delivery=self._delivered)
            self.sent += 1
            self._producer.poll(self._pause)
        self._producer.flush(120)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(str(error))
            return
        now, partition = time.monotonic(), message.partition()
        assert partition is not None
        last = self._last[partition]
        if last is not None:
            self.longest[partition] = max(self.longest[partition], now - last)
        self._last[partition] = now
        self.acknowledged += 1
