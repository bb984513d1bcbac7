"""``kafkalite produce``: one record for each line of standard input.

Answers to: ``bin/kafka-console-producer.sh``, ``kafka.tools.ConsoleProducer`` (3.9). Reactor shell (client library).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from kafkalite.cli.clients import add_bootstrap, librdkafka_settings, parse_pairs
from kafkalite.cli.login_refusals import flush
from kafkalite.cli.main import UsageError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

READER_PROPERTIES = {
    "parse.key": "false",
    "parse.headers": "false",
    "parse.timestamp": "false",
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
    "timestamp.delimiter": "\t",
    "ignore.error": "false",
}
NULL_MARKER = "null.marker"
"""The reader's property without a default: an empty marker makes empty texts null, and no marker makes none null."""
FLUSH_TIMEOUT = 60.0


class Line(NamedTuple):
    """The parts of one line. ``timestamp`` is in milliseconds; ``None`` means now."""

    timestamp: int | None
    headers: list[tuple[str, bytes | None]]
    key: bytes | None
    value: bytes | None


EXAMPLES = (
    "kafkalite produce --bootstrap-server localhost:9092 "
    "--topic flights --property parse.key=true --property key.separator=,",
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``produce`` with ConsoleProducer's flags."""
    parser = subparsers.add_parser("produce", help="produce lines from standard input")
    add_bootstrap(parser, config_flag="--producer.config", aliases=("--broker-list",))
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partition", type=int, help="all records to this partition")
    parser.add_argument("--timestamp", type=int, metavar="MS", help="of all records")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="on all records")
    parser.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"of the line reader: {', '.join((*READER_PROPERTIES, NULL_MARKER))}",
    )
    parser.add_argument(
        "--producer-property",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of the client (librdkafka's names)",
    )
    parser.add_argument(
        "--compression-codec", nargs="?", const="gzip", choices=["none", "gzip", "snappy", "lz4", "zstd"]
    )
    parser.add_argument("--request-required-acks", default="all", metavar="0|1|all")
    parser.add_argument("--batch-size", type=int, default=16384, metavar="BYTES")
    parser.add_argument("--timeout", type=int, default=5, metavar="MS", help="how long a batch waits for more")
    parser.add_argument("--sync", action="store_true", help="wait for each record before the next")


def run(args: argparse.Namespace) -> int:
    """Produce all lines; exit code 1 if one was not acknowledged."""
    from confluent_kafka import KafkaException, Producer

    reader = READER_PROPERTIES | parse_pairs(args.property, "--property")
    common = [(name, value.encode()) for name, value in parse_pairs(args.header, "--header").items()]
    settings = {
        "acks": args.request_required_acks,
        "compression.type": args.compression_codec or "none",
        "batch.size": str(args.batch_size),
        "linger.ms": str(args.timeout),
        **parse_pairs(args.producer_property, "--producer-property"),
    }
    producer = Producer(librdkafka_settings(args, settings))
    errors: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(str(error))

    for line in read_lines(sys.stdin.buffer, reader):
        record: dict[str, object] = {"key": line.key, "value": line.value, "headers": [*common, *line.headers] or None}
        if args.partition is not None:
            record["partition"] = args.partition
        timestamp = line.timestamp if line.timestamp is not None else args.timestamp
        if timestamp is not None:
            record["timestamp"] = timestamp
        while True:
            try:
                producer.produce(args.topic, on_delivery=delivered, **record)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
        if args.sync:
            flush(producer, FLUSH_TIMEOUT)
    left = flush(producer, FLUSH_TIMEOUT)
    if left:
        errors.append(f"{left} records were not acknowledged within {FLUSH_TIMEOUT:.0f} s")
    if errors:
        raise KafkaException(f"{errors[0]} ({len(errors)} errors)" if len(errors) > 1 else errors[0])
    return 0


def read_lines(stream: BinaryIO, properties: dict[str, str]) -> Iterator[Line]:
    """The lines of ``stream`` as ConsoleProducer's ``LineMessageReader`` parses them. Pure except for the reading."""
    for number, raw in enumerate(stream, 1):
        yield parse_line(raw.rstrip(b"\n").removesuffix(b"\r"), properties, number)


def parse_line(line: bytes, properties: dict[str, str], number: int = 0) -> Line:
    """``timestamp⇥headers⇥key⇥value``; a part is present if its ``parse.…`` property is true.

    Raises :class:`UsageError` with the line's number if a delimiter is missing (unless ``ignore.error``).
    """
    lenient = is_true(properties["ignore.error"])
    marker = null_marker(properties)
    rest = line

    def take(delimiter: str, what: str) -> bytes | None:
        nonlocal rest
        head, found, tail = rest.partition(delimiter.encode())
        if not found:
            if lenient:
                return None
            raise UsageError(f"no {what} delimiter found on line number {number}: {line.decode(errors='replace')!r}")
        rest = tail
        return head

    timestamp: int | None = None
    headers: list[tuple[str, bytes | None]] = []
    key: bytes | None = None
    if is_true(properties["parse.timestamp"]):
        text = take(properties["timestamp.delimiter"], "timestamp")
        timestamp = parse_timestamp(text, number) if text else None
    if is_true(properties["parse.headers"]):
        text = take(properties["headers.delimiter"], "headers")
        if text and text != marker:
            headers = [
                parse_header(pair, properties, number) for pair in text.split(properties["headers.separator"].encode())
            ]
    if is_true(properties["parse.key"]):
        key = take(properties["key.separator"], "key")
        if key == marker:
            key = None
    value: bytes | None = None if rest == marker else rest
    return Line(timestamp, headers, key, value)


def parse_timestamp(text: bytes, number: int) -> int:
    """Milliseconds since 1970. Raises :class:`UsageError` with the line's number for any other text."""
    try:
        return int(text)
    except ValueError:
        shown = text.decode(errors="replace")
        raise UsageError(f"timestamp {shown!r} on line number {number}: expected milliseconds") from None


def parse_header(pair: bytes, properties: dict[str, str], number: int) -> tuple[str, bytes | None]:
    """``name:value``."""
    name, found, value = pair.partition(properties["headers.key.separator"].encode())
    if not found and not is_true(properties["ignore.error"]):
        raise UsageError(f"no header key separator found in {pair.decode(errors='replace')!r} on line number {number}")
    return name.decode(), None if value == null_marker(properties) else value


def null_marker(properties: Mapping[str, str]) -> bytes | None:
    """The text that stands for null; ``None`` without the property."""
    text = properties.get(NULL_MARKER)
    return None if text is None else text.encode()


def is_true(text: str) -> bool:
    """Java's ``Boolean.parseBoolean``."""
    return text.strip().lower() == "true"
