"""A process of group members of a Python library: ``python -m integration.harness.python_consumer LIBRARY``.

``members.py`` sends the commands and documents the JSON lines. Each member has a thread.
"""

from __future__ import annotations

import abc
import asyncio
import json
import os
import queue
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

POLL = 0.05
BEGINNING, END = -2, -1
Partition = tuple[str, int]
Report = Callable[..., None]
Told = Callable[[str, Iterable[Any]], None]


class Library(abc.ABC):
    """One consumer of one library. ``told`` gets the rebalance callbacks: assigned, revoked, lost."""

    def __init__(self, told: Told) -> None:
        self.told = told

    @abc.abstractmethod
    def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe."""

    @abc.abstractmethod
    def poll(self) -> list[tuple[str, int, int, str]]:
        """Topic, partition, offset and value of the records that came within :data:`POLL` seconds."""

    @abc.abstractmethod
    def assignment(self) -> set[Partition]:
        """The partitions that the consumer owns now."""

    @abc.abstractmethod
    def group(self) -> tuple[str, int]:
        """Member id and generation."""

    @abc.abstractmethod
    def commit(self, offsets: Sequence[tuple[str, int, int, str]] | None) -> None:
        """Commit topic, partition, offset and metadata; with ``None`` the consumer's positions."""

    @abc.abstractmethod
    def committed(self, partitions: Sequence[Partition]) -> list[tuple[str, int, int, str]]:
        """Topic, partition, offset and metadata of the committed offsets."""

    @abc.abstractmethod
    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue at ``offset``."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close the consumer."""


class ConfluentMember(Library):
    """librdkafka's consumer."""

    def __init__(self, command: Mapping[str, Any], told: Told) -> None:
        from confluent_kafka import Consumer

        super().__init__(told)
        self._consumer = Consumer(
            {
                "bootstrap.servers": command["bootstrap"],
                "group.id": command["group"],
                "partition.assignment.strategy": command["assignor"],
                "fetch.wait.max.ms": 100,
                "log_level": 3,
                **command["config"],
            }
        )

    def subscribe(self, topics: Sequence[str]) -> None:
        self._consumer.subscribe(
            list(topics),
            on_assign=lambda _, partitions: self.told("assigned", partitions),
            on_revoke=lambda _, partitions: self.told("revoked", partitions),
            on_lost=lambda _, partitions: self.told("lost", partitions),
        )

    def poll(self) -> list[tuple[str, int, int, str]]:
        from confluent_kafka import KafkaException

        records = []
        for message in self._consumer.consume(500, POLL):
            if message.error() is not None:
                raise KafkaException(message.error())
            records.append((message.topic(), message.partition(), message.offset(), message.value().decode()))
        return records

    def assignment(self) -> set[Partition]:
        return {(one.topic, one.partition) for one in self._consumer.assignment()}

    def group(self) -> tuple[str, int]:
        # librdkafka shows no generation, but writes it into what a producer is handed: "CGMDv2:", generation, …
        text = self._consumer.consumer_group_metadata()
        data: bytes = text if isinstance(text, bytes) else text.serialize()
        return self._consumer.memberid() or "", struct.unpack_from("=i", data, len(b"CGMDv2:"))[0]

    def commit(self, offsets: Sequence[tuple[str, int, int, str]] | None) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        if offsets is None:
            done = self._consumer.commit(asynchronous=False)
        else:
            wanted = [TopicPartition(topic, partition, offset, text) for topic, partition, offset, text in offsets]
            done = self._consumer.commit(offsets=wanted, asynchronous=False)
        for one in done:
            if one.error is not None:
                raise KafkaException(one.error)

    def committed(self, partitions: Sequence[Partition]) -> list[tuple[str, int, int, str]]:
        from confluent_kafka import TopicPartition

        found = self._consumer.committed([TopicPartition(*partition) for partition in partitions], timeout=20)
        return [(one.topic, one.partition, one.offset, one.metadata or "") for one in found if one.offset >= 0]

    def seek(self, topic: str, partition: int, offset: int) -> None:
        from confluent_kafka import TopicPartition

        if offset in (BEGINNING, END):
            low, high = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
            offset = low if offset == BEGINNING else high
        self._consumer.seek(TopicPartition(topic, partition, offset))

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonMember(Library):
    """kafka-python's consumer."""

    def __init__(self, command: Mapping[str, Any], told: Told) -> None:
        from kafka import KafkaConsumer
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        super().__init__(told)
        assignors = {
            "range": RangePartitionAssignor,
            "roundrobin": RoundRobinPartitionAssignor,
            "sticky": StickyPartitionAssignor,
            "cooperative-sticky": CooperativeStickyAssignor,
        }
        self._consumer = KafkaConsumer(
            bootstrap_servers=command["bootstrap"],
            group_id=command["group"],
            partition_assignment_strategy=[assignors[command["assignor"]]],
            fetch_max_wait_ms=100,
            **python_names(command["config"]),
        )

    def subscribe(self, topics: Sequence[str]) -> None:
        from kafka import ConsumerRebalanceListener

        told = self.told

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            """Passes the callbacks to ``told``."""

            def on_partitions_assigned(self, assigned: Any) -> None:
                told("assigned", assigned)

            def on_partitions_revoked(self, revoked: Any) -> None:
                told("revoked", revoked)

            def on_partitions_lost(self, lost: Any) -> None:
                told("lost", lost)

        self._consumer.subscribe(list(topics), listener=Listener())
        # Fetch the topics before joining, because a group leader that learns of partitions after it joined joins again,
        # and when a poll ends during that second join, kafka-python loses the assignment.
        self._consumer.topics()

    def poll(self) -> list[tuple[str, int, int, str]]:
        polled = self._consumer.poll(timeout_ms=int(POLL * 1000))
        return [(r.topic, r.partition, r.offset, r.value.decode()) for records in polled.values() for r in records]

    def assignment(self) -> set[Partition]:
        return {(one.topic, one.partition) for one in self._consumer.assignment()}

    def group(self) -> tuple[str, int]:
        metadata = self._consumer.group_metadata()
        return metadata.member_id, metadata.generation_id

    def commit(self, offsets: Sequence[tuple[str, int, int, str]] | None) -> None:
        from kafka import OffsetAndMetadata, TopicPartition

        wanted = None
        if offsets is not None:
            wanted = {TopicPartition(t, p): OffsetAndMetadata(offset, text, -1) for t, p, offset, text in offsets}
        self._consumer.commit(wanted, timeout_ms=20000)

    def committed(self, partitions: Sequence[Partition]) -> list[tuple[str, int, int, str]]:
        from kafka import TopicPartition

        found = []
        for topic, partition in partitions:
            one = self._consumer.committed(TopicPartition(topic, partition), metadata=True, timeout_ms=20000)
            if one is not None and one.offset >= 0:
                found.append((topic, partition, one.offset, one.metadata or ""))
        return found

    def seek(self, topic: str, partition: int, offset: int) -> None:
        from kafka import TopicPartition

        where = TopicPartition(topic, partition)
        if offset == BEGINNING:
            self._consumer.seek_to_beginning(where)
        elif offset == END:
            self._consumer.seek_to_end(where)
            self._consumer.position(where)
        else:
            self._consumer.seek(where, offset)

    def close(self) -> None:
        self._consumer.close()


class AioKafkaMember(Library):
    """aiokafka's consumer, with its own event loop, which runs during polls."""

    def __init__(self, command: Mapping[str, Any], told: Told) -> None:
        from aiokafka import AIOKafkaConsumer
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor
        from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        super().__init__(told)
        assignors = {
            "range": RangePartitionAssignor,
            "roundrobin": RoundRobinPartitionAssignor,
            # One class for each member, because this assignor keeps the member's assignment in a class attribute.
            "sticky": type("Sticky", (StickyPartitionAssignor,), {}),
        }
        self._loop = asyncio.new_event_loop()

        async def start() -> Any:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=command["bootstrap"],
                group_id=command["group"],
                partition_assignment_strategy=(assignors[command["assignor"]],),
                fetch_max_wait_ms=100,
                **python_names(command["config"]),
            )
            await consumer.start()
            return consumer

        self._consumer = self._loop.run_until_complete(start())

    def subscribe(self, topics: Sequence[str]) -> None:
        from aiokafka import ConsumerRebalanceListener

        told = self.told

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            """Passes the callbacks to ``told``."""

            async def on_partitions_assigned(self, assigned: Any) -> None:
                told("assigned", assigned)

            async def on_partitions_revoked(self, revoked: Any) -> None:
                told("revoked", revoked)

        async def work() -> None:
            self._consumer.subscribe(list(topics), listener=Listener())

        self._loop.run_until_complete(work())

    def poll(self) -> list[tuple[str, int, int, str]]:
        polled = self._loop.run_until_complete(self._consumer.getmany(timeout_ms=int(POLL * 1000)))
        return [(r.topic, r.partition, r.offset, r.value.decode()) for records in polled.values() for r in records]

    def assignment(self) -> set[Partition]:
        return {(one.topic, one.partition) for one in self._consumer.assignment()}

    def group(self) -> tuple[str, int]:
        # aiokafka has no public attribute for member id and generation.
        coordinator = self._consumer._coordinator
        return getattr(coordinator, "member_id", ""), getattr(coordinator, "generation", -1)

    def commit(self, offsets: Sequence[tuple[str, int, int, str]] | None) -> None:
        from aiokafka import TopicPartition

        wanted = None
        if offsets is not None:
            wanted = {TopicPartition(topic, partition): (offset, text) for topic, partition, offset, text in offsets}
        self._loop.run_until_complete(self._consumer.commit(wanted))

    def committed(self, partitions: Sequence[Partition]) -> list[tuple[str, int, int, str]]:
        from aiokafka import TopicPartition

        async def work() -> Any:
            # The public method returns the offset without its metadata.
            return await self._consumer._coordinator.fetch_committed_offsets(
                [TopicPartition(*partition) for partition in partitions]
            )

        found = self._loop.run_until_complete(work())
        return [(tp.topic, tp.partition, one.offset, one.metadata) for tp, one in found.items() if one.offset >= 0]

    def seek(self, topic: str, partition: int, offset: int) -> None:
        from aiokafka import TopicPartition

        where = TopicPartition(topic, partition)

        async def work() -> None:
            if offset == BEGINNING:
                await self._consumer.seek_to_beginning(where)
            elif offset == END:
                await self._consumer.seek_to_end(where)
            else:
                self._consumer.seek(where, offset)

        self._loop.run_until_complete(work())

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())


LIBRARIES: dict[str, Callable[[Mapping[str, Any], Told], Library]] = {
    "confluent": ConfluentMember,
    "kafka-python": KafkaPythonMember,
    "aiokafka": AioKafkaMember,
}


def python_names(config: Mapping[str, Any]) -> dict[str, Any]:
    """Java's names of properties as keyword arguments."""
    return {name.replace(".", "_"): value for name, value in config.items()}


class MemberThread(threading.Thread):
    """Polls one consumer, executes commands between two polls, and reports events."""

    def __init__(self, name: str, library: Callable[[Mapping[str, Any], Told], Library], say: Report) -> None:
        super().__init__(name=name, daemon=True)
        self.commands: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self._library = library
        self._say = say
        self._consumer: Library | None = None
        self._owned: set[Partition] = set()
        self._group: tuple[str, int] = ("", -1)

    def run(self) -> None:
        """Poll and execute commands until the consumer is closed."""
        while True:
            while self._consumer is None or not self.commands.empty():
                if not self._obey(self.commands.get()):
                    return
            try:
                records = self._consumer.poll()
                self._tell_changes(self._consumer)
                if records:
                    self._report("records", records=records)
            except Exception as error:
                self._report("error", text=f"{type(error).__name__}: {error}")

    def _obey(self, command: Mapping[str, Any]) -> bool:
        answer: dict[str, Any] = {"id": command["id"]}
        try:
            if command["do"] == "open":
                self._consumer = self._library(command, self._told)
                self._consumer.subscribe(command["topics"])
            else:
                assert self._consumer is not None
                answer["value"] = self._do(self._consumer, command)
        except Exception as error:
            answer["error"] = f"{type(error).__name__}: {error}"
        self._report("answer", **answer)
        return self._consumer is not None and command["do"] != "close"

    def _do(self, consumer: Library, command: Mapping[str, Any]) -> Any:
        kind = command["do"]
        if kind == "subscribe":
            return consumer.subscribe(command["topics"])
        if kind == "commit":
            return consumer.commit(command["offsets"])
        if kind == "committed":
            return consumer.committed([(topic, partition) for topic, partition in command["partitions"]])
        if kind == "seek":
            return consumer.seek(command["topic"], command["partition"], command["offset"])
        consumer.close()
        return self._report("closed")

    def _tell_changes(self, consumer: Library) -> None:
        group = consumer.group()
        if group != self._group:
            self._group = group
            self._report("group", id=group[0], generation=group[1])
        owned = consumer.assignment()
        if owned != self._owned:
            self._owned = owned
            self._report("assignment", partitions=sorted(owned))

    def _told(self, kind: str, partitions: Iterable[Any]) -> None:
        self._report(kind, partitions=sorted((one.topic, one.partition) for one in partitions))

    def _report(self, kind: str, **fields: Any) -> None:
        self._say(event=kind, member=self.name, **fields)


def main(library: str) -> None:
    """Take commands until standard input ends."""
    lock = threading.Lock()

    def say(**event: Any) -> None:
        with lock:
            sys.stdout.write(json.dumps(event) + "\n")
            sys.stdout.flush()

    say(event="ready")
    members: dict[str, MemberThread] = {}
    for line in sys.stdin:
        command = json.loads(line)
        name = command["member"]
        if name not in members:
            members[name] = MemberThread(name, LIBRARIES[library], say)
            members[name].start()
        members[name].commands.put(command)
    # Exit without closing the consumers, because the test process that read their events has ended.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
