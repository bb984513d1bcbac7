"""One reader of the demo in its own process, so that it can be killed: a member of a group.

Answers to: ``org.apache.kafka.tools.ConsoleConsumer`` with ``--group``. Reactor shell (client library).

It writes partition, offset and checksum of each record to its standard output as :data:`ENTRY`, and commits only then:
killed between the two, it leaves records that its successor reads again, but none that is never read.
"""

from __future__ import annotations

import signal
import struct
import sys
import time
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

ENTRY = struct.Struct("<BQI")
BATCH = 1000
SESSION_TIMEOUT_MS = 3000
LAST_COMMIT_SECONDS = 10.0


def main(arguments: Sequence[str]) -> None:
    """``BOOTSTRAP GROUP TOPIC NAME``: read until SIGTERM."""
    from confluent_kafka import Consumer

    bootstrap, group, topic, name = arguments
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the demo decides when its readers end
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": 300,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    while not stopped:
        records = [record for record in consumer.consume(BATCH, timeout=0.2) if record.error() is None]
        if records:
            sys.stdout.buffer.write(b"".join(map(entry, records)))
            sys.stdout.buffer.flush()
            commit(consumer)  # if it fails, the next one covers it
    deadline = time.monotonic() + LAST_COMMIT_SECONDS
    while not commit(consumer) and time.monotonic() < deadline:
        time.sleep(0.1)
    consumer.close()


def entry(record: Message) -> bytes:
    """A record in the form of the demo's ledger."""
    return ENTRY.pack(record.partition(), record.offset(), zlib.crc32(record.value(), zlib.crc32(record.key() or b"")))


def commit(consumer: Consumer) -> bool:
    """Commit the position; returns whether it is committed, or there was nothing to commit."""
    from confluent_kafka import KafkaError, KafkaException

    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        return bool(error.args[0].code() == KafkaError._NO_OFFSET)
    return True


if __name__ == "__main__":
    main(sys.argv[1:])
