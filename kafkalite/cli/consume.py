"""``kafkalite consume``: print the records of a topic, or of one partition of it; alone or as a member of a group.

Answers to: ``bin/kafka-console-consumer.sh``, ``org.apache.kafka.tools.consumer.ConsoleConsumer`` and its
``DefaultMessageFormatter`` (3.9). Reactor shell (client libraries).

Without ``--group`` partitions are assigned manually, and no offset is committed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kafkalite.cli.clients import add_json, parse_pairs
from kafkalite.cli.consume_sources import ConsumedRecord, source
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
EXAMPLES = (
    "kafkalite consume --bootstrap-server localhost:9092 --topic flights --from-beginning --max-messages 10",
    "kafkalite consume --bootstrap-server localhost:9092 --topic flights --group readers --property print.key=true",
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``consume`` with ConsoleConsumer's flags."""
    parser = subparsers.add_parser("consume", help="print the records of a topic")
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT,…", help="brokers; this or --zookeeper is needed")
    parser.add_argument(
        "--zookeeper", metavar="CONNECT", help="join as a ZooKeeper consumer (Kafka 0.8 to 1.1): host:port[/chroot]"
    )
    parser.add_argument("--consumer.config", dest="command_config", type=Path, metavar="FILE", help="client properties")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--topic")
    what.add_argument("--include", "--whitelist", metavar="REGEX", help="all topics that match; a group is formed")
    parser.add_argument("--group", metavar="ID", help="join this consumer group and commit automatically")
    parser.add_argument("--partition", type=int, help="only this partition")
    parser.add_argument("--offset", default=None, metavar="N|earliest|latest", help="with --partition: where to begin")
    parser.add_argument(
        "--from-beginning",
        action="store_true",
        help="begin with the oldest records (where a group has committed nothing yet)",
    )
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
        help="of the client (librdkafka's names; with --zookeeper those of Kafka's old consumer)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print records until SIGINT, SIGTERM, ``--max-messages`` or ``--timeout-ms``."""
    check(args)
    formatter = FORMATTER_PROPERTIES | parse_pairs(args.property, "--property")
    count, last = 0, time.monotonic()
    out = sys.stdout.buffer
    try:
        with interruptible():
            records = source(args)
            try:
                while args.max_messages is None or count < args.max_messages:
                    wanted = POLL_RECORDS if args.max_messages is None else min(POLL_RECORDS, args.max_messages - count)
                    found = records.take(wanted)
                    for record in found:
                        out.write(json_line(record) if args.json else format_record(record, formatter))
                    out.flush()
                    records.printed()
                    count += len(found)
                    if found:
                        last = time.monotonic()
                    elif args.timeout_ms is not None and time.monotonic() - last > args.timeout_ms / 1000:
                        break
            finally:
                records.close()
    except KeyboardInterrupt:
        pass
    finally:
        print(f"Processed a total of {count} messages", file=sys.stderr)
    return 0


def check(args: argparse.Namespace) -> None:
    """Raise :class:`UsageError` for flags that contradict each other."""
    if bool(args.bootstrap_server) == bool(args.zookeeper):
        raise UsageError("one of --bootstrap-server and --zookeeper is needed")
    if args.offset is not None and args.partition is None:
        raise UsageError("--offset needs --partition")
    if args.offset is not None and args.from_beginning:
        raise UsageError("--offset and --from-beginning contradict each other")
    by_hand = [flag for flag in ("partition", "offset", "from_timestamp") if getattr(args, flag) is not None]
    if by_hand and (args.group or args.include or args.zookeeper):
        flags = ", ".join(f"--{flag.replace('_', '-')}" for flag in by_hand)
        raise UsageError(f"{flags}: not for a member of a group, whose partitions and offsets are the group's")
    if args.zookeeper and args.isolation_level == "read_committed":
        raise UsageError("--isolation-level read_committed: the ZooKeeper consumer does not know transactions")


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM ends the work in order, as Ctrl-C does, because the group need not wait for a member that leaves."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def format_record(record: ConsumedRecord, properties: dict[str, str]) -> bytes:
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
        key = record.key()
        parts.append(null if key is None else key)
    if wanted("value"):
        content = record.value()
        parts.append(null if content is None else content)
    return separator.join(parts) + properties["line.separator"].encode()


def format_headers(headers: Sequence[tuple[str, bytes | None]] | None, separator: bytes, null: bytes) -> bytes:
    """``name:value,…`` or ``NO_HEADERS``."""
    if not headers:
        return b"NO_HEADERS"
    return separator.join(name.encode() + b":" + (null if value is None else value) for name, value in headers)


def json_line(record: ConsumedRecord) -> bytes:
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
