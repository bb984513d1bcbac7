"""The clients of the bench, each in a separate process.

``python -m integration.bench.load WHAT '{json}'`` prints one JSON line. Both sides get the same requests. Python code
does not handle single records, because it would be the bottleneck: the producer passes whole lists to librdkafka, and
``fetch`` uses a plain socket and reads batch headers only.
"""

from __future__ import annotations

import json
import struct
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from statistics import quantiles
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from integration.bench.committers import commits
from integration.bench.raw import fetch_all

CHUNK = 10000
"""Number of messages that are passed to librdkafka at once."""
WINDOW = 48 << 20
"""Greatest number of outstanding bytes, because more would make the producer use new memory for every message."""
STAMP = struct.Struct(">d")
PADDING = bytes(92)


def wait_for_start() -> None:
    """Report readiness and wait for the start signal, so that clients begin together, after their start."""
    print("ready", flush=True)
    sys.stdin.readline()


def produce(
    bootstrap: str, topic: str, partitions: int, count: int, size: int, settings: dict[str, Any]
) -> dict[str, float]:
    """``count`` messages of ``size`` bytes, chunk by chunk to the partitions in turn, to the last acknowledgement.

    ``cpu``: seconds of this process meanwhile, all threads together.
    """
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
    start, cpu = time.monotonic(), time.process_time()
    sent = number = 0
    window = WINDOW // size
    while sent < count:
        while len(producer) > window:
            producer.poll(0.002)
        wanted = batch if count - sent >= chunk else [payload] * (count - sent)
        sent += producer.produce_batch(topic, wanted, partition=number % partitions)
        number += 1
    producer.flush(300)
    seconds = time.monotonic() - start
    left = len(producer)
    return {"count": sent - left, "seconds": seconds, "lost": left, "cpu": time.process_time() - cpu}


def consume(bootstrap: str, topic: str, partitions: int, count: int, settings: dict[str, Any]) -> dict[str, float]:
    """``count`` messages from the beginning of all partitions, with librdkafka's defaults; ``cpu`` as of a producer."""
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
    start, cpu = time.monotonic(), time.process_time()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    got = 0
    last = start
    while got < count and time.monotonic() - last < 20:
        records = consumer.consume(10000, timeout=1.0)
        if records:
            got += len(records)
            last = time.monotonic()
    return {"count": got, "seconds": last - start, "cpu": time.process_time() - cpu}


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


def latency(bootstrap: str, topic: str, rate: int, seconds: float, acks: str) -> dict[str, float]:
    """Milliseconds from the call of produce to the consumer's poll with the record, at a steady rate, no lingering."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": acks, "log_level": 0})
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.min.bytes": 1,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    lag: list[float] = []
    count = int(rate * seconds)
    warm = rate
    reader = threading.Thread(target=_read_stamps, args=(consumer, count + warm, lag))
    for _ in range(20):  # warm-up, so that connections and first requests are not measured
        producer.produce(topic, STAMP.pack(0.0) + PADDING, partition=0)
        producer.flush(30)
    wait_for_start()
    reader.start()
    start = time.monotonic()
    for number in range(count + warm):
        ahead = start + number / rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        producer.produce(topic, STAMP.pack(time.monotonic()) + PADDING, partition=0)
        producer.poll(0)
    producer.flush(60)
    reader.join()
    consumer.close()
    steps = quantiles(lag[warm:], n=100, method="inclusive")
    return {"p50": steps[49], "p99": steps[98]}


def _read_stamps(consumer: Any, count: int, lag: list[float]) -> None:
    deadline = time.monotonic() + 60
    while len(lag) < count and time.monotonic() < deadline:
        record = consumer.poll(1.0)
        if record is None or record.error() is not None:
            continue
        (sent,) = STAMP.unpack_from(record.value())
        if sent:
            lag.append((time.monotonic() - sent) * 1000)


def gap(bootstrap: str, topic: str, seconds: float) -> dict[str, float]:
    """The longest time between two acknowledgements, at 1,000 messages a second."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all", "log_level": 0})
    acknowledged: list[float] = []
    lost: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is None:
            acknowledged.append(time.monotonic())
        else:
            lost.append(error)

    producer.produce(topic, PADDING, on_delivery=delivered)
    producer.flush(30)
    wait_for_start()
    start = time.monotonic()
    number = 0
    while (now := time.monotonic()) < start + seconds:
        number += 1
        producer.produce(topic, PADDING, on_delivery=delivered)
        producer.poll(max(0.0, start + number / 1000 - now))
    producer.flush(60)
    began = [moment for moment in acknowledged if moment >= start]
    longest = max(later - earlier for earlier, later in pairwise(began))
    return {"gap": longest, "count": len(acknowledged), "lost": len(lost) + len(producer)}


CLIENTS: dict[str, Callable[..., dict[str, float]]] = {
    "produce": produce,
    "consume": consume,
    "fetch": fetch,
    "latency": latency,
    "gap": gap,
    "commits": partial(commits, wait_for_start=wait_for_start),
}


def main() -> None:
    """Run one client."""
    print(json.dumps(CLIENTS[sys.argv[1]](**json.loads(sys.argv[2]))), flush=True)


if __name__ == "__main__":
    main()
