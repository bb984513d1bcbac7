"""Groups without a coordinator: the ZooKeeper consumer of 2017 and kafkalite's, separate and in one group."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer
from kazoo.exceptions import NoNodeError

from integration.conftest import ClusterFactory
from integration.harness.clients import fresh_topic, wait_known
from integration.harness.java import KAFKA_0_10, TOOL_FLAGS, log4j
from integration.harness.peers import classpath, java
from integration.harness.tree import Tree
from integration.harness.wait import wait_for
from integration.test_clients_confluent import Confluent
from kafkalite.common.errors import StartupError
from kafkalite.consumer import Record, Subscription, ZooKeeperConsumer
from kafkalite.embedded.cluster import LocalCluster

PARTITIONS = 6
SESSION_MS = 6000
"""Longer than a machine stalls: a session that ends by itself makes the group rebalance."""
COMMIT_MS = 1000
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "zookeeper.connection.timeout.ms": "20000",
    "auto.commit.interval.ms": str(COMMIT_MS),
    "rebalance.max.retries": "20",
    "rebalance.backoff.ms": "300",
}
TAKEOVER = 30.0
"""Seconds for a takeover on a busy machine; an idle one takes little more than the session timeout."""


def note_failure(failures: list[str], error: KafkaError | None, message: Message) -> None:
    """Delivery report: ``failures`` gets a line for a record that was not written."""
    if error is not None:
        failures.append(f"{message.value()!r}: {error}")


class Feed(threading.Thread):
    """Writes ``partition:number`` to all partitions of a topic until stopped; number n is at offset n."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        super().__init__(name="feed", daemon=True)
        self.topic = topic
        self.sent = 0
        self.unsent = -1
        self.failures: list[str] = []
        self._cluster = cluster
        self._done = threading.Event()

    def run(self) -> None:
        """Write a few hundred records a second."""
        # Idempotent, because with a batch written twice the numbers would differ from the offsets.
        producer = Producer(
            {"bootstrap.servers": self._cluster.bootstrap, "enable.idempotence": True, "linger.ms": 20, "log_level": 0}
        )
        while not self._done.wait(0.01):
            for partition in range(PARTITIONS):
                producer.produce(
                    self.topic,
                    f"{partition}:{self.sent}",
                    partition=partition,
                    on_delivery=partial(note_failure, self.failures),
                )
            self.sent += 1
            producer.poll(0)
        self.unsent = producer.flush(60)

    def finish(self) -> set[str]:
        """Stop; returns all written values."""
        self._done.set()
        self.join()
        assert (self.unsent, self.failures) == (0, [])
        return {f"{partition}:{number}" for partition in range(PARTITIONS) for number in range(self.sent)}


class Console:
    """A console consumer in a separate process, a member of ``group`` with the id ``<group>_<name>``."""

    def __init__(self, command: list[str], name: str, directory: Path) -> None:
        self.name = name
        self._out = directory / f"{name}.out"
        with self._out.open("wb") as out, (directory / f"{name}.err").open("wb") as err:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def read(self) -> list[str]:
        """The complete lines that the consumer has printed."""
        text = self._out.read_text()
        return text[: text.rfind("\n") + 1].split()

    def kill(self) -> None:
        """``kill -9``; returns once it has ended."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End the consumer by SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


def have_read(consoles: Iterable[Console], everything: set[str]) -> bool:
    """Whether the consumers have printed ``everything``. Raises ``LookupError``, which names missing records."""
    missing = everything - {line for console in consoles for line in console.read()}
    if missing:
        raise LookupError(f"{len(missing)} records, {sorted(missing)[:5]} among them, have not been read")
    return True


class Group:
    """A group of console consumers of one topic, and its znodes in ZooKeeper."""

    def __init__(self, cluster: LocalCluster, tree: Tree, directory: Path) -> None:
        self.topic = fresh_topic("old")
        self.name = fresh_topic("group")
        self.members: list[Console] = []
        self._numbers = itertools.count()
        self._cluster = cluster
        self._tree = tree
        self._directory = directory
        Confluent().create_topic(cluster.bootstrap, self.topic, PARTITIONS, len(cluster.broker_ids), {})
        # Without an offset a console consumer of 0.10 begins at the end that its first fetch finds, behind records that
        # were written after it had joined.
        for partition in range(PARTITIONS):
            tree.write(f"/consumers/{self.name}/offsets/{self.topic}/{partition}", 0)

    def join(self, *kinds: str) -> None:
        """Add members, ``java`` or ``ours``; returns once all partitions are shared evenly."""
        for kind in kinds:
            name = f"{kind}{next(self._numbers)}"
            settings = {**SETTINGS, "group.id": self.name, "consumer.id": name}
            config = self._directory / f"{name}.properties"
            config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            flags = ["--zookeeper", self._cluster.zookeeper, "--topic", self.topic, "--consumer.config", str(config)]
            if kind == "java":
                where = [f"-Dlog4j.configuration=file:{log4j('INFO')}", "-cp", classpath(KAFKA_0_10)]
                command = [java(), *TOOL_FLAGS, *where, "kafka.tools.ConsoleConsumer", *flags]
            else:
                command = [sys.executable, "-m", "kafkalite.cli.main", "consume", *flags]
            self.members.append(Console(command, name, self._directory))
        self.wait_shared(60)

    def owners(self) -> dict[int, str]:
        """Partition → name of the member that owns it."""
        owners = {}
        for partition, text in self._texts("owners").items():
            consumer, _, stream = text.rpartition("-")
            assert stream == "0"
            owners[partition] = consumer.removeprefix(f"{self.name}_")
        return owners

    def wait_shared(self, timeout: float) -> None:
        """Wait until the members own all partitions, in equal numbers."""

        def shared() -> bool:
            counts = Counter(self.owners().values())
            return counts == dict.fromkeys((m.name for m in self.members), PARTITIONS // len(self.members))

        wait_for(shared, f"{[member.name for member in self.members]} share the partitions", timeout)

    def offsets(self) -> dict[int, int]:
        """Partition → committed offset."""
        return {partition: int(text) for partition, text in self._texts("offsets").items()}

    def _texts(self, kind: str) -> dict[int, str]:
        where = f"/consumers/{self.name}/{kind}/{self.topic}"
        texts = {}
        for partition in self._tree.names(where):
            try:
                texts[int(partition)] = self._tree.zk.get(f"{where}/{partition}")[0].decode()
            except NoNodeError:
                continue  # the znode was deleted meanwhile
        return texts

    def wait_reading(self) -> None:
        """Wait until each member has read a further record and every partition has a new commit."""
        lines, offsets = {m.name: len(m.read()) for m in self.members}, self.offsets()
        wait_for(lambda: all(len(m.read()) > lines[m.name] for m in self.members), "all read")
        wait_for(
            lambda: len(now := self.offsets()) == PARTITIONS and all(now[p] > offsets.get(p, -1) for p in now),
            "all commit",
        )

    def kill(self, victim: Console) -> tuple[dict[int, int], float]:
        """Kill a member; returns the committed offsets, and the seconds until its partitions have new owners."""
        self.members.remove(victim)
        victim.kill()
        killed = time.monotonic()
        committed = self.offsets()
        self.wait_shared(TAKEOVER)
        return committed, time.monotonic() - killed


@pytest.fixture
def tree(shared_cluster: LocalCluster) -> Iterator[Tree]:
    """The ZooKeeper tree of the shared cluster."""
    with Tree(shared_cluster.zookeeper) as tree:
        yield tree


@pytest.mark.full
def test_javas_and_kafkalites_consumers_share_a_group(shared_cluster: LocalCluster, tree: Tree, tmp_path: Path) -> None:
    """Two consumers of 0.10.2.2 and one of kafkalite; a Java one dies, a kafkalite one joins, a kafkalite one dies.

    No record is skipped, no committed record is read again, and the others take over as soon as the session expires.
    """
    group = Group(shared_cluster, tree, tmp_path)
    consoles: list[Console] = []
    try:
        group.join("java", "java", "ours")
        feed = Feed(shared_cluster, group.topic)
        feed.start()
        floors: list[Mapping[int, int]] = []
        for victim, successors in ((0, ["ours"]), (1, [])):
            group.wait_reading()
            consoles = list({*consoles, *group.members})
            committed, seconds = group.kill(group.members[victim])
            floors.append(committed)
            print(f"taken over {seconds:.2f} s after the kill, session timeout {SESSION_MS / 1000:g} s")
            if successors:
                group.join(*successors)
        group.wait_reading()
        everything = feed.finish()
        consoles = list({*consoles, *group.members})
        wait_for(lambda: have_read(consoles, everything), "every record has been read", 60)
        for member in group.members:
            member.close()
        assert group.offsets() == dict.fromkeys(range(PARTITIONS), feed.sent)
        assert tree.names(f"/consumers/{group.name}/ids") == []
    finally:
        for console in {*consoles, *group.members}:
            console.kill()
    times = Counter(line for console in consoles for line in console.read())
    assert set(times) == everything
    for line in (line for line, count in times.items() if count > 1):
        partition, number = map(int, line.split(":"))
        assert any(number >= floor[partition] for floor in floors), f"{line} was committed, and read again"


def consumer_of(cluster: LocalCluster, group: str, topics: list[str] | Subscription, **more: Any) -> ZooKeeperConsumer:
    """A consumer of kafkalite in this process."""
    settings: dict[str, Any] = {
        "zookeeper_session_timeout_ms": SESSION_MS,
        "auto_offset_reset": "smallest",
        "auto_commit_interval_ms": 200,
        **more,
    }
    return ZooKeeperConsumer(cluster.zookeeper, group, topics, **settings)


def take(consumer: ZooKeeperConsumer, count: int, timeout: float = 30.0) -> list[Record]:
    """The next ``count`` records."""
    records: list[Record] = []
    deadline = time.monotonic() + timeout
    while len(records) < count:
        record = consumer.poll(max(0.0, deadline - time.monotonic()))
        assert record is not None, f"{len(records)} of {count} records came"
        records.append(record)
    return records


def write(cluster: LocalCluster, topic: str, values: Iterator[int], count: int) -> list[bytes]:
    """Write ``count`` records with different values; returns the values."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    sent = [b"%d" % value for value in itertools.islice(values, count)]
    failures: list[str] = []
    for number, value in enumerate(sent):
        producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=partial(note_failure, failures))
    assert (producer.flush(30), failures) == (0, [])
    return sent


def test_a_consumer_joins_again_after_an_expired_session(shared_cluster: LocalCluster, tree: Tree) -> None:
    """It continues from the last commit."""
    topic, group = fresh_topic("expire"), fresh_topic("group")
    Confluent().create_topic(shared_cluster.bootstrap, topic, PARTITIONS, 3, {})
    numbers = itertools.count()
    first = write(shared_cluster, topic, numbers, 600)
    with consumer_of(shared_cluster, group, [topic], auto_commit_enable=False) as consumer:
        assert sorted(r.value or b"" for r in take(consumer, 600)) == sorted(first)
        assert sum(consumer.commit().values()) == 600
        path = f"/consumers/{group}/ids/{consumer.consumer_id}"
        session = tree.owner(path)
        tree.end_session(session)
        wait_for(lambda: tree.owner(path) not in (0, session), "it is a member again")
        wait_for(lambda: len(consumer.assignment()) == PARTITIONS, "it owns its partitions again")
        second = write(shared_cluster, topic, numbers, 60)
        assert sorted(r.value or b"" for r in take(consumer, 60)) == sorted(second)
        assert consumer.poll(0.3) is None
    assert not tree.exists(path)


@pytest.mark.full
def test_a_consumer_reads_every_record_once_though_a_leader_dies(make_cluster: ClusterFactory) -> None:
    """In the order of each partition."""
    cluster = make_cluster(2)
    topic = fresh_topic("leader")
    Confluent().create_topic(cluster.bootstrap, topic, PARTITIONS, 2, {})
    numbers = itertools.count()
    sent = write(cluster, topic, numbers, 600)
    with consumer_of(cluster, "group", Subscription.white_list("leader-.*")) as consumer:
        read = take(consumer, 300)
        cluster.kill_broker(1)
        sent += write(cluster, topic, numbers, 600)
        read += take(consumer, 900, 60)
        assert consumer.poll(0.3) is None
    assert sorted(r.value or b"" for r in read) == sorted(sent)
    orders: defaultdict[int, list[int]] = defaultdict(list)
    for record in read:
        orders[record.partition].append(record.offset)
    assert all(offsets == list(range(len(offsets))) for offsets in orders.values())


def test_new_topics_and_partitions_are_found(shared_cluster: LocalCluster) -> None:
    """Members with a pattern find new topics; new partitions cause a rebalance."""
    prefix, group = fresh_topic("later"), fresh_topic("group")
    wanted = Subscription.white_list(f"{prefix}.*")
    numbers = itertools.count()
    with consumer_of(shared_cluster, group, wanted) as one, consumer_of(shared_cluster, group, wanted) as two:
        assert not one.assignment() and not two.assignment()
        topic = f"{prefix}-a"
        Confluent().create_topic(shared_cluster.bootstrap, topic, 2, 3, {})
        wait_for(lambda: len(one.assignment()) == len(two.assignment()) == 1, "each has one")
        Confluent().add_partitions(shared_cluster.bootstrap, topic, PARTITIONS)
        wait_for(lambda: len(one.assignment()) == len(two.assignment()) == 3, "each has three")
        wait_known(Confluent(), shared_cluster, topic, PARTITIONS)
        sent = write(shared_cluster, topic, numbers, 60)
        read = take(one, 30) + take(two, 30)
    assert sorted(r.value or b"" for r in read) == sorted(sent)


def test_an_unreachable_zookeeper_is_an_error() -> None:
    """Of the constructor, which leaves no thread behind."""
    before = set(threading.enumerate())
    with pytest.raises(StartupError, match="cannot reach ZooKeeper"):
        ZooKeeperConsumer("127.0.0.1:1", "g", ["t"], zookeeper_connection_timeout_ms=300)
    wait_for(lambda: not {t for t in set(threading.enumerate()) - before if "kazoo" not in t.name}, "threads end", 10)
