"""ZooKeeper consumers of a secured cluster: TLS and SCRAM at the brokers, TLS with a certificate at ZooKeeper."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType

from integration.harness.commands import command
from integration.harness.logins import grant
from integration.security.conftest import SecuredCluster
from kafkalite.common.errors import StartupError
from kafkalite.consumer import ConsumerAuthenticationError, ZooKeeperConsumer
from kafkalite.embedded.security import ADMIN, CLIENT

pytestmark = pytest.mark.kafkalite_only
TOPIC, GROUP = "classic", "old-kitchen"
WAIT = 60.0
"""Seconds to wait for a record."""


def security(cluster: SecuredCluster) -> dict[str, str]:
    """The properties of an ordinary user's consumer."""
    login = {name: value for name, value in cluster.java_login(CLIENT).items() if name != "bootstrap.servers"}
    return {
        **login,
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.location": str(cluster.keys.issue("consumer", "consumer")),
        "zookeeper.ssl.truststore.location": str(cluster.keys.ca_file),
    }


@pytest.fixture(scope="module")
def cluster(secured: SecuredCluster) -> SecuredCluster:
    """The secured cluster, with a topic of two records that the user ``client`` may read."""
    admin = AdminClient(secured.login(ADMIN))
    admin.create_topics([NewTopic(TOPIC, 2, 2)])[TOPIC].result(WAIT)
    grant(secured.login(ADMIN), CLIENT, (ResourceType.TOPIC, TOPIC, AclOperation.READ))
    producer = Producer(secured.login(ADMIN))
    for partition, value in enumerate(("a", "b")):
        producer.produce(TOPIC, value, partition=partition)
    assert producer.flush(WAIT) == 0
    return secured


def test_records_are_read_and_offsets_go_on(cluster: SecuredCluster) -> None:
    settings = {"security": security(cluster), "auto_offset_reset": "smallest"}
    with ZooKeeperConsumer(cluster.zookeeper, GROUP, [TOPIC], **settings) as consumer:
        found = [consumer.poll(WAIT) for _ in range(2)]
        assert sorted(record.value or b"" for record in found if record) == [b"a", b"b"]
        assert set(consumer.commit().values()) == {1}
    paths = [f"/consumers/{GROUP}/offsets/{TOPIC}/{partition}" for partition in (0, 1)]
    assert [data for data, _ in cluster.znodes(paths).values()] == [b"1", b"1"]


def test_the_command_takes_the_same_properties(cluster: SecuredCluster) -> None:
    file = cluster.directory / "consumer.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in security(cluster).items()))
    consume = ("consume", "--zookeeper", cluster.zookeeper, "--consumer.config", file, "--topic", TOPIC)
    assert sorted(command(*consume, "--from-beginning", "--max-messages", 2).lines) == ["a", "b"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"sasl.mechanism": "PLAIN"},
        {"sasl.jaas.config": 'x.ScramLoginModule required username="client" password="wrong";'},
        {"ssl.truststore.type": "JKS", "ssl.truststore.location": ""},
    ],
    ids=["mechanism", "password", "authority"],
)
def test_a_refused_login_reaches_the_reader(cluster: SecuredCluster, wrong: dict[str, str]) -> None:
    settings = {"security": {**security(cluster), **wrong}, "auto_offset_reset": "smallest"}
    consumer = ZooKeeperConsumer(cluster.zookeeper, "strangers", [TOPIC], **settings)
    with closing(consumer), pytest.raises(ConsumerAuthenticationError, match="is refused"):
        consumer.poll(WAIT)


def test_without_a_certificate_zookeeper_is_not_reached(cluster: SecuredCluster) -> None:
    anonymous = {name: value for name, value in security(cluster).items() if "zookeeper.ssl.keystore" not in name}
    with pytest.raises(StartupError):
        ZooKeeperConsumer(cluster.zookeeper, GROUP, [TOPIC], security=anonymous, zookeeper_connection_timeout_ms=1500)
