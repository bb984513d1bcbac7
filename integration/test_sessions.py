"""Brokers and their ZooKeeper sessions: ends of sessions, hung reactors, broker ids, chroot, ACLs, ensembles."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.exceptions import NoAuthError

from integration.conftest import TEST_OVERRIDES, ClusterFactory
from integration.harness.clients import fresh_topic
from integration.harness.records import assert_same, make_items
from integration.harness.tree import Tree
from integration.harness.wait import wait_for
from integration.test_clients_confluent import Confluent
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.processes import free_ports
from kafkalite.embedded.zookeeper import EmbeddedZooKeeper

pytestmark = pytest.mark.kafkalite_only
client = Confluent()
SESSION_TIMEOUT = 5.0
# A broker whose reactor hangs from SIGUSR1 on for as long as there is a file called "hang" beside its configuration.
HANGING = """
import os, signal, sys, time
from kafkalite.cli.main import main
def hang(*_):
    while os.path.exists(os.path.join(os.path.dirname(sys.argv[-1]), "hang")):
        time.sleep(0.05)
signal.signal(signal.SIGUSR1, hang)
sys.exit(main(sys.argv[1:]))
"""


def hanging_launcher(config: Path) -> list[str]:
    """Command of a broker that a test can make hang."""
    return [sys.executable, "-c", HANGING, "broker", "start", "--config", str(config)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two brokers below a chroot that they create."""
    overrides = {
        **TEST_OVERRIDES,
        "auto.leader.rebalance.enable": "false",
        "zookeeper.session.timeout.ms": str(int(SESSION_TIMEOUT * 1000)),
    }
    directory = tmp_path_factory.mktemp("sessions")
    with EmbeddedZooKeeper(directory / "zookeeper") as zookeeper:
        connect = f"{zookeeper.connect_string}/deep/chroot"
        cluster = LocalCluster(directory, 2, zookeeper=connect, overrides=overrides, launcher=hanging_launcher)
        cluster.start()
        yield cluster
        cluster.close()


@pytest.fixture
def topic(cluster: LocalCluster, tree: Tree) -> str:
    """One partition on both brokers."""
    name = fresh_topic("s")
    client.create_topic(cluster.bootstrap, name, 1, 2, {})
    tree.wait_state(name, isr=[1, 2])
    return name


def read_epoch(tree: Tree, broker_id: int) -> int:
    """A broker's epoch, which is the czxid of its znode; 0 without a znode."""
    stat = tree.zk.exists(f"/brokers/ids/{broker_id}")
    return 0 if stat is None else int(stat.czxid)


def test_everything_is_below_the_chroot(cluster: LocalCluster, topic: str) -> None:
    with Tree(cluster.zookeeper.partition("/")[0]) as root:
        assert root.names("/") == ["deep", "zookeeper"]
        assert root.names("/deep") == ["chroot"]
        assert topic in root.names("/deep/chroot/brokers/topics")


@pytest.mark.parametrize("of_the_controller", [False, True])
def test_a_broker_registers_again_after_its_session_ended(
    cluster: LocalCluster, tree: Tree, topic: str, of_the_controller: bool
) -> None:
    """It no longer leads, and comes back as a follower."""
    leader = tree.state(topic)["leader"]
    if (tree.controller() == leader) is not of_the_controller:
        tree.zk.delete("/controller")
        wait_for(lambda: (tree.controller() == leader) is of_the_controller or move_controller(tree), "the controller")
    epoch, controller_epoch = read_epoch(tree, leader), tree.controller_epoch()
    items = make_items(1, 50, 1)
    client.produce(cluster.bootstrap, topic, items)
    tree.end_session(tree.owner(f"/brokers/ids/{leader}"))
    other = 3 - leader
    tree.wait_state(topic, leader=other, isr=[1, 2])
    assert wait_for(lambda: read_epoch(tree, leader), "it is registered anew") > epoch
    if of_the_controller:
        assert wait_for(tree.controller_epoch, "a term") > controller_epoch
    more = make_items(2, 50, 1)
    client.produce(cluster.bootstrap, topic, more)
    read = client.consume(cluster.bootstrap, topic, {0: 0}, 100)
    assert_same([*items, *more], read)
    assert cluster.is_alive(leader)


def move_controller(tree: Tree) -> bool:
    """Cause a controller election, which any broker may win."""
    if tree.exists("/controller"):
        tree.zk.delete("/controller")
    return False


def test_a_hung_reactor_loses_its_session(cluster: LocalCluster, tree: Tree, topic: str) -> None:
    """The watchdog ends the session, because kazoo's thread would ping for ever; another broker leads meanwhile."""
    leader = tree.state(topic)["leader"]
    epoch = read_epoch(tree, leader)
    hang = cluster.broker_dir(leader) / "hang"
    hang.touch()
    try:
        began = time.monotonic()
        os.kill(cluster.pid(leader), signal.SIGUSR1)
        state = tree.wait_state(topic, leader=3 - leader, isr=[3 - leader])
        print(f"another leads after {time.monotonic() - began:.2f} s, the session timeout is {SESSION_TIMEOUT} s")
        assert cluster.is_alive(leader) and state["leader_epoch"] >= 1
    finally:
        hang.unlink()
    # After the hang the broker has a new session, and follows.
    assert wait_for(lambda: read_epoch(tree, leader), "it is registered anew") > epoch
    tree.wait_state(topic, leader=3 - leader, isr=[1, 2])


def test_a_second_broker_with_the_same_id_ends(cluster: LocalCluster, tmp_path: Path) -> None:
    """It waits for the session timeout, and reports the broker that has the id."""
    rival = LocalCluster(tmp_path, 1, zookeeper=cluster.zookeeper, overrides=cluster.overrides)
    rival.start_broker(1, wait=False)
    try:
        wait_for(lambda: not rival.is_alive(1), "it gives up")
        said = rival.log_file(1).read_text()
        assert "broker id 1 is in use" in said and "choose another broker.id" in said
        assert "Traceback" not in said
    finally:
        rival.close()
    assert cluster.is_alive(1)


def test_a_generated_id_is_kept(cluster: LocalCluster, tree: Tree, tmp_path: Path) -> None:
    """``broker.id=-1`` gets an id above the reserved ones."""
    guest = LocalCluster(tmp_path, 1, zookeeper=cluster.zookeeper, overrides=cluster.overrides)
    guest.start_broker(1, {"broker.id": "-1"}, wait=False)
    try:
        wait_for(lambda: max(tree.live()) > 1000, "a third broker")
        broker_id = max(tree.live())
        assert guest.stop_broker(1)
        wait_for(lambda: max(tree.live()) <= 1000, "it goes")
        guest.start_broker(1, wait=False)
        wait_for(lambda: broker_id in tree.live(), "the same id again")
        assert f"broker.id={broker_id}" in (guest.broker_dir(1) / "data" / "meta.properties").read_text()
        guest.stop_broker(1)
    finally:
        guest.close()


def test_with_acls_only_brokers_write(tmp_path: Path) -> None:
    """With ``zookeeper.set.acl`` other clients can only read; brokers with the digest can write."""
    overrides = {**TEST_OVERRIDES, "zookeeper.set.acl": "true", "zookeeper.auth.digest": "kafka:secret"}
    cluster = LocalCluster(tmp_path, 2, overrides=overrides)
    try:
        cluster.start()
        topic = fresh_topic("acl")
        client.create_topic(cluster.bootstrap, topic, 1, 2, {})
        with Tree(cluster.zookeeper) as stranger, Tree(cluster.zookeeper, "kafka:secret") as friend:
            stranger.wait_state(topic, isr=[1, 2])
            for path in (
                "/controller_epoch",
                f"/brokers/topics/{topic}",
                f"/brokers/topics/{topic}/partitions/0/state",
            ):
                data, _ = stranger.zk.get(path)
                with pytest.raises(NoAuthError):
                    stranger.zk.set(path, data)
                friend.zk.set(path, data)
            for path in ("/brokers/ids/1", "/controller"):
                with pytest.raises(NoAuthError):
                    stranger.zk.set(path, b"{}")
            client.delete_topic(cluster.bootstrap, topic)
            wait_for(lambda: not stranger.exists(f"/brokers/topics/{topic}"), "the topic to go")
    finally:
        cluster.close()


def test_a_broker_works_with_one_dead_zookeeper_host(tmp_path: Path, make_cluster: ClusterFactory) -> None:
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as zookeeper:
        [dead] = free_ports(1)
        connect = f"127.0.0.1:{dead},{zookeeper.connect_string}/kafka"
        cluster = make_cluster(2, {"zookeeper.session.timeout.ms": "60000"}, zookeeper=connect)
        topic = fresh_topic("hosts")
        client.create_topic(cluster.bootstrap, topic, 2, 2, {})
        with Tree(f"{zookeeper.connect_string}/kafka") as tree:
            tree.wait_state(topic, isr=[1, 2])
            leader = tree.state(topic)["leader"]
            cluster.kill_broker(leader)
            # Long before the session timeout, because the guardian finds the living server, too.
            tree.wait_state(topic, leader=3 - leader, timeout=40)


class Ensemble:
    """Three ZooKeeper servers on this machine."""

    def __init__(self, directory: Path) -> None:
        numbers = (1, 2, 3)
        ports = iter(free_ports(9))
        quorum = {f"server.{number}": f"127.0.0.1:{next(ports)}:{next(ports)}" for number in numbers}
        self.servers = []
        for number in numbers:
            home = directory / f"zookeeper-{number}"
            (home / "data").mkdir(parents=True)
            (home / "data" / "myid").write_text(f"{number}\n")
            properties = {**quorum, "initLimit": "50", "syncLimit": "25"}
            self.servers.append(EmbeddedZooKeeper(home, next(ports), properties=properties))
        # Start all before waiting, because a server serves only with a majority.
        for server in self.servers:
            server.start(wait=False)
        for server in self.servers:
            server.wait_ready()

    @property
    def connect(self) -> str:
        return ",".join(server.connect_string for server in self.servers)

    def leader(self) -> EmbeddedZooKeeper:
        """The server that leads the ensemble. Raises ``LookupError`` while no server leads."""
        for server in self.servers:
            if server.running and server.mode == "leader":
                return server
        raise LookupError("no server leads")

    def close(self) -> None:
        for server in self.servers:
            server.kill()


@pytest.mark.full
def test_sessions_survive_the_death_of_the_ensembles_leader(tmp_path: Path, make_cluster: ClusterFactory) -> None:
    """They move to the other servers; no acknowledged record is lost, and brokers still fail over."""
    ensemble = Ensemble(tmp_path)
    try:
        cluster = make_cluster(2, zookeeper=f"{ensemble.connect}/kafka")
        topic = fresh_topic("quorum")
        client.create_topic(cluster.bootstrap, topic, 1, 2, {})
        with Tree(cluster.zookeeper) as tree:
            tree.wait_state(topic, isr=[1, 2])
            epochs = {broker_id: read_epoch(tree, broker_id) for broker_id in (1, 2)}
        items = make_items(3, 200, 1)
        client.produce(cluster.bootstrap, topic, items[:100])
        wait_for(ensemble.leader, "a leader").kill()
        client.produce(cluster.bootstrap, topic, items[100:])
        wait_for(ensemble.leader, "another leader", 60)
        with Tree(cluster.zookeeper) as tree:
            wait_for(lambda: tree.live() == [1, 2], "both brokers are registered")
            assert {broker_id: read_epoch(tree, broker_id) for broker_id in (1, 2)} == epochs, "in the same sessions"
            leader = tree.state(topic)["leader"]
            cluster.kill_broker(leader)
            tree.wait_state(topic, leader=3 - leader, isr=[3 - leader])
        assert_same(items, client.consume(cluster.address(3 - leader), topic, {0: 0}, len(items)))
    finally:
        ensemble.close()
