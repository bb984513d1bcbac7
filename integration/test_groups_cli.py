"""``kafkalite groups`` and ``kafkalite consume --group`` on groups of both kinds, compared with Kafka's own tool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from integration.harness.clients import fresh_topic
from integration.harness.commands import Outcome, command
from integration.harness.java import KAFKA_3_9, run_tool
from integration.harness.wait import wait_for
from integration.test_clients_confluent import Confluent
from kafkalite.consumer import ZooKeeperConsumer
from kafkalite.embedded.cluster import LocalCluster

PARTITIONS = 3
RECORDS = 30
FIRST_MS = 1_700_000_000_000
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


class Place:
    """A topic with :data:`RECORDS` records in each partition, a second apart, and the name of a group for it."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.topic = fresh_topic("groups")
        self.group = fresh_topic("group") + "/%2F"  # characters that need escapes in a path
        Confluent().create_topic(cluster.bootstrap, self.topic, PARTITIONS, 3, {})
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
        for number in range(RECORDS * PARTITIONS):
            at = FIRST_MS + number // PARTITIONS * 1000
            producer.produce(self.topic, b"%d" % number, partition=number % PARTITIONS, timestamp=at)
        assert producer.flush(30) == 0

    def run(self, *flags: object, code: int | None = 0) -> Outcome:
        """Run ``kafkalite groups`` with a bootstrap server."""
        return command("groups", "--bootstrap-server", self.cluster.bootstrap, *flags, code=code)

    def offsets(self, *flags: object) -> dict[int, tuple[int | None, int | None]]:
        """Partition → (current offset, lag) in the output of ``--describe --json``."""
        [group] = self.run("--describe", "--group", self.group, "--json", *flags).json
        return {row["partition"]: (row["current_offset"], row["lag"]) for row in group["offsets"]}

    def reset(self, *flags: object, code: int = 0) -> Outcome:
        """Run ``--reset-offsets`` for the group."""
        return self.run("--reset-offsets", "--group", self.group, *flags, code=code)

    @contextmanager
    def member(self, read: int) -> Iterator[Any]:
        """A member by Kafka's group protocol that has read ``read`` records and committed."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": self.group,
                "client.id": "somebody",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        consumer.subscribe([self.topic])
        try:
            for _ in range(read):
                assert wait_for(lambda: consumer.poll(1), "a record").error() is None
            wait_for(lambda: consumer.poll(0.05) or len(consumer.assignment()) == PARTITIONS, "an assignment")
            if read:
                consumer.commit(asynchronous=False)
            yield consumer
        finally:
            consumer.close()

    def old_member(self) -> ZooKeeperConsumer:
        """A ZooKeeper consumer."""
        return ZooKeeperConsumer(
            self.cluster.zookeeper,
            self.group,
            [self.topic],
            auto_offset_reset="smallest",
            zookeeper_session_timeout_ms=6000,
        )


@pytest.fixture
def place(shared_cluster: LocalCluster) -> Place:
    return Place(shared_cluster)


def rows(lines: list[str]) -> list[list[str]]:
    """The cells of a table, without empty lines."""
    return sorted(line.split() for line in lines if line.strip())


def test_tables_equal_those_of_kafkas_command(place: Place) -> None:
    """The tables of a group with members, compared cell by cell with Kafka 3.9.1's."""
    bootstrap = place.cluster.bootstrap
    with place.member(RECORDS * PARTITIONS):
        for section in ("--offsets", "--members", "--state"):
            flags = ("--describe", "--group", place.group, section)
            theirs = run_tool(KAFKA_3_9, TOOL, "--bootstrap-server", bootstrap, *flags)
            ours = place.run(*flags)
            assert rows(ours.lines) == rows(theirs.lines())
    assert rows(place.run("--describe", "--group", place.group).lines)[1:] == [
        [place.group, place.topic, str(partition), str(RECORDS), str(RECORDS), "0", "-", "-", "-"]
        for partition in range(PARTITIONS)
    ]


def test_lag_and_members_are_shown_from_the_first_member_to_the_deletion(place: Place) -> None:
    """The life of one group."""
    name = place.group
    assert "does not exist" in place.run("--describe", "--group", name, code=1).err
    with place.member(RECORDS * PARTITIONS) as member:
        assert place.offsets() == dict.fromkeys(range(PARTITIONS), (RECORDS, 0))
        [group] = place.run("--describe", "--group", name, "--members", "--json").json
        [shown] = group["members"]
        assert shown["consumer_id"] == member.memberid() and shown["client_id"] == "somebody"
        assert len(shown["partitions"]) == PARTITIONS and not shown["zookeeper_consumer"]
        [state] = place.run("--describe", "--group", name, "--state", "--json").json
        assert (state["state"], state["type"], state["members"]) == ("Stable", "Classic", 1)
        assert state["coordinator"]["id"] in place.cluster.broker_ids
        assert [name, "Stable"] in rows(place.run("--list", "--state", "stable").lines)
        assert "current state is Stable" in place.reset("--to-earliest", "--topic", place.topic, code=1).err
        assert "NON_EMPTY_GROUP" in place.run("--delete", "--group", name, code=1).err
        flags = ("--delete-offsets", "--group", name, "--topic", place.topic)
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in place.run(*flags, code=1).out
    assert f"Consumer group '{name}' has no active members." in place.run("--describe", "--group", name).err
    assert place.run("--delete-offsets", "--group", name, "--topic", f"{place.topic}:0").code == 0
    assert set(place.offsets()) == {1, 2}
    assert "was successful" in place.run("--delete", "--group", name).out
    assert name not in place.run("--list").lines
    assert "GROUP_ID_NOT_FOUND" in place.run("--delete", "--group", name, code=1).err


def test_offsets_are_reset_to_every_kind_of_target(place: Place, tmp_path: Path) -> None:
    """Each reset is planned and executed; the next member begins at the new offset."""
    topic = ("--topic", place.topic)
    assert "this is what would be done" in place.reset("--to-earliest", *topic).err
    assert "does not exist" in place.run("--describe", "--group", place.group, code=1).err
    moment = "2023-11-14T22:13:30.000"  # ten seconds after the first record
    targets: list[tuple[tuple[object, ...], int]] = [
        (("--to-latest", *topic), RECORDS),
        (("--to-offset", 7, *topic), 7),
        (("--shift-by", 5, *topic), 12),
        (("--shift-by", -100, "--all-topics"), 0),
        (("--to-datetime", moment, *topic), 10),
        (("--to-current", "--all-topics"), 10),
        (("--by-duration", "PT1S", *topic), RECORDS),
        (("--by-duration", "P36500D", *topic), 0),
    ]
    for flags, offset in targets:
        plan = place.reset(*flags, "--dry-run", "--json").json
        assert {entry["partition"]: entry["new_offset"] for entry in plan} == dict.fromkeys(range(PARTITIONS), offset)
        place.reset(*flags, "--execute")
        assert place.offsets() == dict.fromkeys(range(PARTITIONS), (offset, RECORDS - offset))
    place.reset("--to-offset", 21, "--topic", f"{place.topic}:1", "--execute")
    saved = tmp_path / "plan.csv"
    saved.write_text(place.reset("--to-current", "--all-topics", "--export").out)
    place.reset("--to-latest", "--all-topics", "--execute")
    place.reset("--from-file", saved, "--execute")
    assert place.offsets() == {0: (0, 30), 1: (21, 9), 2: (0, 30)}
    where = ("--bootstrap-server", place.cluster.bootstrap, "--topic", place.topic, "--group", place.group)
    read = command("consume", *where, "--from-beginning", "--max-messages", 69)
    assert sorted(map(int, read.lines)) == [n for n in range(90) if n % 3 != 1 or n // 3 >= 21]
    assert place.offsets() == dict.fromkeys(range(PARTITIONS), (RECORDS, 0))
    assert command("consume", *where, "--from-beginning", "--timeout-ms", 300).lines == []


@pytest.mark.kafkalite_only  # real Kafka keeps the offsets of such groups in a topic
def test_groups_of_zookeeper_consumers_are_shown(place: Place) -> None:
    """Their members, owners and lag are shown like other groups'; no offset is changed while a member lives."""
    with place.old_member() as member:
        for _ in range(RECORDS * PARTITIONS):
            assert member.poll(30) is not None
        member.commit()
        here = ("--zookeeper", place.cluster.zookeeper)
        for lines in (
            place.run("--describe", "--group", place.group).lines,
            command("groups", *here, "--describe", "--group", place.group).lines,
        ):
            assert [(row[2], row[3], row[5], row[6]) for row in rows(lines)[1:]] == [
                (str(partition), str(RECORDS), "0", f"{member.consumer_id}-0") for partition in range(PARTITIONS)
            ]
        [state] = place.run("--describe", "--group", place.group, "--state", "--json").json
        assert (state["type"], state["state"], state["coordinator"]) == ("ZooKeeper", "Stable", None)
        assert [place.group, "ZooKeeper", "Stable"] in rows(place.run("--list", "--state", "--type").lines)
        place.reset("--to-earliest", "--topic", place.topic, "--execute", code=1)
        assert "NON_EMPTY_GROUP" in place.run("--delete", "--group", place.group, code=1).err
        assert place.offsets() == dict.fromkeys(range(PARTITIONS), (RECORDS, 0))
    place.reset("--to-offset", 20, "--topic", place.topic, "--execute")
    flags = ("--zookeeper", place.cluster.zookeeper, "--topic", place.topic, "--group", place.group)
    read = command("consume", *flags, "--max-messages", 30)
    assert sorted(map(int, read.lines)) == list(range(60, 90)), "ours begins where the reset says"
    assert place.offsets() == dict.fromkeys(range(PARTITIONS), (RECORDS, 0))


def test_members_of_both_kinds_in_one_group_are_shown(place: Place) -> None:
    """A ZooKeeper consumer joins a group whose other members use Kafka's group protocol."""
    with place.member(RECORDS * PARTITIONS), place.old_member() as old:
        wait_for(lambda: len(old.assignment()) == PARTITIONS, "it owns all")
        shown = place.run("--describe", "--group", place.group)
        assert "is mixed: 1 ZooKeeper consumers and 1 modern members" in shown.err
        assert len(rows(shown.lines)) == 1 + 2 * PARTITIONS
        assert [place.group, "Mixed"] in rows(place.run("--list", "--type", "mixed").lines)
