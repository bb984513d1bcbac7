"""The sources of ``kafkalite consume``: assigned partitions, a group, or a group of ZooKeeper consumers.

Answers to: ``org.apache.kafka.tools.consumer.ConsoleConsumer.ConsumerWrapper`` and, for ``--zookeeper``,
``kafka.consumer.OldConsumer``. Reactor shell (client libraries).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Protocol

from kafkalite.cli.clients import librdkafka_settings, parse_pairs, read_properties
from kafkalite.cli.login_refusals import await_login
from kafkalite.cli.main import UsageError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition

    from kafkalite.consumer import Record

OFFSETS = {"earliest": -2, "latest": -1}
POLL_SECONDS = 0.2


class ConsumedRecord(Protocol):
    """A record, with the methods of confluent-kafka's messages."""

    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def timestamp(self) -> tuple[int, int]: ...
    def leader_epoch(self) -> int | None: ...
    def headers(self) -> list[tuple[str, bytes | None]] | None: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...


class Source(Protocol):
    """Where the records come from."""

    def take(self, count: int) -> list[ConsumedRecord]:
        """At most ``count`` records; none if none arrived for a moment. Raises the library's errors."""

    def printed(self) -> None:
        """The records of the last :meth:`take` are written: from now on they count as read."""

    def close(self) -> None:
        """Commit the offsets that are not committed yet, and leave."""


def source(args: argparse.Namespace) -> Source:
    """The source that ``args`` ask for."""
    if args.zookeeper:
        return ZooKeeperSource(args)
    if args.group or args.include:
        return GroupRecordSource(args)
    return AssignedSource(args)


class AssignedSource:
    """Manually assigned partitions, from the start that the flags name; needs no group and commits nothing."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._consumer = library_consumer(args, {"group.id": "kafkalite-console", "enable.auto.commit": "false"})
        try:
            self._consumer.assign(start_positions(self._consumer, args))
        except BaseException:
            self._consumer.close()
            raise

    def take(self, count: int) -> list[ConsumedRecord]:
        from confluent_kafka import KafkaError

        # The library looks for the coordinator of its group.id, but nothing here needs that group.
        refusal = KafkaError.GROUP_AUTHORIZATION_FAILED
        records = self._consumer.consume(count, timeout=POLL_SECONDS)
        return checked([each for each in records if (error := each.error()) is None or error.code() != refusal])

    def printed(self) -> None:
        """Nothing to do, because nothing is committed."""

    def close(self) -> None:
        self._consumer.close()


class GroupRecordSource:
    """A member of a group: its part of the partitions, from the group's committed offsets."""

    def __init__(self, args: argparse.Namespace) -> None:
        group = args.group or f"console-consumer-{time.time_ns() % 100_000}"
        # As in ConsoleConsumer: a consumer without --group commits nothing.
        settings = {"group.id": group, "enable.auto.commit": "true" if args.group else "false"}
        self._consumer = library_consumer(args, {**settings, "enable.auto.offset.store": "false"})
        self._taken: list[Message] = []
        pattern = f"^({args.include})$" if args.include else args.topic
        self._consumer.subscribe([pattern])

    def take(self, count: int) -> list[ConsumedRecord]:
        self._taken = self._consumer.consume(count, timeout=POLL_SECONDS)
        return checked(self._taken)

    def printed(self) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        ends = {(record.topic(), record.partition()): record.offset() + 1 for record in self._taken}
        if ends:
            # Of a partition that this member has lost meanwhile, the next owner prints the records again.
            with suppress(KafkaException):
                self._consumer.store_offsets(offsets=[TopicPartition(*tp, end) for tp, end in ends.items()])

    def close(self) -> None:
        self._consumer.close()


class ZooKeeperSource:
    """One of a group of ZooKeeper consumers (``kafkalite.consumer``), as with Kafka's ``--zookeeper`` before 2.0."""

    def __init__(self, args: argparse.Namespace) -> None:
        from kafkalite.consumer import ConsumerConfig, Subscription, ZooKeeperConsumer

        properties = {
            "group.id": args.group or f"console-consumer-{time.time_ns() % 100_000}",
            "auto.offset.reset": "smallest" if args.from_beginning else "largest",
            **read_properties(args.command_config),
            **parse_pairs(args.consumer_property, "--consumer-property"),
            "zookeeper.connect": args.zookeeper,
        }
        settings = asdict(ConsumerConfig.from_properties(properties))
        where, group = settings.pop("zookeeper_connect"), settings.pop("group_id")
        # ConsoleConsumer subscribes to an expression even if it is a plain name.
        wanted = Subscription.white_list(args.include or args.topic)
        self._consumer = ZooKeeperConsumer(where, group, wanted, **settings)

    def take(self, count: int) -> list[ConsumedRecord]:
        record = self._consumer.poll(POLL_SECONDS) if count else None
        return [] if record is None else [ZooKeeperMessage(record)]

    def printed(self) -> None:
        """Nothing to do: the consumer counts a record as read when it is asked for the next one, or closed."""

    def close(self) -> None:
        self._consumer.close()


class ZooKeeperMessage:
    """A record of ``kafkalite.consumer`` with the methods of confluent-kafka's messages."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def topic(self) -> str:
        return self._record.topic

    def partition(self) -> int:
        return self._record.partition

    def offset(self) -> int:
        return self._record.offset

    def timestamp(self) -> tuple[int, int]:
        return (0 if self._record.timestamp_ms < 0 else 1), self._record.timestamp_ms

    def leader_epoch(self) -> None:
        return None

    def headers(self) -> list[tuple[str, bytes | None]]:
        return list(self._record.headers)

    def key(self) -> bytes | None:
        return self._record.key

    def value(self) -> bytes | None:
        return self._record.value


def library_consumer(args: argparse.Namespace, settings: Mapping[str, str]) -> Consumer:
    """confluent-kafka's consumer."""
    from confluent_kafka import Consumer

    more = {
        "auto.offset.reset": "earliest" if args.from_beginning else "latest",
        "isolation.level": args.isolation_level,
        **settings,
        **parse_pairs(args.consumer_property, "--consumer-property"),
    }
    if args.group and more["group.id"] != args.group:
        raise UsageError(f"--group {args.group} and --consumer-property group.id={more['group.id']} contradict")
    return Consumer(librdkafka_settings(args, more))


def checked(records: list[Message]) -> list[ConsumedRecord]:
    """``records``, if none of them is an error. Raises the first error."""
    from confluent_kafka import KafkaException

    for record in records:
        if record.error() is not None:
            raise KafkaException(record.error())
    return records


def start_positions(consumer: Consumer, args: argparse.Namespace) -> list[TopicPartition]:
    """The partitions to read with the offsets to begin at. Raises if the topic does not exist."""
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    await_login(consumer, 15)
    metadata = consumer.list_topics(args.topic, timeout=15).topics[args.topic]
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    partitions = sorted(metadata.partitions) if args.partition is None else [args.partition]
    if not set(partitions) <= set(metadata.partitions):
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION, f"{args.topic}-{args.partition} does not exist"))
    if args.from_timestamp is not None:
        found: list[TopicPartition] = consumer.offsets_for_times(
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
