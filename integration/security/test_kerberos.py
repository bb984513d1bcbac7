"""Clients and brokers log in by GSSAPI; ``KAFKALITE_TEST_BROKER=kafka`` runs it against Apache Kafka 3.9.1."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from integration.conftest import AGAINST_KAFKA, TEST_OVERRIDES, launcher
from integration.harness.clients import fresh_topic
from integration.harness.java import KAFKA_3_9, run_tool
from integration.harness.kdc import REALM, REQUIRED, Kdc, missing
from integration.harness.logins import grant
from integration.security.sasl_cluster import LISTENER, SaslCluster
from kafkalite.broker.kerberos_logins import KerberosLogin
from kafkalite.broker.kerberos_settings import KerberosSettings
from kafkalite.common.authentication import SaslError
from kafkalite.common.errors import ErrorCode, StartupError
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.security.gssapi_exchange import GSSAPI, GssapiSaslClient
from kafkalite.spark.client.cluster import ClusterConnections
from kafkalite.spark.client.config import ClientConfig, SaslConfig
from kafkalite.spark.client.errors import KafkaClientError

TIMEOUT = 60.0
MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
BROKER, ALICE, BOB, OTHER = "kafka/localhost", "svc-alice", "bob/localhost", "other/localhost"
FAILED = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {GSSAPI}"


def jaas(keytab: Path, principal: str) -> str:
    return f'{MODULE} keyTab="{keytab}" principal="{principal}@{REALM}";'


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """A realm, in the environment of all processes of these tests."""
    lacking = missing()
    if lacking:
        (pytest.fail if REQUIRED else pytest.skip)(f"Kerberos cannot be tested without {lacking}")
    with Kdc(tmp_path_factory.mktemp("kerberos") / "kdc") as made, pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment.items():
            patch.setenv(name, value)
        yield made


@pytest.fixture(scope="module")
def secured(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslCluster]:
    """Two brokers that log in to one another by GSSAPI."""
    clusters: list[LocalCluster] = []

    def make(brokers: int, overrides: dict[str, str], **_: object) -> LocalCluster:
        directory = tmp_path_factory.mktemp("gssapi") / "cluster"
        clusters.append(
            LocalCluster(directory, brokers, overrides={**TEST_OVERRIDES, **overrides}, launcher=launcher())
        )
        return clusters[0]

    prefix = f"listener.name.{LISTENER.lower()}"
    settings = {
        "sasl.enabled.mechanisms": GSSAPI,
        "sasl.mechanism.inter.broker.protocol": GSSAPI,
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1](svc-.*)s/svc-(.*)/$1/,RULE:[2:$1](kafka)",
        f"{prefix}.gssapi.sasl.jaas.config": jaas(kdc.keytab(BROKER), BROKER),
        f"{prefix}.gssapi.connections.max.reauth.ms": "3000",
        "inter.broker.listener.name": LISTENER,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        # A broker that has another name may neither replicate nor take part in the cluster.
        "super.users": "User:kafka;User:ANONYMOUS",
        "min.insync.replicas": "2",
    }
    try:
        yield SaslCluster(make, settings, 2, host="localhost").start()
    finally:
        for cluster in clusters:
            cluster.close()


@pytest.fixture(scope="module")
def keytab(kdc: Kdc) -> Path:
    """The keys of alice, of bob, whose name no rule has, and of a service that is no broker's."""
    return kdc.keytab(ALICE, BOB, OTHER)


def properties(path: Path, keytab: Path) -> Path:
    """A file of client properties of alice."""
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
        f"sasl.jaas.config={jaas(keytab, ALICE)}\n"
    )
    return path


@pytest.fixture
def topic(secured: SaslCluster) -> str:
    """A topic that alice may write."""
    name = fresh_topic("kerberos")
    admin = AdminClient({"bootstrap.servers": secured.cluster.bootstrap})
    admin.create_topics([NewTopic(name, 1, 2)])[name].result(TIMEOUT)
    return name


def test_a_java_client_stays_logged_in_with_its_keytab(
    secured: SaslCluster, keytab: Path, topic: str, tmp_path: Path
) -> None:
    """Its session and those of the followers end meanwhile; every record needs both brokers."""
    admin = {"bootstrap.servers": secured.cluster.bootstrap}
    grant(admin, "alice", (ResourceType.TOPIC, topic, AclOperation.WRITE))
    config = str(properties(tmp_path / "client.properties", keytab))
    where = ("--bootstrap-server", secured.bootstrap, "--producer.config", config, "--acks", "-1")
    tool = "org.apache.kafka.tools.VerifiableProducer"
    said = run_tool(KAFKA_3_9, tool, *where, "--topic", topic, "--max-messages", "50", "--throughput", "10")
    assert '"acked":50' in said.out


def test_kafka_python_logs_in_by_a_ticket_and_writes_only_what_its_acl_allows(
    secured: SaslCluster, keytab: Path, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant({"bootstrap.servers": secured.cluster.bootstrap}, "alice", (ResourceType.TOPIC, topic, AclOperation.WRITE))
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(keytab))
    monkeypatch.setenv("KRB5CCNAME", "MEMORY:kafka-python")
    producer = KafkaProducer(
        bootstrap_servers=secured.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="GSSAPI",
        sasl_kerberos_service_name="kafka",
        max_block_ms=10000,
    )
    try:
        assert producer.send(topic, b"kafka-python").get(TIMEOUT).offset == 0
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send("secret", b"kafka-python").get(TIMEOUT)
    finally:
        producer.close()


def ticket_of(keytab: Path, principal: str, service: str = "kafka") -> GssapiSaslClient:
    return KerberosLogin(KerberosSettings(str(keytab), f"{principal}@{REALM}", service)).client("localhost")


def login(secured: SaslCluster, keytab: Path, principal: str, service: str = "kafka") -> tuple[int, str | None]:
    """The outcome of an exchange in SaslAuthenticate requests."""
    exchange = ticket_of(keytab, principal, service)
    with secured.connect() as connection:
        assert connection.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism=GSSAPI).error_code == ErrorCode.NONE
        token = exchange.evaluate(None)
        while token is not None:
            answer = connection.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
            if answer.error_code:
                return answer.error_code, answer.error_message
            token = exchange.evaluate(bytes(answer.auth_bytes))
        assert connection.ask(ApiKey.METADATA, 1, topics=[]).brokers
    return ErrorCode.NONE, None


def test_only_tickets_for_the_broker_of_users_with_a_name_are_taken(
    secured: SaslCluster, keytab: Path, kdc: Kdc
) -> None:
    refused = ErrorCode.SASL_AUTHENTICATION_FAILED, FAILED
    assert login(secured, keytab, ALICE) == (ErrorCode.NONE, None)
    assert login(secured, keytab, ALICE, "other") == refused
    if AGAINST_KAFKA:
        # Kafka finds out that there is no name when it carries out the first request, and closes the connection.
        with pytest.raises(ConnectionError):
            login(secured, keytab, BOB)
    else:
        assert login(secured, keytab, BOB) == refused
    # The keys in the keytab of alice are no longer those of the realm, so that there are no tickets for it.
    kdc.change_keys(OTHER)
    with pytest.raises(SaslError):
        login(secured, keytab, OTHER)


@pytest.mark.parametrize("junk", [b"", b"junk", b"\x60\x03abc", b"\x60\x82\xff\xff" + b"x" * 1000])
def test_what_is_no_token_is_refused(secured: SaslCluster, junk: bytes) -> None:
    with secured.connect() as connection:
        assert connection.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism=GSSAPI).error_code == ErrorCode.NONE
        answer = connection.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=junk)
        assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, FAILED)


def test_a_client_of_kafka_0_9_begins_with_its_token(secured: SaslCluster, keytab: Path) -> None:
    exchange = ticket_of(keytab, ALICE)
    with secured.connect() as connection:
        challenge: bytes | None = None
        for has_answer in (True, True, False):
            token = exchange.evaluate(challenge)
            assert token is not None
            connection.socket.sendall(struct.pack(">i", len(token)) + token)
            challenge = bytes(connection.receive_frame()) if has_answer else None
        assert connection.ask(ApiKey.METADATA, 1, topics=[]).brokers


def test_our_command_line_logs_in_with_a_keytab(secured: SaslCluster, keytab: Path, topic: str, tmp_path: Path) -> None:
    grant({"bootstrap.servers": secured.cluster.bootstrap}, "alice", (ResourceType.TOPIC, topic, AclOperation.WRITE))
    config = properties(tmp_path / "client.properties", keytab)
    command = ["topics", "--list", "--bootstrap-server", secured.bootstrap, "--command-config", str(config)]
    done = subprocess.run(
        [sys.executable, "-m", "kafkalite.cli.main", *command], capture_output=True, text=True, timeout=120, check=False
    )
    assert topic in done.stdout.split(), done.stderr


def test_the_spark_sources_client_logs_in_with_a_keytab(
    secured: SaslCluster, keytab: Path, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant({"bootstrap.servers": secured.cluster.bootstrap}, "alice", (ResourceType.TOPIC, topic, AclOperation.READ))
    monkeypatch.setenv("KRB5CCNAME", "set by the client, and back afterwards")
    config = ClientConfig.from_kafka(
        {
            "bootstrap.servers": secured.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": jaas(keytab, ALICE),
        }
    )
    with ClusterConnections(config) as connections:
        assert list(connections.topics([topic])) == [topic]
    wrong = replace(config, sasl=SaslConfig(GSSAPI, service="other", keytab=str(keytab), principal=f"{ALICE}@{REALM}"))
    with pytest.raises(KafkaClientError), ClusterConnections(wrong) as connections:
        connections.topics([topic])


@pytest.mark.parametrize(
    ("path", "principal", "reason"),
    [
        ("/nowhere", BROKER, "Key table file '/nowhere' not found"),
        (None, "kafka/elsewhere", f"No key table entry found for kafka/elsewhere@{REALM}"),
        (None, OTHER, "."),
    ],
)
def test_a_broker_without_a_ticket_is_told_why_in_one_line(
    kdc: Kdc, keytab: Path, path: str | None, principal: str, reason: str
) -> None:
    kdc.change_keys(OTHER)
    settings = KerberosSettings(path or str(keytab), f"{principal}@{REALM}", "kafka")
    said = rf"^SASL mechanism GSSAPI: no login as {principal}@{REALM} with the keytab .*{reason}"
    with pytest.raises(StartupError, match=said):
        KerberosLogin(settings).start()
