"""A secured ZooKeeper: what strangers can do with its znodes, with real clients and brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NodeExistsError, NotEmptyError
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from integration.conftest import TEST_OVERRIDES, ClusterFactory
from integration.harness.clients import fresh_topic
from integration.harness.commands import command
from integration.harness.tree import Tree
from integration.harness.wait import wait_for
from integration.test_clients_confluent import Confluent
from kafkalite.common.errors import StartupError
from kafkalite.consumer import Record, ZooKeeperConsumer
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.zookeeper import EmbeddedZooKeeper
from kafkalite.zk.znode_acls import Access, access_to

DIGEST = "kafka:secret"
PROTECTED = {**TEST_OVERRIDES, "zookeeper.set.acl": "true", "zookeeper.auth.digest": DIGEST}
pytestmark = pytest.mark.kafkalite_only
STRANGERS = make_digest_acl("stranger", "secret", all=True)


@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper) -> Iterator[LocalCluster]:
    """Two brokers that protect their tree."""
    cluster = LocalCluster(
        tmp_path_factory.mktemp("protected"), 2, overrides=PROTECTED, zookeeper=f"{zookeeper.connect_string}/protected"
    )
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def stranger(protected: LocalCluster) -> Iterator[Tree]:
    """A client of ZooKeeper without the brokers' credentials."""
    with Tree(protected.zookeeper) as tree:
        yield tree


@pytest.fixture
def friend(protected: LocalCluster) -> Iterator[Tree]:
    """A client of ZooKeeper with the brokers' credentials."""
    with Tree(protected.zookeeper, DIGEST) as tree:
        yield tree


def read_as(cluster: LocalCluster, group: str, topic: str, count: int) -> list[str]:
    """Read ``count`` records as a member of ``group``, commit, and leave."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest",
         "enable.auto.commit": False, "session.timeout.ms": 10000}
    )  # fmt: skip
    try:
        consumer.subscribe([topic])
        values: list[str] = []
        wait_for(lambda: _poll(consumer, values) or len(values) >= count, f"{group} reads", 60)
        consumer.commit(asynchronous=False)
        return values
    finally:
        consumer.close()


def committed(cluster: LocalCluster, group: str, topic: str) -> int:
    """The offset of ``group`` in partition 0."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        [found] = consumer.committed([TopicPartition(topic, 0)], timeout=30)
        return int(found.offset)
    finally:
        consumer.close()


def produce(cluster: LocalCluster, topic: str, count: int, **settings: Any) -> list[str]:
    """Write ``count`` records; returns their values."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    values = [f"{topic}-{number}" for number in range(count)]
    if "transactional.id" in settings:
        producer.init_transactions(60)
        producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    if "transactional.id" in settings:
        producer.commit_transaction(60)
    assert producer.flush(60) == 0
    return values


def text(record: Record) -> str:
    return (record.value or b"").decode()


def new_topic(cluster: LocalCluster) -> str:
    topic = fresh_topic("secured")
    Confluent().create_topic(cluster.bootstrap, topic, 1, 2, {})
    return topic


def walk(zk: KazooClient, path: str = "/") -> Iterator[str]:
    """``path`` and all paths below it."""
    yield path
    for name in zk.get_children(path):
        yield from walk(zk, f"{path.rstrip('/')}/{name}")


def abilities(zk: KazooClient, path: str) -> str:
    """What ``zk`` can do with a znode, tried: read, write, create and delete children (c d), administer (a)."""
    attempts: dict[str, Callable[[], object]] = {
        "r": lambda: zk.get(path),
        "w": lambda: zk.set(path, b"", version=1 << 30),
        "c": lambda: zk.create(f"{path.rstrip('/')}/attempt", acl=OPEN_ACL_UNSAFE),
        "d": lambda: zk.delete(f"{path.rstrip('/')}/attempt"),
        "a": lambda: zk.set_acls(path, OPEN_ACL_UNSAFE, version=1 << 30),
    }
    found = ""
    for letter, attempt in attempts.items():
        try:
            attempt()
        except NoAuthError:
            continue
        except Exception:
            pass  # refused for another reason: the version, an ephemeral parent, a missing child
        found += letter
    return found


def test_strangers_write_only_what_old_consumers_need(protected: LocalCluster, stranger: Tree, friend: Tree) -> None:
    """Every znode of a cluster with topics, groups and transactions is tried by a client without credentials."""
    topic, group = new_topic(protected), fresh_topic("group")
    produce(protected, topic, 5)
    produce(protected, topic, 5, **{"transactional.id": fresh_topic("txn")})
    assert len(read_as(protected, group, topic, 10)) >= 10
    letters = {Access.SHARED: "rwcd", Access.READABLE: "r", Access.SENSITIVE: ""}
    found = {}
    for path in walk(friend.zk):
        expected = letters[access_to(path)]
        able = abilities(stranger.zk, path)
        # A missing child cannot be deleted by anyone: only the permission to create shows the one to delete.
        if "c" not in able:
            able = able.replace("d", "")
        if able != expected:
            found[path] = (able, expected)
    assert found == {}
    verify = ("zk", "verify", "--zookeeper", protected.zookeeper)
    assert command(*verify, "--digest", DIGEST).lines[-1].endswith(" 0 faults")
    refused = command(*verify, code=1)
    assert "give the identity of the brokers" in refused.err and "Traceback" not in refused.err
    for below in ("coordinator_epoch", "generation", f"commits/{topic}/0"):
        assert friend.exists(f"/consumers/{group}/{below}"), below


def test_strangers_delete_nothing_that_coordination_rests_on(protected: LocalCluster, stranger: Tree) -> None:
    """A child's deletion is governed by its parent's list, so each is tried by itself."""
    topic, group = new_topic(protected), fresh_topic("group")
    produce(protected, topic, 3)
    read_as(protected, group, topic, 3)
    base = f"/consumers/{group}"
    for path in (
        "/controller",
        "/controller_epoch",
        "/brokers/ids/1",
        f"{base}/coordinator",
        f"{base}/coordinator_epoch",
        f"{base}/commits/{topic}/0",
        f"{base}/owners",
        f"{base}/ids",
    ):
        with pytest.raises(NoAuthError):
            stranger.zk.delete(path)
    with pytest.raises(NoAuthError):
        stranger.zk.create(f"{base}/generation_of_mine")
    with pytest.raises(NotEmptyError):
        stranger.zk.delete(base)
    assert committed(protected, group, topic) == 3
    command("groups", "--bootstrap-server", protected.bootstrap, "--delete", "--group", group)
    assert not stranger.exists(base)
    assert read_as(protected, group, topic, 3), "the group begins again"


def test_a_group_that_an_old_consumer_made_is_taken_over(protected: LocalCluster, stranger: Tree) -> None:
    topic, group = new_topic(protected), fresh_topic("group")
    values = produce(protected, topic, 3)
    old = ZooKeeperConsumer(protected.zookeeper, group, [topic], auto_offset_reset="smallest", auto_commit_enable=False)
    try:
        assert [text(next(iter(old))) for _ in range(2)] == values[:2]
        old.commit()
    finally:
        old.close()
    assert {acl.perms for acl in stranger.zk.get_acls(f"/consumers/{group}")[0]} == {31}
    assert committed(protected, group, topic) == 2
    assert read_as(protected, group, topic, 1) == values[2:]
    for name in ("coordinator", "coordinator_epoch", "generation"):
        with pytest.raises(NoAuthError):
            stranger.zk.set(f"/consumers/{group}/{name}", b"")
    # The group lives on in both worlds.
    more = produce(protected, topic, 1)
    old = ZooKeeperConsumer(protected.zookeeper, group, [topic], auto_commit_enable=False)
    try:
        assert text(next(iter(old))) == more[0]
    finally:
        old.close()


def test_old_consumers_join_a_group_that_a_broker_made(protected: LocalCluster) -> None:
    topic, group = new_topic(protected), fresh_topic("group")
    values = produce(protected, topic, 3)
    read_as(protected, group, topic, 3)
    more = produce(protected, topic, 1)
    old = ZooKeeperConsumer(protected.zookeeper, group, [topic], auto_commit_enable=False)
    try:
        assert text(next(iter(old))) == more[0] and values
        old.commit()
    finally:
        old.close()
    assert committed(protected, group, topic) == 4


def test_a_group_of_a_stranger_is_refused_and_costs_no_other_group(protected: LocalCluster, stranger: Tree) -> None:
    """A stranger may take the name of a group that does not exist yet; that is all."""
    topic, group = new_topic(protected), fresh_topic("taken")
    values = produce(protected, topic, 3)
    stranger.zk.add_auth("digest", "stranger:secret")
    try:
        stranger.zk.create(f"/consumers/{group}", acl=[STRANGERS])
    except NodeExistsError:
        pytest.fail("the name was fresh")
    consumer = Consumer({"bootstrap.servers": protected.bootstrap, "group.id": group, "session.timeout.ms": 6000})
    try:
        with pytest.raises(KafkaException, match=r"(?i)coordinator"):
            consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    finally:
        consumer.close()
    assert read_as(protected, fresh_topic("group"), topic, 3) == values
    logs = "".join(protected.log_file(broker_id).read_text() for broker_id in protected.broker_ids)
    assert f"/consumers/{group}: another client of ZooKeeper owns this znode" in logs
    assert "Traceback" not in logs


def test_offsets_that_a_stranger_has_locked_cost_no_other_topic(protected: LocalCluster, stranger: Tree) -> None:
    locked, topic, group = new_topic(protected), new_topic(protected), fresh_topic("group")
    produce(protected, topic, 3)
    read_as(protected, group, topic, 3)
    stranger.zk.add_auth("digest", "stranger:secret")
    stranger.zk.create(f"/consumers/{group}/offsets/{locked}", acl=[STRANGERS])
    consumer = Consumer({"bootstrap.servers": protected.bootstrap, "group.id": group})
    try:
        with pytest.raises(KafkaException):
            consumer.commit(offsets=[TopicPartition(locked, 0, 1)], asynchronous=False)
        consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    finally:
        consumer.close()
    assert committed(protected, group, topic) == 2
    logs = "".join(protected.log_file(broker_id).read_text() for broker_id in protected.broker_ids)
    assert "Traceback" not in logs


def test_a_broker_of_another_identity_says_so(protected: LocalCluster, tmp_path: Path) -> None:
    overrides = {**PROTECTED, "zookeeper.auth.digest": "other:secret", "broker.id": "9"}
    cluster = LocalCluster(tmp_path, 1, overrides=overrides, zookeeper=protected.zookeeper)
    try:
        with pytest.raises(StartupError):
            cluster.start()
        text = cluster.log_file(1).read_text()
        assert "because another identity owns the tree" in text and "Traceback" not in text
    finally:
        cluster.close()


@pytest.mark.full
def test_a_running_cluster_is_secured_and_opened_again(
    make_cluster: ClusterFactory, zookeeper: EmbeddedZooKeeper
) -> None:
    """Brokers with credentials that do not protect anything yet: the order of Kafka's guide for a migration."""
    cluster = make_cluster(2, {"zookeeper.auth.digest": DIGEST}, zookeeper=f"{zookeeper.connect_string}/migrated")
    secure = ["zk", "secure", "--zookeeper", cluster.zookeeper, "--digest", DIGEST, "--acl"]
    topic, group, old_group = new_topic(cluster), fresh_topic("group"), fresh_topic("old")
    produce(cluster, topic, 3)
    read_as(cluster, group, topic, 3)
    with (
        Tree(cluster.zookeeper) as stranger,
        Tree(cluster.zookeeper, DIGEST) as friend,
        ZooKeeperConsumer(cluster.zookeeper, old_group, [topic], auto_offset_reset="smallest") as old,
    ):
        paths = list(walk(friend.zk))
        assert {abilities(stranger.zk, path) for path in paths} == {"rwcda"}
        planned = command(*secure, "secure", "--dry-run", "--json").json
        assert {change["path"] for change in planned["changes"]} == set(paths)
        assert {abilities(stranger.zk, path) for path in paths} == {"rwcda"}
        command(*secure, "secure")
        letters = {Access.SHARED: "rwcd", Access.READABLE: "r", Access.SENSITIVE: ""}
        found = {path: abilities(stranger.zk, path) for path in walk(friend.zk)}
        found = {path: able if "c" in able else able.replace("d", "") for path, able in found.items()}
        assert found == {path: letters[access_to(path)] for path in found}
        # Brokers and both kinds of consumers go on, and controllers change.
        produce(cluster, topic, 3)
        assert len(read_as(cluster, group, topic, 3)) == 3
        records = iter(old)
        assert len([next(records) for _ in range(6)]) == 6
        controller = friend.controller()
        cluster.kill_broker(controller)
        wait_for(lambda: friend.controller() not in (-1, controller), "another controller")
        cluster.start_broker(controller)
        assert produce(cluster, topic, 1) and len(read_as(cluster, group, topic, 1)) == 1
        command(*secure, "unsecure")
        assert {abilities(stranger.zk, path) for path in walk(friend.zk)} == {"rwcda"}


def _poll(consumer: Consumer, values: list[str]) -> bool:
    message = consumer.poll(0.5)
    if message is not None and message.error() is None:
        values.append(message.value().decode())
    return False
