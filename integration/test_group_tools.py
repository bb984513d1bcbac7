"""Kafka's tools of 3.9.1 for groups and transactions, and kafkalite's commands, which print the same."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer

from integration.conftest import ClusterFactory
from integration.harness.admin import admin
from integration.harness.clients import fresh_topic
from integration.harness.commands import command
from integration.harness.groups import SOON, Ground, ground, parts, wait_shares, wait_values
from integration.harness.java import KAFKA_3_9, Result, run_tool
from integration.harness.members import Member, MemberHost, python_host
from integration.harness.raw import RawClient, batch
from integration.harness.wait import wait_for
from integration.test_clients_confluent import Confluent
from integration.test_dump_log import SMALL, assert_same_dump
from kafkalite.embedded.cluster import LocalCluster

__all__ = ["ground"]  # a fixture

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
DUMPED = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
TIMEOUT = 60.0


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberHost]:
    """A process for members."""
    with python_host("confluent", tmp_path_factory.mktemp("host") / "members.log") as started:
        yield started


class Groups:
    """ConsumerGroupCommand, with ``kafkalite groups`` beside it."""

    def __init__(self, bootstrap: str) -> None:
        self._where = ("--bootstrap-server", bootstrap)

    def tool(self, *arguments: str) -> Result:
        """Run Kafka's tool."""
        return run_tool(KAFKA_3_9, GROUPS, *self._where, *arguments)

    def both(self, *arguments: str, unsaid: str = "") -> list[list[str]]:
        """Run both commands, which must change nothing; the words of each line. ``unsaid``: missing in Kafka's.

        Both run again where they differ, because a group of another test may have changed between them.
        """
        deadline = time.monotonic() + TIMEOUT
        while True:
            said = self.tool(*arguments)
            ours = command("groups", *self._where, *arguments).out
            words = Counter((ours.replace(unsaid, "") if unsaid else ours).split())
            if words == Counter(said.out.split()) or time.monotonic() > deadline:
                break
        assert words == Counter(said.out.split())
        return [line.split() for line in said.lines()]


def idle_group(ground: Ground, host: MemberHost, topic: str, size: int) -> str:
    """A group without members that has committed after ``size`` records of ``topic``."""
    group = fresh_topic("idle")
    reader = ground.join(host, topic, group=group)
    wait_values([reader], size)
    reader.commit()
    ground.leave(reader)
    return group


def members_of(ground: Ground, host: MemberHost, topic: str) -> list[Member]:
    """Two members of the ground's group that share three partitions and have committed offset 4 of each."""
    members = [ground.join(host, topic) for _ in range(2)]
    wait_shares(members, parts(topic, 0, 1, 2), [2, 1], SOON)
    for member in members:
        member.commit(dict.fromkeys(member.assignment, 4))
    return members


def test_groups_are_listed_and_described(ground: Ground, host: MemberHost) -> None:
    """Offsets and lag, members and their partitions, and state, of groups with members and without."""
    groups = Groups(ground.bootstrap)
    topic = ground.topic(3, 10)
    idle = idle_group(ground, host, topic, 30)
    members = members_of(ground, host, topic)
    by_partition = {partition: m.member_id for m in members for _, partition in m.assignment}
    listed = groups.both("--list", "--state")
    assert [ground.group, "Stable"] in listed and [idle, "Empty"] in listed
    [header, *rows] = groups.both("--describe", "--group", ground.group)
    assert " ".join(header) == "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    assert sorted(rows) == [
        [ground.group, topic, str(n), "4", "10", "6", by_partition[n], "/127.0.0.1", "rdkafka"] for n in range(3)
    ]
    [_, *rows] = groups.both("--describe", "--group", idle)
    assert sorted(rows) == [[idle, topic, str(n), "10", "10", "0", "-", "-", "-"] for n in range(3)]
    # Kafka's tool does not print the topic of an assignment.
    [_, *rows] = groups.both("--describe", "--group", ground.group, "--members", "--verbose", unsaid=topic)
    assert sorted(rows) == sorted(
        [ground.group, m.member_id, "/127.0.0.1", "rdkafka", str(len(m.assignment)), f"({numbers(m)})"] for m in members
    )
    [_, row] = groups.both("--describe", "--group", ground.group, "--state")
    assert row[0] == ground.group and row[3:] == ["range", "Stable", "2"]


def numbers(member: Member) -> str:
    """The partitions of a member in the tool's format."""
    return ",".join(str(partition) for _, partition in sorted(member.assignment))


@pytest.mark.full
def test_offsets_are_reset(ground: Ground, host: MemberHost, tmp_path: Path) -> None:
    """A dry run changes nothing; after an executed reset the next member begins there; a reset from a file; a reset of
    a group with members is refused."""
    groups = Groups(ground.bootstrap)
    topic = ground.topic(1, 10)
    later = int(time.time() * 1000) + 1
    wait_for(lambda: time.time() * 1000 > later, "the clock has moved")
    ground.write(topic, [0], 5)
    group = idle_group(ground, host, topic, 15)
    where = ("--reset-offsets", "--group", group, "--topic", topic)

    def committed() -> int:
        [future] = admin(ground.bootstrap).list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        return int(future.result(TIMEOUT).topic_partitions[0].offset)

    said = groups.both(*where, "--to-earliest", "--dry-run")
    assert said[-1][-4:] == [group, topic, "0", "0"]
    assert committed() == 15
    iso = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(later / 1000)) + f".{later % 1000:03}"
    for flags, offset in (
        (("--to-offset", "7"), 7),
        (("--shift-by", "-3"), 4),
        (("--to-datetime", iso), 10),
        (("--to-latest",), 15),
        (("--by-duration", "P1D"), 0),
    ):
        dry = command("groups", "--bootstrap-server", ground.bootstrap, *where, *flags, "--dry-run")
        done = groups.tool(*where, *flags, "--execute")
        assert Counter(dry.out.split()) == Counter(done.out.split())
        assert done.out.split()[-1] == str(offset), flags
        assert committed() == offset
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,12\n")
    groups.tool("--reset-offsets", "--group", group, "--from-file", str(plan), "--execute")
    reader = ground.join(host, topic, group=group)
    wait_values([reader], 3)
    assert [record.offset for record in reader.records] == [12, 13, 14]
    refused = groups.tool(*where, "--to-earliest", "--execute")
    assert f"'{group}' is inactive, but the current state is Stable" in refused.out


def test_groups_and_offsets_are_deleted(ground: Ground, host: MemberHost) -> None:
    """Empty groups, and offsets of topics without a subscribed member."""
    groups = Groups(ground.bootstrap)
    topic = ground.topic(3, 5)
    idle = idle_group(ground, host, topic, 15)
    members_of(ground, host, topic)
    said = groups.tool("--delete-offsets", "--group", idle, "--topic", f"{topic}:0")
    assert "Successful" in said.out
    [_, *rows] = groups.both("--describe", "--group", idle)
    assert sorted(row[2] for row in rows) == ["1", "2"]
    said = groups.tool("--delete-offsets", "--group", ground.group, "--topic", f"{topic}:0")
    assert "GroupSubscribedToTopicException" in said.out
    said = groups.tool("--delete", "--group", ground.group, "--group", idle, "--group", "nobody's")
    assert re.search(f"'{ground.group}' could not be deleted due to: .*GroupNotEmptyException", said.out)
    assert re.search("'nobody's' could not be deleted due to: .*GroupIdNotFoundException", said.out)
    assert f"'{idle}'" in said.out.partition("successfully")[2]
    listed = [line.strip() for line in groups.tool("--list").lines()]
    assert ground.group in listed and idle not in listed


@pytest.mark.full
def test_kafkas_consumer_programs_read_in_groups(ground: Ground) -> None:
    """The console consumer continues at its group's offsets; ConsumerPerformance always needs a group."""
    topic = ground.topic(1, 20)
    where = ("--bootstrap-server", ground.bootstrap, "--topic", topic, "--group", ground.group)
    flags = ("--from-beginning", "--property", "print.offset=true", "--property", "print.value=false")
    for offsets in (range(12), range(12, 20)):
        limit = ("--max-messages", str(len(offsets)), "--timeout-ms", "20000")
        read = run_tool(KAFKA_3_9, CONSUMER, *where, *flags, *limit).lines()
        assert read == [f"Offset:{offset}" for offset in offsets]
    said = run_tool(KAFKA_3_9, PERFORMANCE, *where[:4], "--messages", "20", "--timeout", "20000").lines()
    assert [cell.strip() for cell in said[-1].split(",")][4] == "20"


# Transactions


def transactional(bootstrap: str, transactional_id: str) -> Producer:
    """An initialized transactional producer."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0})
    producer.init_transactions(TIMEOUT)
    return producer


def begin(producer: Producer, topic: str, partitions: Sequence[int], records: int = 3, size: int = 10) -> None:
    """Begin a transaction, and write to each partition."""
    producer.begin_transaction()
    for partition in partitions:
        for number in range(records):
            producer.produce(topic, b"%0*d" % (size, number), partition=partition)
    assert producer.flush(TIMEOUT) == 0


class Transactions:
    """TransactionsCommand, with ``kafkalite transactions`` beside it."""

    def __init__(self, bootstrap: str) -> None:
        self._where = ("--bootstrap-server", bootstrap)

    def tool(self, *arguments: str) -> list[list[str]]:
        """Run Kafka's tool; returns the cells of each line."""
        return cells(run_tool(KAFKA_3_9, TRANSACTIONS, *self._where, *arguments).out)

    def both(self, *arguments: str) -> list[list[str]]:
        """Run both commands, whose output must be equal except for times; returns the rows."""
        said = self.tool(*arguments)
        ours = cells(command("transactions", *self._where, *arguments).out)
        assert ours[0] == said[0]
        passing = [n for n, title in enumerate(said[0]) if title == "TransactionDurationMs"]
        for row in (*ours[1:], *said[1:]):
            for column in passing:
                row[column] = "None" if row[column] == "None" else "some"
        # Sorted, because Kafka's tool prints partitions and brokers in the order of a hash table.
        assert sorted(map(_ordered, ours[1:])) == sorted(map(_ordered, said[1:]))
        return said[1:]


def cells(text: str) -> list[list[str]]:
    """The cells of a table of the tool."""
    return [[cell.strip() for cell in line.split("\t")[:-1]] for line in text.splitlines()]


def _ordered(row: list[str]) -> list[str]:
    return [",".join(sorted(cell.split(","))) for cell in row]


@pytest.mark.full
def test_transactions_are_listed_and_described(shared_cluster: LocalCluster) -> None:
    """Before a transaction, during it, after a commit and after an abort; and the producers of a partition."""
    topic = fresh_topic("txn")
    Confluent().create_topic(shared_cluster.bootstrap, topic, 2, 1, {})
    tools = Transactions(shared_cluster.bootstrap)
    ids = {state: fresh_topic(state.lower()) for state in ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort")}
    producers = {state: transactional(shared_cluster.bootstrap, name) for state, name in ids.items()}
    for state, producer in producers.items():
        if state != "Empty":
            begin(producer, topic, [0, 1])
    producers["CompleteCommit"].commit_transaction(TIMEOUT)
    producers["CompleteAbort"].abort_transaction(TIMEOUT)

    def states() -> dict[str, str]:
        return {row[0]: row[3] for row in tools.both("list") if row[0] in ids.values()}

    wait_for(lambda: states() == {name: state for state, name in ids.items()}, "the transactions have ended", 60)
    for state, name in ids.items():
        [row] = tools.both("describe", "--transactional-id", name)
        assert row[1] == name and row[4:6] == [state, "60000"]
        assert sorted(row[8].split(",")) == ([f"{topic}-0", f"{topic}-1"] if state == "Ongoing" else [""])
        assert (row[6] == "None") == (state == "Empty")
    unknown = run_tool(
        KAFKA_3_9,
        TRANSACTIONS,
        "--bootstrap-server",
        shared_cluster.bootstrap,
        *("describe", "--transactional-id", "nobody"),
        check=False,
    )
    assert unknown.code == 1 and "could not be found" in unknown.err
    rows = tools.both("describe-producers", "--topic", topic, "--partition", "1")
    assert len(rows) == 3
    [opened] = [row for row in rows if row[5] != "None"]
    assert opened[2:4] == ["-1", "2"]  # no coordinator has written a marker for this producer yet
    assert not tools.both("find-hanging", "--topic", topic, "--max-transaction-timeout", "0")
    producers["Ongoing"].abort_transaction(TIMEOUT)


@pytest.mark.full
def test_hanging_transactions_are_found_and_aborted(make_cluster: ClusterFactory) -> None:
    """A transactional batch without a transaction at its coordinator is found and aborted by its offset; then readers
    continue."""
    cluster = make_cluster(1, {"transaction.partition.verification.enable": "false"})
    tools = Transactions(cluster.bootstrap)
    topic = fresh_topic("hanging")
    Confluent().create_topic(cluster.bootstrap, topic, 1, 1, {})
    started = int(time.time() * 1000) - 120_000
    with RawClient(cluster.address(1)) as client:
        wait_for(lambda: client.leads(topic, 1), "it is led")
        for producer_id in (4_000_000, 4_000_001):
            lost = batch(2, producer=(producer_id, 3), sequence=0, transactional=True, timestamp=started)
            assert client.produce(topic, lost, transactional_id="lost").error == 0
    honest = transactional(cluster.bootstrap, "honest")
    begin(honest, topic, [0])
    flags = ("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "1")
    rows = tools.both(*flags, "--topic", topic)
    assert [row[:6] for row in sorted(rows)] == [
        [topic, "0", str(4_000_000 + n), "3", "-1", str(2 * n)] for n in range(2)
    ]
    assert [row[7] for row in rows] == ["2", "2"]
    where = ("abort", "--topic", topic, "--partition", "0")
    tools.tool(*where, "--start-offset", "0")
    command("transactions", "--bootstrap-server", cluster.bootstrap, *where, "--start-offset", "2")
    assert not tools.both(*flags)
    honest.commit_transaction(TIMEOUT)
    with python_host("confluent", cluster.directory / "members.log") as host:
        reader = host.open(
            cluster.bootstrap, fresh_topic("group"), [topic], config={"isolation.level": "read_committed"}
        )
        wait_values([reader], 3)
        assert [record.offset for record in reader.records] == [4, 5, 6]
    refused = command("transactions", "--bootstrap-server", cluster.bootstrap, *where, "--start-offset", "0", code=1)
    assert "no open transaction starts at offset 0" in refused.err


# Files


@pytest.mark.full
def test_transactional_logs_are_dumped(make_cluster: ClusterFactory) -> None:
    """Control records, transaction indexes and producer snapshots of several segments, on leader and follower."""
    cluster = make_cluster(2, {"transaction.state.log.num.partitions": "1"})
    topic = fresh_topic("files")
    client = Confluent()
    client.create_topic(cluster.bootstrap, topic, 1, 2, {**SMALL, "segment.bytes": "20000"})
    committing, aborting = (transactional(cluster.bootstrap, name) for name in ("commits", "aborts"))
    for _ in range(8):
        begin(committing, topic, [0], 40, 200)
        begin(aborting, topic, [0], 40, 200)
        committing.commit_transaction(TIMEOUT)
        aborting.abort_transaction(TIMEOUT)
    begin(committing, topic, [0])
    with python_host("confluent", cluster.directory / "members.log") as host:
        reader = host.open(
            cluster.bootstrap, fresh_topic("group"), [topic], config={"isolation.level": "read_committed"}
        )
        wait_values([reader], 320)
        assert len(reader.records) == 320
    # A follower has the same producers.
    producers = ("describe-producers", "--topic", topic, "--partition", "0")
    rows = Transactions(cluster.bootstrap).both(*producers, "--broker-id", "1")
    assert rows and rows == Transactions(cluster.bootstrap).both(*producers, "--broker-id", "2")
    assert sorted(row[5] == "None" for row in rows) == [False, True]
    cluster.stop()
    for broker_id in cluster.broker_ids:
        directory = cluster.broker_dir(broker_id) / "data" / f"{topic}-0"
        files = sorted(path for path in directory.iterdir() if path.suffix in DUMPED)
        assert sum(1 for path in files if path.suffix == ".log") > 2
        assert sum(path.stat().st_size for path in files if path.suffix == ".txnindex") == 8 * 34
        assert_same_dump(files)
        said = command("dump-log", "--files", ",".join(map(str, files)), "--print-data-log").out
        assert said.count("endTxnMarker: COMMIT") == said.count("endTxnMarker: ABORT") == 8
        assert re.search(r"currentTxnFirstOffset: OptionalLong\[\d+\]", said)
        assert len(re.findall(r"version: 0 producerId: \d+ firstOffset: \d+ lastOffset", said)) == 8
