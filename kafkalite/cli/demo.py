"""``kafkalite demo``: three brokers, a year of flights, a leader killed in the middle, nothing acknowledged lost.

Answers to: the quick start, with proof. Reactor shell (processes, client library).
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from kafkalite.cli.clients import print_table
from kafkalite.cli.flights import PARTITIONS, READ_TIMEOUT, TOPIC, Ledger, Reader, Writer, count_rows
from kafkalite.common.errors import StartupError

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
