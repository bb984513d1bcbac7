"""``kafkalite perf produce|consume|latency``: measurements, with lines as Kafka's own tools print them.

Answers to: ``org.apache.kafka.tools.{ProducerPerformance,ConsumerPerformance,EndToEndLatency}`` (3.9).
Reactor shell (client library).
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from kafkalite.cli.clients import add_bootstrap, add_json, librdkafka_settings, parse_pairs, print_json
from kafkalite.cli.consume_sources import start_positions
from kafkalite.cli.login_refusals import await_login, flush

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

REPORT_INTERVAL = 5.0
MB = 1024.0 * 1024.0
EXAMPLES = (
    (
        "kafkalite perf produce --bootstrap-server localhost:9092 "
        "--topic flights --num-records 1000000 --producer-props acks=all"
    ),
    "kafkalite perf consume --bootstrap-server localhost:9092 --topic flights --messages 1000000",
    "kafkalite perf latency --bootstrap-server localhost:9092 --topic flights --num-records 1000 --acks all",
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``perf`` with its three measurements."""
    parser = subparsers.add_parser("perf", help="measure a producer, a consumer or the latency between them")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    produce = actions.add_parser("produce", help="produce as fast as may be, or at --throughput")
    produce.add_argument("--num-records", type=int, required=True)
    produce.add_argument("--record-size", type=int, default=100, metavar="BYTES")
    produce.add_argument("--throughput", type=float, default=-1, metavar="RECORDS/S", help="-1: no limit")
    produce.add_argument("--producer-props", nargs="+", default=[], metavar="NAME=VALUE", help="librdkafka's names")
    consume = actions.add_parser("consume", help="read all partitions, assigned by hand")
    consume.add_argument("--messages", type=int, required=True, help="end after so many")
    consume.add_argument("--timeout", type=int, default=10000, metavar="MS", help="end where nothing comes for so long")
    consume.add_argument("--partition", type=int, help="only this partition")
    consume.add_argument("--hide-header", action="store_true")
    latency = actions.add_parser("latency", help="one record at a time from producer to consumer")
    latency.add_argument("--num-records", type=int, required=True)
    latency.add_argument("--record-size", type=int, default=100, metavar="BYTES")
    latency.add_argument(
        "--throughput", type=float, default=-1, metavar="RECORDS/S", help="-1: the next as soon as one has come"
    )
    latency.add_argument("--acks", default="1", choices=["1", "all"])
    for each in (produce, consume, latency):
        add_bootstrap(each)
        each.add_argument("--topic", required=True)
        add_json(each)


def run(args: argparse.Namespace) -> int:
    """Run one measurement."""
    return {"produce": produce, "consume": consume, "latency": latency}[args.action](args)


class Latencies:
    """Latencies in milliseconds, of a window and of the whole run."""

    def __init__(self) -> None:
        self.all: list[float] = []
        self._window = 0

    def add(self, value: float) -> None:
        """Add one latency."""
        self.all.append(value)

    def take_window(self) -> list[float]:
        """The latencies since the last call."""
        window = self.all[self._window :]
        self._window = len(self.all)
        return window


def produce(args: argparse.Namespace) -> int:
    """``perf produce``."""
    from confluent_kafka import KafkaException, Producer

    settings = {"linger.ms": "5", **parse_pairs(args.producer_props, "--producer-props")}
    producer = Producer(librdkafka_settings(args, settings))
    latencies, errors = Latencies(), []
    payload = random.Random(0).randbytes(args.record_size)
    start = last = time.monotonic()

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(error)
        else:
            latencies.add(message.latency() * 1000.0)

    for number in range(args.num_records):
        if args.throughput > 0:
            ahead = start + number / args.throughput - time.monotonic()
            if ahead > 0:
                producer.poll(ahead)
        while True:
            try:
                producer.produce(args.topic, payload, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 64 == 0:
            producer.poll(0)
            now = time.monotonic()
            if not args.json and now - last >= REPORT_INTERVAL:
                print(window_line(latencies.take_window(), now - last, args.record_size), flush=True)
                last = now
    flush(producer, 120)
    seconds = time.monotonic() - start
    if errors:
        raise KafkaException(errors[0])
    report = summary(latencies.all, seconds, args.record_size)
    if args.json:
        print_json(report)
    else:
        print(
            f"{report['records']} records sent, {report['records_per_s']:.6f} records/sec "
            f"({report['mb_per_s']:.2f} MB/sec), {report['avg_ms']:.2f} ms avg latency, "
            f"{report['max_ms']:.2f} ms max latency, {report['p50_ms']:.0f} ms 50th, "
            f"{report['p95_ms']:.0f} ms 95th, {report['p99_ms']:.0f} ms 99th, {report['p999_ms']:.0f} ms 99.9th."
        )
    return 0


def consume(args: argparse.Namespace) -> int:
    """``perf consume``."""
    from confluent_kafka import Consumer, KafkaException

    settings = {
        "group.id": "kafkalite-perf",
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
        "check.crcs": "false",
    }
    consumer = Consumer(librdkafka_settings(args, settings))
    began = datetime.now()
    start = time.monotonic()
    args.from_beginning, args.offset, args.from_timestamp = True, None, None
    count = size = 0
    try:
        consumer.assign(start_positions(consumer, args))
        last = time.monotonic()
        while count < args.messages and time.monotonic() - last < args.timeout / 1000:
            for record in consumer.consume(10000, timeout=0.2):
                if record.error() is not None:
                    raise KafkaException(record.error())
                count += 1
                size += len(record) + len(record.key() or b"")
                last = time.monotonic()
    finally:
        consumer.close()
    seconds = max(last - start, 1e-9)
    report = {
        "start": began.isoformat(sep=" ", timespec="milliseconds"),
        "end": datetime.now().isoformat(sep=" ", timespec="milliseconds"),
        "mb": size / MB,
        "mb_per_s": size / MB / seconds,
        "records": count,
        "records_per_s": count / seconds,
        "fetch_ms": round(seconds * 1000),
    }
    if args.json:
        print_json(report)
        return 0
    if not args.hide_header:
        print(
            "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
            "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
        )
    moments = ", ".join(str(report[name]).replace(".", ":") for name in ("start", "end"))
    rates = f"{size / MB / seconds:.4f}", f"{count / seconds:.4f}"
    # There is no rebalance, so the rates of fetching are those of the whole run.
    print(
        f"{moments}, {size / MB:.4f}, {rates[0]}, {count}, {rates[1]}, 0, {report['fetch_ms']}, {rates[0]}, {rates[1]}"
    )
    return 0


def latency(args: argparse.Namespace) -> int:
    """``perf latency``: from the call of produce until the consumer has the record."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer(librdkafka_settings(args, {"acks": args.acks, "linger.ms": "0"}))
    settings = {
        "group.id": "kafkalite-latency",
        "enable.auto.commit": "false",
        "fetch.wait.max.ms": "1000",
        "fetch.min.bytes": "1",
    }
    consumer = Consumer(librdkafka_settings(args, settings))
    partition = 0
    await_login(consumer, 15)
    _, end = consumer.get_watermark_offsets(TopicPartition(args.topic, partition), timeout=15)
    consumer.assign([TopicPartition(args.topic, partition, end)])
    consumer.consume(1, timeout=1.0)  # before the first record is sent, the fetcher must wait at the end of the log
    values: list[float] = []
    payload = random.Random(0).randbytes(args.record_size)
    start = time.monotonic()
    try:
        for number in range(args.num_records):
            if args.throughput > 0:
                time.sleep(max(0.0, start + number / args.throughput - time.monotonic()))
            sent = time.monotonic()
            producer.produce(args.topic, payload, partition=partition)
            producer.poll(0)
            record = consumer.poll(30.0)
            if record is None or record.error() is not None:
                raise TimeoutError(f"record {number} did not come back: {record and record.error()}")
            values.append((time.monotonic() - sent) * 1000.0)
    finally:
        producer.flush(10)
        consumer.close()
    report = summary(values, time.monotonic() - start, args.record_size)
    if args.json:
        print_json(report)
    else:
        print(f"Avg latency: {report['avg_ms']:.4f} ms\n")
        percentiles = (("50th", "p50_ms"), ("99th", "p99_ms"), ("99.9th", "p999_ms"))
        print("Percentiles: " + ", ".join(f"{label} = {report[field]:.3f}" for label, field in percentiles))
    return 0


def window_line(values: Sequence[float], seconds: float, size: int) -> str:
    """A line of progress."""
    report = summary(values, seconds, size)
    return (
        f"{report['records']} records sent, {report['records_per_s']:.1f} records/sec "
        f"({report['mb_per_s']:.2f} MB/sec), {report['avg_ms']:.1f} ms avg latency, "
        f"{report['max_ms']:.1f} ms max latency."
    )


def summary(values: Sequence[float], seconds: float, size: int) -> dict[str, float]:
    """Rates and percentiles of latencies (milliseconds) of records of ``size`` bytes over ``seconds``."""
    ordered = sorted(values) or [0.0]
    count = len(values)
    percentiles = {
        f"{name}_ms": percentile(ordered, share)
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))
    }
    return {
        "records": count,
        "seconds": seconds,
        "records_per_s": count / seconds,
        "mb_per_s": count * size / seconds / MB,
        "avg_ms": sum(ordered) / len(ordered),
        "max_ms": ordered[-1],
        **percentiles,
    }


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the ``ordered`` values lie."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
