"""One side of the comparison: a cluster of real processes, and the CPU and memory of its brokers.

CPU and memory are read from ``/proc`` and are those of the broker processes with their children (kafkalite's guardian),
never of ZooKeeper or the clients.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from integration.harness.java import kafka_launcher
from integration.harness.wait import wait_for
from kafkalite.embedded.cluster import Launcher, LocalCluster, kafkalite_launcher

KAFKA_HEAP = "1g"
"""Heap size of a broker by Kafka's own start script."""

TICKS = os.sysconf("SC_CLK_TCK")
FILL_CHUNK = 10000
PAGE = os.sysconf("SC_PAGE_SIZE")

# Both sides have the same settings; everything else is Kafka's default.
OVERRIDES = {
    "zookeeper.session.timeout.ms": "6000",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "delete.topic.enable": "true",
    "log.segment.delete.delay.ms": "1000",
}


@dataclass(frozen=True, slots=True)
class Maker:
    """Starts one side's brokers."""

    name: str
    launcher: Launcher


KAFKALITE = Maker("kafkalite", kafkalite_launcher)
KAFKA = Maker("kafka", kafka_launcher(KAFKA_HEAP))


class Side:
    """A cluster of one maker in its own directory."""

    def __init__(
        self, maker: Maker, directory: Path, brokers: int = 3, overrides: Mapping[str, str] | None = None
    ) -> None:
        self.name = maker.name
        self.maker = maker
        self.directory = directory / maker.name
        self.cluster = LocalCluster(
            self.directory, brokers, launcher=maker.launcher, overrides={**OVERRIDES, **(overrides or {})}
        )
        self.admin: AdminClient | None = None
        self._filled: dict[tuple[int, int], str] = {}

    def start(self) -> Side:
        """Start ZooKeeper and the brokers."""
        self.cluster.start()
        self.reconnect()
        return self

    def reconnect(self) -> None:
        """Make a new admin client, because an old one keeps asking a controller that has ended."""
        self.admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})

    def close(self) -> None:
        """End all processes and delete the data."""
        self.admin = None
        self.cluster.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def bootstrap(self) -> str:
        """``host:port,…`` of all brokers."""
        return self.cluster.bootstrap

    def create_topic(
        self, topic: str, partitions: int = 1, factor: int = 1, assignment: list[list[int]] | None = None
    ) -> None:
        """Create a topic and wait until every partition has a leader."""
        self.request_topic(topic, partitions, factor, assignment)
        count = len(assignment) if assignment is not None else partitions
        wait_for(lambda: self._all_led(topic, count), f"all partitions of {topic} have a leader")

    def request_topic(
        self, topic: str, partitions: int, factor: int, assignment: list[list[int]] | None = None
    ) -> None:
        """Create a topic; its partitions may not have leaders yet."""
        assert self.admin is not None
        if assignment is not None:
            new = NewTopic(topic, num_partitions=len(assignment), replica_assignment=assignment)
        else:
            new = NewTopic(topic, num_partitions=partitions, replication_factor=factor)
        self.admin.create_topics([new], request_timeout=60)[topic].result(60)

    def filled_topic(self, size: int, count: int) -> str:
        """A topic of one partition with ``count`` messages of ``size`` bytes, made by the first call."""
        topic = self._filled.get((size, count))
        if topic is None:
            topic = f"filled-{size}-{count}"
            self.create_topic(topic)
            fill(self.bootstrap, topic, size, count)
            self._filled[size, count] = topic
        return topic

    def leader(self, topic: str, partition: int) -> tuple[str, int]:
        """Host and port of a partition's leader."""
        assert self.admin is not None
        metadata = self.admin.list_topics(topic, timeout=10)
        broker = metadata.brokers[metadata.topics[topic].partitions[partition].leader]
        return broker.host, broker.port

    def delete_topic(self, topic: str) -> None:
        """Delete a topic; the brokers delete its files a second later."""
        assert self.admin is not None
        with contextlib.suppress(Exception):
            self.admin.delete_topics([topic])[topic].result(30)

    def pids(self) -> list[int]:
        """The broker processes and their children."""
        found = []
        for broker_id in self.cluster.broker_ids:
            if self.cluster.is_alive(broker_id):
                pid = self.cluster.pid(broker_id)
                found += [pid, *children(pid)]
        return found

    def cpu(self) -> float:
        """CPU seconds that all brokers have used since their start."""
        return sum(cpu_seconds(pid) for pid in self.pids())

    def rss_mb(self) -> float:
        """Resident memory of a broker in MB (10⁶ bytes), on average over the brokers, with its guardian."""
        return sum(rss_bytes(pid) for pid in self.pids()) / 1e6 / len(self.cluster.broker_ids)

    def _all_led(self, topic: str, partitions: int) -> bool:
        assert self.admin is not None
        found = self.admin.list_topics(topic, timeout=10).topics[topic].partitions
        return len(found) == partitions and all(p.leader >= 0 and p.error is None for p in found.values())


def fill(bootstrap: str, topic: str, size: int, count: int) -> None:
    """Produce ``count`` messages of ``size`` bytes to partition 0."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "1", "queue.buffering.max.messages": 1000000}
    )
    batch = [{"value": bytes(range(256)) * (size // 256) + bytes(size % 256)}] * FILL_CHUNK
    sent = 0
    while sent < count:
        sent += producer.produce_batch(topic, batch[: count - sent], partition=0)
        producer.poll(0.001)
    if producer.flush(120):
        raise RuntimeError(f"{topic} could not be filled")


def children(pid: int) -> list[int]:
    """Direct children of a process."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def cpu_seconds(pid: int) -> float:
    """User and system time of a process; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_bytes(pid: int) -> int:
    """Resident memory of a process; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except OSError:
        return 0
