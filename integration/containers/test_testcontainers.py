"""The containers of ``kafkalite.testing`` for testcontainers, and their faults."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from testcontainers.core.container import DockerContainer
from testcontainers.core.exceptions import ContainerStartException
from testcontainers.core.labels import LABEL_SESSION_ID, SESSION_ID
from testcontainers.core.network import Network

from integration.containers.daemon import docker
from integration.harness.tree import Tree
from integration.harness.wait import wait_for
from kafkalite.common.errors import StartupError
from kafkalite.embedded.probe import ask, wait_for_brokers
from kafkalite.embedded.znodes import ZnodeReader
from kafkalite.embedded.zookeeper import four_letter_word
from kafkalite.testing.containers import KafkaliteClusterContainer, KafkaliteContainer
from kafkalite.testing.zookeeper_container import ZooKeeperContainer

TIMEOUT = 120
QUIET = {"log_level": 0}
"""Settings of clients whose brokers will stop."""


@pytest.fixture(scope="module")
def one(broker_image: str, zookeeper_image: str) -> Iterator[KafkaliteContainer]:
    """A broker for the tests that undo their changes."""
    container = KafkaliteContainer(broker_image, zookeeper_image=zookeeper_image).with_property("num.partitions", "2")
    with container:
        yield container


@pytest.fixture(scope="module")
def three(broker_image: str, zookeeper_image: str) -> Iterator[KafkaliteClusterContainer]:
    """A cluster of three brokers."""
    cluster = KafkaliteClusterContainer(3, broker_image, zookeeper_image=zookeeper_image)
    with cluster.with_property("min.insync.replicas", "2").with_property("replica.lag.time.max.ms", "3000"):
        yield cluster


def produce(bootstrap: str, topic: str, *values: str) -> None:
    """Produce ``values`` with acks=all."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **QUIET})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT) == 0


def consume(bootstrap: str, topic: str, count: int) -> list[str]:
    """The first ``count`` values of ``topic``, sorted, read without a group."""
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
    """The session of the broker's registration; 0 without a registration."""
    with ZnodeReader(container.get_zookeeper()) as znodes:
        return znodes.owner("/brokers/ids/1")


def test_a_client_connects_with_the_containers_properties(one: KafkaliteContainer) -> None:
    produce(one.get_bootstrap_server(), "first", "a", "b")
    assert consume(one.get_bootstrap_server(), "first", 2) == ["a", "b"]
    [topic] = AdminClient({"bootstrap.servers": one.get_bootstrap_server()}).list_topics("first").topics.values()
    assert len(topic.partitions) == 2


@pytest.mark.full
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


@pytest.mark.full
def test_a_paused_broker_does_not_answer(one: KafkaliteContainer) -> None:
    one.pause()
    with pytest.raises(TimeoutError):
        ask(one.host, one.host_port, timeout=0.5)
    one.resume()
    wait_for(lambda: ask(one.host, one.host_port).brokers, "an answer", timeout=TIMEOUT)


@pytest.mark.full
def test_an_expired_session_is_followed_by_a_new_one(one: KafkaliteContainer) -> None:
    before = wait_for(lambda: epoch(one), "it is registered", timeout=TIMEOUT)
    one.expire_session(timeout=TIMEOUT)
    wait_for(lambda: epoch(one) not in (0, before), "a new registration", timeout=TIMEOUT)


@pytest.mark.full
def test_a_broker_cut_off_from_zookeeper_serves_its_clients(one: KafkaliteContainer) -> None:
    wait_for(lambda: epoch(one), "it is registered", timeout=TIMEOUT)
    produce(one.get_bootstrap_server(), "cut", "before")
    one.partition()
    wait_for(lambda: not epoch(one), "the session has expired", timeout=TIMEOUT)
    assert consume(one.get_bootstrap_server(), "cut", 1) == ["before"]
    one.heal()
    wait_for(lambda: epoch(one), "it has registered again", timeout=TIMEOUT)
    produce(one.get_bootstrap_server(), "cut", "after")


@pytest.mark.full
def test_an_impossible_cut_is_refused(one: KafkaliteContainer, three: KafkaliteClusterContainer) -> None:
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
        # The client would believe broker 2, which still answers clients, that it leads.
        others = [three.brokers[number] for number in (1, 3)]
        wait_for_brokers([(broker.host, broker.host_port) for broker in others], {1, 3}, TIMEOUT)
        produce(",".join(broker.get_bootstrap_server() for broker in others), "cut", *"abc")
        three.heal()
        wait_for(in_sync, "all are in sync", timeout=TIMEOUT)
    assert consume(three.get_bootstrap_server(), "cut", 3) == ["a", "b", "c"]


@pytest.mark.full
def test_brokers_have_racks_and_outlive_a_killed_zookeeper(three: KafkaliteClusterContainer) -> None:
    with ZnodeReader(three.get_zookeeper()) as znodes:
        broker = znodes.get("/brokers/ids/2")
    assert broker is not None and b'"rack":"rack-2"' in broker.replace(b" ", b"")
    produce(three.get_bootstrap_server(), "without-zookeeper", "a")
    three.kill("zookeeper")
    produce(three.get_bootstrap_server(), "without-zookeeper", "b")
    three.restart("zookeeper")
    wait_for(
        lambda: ask(three.brokers[1].host, three.brokers[1].host_port).controller > 0, "a controller", timeout=TIMEOUT
    )


def test_other_containers_reach_the_broker_by_its_network_alias(broker_image: str, zookeeper_image: str) -> None:
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


def test_a_secured_broker_admits_its_users_and_obeys_acls(broker_image: str, zookeeper_image: str) -> None:
    container = KafkaliteContainer(broker_image, zookeeper_image=zookeeper_image, secure=True)
    with pytest.raises(RuntimeError, match="while it runs"):
        print(container.client)
    with container as kafka:
        authority = Path(kafka.client["ssl.ca.location"])
        assert authority.exists()
        admin = AdminClient({**kafka.admin, **QUIET})
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(TIMEOUT)
        assert refusal(kafka.client) == KafkaError.TOPIC_AUTHORIZATION_FAILED
        grant(admin, ResourceType.TOPIC, "orders", AclOperation.WRITE, AclOperation.READ)
        grant(admin, ResourceType.GROUP, "kitchen", AclOperation.READ)
        wait_for(lambda: refusal(kafka.client) is None, "the ACLs hold", timeout=TIMEOUT)
        consumer = Consumer({**kafka.client, "group.id": "kitchen", "auto.offset.reset": "earliest", **QUIET})
        consumer.subscribe(["orders"])
        [record] = consumer.consume(1, TIMEOUT)
        consumer.close()
        assert record.value() == b"one coffee"
        for stranger in ({"sasl.username": "eve"}, {"sasl.password": "wrong"}):
            assert refusal({**kafka.client, **stranger}) == KafkaError._AUTHENTICATION
        with pytest.raises(OSError):  # no TLS, no login
            ask(kafka.host, kafka.host_port)
        # ZooKeeper has no port for clients without a certificate.
        address, _, _ = kafka.get_zookeeper().partition("/")
        host, _, port = address.rpartition(":")
        assert four_letter_word(host, int(port), b"srvr") == b""
        kafka.expire_session(timeout=TIMEOUT)
        wait_for(lambda: admin.list_topics(timeout=TIMEOUT).brokers, "it has registered again", timeout=TIMEOUT)
    assert not authority.exists()


@pytest.mark.full
def test_secured_brokers_replicate_and_admit_other_containers(broker_image: str, zookeeper_image: str) -> None:
    with (
        Network() as network,
        KafkaliteClusterContainer(2, broker_image, zookeeper_image=zookeeper_image, secure=True).with_network(
            network
        ) as kafka,
    ):
        admin = AdminClient({**kafka.admin, **QUIET})
        admin.create_topics([NewTopic("orders", 1, 2)])["orders"].result(TIMEOUT)

        def in_sync() -> bool:
            return len(admin.list_topics("orders", TIMEOUT).topics["orders"].partitions[0].isrs) == 2

        wait_for(in_sync, "the replicas are in sync", timeout=TIMEOUT)
        assert refusal(kafka.admin) is None
        folder = Path(kafka.admin["ssl.ca.location"]).parent
        topics = docker(
            *("run", "--rm", "--user", "root", "--network", network.name, "--volume", f"{folder}:{folder}:ro"),
            *(broker_image, "topics", "--list", "--bootstrap-server", kafka.get_network_bootstrap_server()),
            *("--command-config", folder / "admin.properties"),
        )
        assert topics == "orders"
        kafka.kill(1)
        kafka.restart(1)
        wait_for(in_sync, "the replicas are in sync again", timeout=TIMEOUT)


def refusal(properties: dict[str, str]) -> int | None:
    """Why a record is refused, as a code of confluent-kafka; ``None`` if it is not."""
    errors: list[KafkaError] = []
    settings = {**properties, "message.timeout.ms": TIMEOUT * 1000, **QUIET}
    producer = Producer({**settings, "error_cb": errors.append, "retries": 0})
    reports: list[KafkaError | None] = []
    producer.produce("orders", b"one coffee", on_delivery=lambda error, _: reports.append(error))

    def known() -> bool:
        producer.poll(0.1)
        return bool(reports) or any(error.code() == KafkaError._AUTHENTICATION for error in errors)

    wait_for(known, "an answer", timeout=TIMEOUT)
    code = next((error for error in (*reports, *errors) if error is not None), None)
    producer.purge()
    return None if code is None else int(code.code())


def grant(admin: AdminClient, kind: ResourceType, name: str, *operations: AclOperation) -> None:
    """Allow the ordinary user ``operations`` on a resource."""
    for operation in operations:
        acl = AclBinding(
            kind, name, ResourcePatternType.LITERAL, "User:client", "*", operation, AclPermissionType.ALLOW
        )
        admin.create_acls([acl])[acl].result(TIMEOUT)


def test_a_starting_broker_waits_for_a_slow_zookeeper(broker_image: str, zookeeper_image: str) -> None:
    with Network() as network, ThreadPoolExecutor(1) as pool:
        zookeeper = ZooKeeperContainer(zookeeper_image).with_network(network).with_network_aliases("theirs")
        kafka = KafkaliteContainer(broker_image, zookeeper="theirs:2181").with_network(network)
        try:
            zookeeper.launch()
            wait_for(
                lambda: four_letter_word(zookeeper.host, zookeeper.host_port, b"srvr"), "ZooKeeper serves", TIMEOUT
            )
            zookeeper.get_wrapped_container().pause()
            started = pool.submit(kafka.start)
            # ZooKeeper accepted the connection, and sent no answer for a session timeout.
            wait_for(lambda: "Connection time-out" in written(kafka) or started.done(), "it asks anew", timeout=TIMEOUT)
            zookeeper.get_wrapped_container().unpause()
            assert started.result(TIMEOUT).get_bootstrap_server()
        finally:
            kafka.stop()
            zookeeper.discard()


def test_a_failed_start_raises_the_reason_and_leaves_no_container(broker_image: str, zookeeper_image: str) -> None:
    container = KafkaliteContainer(broker_image, zookeeper_image=zookeeper_image)
    before = ours()
    with pytest.raises(StartupError, match=r"(?s)broker 1 has ended:\n.*Invalid value.*\nIts ZooKeeper:"):
        container.with_property("num.partitions", "minus one").start()
    assert ours() == before


def written(container: KafkaliteContainer) -> str:
    """The output of a container; empty if the container does not exist yet."""
    try:
        return container.last_lines()
    except ContainerStartException:
        return ""


def ours() -> list[str]:
    """Ids of the containers and networks that this run has made."""
    label = ("--quiet", "--filter", f"label={LABEL_SESSION_ID}={SESSION_ID}")
    return sorted([*docker("ps", "--all", *label).split(), *docker("network", "ls", *label).split()])
