"""``kafkalite demo``: three brokers, a year of flights, a group that reads them; some are killed, no record is lost.

Answers to: the quick start, with proof. Reactor shell (processes, client library).
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from kafkalite.cli import demo_group, demo_pipeline
from kafkalite.cli.clients import print_table
from kafkalite.cli.flight_reader import SESSION_TIMEOUT_MS
from kafkalite.cli.flights import GROUP, PARTITIONS, READ_TIMEOUT, TOPIC, FlightReader, FlightWriter, Ledger, count_rows
from kafkalite.cli.groups_view import GroupView
from kafkalite.common.errors import StartupError

if TYPE_CHECKING:
    from kafkalite.embedded.cluster import LocalCluster
    from kafkalite.embedded.dashboard import DashboardProcess

PROGRESS_EVERY = 1.0
SECONDS = 15.0
"""The flights are sent over at least this time, so that the group is at work during the kills."""
OVERRIDES = {
    "min.insync.replicas": "2",
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "300",
}
EXAMPLES = ("kafkalite demo --records 10000",)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``demo``."""
    parser = subparsers.add_parser(
        "demo", help="a cluster, real data, a group; readers and brokers die, nothing is lost"
    )
    parser.add_argument("--dir", type=Path, help="keep the cluster's files here")
    parser.add_argument(
        "--stay", action="store_true", help="keep the cluster and its live page at the end until Ctrl-C"
    )
    parser.add_argument("--records", type=int, default=0, metavar="N", help="only the first N flights")


def run(args: argparse.Namespace) -> int:
    """The whole demo; exit code 0 if every acknowledged record was read, unchanged and in order."""
    from kafkalite.embedded.cluster import LocalCluster
    from kafkalite.embedded.dashboard import DashboardProcess

    started = time.monotonic()
    directory = args.dir or Path(tempfile.mkdtemp(prefix="kafkalite-demo-"))
    # With metrics, because the page's timeline comes from the same listeners.
    cluster = LocalCluster(directory, brokers=3, overrides=OVERRIDES, metrics=True)
    dashboard: DashboardProcess | None = None
    try:
        say("1. A real ZooKeeper and three brokers")
        cluster.start()
        say(f"   brokers at {cluster.bootstrap}, ZooKeeper at {cluster.zookeeper}, {time.monotonic() - started:.1f} s")
        dashboard = DashboardProcess.start(directory)
        say(f"   watch it live at {dashboard.address}")
        rows = count_rows()
        rows = min(args.records, rows) if args.records else rows
        scene = play(cluster, rows)
        # Spark starts while the ledgers are compared, because either takes one processor for seconds.
        with demo_pipeline.DelaysJob(cluster.bootstrap, cluster.directory) as job:
            good = judge(scene)
            good = demo_pipeline.judge(job, rows, say) and good
        if args.stay:
            stay(dashboard)
        else:
            say(f"   the page at {dashboard.address} ends with the demo; make demo DEMO=--stay keeps it")
    finally:
        if dashboard is not None:
            dashboard.stop()
        cluster.stop()
        if args.dir is None:
            shutil.rmtree(directory, ignore_errors=True)
    say(f"   the whole demo took {time.monotonic() - started:.1f} s")
    return 0 if good else 1


def stay(dashboard: DashboardProcess) -> None:
    """Keep cluster and page until Ctrl-C."""
    say(f"   cluster and dashboard go on at {dashboard.address} until Ctrl-C")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        say("   stopping")


def play(cluster: LocalCluster, rows: int) -> Scene:
    """Create the topic, write, read and kill; returns the scene after its end, with the ledgers."""
    from confluent_kafka.admin import AdminClient, NewTopic

    say(f"2. Topic {TOPIC!r}: {PARTITIONS} partitions, replication factor 3")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)]).values():
        future.result()
    show_states("   as it stands in ZooKeeper", settled_states(cluster))

    say(f"3. {rows:,} flights that left New York in 2013, keyed by tail number, acks=all")
    scene = Scene(cluster, rows)
    try:
        scene.read_in_a_group()
        scene.kill_a_reader()
        scene.kill_the_coordinator()
        scene.read_to_the_end()
    finally:
        for reader in scene.readers:
            reader.finish()
    return scene


class StateZnode(TypedDict):
    """The JSON of a partition's state in ZooKeeper, without its version."""

    leader: int
    leader_epoch: int
    isr: list[int]
    controller_epoch: int


class Scene:
    """The running parts: a writer, and readers that share the topic as one group."""

    def __init__(self, cluster: LocalCluster, rows: int) -> None:
        self.cluster = cluster
        self.rows = rows
        self.writer = FlightWriter(cluster.bootstrap, rows, SECONDS)
        self.readers: list[FlightReader] = []
        self.dead: list[FlightReader] = []
        self.committed: dict[int, int] = {}
        """The least that the dead reader's group had committed when it died."""
        self._told = 0.0

    def read_in_a_group(self) -> None:
        """Two readers, then a third."""
        self.join("ann", "bob")
        self.writer.start()
        self.until_sent(1 / 5)
        say("   a third reader joins the group")
        self.join("cy")
        group = self.wait_shared()
        say(f"   the group divides the partitions again; `kafkalite groups --describe --group {GROUP}`:")
        demo_group.show(group)

    def kill_a_reader(self) -> None:
        """Kill a reader by SIGKILL."""
        self.until_sent(2 / 5)
        group = demo_group.wait_until(self.cluster, "the group's offsets", lambda _: True, self.progress)
        self.committed = {tp.partition: offset for tp, offset in group.committed.items()}
        victim = self.readers.pop(0)
        say(f"   kill -9: reader {victim.name} (pid {victim.pid}), after it read {victim.ledger.count:,} records")
        victim.kill()
        self.dead.append(victim)
        killed = time.monotonic()
        group = self.wait_shared()
        say(f"   missed after {SESSION_TIMEOUT_MS / 1000:g} s, its partitions are read by the others after", end=" ")
        say(f"{time.monotonic() - killed:.2f} s")
        demo_group.show(group)

    def kill_the_coordinator(self) -> None:
        """Kill the broker that leads some of the partitions, and coordinates the group."""
        self.until_sent(3 / 5)
        group = self.wait_shared()
        victim = group.coordinator[0] if group.coordinator else self.cluster.broker_ids[0]
        members = sorted(member.consumer_id for member in group.members)
        led = [p for p, state in partition_states(self.cluster.zookeeper).items() if state["leader"] == victim]
        pid, acknowledged = self.cluster.pid(victim), self.writer.ledger.count
        what = f"leader of {', '.join(f'{TOPIC}-{partition}' for partition in led)} and coordinator of the group"
        say(f"   kill -9: broker {victim}, {what} (pid {pid}), after {acknowledged:,} acknowledged records")
        self.cluster.kill_broker(victim)
        killed = time.monotonic()
        after = wait_until_led_elsewhere(self.cluster, victim, self.progress)
        say(f"   every partition has another leader {time.monotonic() - killed:.2f} s later")
        show_states("   as it stands in ZooKeeper", after)
        group = self.wait_shared()
        same = "the same" if sorted(member.consumer_id for member in group.members) == members else "NOT the same"
        where = group.coordinator[0] if group.coordinator else "none"
        say(f"   the group's coordinator is broker {where} now, its members are {same} as before")

    def read_to_the_end(self) -> None:
        """Wait until all is sent, and the group has no lag."""
        while self.writer.is_alive():
            self.progress()
        gap = self.writer.longest_gap
        acknowledged = self.writer.ledger.count
        say(f"   all sent: {acknowledged:,} acknowledged, longest gap between two acknowledgements {gap:.2f} s")
        demo_group.show(demo_group.wait_until(self.cluster, "no lag", demo_group.all_read, self.progress, READ_TIMEOUT))

    def join(self, *names: str) -> None:
        """Start more readers."""
        for name in names:
            reader = FlightReader(self.cluster.bootstrap, name)
            reader.start()
            self.readers.append(reader)

    def wait_shared(self) -> GroupView:
        """The group once its living members share all partitions."""
        names = [reader.name for reader in self.readers]
        fits = demo_group.shared_by(names)
        return demo_group.wait_until(self.cluster, f"{', '.join(names)} share the topic", fits, self.progress)

    def until_sent(self, part: float) -> None:
        """Wait until this part of the flights is sent."""
        while self.writer.sent < self.rows * part and self.writer.is_alive():
            self.progress()

    def progress(self) -> None:
        """Print a line of progress from time to time; otherwise sleep shortly."""
        time.sleep(0.02)
        now = time.monotonic()
        if now - self._told >= PROGRESS_EVERY:
            self._told = now
            read = sum(reader.ledger.count for reader in [*self.readers, *self.dead])
            writer = self.writer
            say(
                f"   sent {writer.sent:>7,} of {self.rows:,}   acknowledged {writer.ledger.count:>7,}   read {read:>7,}"
            )


def judge(scene: Scene) -> bool:
    """Compare the ledgers, and print the result."""
    say("4. Did the group get every acknowledged record?")
    readers, acknowledged = [*scene.readers, *scene.dead], scene.writer.ledger
    read, missing, wrong = Ledger(), 0, 0
    times: Counter[tuple[int, int]] = Counter()
    for reader in readers:
        for partition, records in reader.ledger.partitions.items():
            read.partitions[partition].update(records)
            times.update((partition, offset) for offset in records)
            wrong += sum(acknowledged.partitions[partition].get(offset) != crc for offset, crc in records.items())
    read.count = len(times)
    for partition, records in acknowledged.partitions.items():
        missing += sum(offset not in read.partitions[partition] for offset in records)
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
    again = [place for place, count in times.items() if count > 1]
    unexplained = sum(
        offset < scene.committed.get(partition, 0)
        or not any(offset in reader.ledger.partitions[partition] for reader in scene.dead)
        for partition, offset in again
    )
    disorder = sum(reader.disorder for reader in readers)
    say(f"   acknowledged {acknowledged.count:,} of {scene.rows:,}, checksum {acknowledged.checksum():08x}")
    say(f"   read         {read.count:,}, checksum {read.checksum():08x}")
    say(f"   read twice   {len(again):,}: what the dead reader had read and not committed")
    failed = scene.writer.failed
    good = not failed and acknowledged.count == scene.rows == read.count
    good = good and acknowledged.checksum() == read.checksum() and not (missing or wrong or disorder or unexplained)
    if good:
        say("   every acknowledged record was read, unchanged and in order, and none twice that was committed")
    else:
        found = f"{missing} missing, {wrong} changed, {disorder} out of order, {unexplained} read twice for no reason"
        say(f"   FAILED: {found}, {len(failed)} errors {failed[:3]}")
    return good


def partition_states(connect: str) -> dict[int, StateZnode]:
    """The topic's partition states, as ZooKeeper has them now."""
    from kafkalite.embedded.znodes import read_znodes

    paths = {partition: f"/brokers/topics/{TOPIC}/partitions/{partition}/state" for partition in range(PARTITIONS)}
    found = read_znodes(connect, list(paths.values()))
    return {partition: json.loads(found[path]) for partition, path in paths.items() if path in found}


def settled_states(cluster: LocalCluster, timeout: float = 30.0) -> dict[int, StateZnode]:
    """The states once every partition has a leader and all replicas are in sync."""
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
    cluster: LocalCluster, victim: int, meanwhile: Callable[[], object], timeout: float = 30.0
) -> dict[int, StateZnode]:
    """The states once no partition has ``victim`` as its leader or in its ISR."""
    deadline = time.monotonic() + timeout
    while True:
        states = partition_states(cluster.zookeeper)
        if all(state["leader"] not in (-1, victim) and victim not in state["isr"] for state in states.values()):
            return states
        if time.monotonic() > deadline:
            raise StartupError(f"broker {victim} still leads or is in sync: {states}")
        meanwhile()


def show_states(title: str, states: dict[int, StateZnode]) -> None:
    """Print leaders and ISRs of all partitions."""
    say(title)
    rows: list[list[object]] = [
        [f"   {TOPIC}-{partition}", state["leader"], state["leader_epoch"], state["isr"], state["controller_epoch"]]
        for partition, state in sorted(states.items())
    ]
    print_table(["   partition", "leader", "leader epoch", "ISR", "controller epoch"], rows)


def say(text: str, end: str = "\n") -> None:
    """Print and flush, because a person watches."""
    print(text, end=end, flush=True)
