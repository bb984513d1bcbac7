"""The clients of the bench, each a process of its own.

``python -m integration.bench.load WHAT '{json}'`` prints one JSON line. Both sides get the same requests. Where Python
would be the bottleneck it does not touch single records: the producer hands librdkafka whole lists, and ``fetch`` speaks
the protocol on a plain socket and looks at batch headers only.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from integration.bench.raw import fetch_all

CHUNK = 10000
"""Messages handed to librdkafka at once."""


def wait_for_start() -> None:
    """Say that we are ready, begin when told: several clients begin together, and their start is not measured."""
    print("ready", flush=True)
    sys.stdin.readline()


def produce(
    bootstrap: str, topic: str, partitions: int, count: int, size: int, settings: dict[str, Any]
) -> dict[str, float]:
    """``count`` messages of ``size`` bytes, chunk by chunk to the partitions in turn, to the last acknowledgement."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1000000,
            "queue.buffering.max.kbytes": 1 << 20,
            "log_level": 0,
            **settings,
        }
    )
    producer.list_topics(topic, timeout=30)
    payload = {"value": bytes(range(256)) * (size // 256) + bytes(size % 256)}
    chunk = min(CHUNK, max(1, count // partitions))
    batch = [payload] * chunk
    wait_for_start()
    start = time.monotonic()
    sent = number = 0
    while sent < count:
        wanted = batch if count - sent >= chunk else [payload] * (count - sent)
        queued = producer.produce_batch(topic, wanted, partition=number % partitions)
        sent += queued
        if queued < len(wanted):
            payload.pop("_error", None)
            producer.poll(0.002)
        else:
            number += 1
    producer.flush(300)
    seconds = time.monotonic() - start
    left = len(producer)
    return {"count": sent - left, "seconds": seconds, "lost": left}


def consume(bootstrap: str, topic: str, partitions: int, count: int, settings: dict[str, Any]) -> dict[str, float]:
    """``count`` messages from the beginning of all partitions, with librdkafka's defaults."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **settings,
        }
    )
    consumer.list_topics(topic, timeout=30)
    wait_for_start()
    start = time.monotonic()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    got = 0
    last = start
    while got < count and time.monotonic() - last < 20:
        records = consumer.consume(10000, timeout=1.0)
        if records:
            got += len(records)
            last = time.monotonic()
    return {"count": got, "seconds": last - start}


def fetch(topic: str, leaders: list[tuple[str, int, int]], count: int) -> dict[str, float]:
    """``count`` messages by raw Fetch requests, one partition after the other; ``leaders``: (host, port, partition)."""
    wait_for_start()
    start = time.monotonic()
    got = size = 0
    for host, port, partition in leaders:
        records, length = fetch_all(host, port, topic, partition, count - got)
        got += records
        size += length
    return {"count": got, "seconds": time.monotonic() - start, "bytes": size}


CLIENTS: dict[str, Callable[..., dict[str, float]]] = {"produce": produce, "consume": consume, "fetch": fetch}


def main() -> None:
    """Run one client."""
    print(json.dumps(CLIENTS[sys.argv[1]](**json.loads(sys.argv[2]))), flush=True)


if __name__ == "__main__":
    main()
