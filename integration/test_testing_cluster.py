"""The cluster for users' tests: its fixtures, and the effect of each fault on clients and ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from integration.harness.clients import fresh_topic
from integration.harness.wait import wait_for
from kafkalite.embedded.probe import wait_for_brokers
from kafkalite.embedded.znodes import ZnodeReader
from kafkalite.testing.cluster import KafkaliteCluster

pytestmark = pytest.mark.kafkalite_only
three_brokers = pytest.mark.kafkalite(brokers=3, overrides={"replica.lag.time.max.ms": "1500"})
FACTOR = 3


class View:
    """The cluster through a client and through its ZooKeeper."""

    def __init__(self, cluster: KafkaliteCluster) -> None:
        self.cluster = cluster
        self.znodes = ZnodeReader(cluster.zookeeper)
        self.bootstrap = cluster.get_bootstrap_server()
        self.topic = fresh_topic("testing")

    def create_topic(self, factor: int) -> None:
        """Create a topic of one partition; returns when it is in sync on ``factor`` brokers."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        (created,) = admin.create_topics([NewTopic(self.topic, 1, factor)]).values()
        created.result()
        wait_for(lambda: len(self.state()["isr"]) == factor, "all replicas are in sync")

    def state(self) -> dict[str, Any]:
        """The partition's znode. Raises ``LookupError`` if it does not exist yet."""
        data = self.znodes.get(f"/brokers/topics/{self.topic}/partitions/0/state")
        if data is None:
            raise LookupError(f"no state of {self.topic}")
        state: dict[str, Any] = json.loads(data)
        return state

    def live(self) -> list[int]:
        """Brokers that are registered."""
        return [int(name) for name in self.znodes.children("/brokers/ids")]

    def session(self, broker_id: int) -> int:
        """The broker's ZooKeeper session, 0 without a registration."""
        return self.znodes.owner(f"/brokers/ids/{broker_id}")

    def send(self, value: bytes, without: int | None = None) -> None:
        """Produce one record with acks=all, by a client that does not know ``without``, because a broker that is cut
        off claims to lead and the client would believe it."""
        asked = {
            broker_id: address
            for broker_id, address in zip(self.cluster.broker_ids, self.bootstrap.split(","), strict=True)
            if broker_id != without
        }
        endpoints = [(host, int(port)) for host, _, port in (address.rpartition(":") for address in asked.values())]
        wait_for_brokers(endpoints, set(asked), 60)
        producer = Producer({"bootstrap.servers": ",".join(asked.values()), "acks": "all", "log_level": 0})
        errors: list[object] = []
        producer.produce(self.topic, value, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(60) == 0, f"{value!r} was not acknowledged"
        assert errors == [None]

    def values(self, count: int) -> list[bytes]:
        """The first ``count`` records."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "none", "log_level": 0})
        consumer.assign([TopicPartition(self.topic, 0, 0)])
        try:
            found = consumer.consume(count, 30)
        finally:
            consumer.close()
        return [message.value() for message in found]


@pytest.fixture
def view(kafkalite_cluster: KafkaliteCluster) -> Iterator[View]:
    """The test's cluster, with a topic on all its brokers."""
    view = View(kafkalite_cluster)
    view.create_topic(len(kafkalite_cluster.broker_ids))
    yield view
    view.znodes.close()


def test_clusters_of_one_run_share_only_a_zookeeper(
    kafkalite_cluster: KafkaliteCluster, kafkalite_session_cluster: KafkaliteCluster
) -> None:
    views = View(kafkalite_cluster), View(kafkalite_session_cluster)
    servers, chroots = zip(*(view.cluster.zookeeper.split("/") for view in views), strict=True)
    assert servers[0] == servers[1]
    assert chroots[0] != chroots[1]
    for view in views:
        view.topic = "the-same-name"
        view.create_topic(1)
        view.send(view.cluster.zookeeper.encode())
    assert [view.values(1) for view in views] == [[view.cluster.zookeeper.encode()] for view in views]


def test_a_killed_broker_comes_back_with_its_data(view: View) -> None:
    view.send(b"before")
    view.cluster.kill()
    wait_for(lambda: view.live() == [], "the broker is missed")
    view.cluster.restart()
    view.send(b"after")
    assert view.values(2) == [b"before", b"after"]


def test_a_restart_of_a_living_broker_is_a_controlled_shutdown(view: View) -> None:
    view.send(b"before")
    view.cluster.restart()
    view.send(b"after")
    assert view.values(2) == [b"before", b"after"]


@pytest.mark.full
@three_brokers
def test_a_paused_broker_is_replaced_and_comes_back(view: View) -> None:
    leader = view.state()["leader"]
    view.cluster.pause(leader)
    wait_for(lambda: view.state()["leader"] not in (-1, leader), "another leader")
    view.send(b"meanwhile", without=leader)
    view.cluster.resume(leader)
    wait_for(lambda: len(view.state()["isr"]) == FACTOR, "it is in sync again")
    assert view.values(1) == [b"meanwhile"]


@three_brokers
def test_a_broker_cut_off_from_its_leader_falls_out_of_the_isr(view: View) -> None:
    leader = view.state()["leader"]
    follower = next(each for each in view.cluster.broker_ids if each != leader)
    view.cluster.partition(follower, leader)
    view.send(b"meanwhile")
    wait_for(lambda: follower not in view.state()["isr"], "it falls behind")
    assert view.live() == view.cluster.broker_ids, "it is cut off from the leader alone"
    view.cluster.heal()
    wait_for(lambda: follower in view.state()["isr"], "it has caught up")


@pytest.mark.full
@three_brokers
def test_a_broker_cut_off_from_zookeeper_loses_its_session(view: View) -> None:
    leader = view.state()["leader"]
    session = view.session(leader)
    view.cluster.partition(leader, "zookeeper")
    wait_for(lambda: view.state()["leader"] not in (-1, leader), "another leader")
    view.send(b"meanwhile", without=leader)
    view.cluster.heal()
    wait_for(lambda: view.session(leader) not in (0, session), "it registers anew")
    wait_for(lambda: len(view.state()["isr"]) == FACTOR, "it is in sync again")
    assert view.values(1) == [b"meanwhile"]


@three_brokers
def test_a_broker_cut_off_from_everything_reaches_only_its_clients(view: View) -> None:
    leader = view.state()["leader"]
    view.cluster.partition(leader)
    wait_for(lambda: view.state()["leader"] not in (-1, leader), "another leader")
    wait_for(lambda: leader not in view.state()["isr"], "it is not in sync")
    host, _, port = view.bootstrap.split(",")[leader - 1].partition(":")
    assert AdminClient({"bootstrap.servers": f"{host}:{port}", "log_level": 0}).list_topics(timeout=20).brokers
    view.cluster.heal()
    wait_for(lambda: len(view.state()["isr"]) == FACTOR, "it is in sync again")


def test_a_broker_starts_a_new_session_after_an_expired_one(view: View) -> None:
    session = view.session(1)
    view.cluster.expire_session(1)
    assert view.session(1) != session
    wait_for(lambda: view.session(1) != 0, "the broker registers again")
    view.send(b"after")
    assert view.values(1) == [b"after"]


def test_a_missing_session_cannot_expire(view: View) -> None:
    view.cluster.kill()
    wait_for(lambda: view.live() == [], "the broker is missed")
    with pytest.raises(TimeoutError, match="the session of broker 1 could not be ended"):
        view.cluster.expire_session(1, timeout=0.2)


def test_nothing_is_left_of_a_cluster(kafkalite_cluster: KafkaliteCluster) -> None:
    mine = [process for process in psutil.process_iter(["cmdline"]) if _is_of(process, kafkalite_cluster)]
    assert mine
    kafkalite_cluster.stop()
    _, alive = psutil.wait_procs(mine, timeout=20)
    assert alive == []


def _is_of(process: psutil.Process, cluster: KafkaliteCluster) -> bool:
    return any(str(cluster.directory) in word for word in process.info["cmdline"] or [])
