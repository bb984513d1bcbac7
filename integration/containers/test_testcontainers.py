"""The containers of ``kafkalite.testing``: as testcontainers' own, with faults by name."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from testcontainers.core.container import DockerContainer
from testcontainers.core.exceptions import ContainerStartException
from testcontainers.core.labels import LABEL_SESSION_ID, SESSION_ID
from testcontainers.core.network import Network

from integration.containers.daemon import docker
from integration.harness.tree import Tree
from integration.harness.wait import wait_for
from kafkalite.common.errors import StartupError
from kafkalite.embedded.probe import ask
from kafkalite.embedded.znodes import ZnodeReader
from kafkalite.embedded.zookeeper import four_letter_word
from kafkalite.testing.containers import KafkaliteClusterContainer, KafkaliteContainer, ZooKeeperContainer

TIMEOUT = 60
QUIET = {"log_level": 0}
"""For clients of brokers that are to vanish."""


@pytest.fixture(scope="module")
def one(broker_image: str, zookeeper_image: str) -> Iterator[KafkaliteContainer]:
    """A broker for the tests that put everything back."""
    container = KafkaliteContainer(broker_image, zookeeper_image=zookeeper_image).with_property("num.partitions", "2")
    with container:
        yield container


@pytest.fixture(scope="module")
def three(broker_image: str, zookeeper_image: str) -> Iterator[KafkaliteClusterContainer]:
    """Three of them."""
    cluster = KafkaliteClusterContainer(3, broker_image, zookeeper_image=zookeeper_image)
    with cluster.with_property("min.insync.replicas", "2").with_property("replica.lag.time.max.ms", "3000"):
        yield cluster


def produce(bootstrap: str, topic: str, *values: str) -> None:
    """Write ``values``, acknowledged by all."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **QUIET})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT) == 0


def consume(bootstrap: str, topic: str, count: int) -> list[str]:
    """The first ``count`` values of ``topic``, sorted; no group is needed for it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, **QUIET})
    partitions = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    found: list[str] = []

    def more() -> bool:
        found.extend(str(message.value(), "utf-8") for message in consumer.consume(count, 1.0))
        return len(found) >= count

    wait_for(more, f"{count} records", timeout=TIMEOUT)
    consumer.close()
    return sorted(found)


def epoch(container: KafkaliteContainer) -> int:
    """The session that the broker is registered in; 0 while it is not."""
    with ZnodeReader(container.get_zookeeper()) as znodes:
        return znodes.owner("/brokers/ids/1")


def test_a_client_finds_it_with_its_properties(one: KafkaliteContainer) -> None:
    produce(one.get_bootstrap_server(), "first", "a", "b")
    assert consume(one.get_bootstrap_server(), "first", 2) == ["a", "b"]
    [topic] = AdminClient({"bootstrap.servers": one.get_bootstrap_server()}).list_topics("first").topics.values()
    assert len(topic.partitions) == 2


def test_a_restart_keeps_data_and_address(one: KafkaliteContainer) -> None:
    address = one.get_bootstrap_server()
    produce(address, "kept", "before")
    one.restart()
    produce(address, "kept", "between")
    one.kill()
    one.restart()
    produce(address, "kept", "after")
    assert one.get_bootstrap_server() == address
    assert consume(address, "kept", 3) == ["after", "before", "between"]


def test_paused_it_is_silent(one: KafkaliteContainer) -> None:
    one.pause()
    with pytest.raises(TimeoutError):
        ask(one.host, one.host_port, timeout=0.5)
    one.resume()
    wait_for(lambda: ask(one.host, one.host_port).brokers, "an answer")


def test_an_expired_session_is_followed_by_a_new_one(one: KafkaliteContainer) -> None:
    before = epoch(one)
    one.expire_session()
    wait_for(lambda: epoch(one) not in (0, before), "a new registration", timeout=TIMEOUT)


def test_cut_off_from_zookeeper_it_serves_its_clients(one: KafkaliteContainer) -> None:
    wait_for(lambda: epoch(one), "it is registered", timeout=TIMEOUT)
    produce(one.get_bootstrap_server(), "cut", "before")
    one.partition()
    wait_for(lambda: not epoch(one), "the session has expired", timeout=TIMEOUT)
    assert consume(one.get_bootstrap_server(), "cut", 1) == ["before"]
    one.heal()
    wait_for(lambda: epoch(one), "it has registered again", timeout=TIMEOUT)
    produce(one.get_bootstrap_server(), "cut", "after")


@pytest.mark.full
def test_what_cannot_be_cut_is_refused(one: KafkaliteContainer, three: KafkaliteClusterContainer) -> None:
    with pytest.raises(ValueError, match="all other brokers"):
        one.partition(1, 2)
    with pytest.raises(ValueError, match="all other brokers"):
        three.partition(1, 2)


@pytest.mark.full
def test_a_broker_that_is_cut_off_is_replaced(three: KafkaliteClusterContainer) -> None:
    admin = AdminClient({"bootstrap.servers": three.get_bootstrap_server(), **QUIET})
    [created] = admin.create_topics([NewTopic("cut", 3, 3)]).values()
    created.result(TIMEOUT)
    with Tree(three.get_zookeeper()) as tree:

        def states(what: str) -> list[object]:
            return [tree.state("cut", partition)[what] for partition in range(3)]

        def in_sync() -> bool:
            return all(sorted(isr) == [1, 2, 3] for isr in states("isr") if isinstance(isr, list))

        wait_for(lambda: set(states("leader")) == {1, 2, 3} and in_sync(), "all lead and follow", timeout=TIMEOUT)
        three.partition(2)
        wait_for(lambda: set(states("leader")) <= {1, 3}, "the others lead", timeout=TIMEOUT)
        produce(",".join(three.brokers[number].get_bootstrap_server() for number in (1, 3)), "cut", *"abc")
        three.heal()
        wait_for(in_sync, "all are in sync", timeout=TIMEOUT)
    assert consume(three.get_bootstrap_server(), "cut", 3) == ["a", "b", "c"]


@pytest.mark.full
def test_racks_and_a_zookeeper_that_is_killed(three: KafkaliteClusterContainer) -> None:
    with ZnodeReader(three.get_zookeeper()) as znodes:
        broker = znodes.get("/brokers/ids/2")
    assert broker is not None and b'"rack":"rack-2"' in broker.replace(b" ", b"")
    produce(three.get_bootstrap_server(), "without-zookeeper", "a")
    three.kill("zookeeper")
    produce(three.get_bootstrap_server(), "without-zookeeper", "b")
    three.restart("zookeeper")
    wait_for(lambda: ask(three.brokers[1].host, three.brokers[1].host_port).controller > 0, "a controller")


def test_containers_reach_it_by_its_name_on_their_network(broker_image: str, zookeeper_image: str) -> None:
    with (
        Network() as network,
        DockerContainer(zookeeper_image).with_network(network).with_network_aliases("theirs"),
        KafkaliteContainer(broker_image, zookeeper="theirs:2181/chroot")
        .with_network(network)
        .with_network_aliases("kafka") as kafka,
    ):
        produce(kafka.get_bootstrap_server(), "shared", "a")
        tool = ("run", "--rm", "--network", network.name, broker_image, "topics", "--list", "--bootstrap-server")
        assert docker(*tool, kafka.get_network_bootstrap_server()) == "shared"
        assert kafka.get_network_bootstrap_server() == "kafka:19092"
        with pytest.raises(KeyError, match="not started here"):
            kafka.kill("zookeeper")


def test_a_zookeeper_that_is_slow_to_answer_is_waited_for(broker_image: str, zookeeper_image: str) -> None:
    with Network() as network, ThreadPoolExecutor(1) as pool:
        zookeeper = ZooKeeperContainer(zookeeper_image).with_network(network).with_network_aliases("theirs")
        kafka = KafkaliteContainer(broker_image, zookeeper="theirs:2181").with_network(network)
        try:
            zookeeper.launch()
            wait_for(lambda: four_letter_word(zookeeper.host, zookeeper.host_port, b"srvr"), "ZooKeeper serves")
            zookeeper.get_wrapped_container().pause()
            started = pool.submit(kafka.start)
            # It was let in, and not answered for as long as a session lasts.
            wait_for(lambda: "Connection time-out" in written(kafka) or started.done(), "it asks anew", timeout=TIMEOUT)
            zookeeper.get_wrapped_container().unpause()
            assert started.result(TIMEOUT).get_bootstrap_server()
        finally:
            kafka.stop()
            zookeeper.discard()


def test_what_does_not_start_says_why_and_leaves_nothing(broker_image: str, zookeeper_image: str) -> None:
    container = KafkaliteContainer(broker_image, zookeeper_image=zookeeper_image)
    before = ours()
    with pytest.raises(StartupError, match=r"(?s)broker 1 has ended:\n.*Invalid value.*\nIts ZooKeeper:"):
        container.with_property("num.partitions", "minus one").start()
    assert ours() == before


def written(container: KafkaliteContainer) -> str:
    """What a container that may not be there yet has written."""
    try:
        return container.last_lines()
    except ContainerStartException:
        return ""


def ours() -> list[str]:
    """Ids of the containers and networks of this run."""
    label = ("--quiet", "--filter", f"label={LABEL_SESSION_ID}={SESSION_ID}")
    return sorted([*docker("ps", "--all", *label).split(), *docker("network", "ls", *label).split()])
