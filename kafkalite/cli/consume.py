"""``kafkalite consume``: print the records of a topic, or of one partition of it.

Answers to: ``bin/kafka-console-consumer.sh``, ``org.apache.kafka.tools.consumer.ConsoleConsumer`` and its
``DefaultMessageFormatter`` (3.9). Reactor shell (client library).

Partitions are assigned by hand; no consumer group is needed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from kafkalite.cli.clients import add_bootstrap, add_json, librdkafka_settings, parse_properties
from kafkalite.cli.main import UsageError

FORMATTER_PROPERTIES = {
    "print.timestamp": "false",
    "print.key": "false",
    "print.offset": "false",
    "print.epoch": "false",
    "print.partition": "false",
    "print.headers": "false",
    "print.value": "true",
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
}
POLL_RECORDS = 500
OFFSETS = {"earliest": -2, "latest": -1}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``consume`` with ConsoleConsumer's flags."""
    parser = subparsers.add_parser("consume", help="print the records of a topic")
    add_bootstrap(parser, config_flag="--consumer.config")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partition", type=int, help="only this partition")
    parser.add_argument("--offset", default=None, metavar="N|earliest|latest", help="with --partition: where to begin")
    parser.add_argument("--from-beginning", action="store_true", help="begin with the oldest records")
    parser.add_argument(
        "--from-timestamp", type=int, metavar="MS", help="begin with the first records at or after this time"
    )
    parser.add_argument("--max-messages", type=int, metavar="N", help="end after so many")
    parser.add_argument("--timeout-ms", type=int, metavar="MS", help="end where nothing comes for so long")
    parser.add_argument("--isolation-level", default="read_uncommitted", choices=["read_uncommitted", "read_committed"])
    parser.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"of the formatter: {', '.join(FORMATTER_PROPERTIES)}",
    )
    parser.add_argument(
        "--consumer-property",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of the client (librdkafka's names)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print records until told to stop, ``--max-messages`` or ``--timeout-ms``."""
    from confluent_kafka import Consumer, KafkaException

    if args.offset is not None and args.partition is None:
        raise UsageError("--offset needs --partition")
    if args.offset is not None and args.from_beginning:
        raise UsageError("--offset and --from-beginning contradict each other")
    formatter = FORMATTER_PROPERTIES | parse_properties(args.property, "--property")
    settings = {
        "group.id": "kafkalite-console",
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest" if args.from_beginning else "latest",
        "isolation.level": args.isolation_level,
        **parse_properties(args.consumer_property, "--consumer-property"),
    }
    consumer = Consumer(librdkafka_settings(args, settings))
    count, last = 0, time.monotonic()
    out = sys.stdout.buffer
    try:
        consumer.assign(start_positions(consumer, args))
        while args.max_messages is None or count < args.max_messages:
            wanted = POLL_RECORDS if args.max_messages is None else min(POLL_RECORDS, args.max_messages - count)
            records = consumer.consume(wanted, timeout=0.2)
            for record in records:
                if record.error() is not None:
                    raise KafkaException(record.error())
                out.write(json_line(record) if args.json else format_record(record, formatter))
            out.flush()
            count += len(records)
            if records:
                last = time.monotonic()
            elif args.timeout_ms is not None and time.monotonic() - last > args.timeout_ms / 1000:
                break
    except KeyboardInterrupt:
        pass
    finally:
        consumer.close()
        print(f"Processed a total of {count} messages", file=sys.stderr)
    return 0


def start_positions(consumer: Any, args: argparse.Namespace) -> list[Any]:
    """The partitions to read with the offsets to begin at. Raises where the topic is not there."""
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    metadata = consumer.list_topics(args.topic, timeout=15).topics[args.topic]
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    partitions = sorted(metadata.partitions) if args.partition is None else [args.partition]
    if not set(partitions) <= set(metadata.partitions):
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION, f"{args.topic}-{args.partition} does not exist"))
    if args.from_timestamp is not None:
        found: list[Any] = consumer.offsets_for_times(
            [TopicPartition(args.topic, i, args.from_timestamp) for i in partitions], timeout=15
        )
        return found
    if args.offset is None:
        start = OFFSETS["earliest" if args.from_beginning else "latest"]
    else:
        start = parse_offset(args.offset)
    return [TopicPartition(args.topic, partition, start) for partition in partitions]


def parse_offset(text: str) -> int:
    """``--offset``: a number, ``earliest`` or ``latest``, as librdkafka's (negative) logical offsets."""
    if text in OFFSETS:
        return OFFSETS[text]
    if not text.isdigit():
        raise UsageError(f"--offset {text!r}: expected a number, earliest or latest")
    return int(text)


def format_record(record: Any, properties: dict[str, str]) -> bytes:
    """One record as ConsoleConsumer's ``DefaultMessageFormatter`` prints it."""
    null = properties["null.literal"].encode()
    separator = properties["key.separator"].encode()
    parts: list[bytes] = []

    def wanted(name: str) -> bool:
        return properties[f"print.{name}"].lower() == "true"

    if wanted("timestamp"):
        kind, value = record.timestamp()
        name = {1: b"CreateTime", 2: b"LogAppendTime"}.get(kind)
        parts.append(b"NO_TIMESTAMP" if name is None else b"%s:%d" % (name, value))
    if wanted("partition"):
        parts.append(b"Partition:%d" % record.partition())
    if wanted("offset"):
        parts.append(b"Offset:%d" % record.offset())
    if wanted("epoch"):
        epoch = record.leader_epoch()
        parts.append(b"Epoch:%d" % epoch if epoch is not None else b"Epoch:null")
    if wanted("headers"):
        parts.append(format_headers(record.headers(), properties["headers.separator"].encode(), null))
    if wanted("key"):
        parts.append(null if record.key() is None else record.key())
    if wanted("value"):
        parts.append(null if record.value() is None else record.value())
    return separator.join(parts) + properties["line.separator"].encode()


def format_headers(headers: Sequence[tuple[str, bytes | None]] | None, separator: bytes, null: bytes) -> bytes:
    """``name:value,…`` or ``NO_HEADERS``."""
    if not headers:
        return b"NO_HEADERS"
    return separator.join(name.encode() + b":" + (null if value is None else value) for name, value in headers)


def json_line(record: Any) -> bytes:
    """One record as one line of JSON; bytes that are not UTF-8 become replacement characters."""
    kind, timestamp = record.timestamp()
    value = {
        "topic": record.topic(),
        "partition": record.partition(),
        "offset": record.offset(),
        "timestamp": timestamp if kind else None,
        "timestamp_type": {1: "CreateTime", 2: "LogAppendTime"}.get(kind),
        "headers": [[name, text(header)] for name, header in record.headers() or []],
        "key": text(record.key()),
        "value": text(record.value()),
    }
    return json.dumps(value).encode() + b"\n"


def text(data: bytes | None) -> str | None:
    """``data`` as text."""
    return None if data is None else data.decode(errors="replace")
