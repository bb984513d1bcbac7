"""The Spark connector's client with TLS and SASL, against real Kafka, because kafkalite has no such listeners."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from integration.conftest import TEST_OVERRIDES
from integration.harness.java import KAFKA_3_9, kafka_launcher, run_tool
from integration.harness.raw import batch
from kafkalite.common.types import TopicPartition
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.processes import free_ports
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.produce import ProduceRequest, encode_produce
from kafkalite.spark.client.cluster import ClusterConnections
from kafkalite.spark.client.config import ClientConfig
from kafkalite.spark.client.errors import AuthenticationError, KafkaClientError
from kafkalite.spark.client.fetch import LATEST, fetch_range, list_offsets
from kafkalite.spark.exactly_once import commit, write_attempt
from kafkalite.spark.offsets import OffsetRange
from kafkalite.spark.options import SourceOptions
from kafkalite.spark.reading import read_range
from kafkalite.spark.row_writer import write_at_least_once
from kafkalite.spark.sink_options import SinkOptions

TOPIC = TopicPartition("secret", 0)
WRITTEN = TopicPartition("written", 0)
PASSWORD = "changeit"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PROTOCOLS = {"TLS": "SSL", "PLAIN": "SASL_SSL", "SCRAM": "SASL_PLAINTEXT"}
"""Listener → security protocol."""
SIZES = {10: 500, 5000: 100}
"""Bytes of a record → number of such records."""
COUNT = sum(SIZES.values())


class Secure(NamedTuple):
    """A broker with a listener for each protocol, and the files of its certificates."""

    cluster: LocalCluster
    ports: Mapping[str, int]
    folder: Path

    def settings(self, listener: str) -> dict[str, str]:
        """Settings of a client of ``listener``."""
        return {
            "bootstrap.servers": f"localhost:{self.ports[listener]}",
            "security.protocol": PROTOCOLS[listener],
            "ssl.truststore.location": str(self.folder / "ca.pem"),
            "ssl.keystore.location": str(self.folder / "client.pem"),
            "sasl.mechanism": "PLAIN" if listener == "PLAIN" else "SCRAM-SHA-512",
            "sasl.jaas.config": f'{SCRAM} required username="alice" password="alice-secret";',
            "default.api.timeout.ms": "5000",
        }

    def config(self, listener: str, **more: str) -> ClientConfig:
        """The right configuration for ``listener``, changed by ``more``."""
        settings = self.settings(listener)
        return ClientConfig.from_kafka(settings | {name.replace("_", "."): value for name, value in more.items()})


def certificates(folder: Path) -> None:
    """Make a CA and its certificates for the broker (a Java key store) and for a client (PEM)."""
    run = [
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ca",
        "openssl req -newkey rsa:2048 -nodes -keyout broker.key -out broker.csr -subj /CN=localhost",
        "openssl x509 -req -in broker.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out broker.crt -days 2 "
        "-extfile names",
        f"openssl pkcs12 -export -in broker.crt -inkey broker.key -out broker.p12 -passout pass:{PASSWORD}",
        "openssl req -newkey rsa:2048 -nodes -keyout client.key -out client.csr -subj /CN=client",
        "openssl x509 -req -in client.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out client.crt -days 2",
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout other.key -out other.pem -days 2 -subj /CN=other",
        f"keytool -importcert -noprompt -file ca.pem -keystore trust.p12 -storetype PKCS12 -storepass {PASSWORD}",
    ]
    (folder / "names").write_text("subjectAltName=DNS:localhost\n")
    for command in run:
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    (folder / "client.pem").write_text((folder / "client.key").read_text() + (folder / "client.crt").read_text())


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    """Kafka with listeners for TLS (with required client certificates), SASL PLAIN over TLS, and SCRAM without TLS."""
    folder = tmp_path_factory.mktemp("secure")
    certificates(folder)
    ports = dict(zip(("TLS", "PLAIN", "SCRAM"), free_ports(3), strict=True))
    cluster = LocalCluster(folder / "cluster", 1, launcher=kafka_launcher(), overrides={**TEST_OVERRIDES})
    cluster.start_zookeeper()
    every = [f"PLAINTEXT://{cluster.address(1)}"]
    every += [f"{name}://localhost:{port}" for name, port in ports.items()]
    names = {"PLAINTEXT": "PLAINTEXT", **PROTOCOLS}
    overrides = {
        "listeners": ",".join(every),
        "advertised.listeners": ",".join(every),
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in names.items()),
        "ssl.keystore.location": str(folder / "broker.p12"),
        "ssl.keystore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "ssl.truststore.location": str(folder / "trust.p12"),
        "ssl.truststore.password": PASSWORD,
        "ssl.truststore.type": "PKCS12",
        "listener.name.tls.ssl.client.auth": "required",
        "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plain.plain.sasl.jaas.config": f'{PLAIN} required user_alice="alice-secret";',
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.scram.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.scram.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
    }
    scrams = ",".join(f"{name}=[password=alice-secret]" for name in ("SCRAM-SHA-256", "SCRAM-SHA-512"))
    user = ["--entity-type", "users", "--entity-name", "alice", "--alter", "--add-config", scrams]
    try:
        run_tool(KAFKA_3_9, "kafka.admin.ConfigCommand", "--zookeeper", cluster.zookeeper, *user)
        cluster.start_broker(1, overrides)
        fill(cluster)
        yield Secure(cluster, ports, folder)
    finally:
        cluster.close()


def fill(cluster: LocalCluster) -> None:
    """Create a topic with small and large records, and an empty topic."""
    with ClusterConnections(ClientConfig.from_kafka({"bootstrap.servers": cluster.bootstrap})) as client:
        kind = messages.CreateTopicsRequest.CreatableTopic
        wanted = [
            kind(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
            for name in (TOPIC.topic, WRITTEN.topic)
        ]
        fields = {"topics": wanted, "timeout_ms": 10_000, "validate_only": False}
        client.retry("CreateTopics", lambda: client.any_connection().ask(ApiKey.CREATE_TOPICS, fields, 4))
        leader = client.retry("leader", lambda: client.leader_connection(TOPIC))
        version = leader.version(ApiKey.PRODUCE, 8)
        for size, count in SIZES.items():
            request = ProduceRequest(None, -1, 10_000, [(TOPIC, memoryview(batch(count, size=size)))])
            leader.send(ApiKey.PRODUCE, version, b"".join(encode_produce(version, request)))


def read(config: ClientConfig) -> int:
    """Read the topic; returns the number of records by their batches."""
    with ClusterConnections(config) as client:
        end = list_offsets(client, {TOPIC: LATEST})[TOPIC]
        found = fetch_range(client, TOPIC, 0, end, 10_000)
        return sum(header.record_count for item in found for _, header in item.batches)


@pytest.mark.parametrize("listener", ["TLS", "PLAIN", "SCRAM"])
def test_all_records_are_read_by_each_listener(secure: Secure, listener: str) -> None:
    assert read(secure.config(listener)) == COUNT


@pytest.mark.parametrize("listener", ["TLS", "PLAIN", "SCRAM"])
def test_records_are_written_by_each_listener(secure: Secure, listener: str) -> None:
    """At least once, and in a transaction, whose requests go to all brokers and coordinators."""
    kafka = {f"kafka.{name}": value for name, value in secure.settings(listener).items()}
    sink = SinkOptions.parse({**kafka, "topic": WRITTEN.topic})
    small, large = (f"{listener} {number}".encode() for number in range(2))
    rows = [pa.record_batch({"value": [text.ljust(size)]}) for text, size in ((small, 10), (large, 300_000))]
    write_at_least_once(sink, iter(rows[:1]))
    attempt = write_attempt(sink, f"query-{listener}", 0, "ab", iter(rows[1:]))
    assert values(secure, listener)[-1].strip() == small, "not decided"
    commit(sink, [attempt])
    assert [value.strip() for value in values(secure, listener)[-2:]] == [small, large]


def values(secure: Secure, listener: str) -> list[bytes]:
    """The committed values."""
    kafka = {f"kafka.{name}": value for name, value in secure.settings(listener).items()}
    source = {**kafka, "kafka.isolation.level": "read_committed", "subscribe": WRITTEN.topic}
    options = SourceOptions.parse(source, streaming=False)
    with ClusterConnections(options.client) as client:
        end = list_offsets(client, {WRITTEN: LATEST})[WRITTEN]
    return [
        value
        for batch in read_range(options, OffsetRange(WRITTEN, 0, end))
        for value in batch.column("value").to_pylist()
    ]


def test_scram_sha_256_works(secure: Secure) -> None:
    assert read(secure.config("SCRAM", sasl_mechanism="SCRAM-SHA-256")) == COUNT


def test_certificates_may_be_given_as_text(secure: Secure) -> None:
    config = secure.config(
        "TLS",
        ssl_truststore_location="",
        ssl_keystore_location="",
        ssl_truststore_certificates=(secure.folder / "ca.pem").read_text(),
        ssl_keystore_key=(secure.folder / "client.key").read_text(),
        ssl_keystore_certificate_chain=(secure.folder / "client.crt").read_text(),
    )
    assert read(config) == COUNT


@pytest.mark.parametrize(
    ("listener", "more", "message"),
    [
        ("PLAIN", {"sasl_jaas_config": f'{PLAIN} required username="alice" password="x";'}, "Authentication failed"),
        ("SCRAM", {"sasl_jaas_config": f'{SCRAM} required username="bob" password="x";'}, "Authentication failed"),
        ("PLAIN", {"sasl_mechanism": "SCRAM-SHA-512"}, "refuses SCRAM-SHA-512: it has PLAIN"),
        ("TLS", {"ssl_truststore_location": "FOLDER/other.pem"}, "certificate of localhost is not trusted"),
        ("TLS", {"ssl_truststore_location": "FOLDER/trust.p12"}, "PEM files are read, not JKS or PKCS12"),
        ("TLS", {"ssl_truststore_location": "FOLDER/none.pem"}, "none.pem: .*No such file"),
    ],
)
def test_wrong_security_settings_fail_at_once(
    secure: Secure, listener: str, more: dict[str, str], message: str
) -> None:
    given = {name: value.replace("FOLDER", str(secure.folder)) for name, value in more.items()}
    with pytest.raises(AuthenticationError, match=message):
        read(secure.config(listener, **given))


def test_a_wrong_protocol_fails_within_the_timeout(secure: Secure) -> None:
    short = {"request_timeout_ms": "1000", "default_api_timeout_ms": "1500"}
    config = secure.config("TLS", security_protocol="PLAINTEXT", **short)
    with pytest.raises(KafkaClientError, match="no broker of localhost:"):
        read(config)
    with pytest.raises(KafkaClientError, match="no broker of localhost:"):
        read(secure.config("TLS", ssl_keystore_location="", **short))
