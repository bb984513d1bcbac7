"""TLS as clients and brokers see it: stores of every kind, certificates of clients, brokers among themselves."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer

from integration.blocks import blocks_of
from integration.conftest import ClusterFactory
from integration.harness.java import KAFKA_3_9, run_tool
from integration.harness.tree import Tree
from integration.harness.wait import wait_for
from integration.security.stores import PASSWORD, Stores, add_listeners
from kafkalite.broker.properties import parse_properties
from kafkalite.common.errors import StartupError
from kafkalite.embedded.cluster import LocalCluster

KINDS = ("PEM", "INLINE", "PKCS12", "JKS")
TIMEOUT = 60.0


class SecureCluster:
    """A cluster whose brokers have the listeners ``names`` of protocol SSL beside PLAINTEXT."""

    def __init__(
        self,
        make_cluster: ClusterFactory,
        names: tuple[str, ...],
        settings: Mapping[str, str],
        brokers: int = 1,
    ) -> None:
        self.cluster: LocalCluster = make_cluster(brokers, settings, start=False)
        self._ports = add_listeners(self.cluster, names)
        self.cluster.start()

    def port(self, name: str, broker_id: int = 1) -> int:
        """The port of a listener."""
        return self._ports[broker_id, name]

    def bootstrap(self, name: str) -> str:
        """``host:port`` of the listener of every broker."""
        return ",".join(f"127.0.0.1:{self.port(name, broker_id)}" for broker_id in self.cluster.broker_ids)


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    """An authority, a certificate ``broker`` and one of a client, ``alice``."""
    stores = Stores(tmp_path / "stores")
    stores.issue("broker")
    stores.issue("alice", "alice@example.org", common_name="alice")
    return stores


def librdkafka(bootstrap: str, stores: Stores, name: str | None = None) -> dict[str, object]:
    """librdkafka's settings of a client that trusts the authority, and has the certificate ``name``."""
    settings: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(stores.path("ca.pem")),
        "log_level": 0,
    }
    if name is not None:
        settings |= {"ssl.certificate.location": str(stores.path(f"{name}.pem"))}
        settings |= {"ssl.key.location": str(stores.path(f"{name}.pem"))}
    return settings


def create_topic(cluster: LocalCluster, topic: str, replicas: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_topics([NewTopic(topic, 1, replicas)]).values():
        future.result(TIMEOUT)


def produce(settings: Mapping[str, object], topic: str, values: list[bytes]) -> None:
    errors: list[object] = []
    producer = Producer({**settings, "message.timeout.ms": 50_000, "linger.ms": 5})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error) if error else None)
    assert producer.flush(TIMEOUT) == 0
    assert errors == []


def consume(settings: Mapping[str, object], topic: str, count: int) -> list[bytes]:
    consumer = Consumer({**settings, "group.id": "none", "enable.auto.commit": False})
    values: list[bytes] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + TIMEOUT
        while len(values) < count and time.monotonic() < deadline:
            values += [record.value() or b"" for record in consumer.consume(count, 1.0) if not record.error()]
    finally:
        consumer.close()
    return values


def is_reached(settings: Mapping[str, object]) -> bool:
    """Whether a client with these settings gets an answer, rather than an error."""
    errors: list[object] = []
    client = AdminClient({**settings, "error_cb": errors.append})
    deadline = time.monotonic() + TIMEOUT
    while not errors and time.monotonic() < deadline:
        try:
            return bool(client.list_topics(timeout=0.5).brokers)
        except KafkaException:
            client.poll(0)
    return False


def handshake(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    """A connection with the handshake done."""
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), TIMEOUT), server_hostname="127.0.0.1")


def context(stores: Stores, version: ssl.TLSVersion | None = None, name: str | None = None) -> ssl.SSLContext:
    """A client's context of Python's own."""
    found = ssl.create_default_context(cafile=str(stores.path("ca.pem")))
    if version is not None:
        found.minimum_version = found.maximum_version = version
    if name is not None:
        found.load_cert_chain(stores.path(f"{name}.pem"))
    return found


def client_properties(path: Path, settings: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


@pytest.mark.full
def test_stores_of_every_kind_serve_librdkafka_and_java(make_cluster: ClusterFactory, stores: Stores) -> None:
    for kind in ("PKCS12", "JKS"):
        stores.java_store("broker", kind)
        stores.java_trust_store(kind)
    settings = {"ssl.client.auth": "none"}
    for kind in KINDS:
        settings |= stores.properties("broker", kind, f"listener.name.{kind.lower()}.")
    secure = SecureCluster(make_cluster, KINDS, settings)
    create_topic(secure.cluster, "stores")
    values = [f"{i:06}".encode() * 100 for i in range(3000)]
    for count, kind in enumerate(KINDS):
        client = librdkafka(secure.bootstrap(kind), stores)
        produce(client, "stores", values)
        assert consume(client, "stores", len(values) * (count + 1))[-len(values) :] == values
    for kind in ("JKS", "PKCS12"):
        store = {f"ssl.truststore.{key}": value for key, value in (("type", kind), ("password", PASSWORD))}
        store["ssl.truststore.location"] = stores.properties("broker", kind)["ssl.truststore.location"]
        path = client_properties(stores.path(f"{kind}.properties"), {"security.protocol": "SSL", **store})
        producing = ("--bootstrap-server", secure.bootstrap(kind), "--topic", "stores", "--max-messages", "500")
        done = run_tool(
            KAFKA_3_9, "org.apache.kafka.tools.VerifiableProducer", *producing, "--producer.config", str(path)
        )
        assert '"acked":500' in done.out, done
        reading = ("--bootstrap-server", secure.bootstrap("PEM"), "--topic", "stores", "--from-beginning")
        count = len(values) * len(KINDS) + 500
        done = run_tool(
            KAFKA_3_9,
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *reading,
            *("--max-messages", str(count), "--timeout-ms", "60000", "--consumer.config", str(path)),
        )
        assert len(done.lines()) == count, done


def test_certificates_of_clients_are_demanded_or_asked_for(
    make_cluster: ClusterFactory, stores: Stores, tmp_path: Path
) -> None:
    settings = stores.properties("broker", "PEM") | {
        "listener.name.required.ssl.client.auth": "required",
        "listener.name.requested.ssl.client.auth": "requested",
    }
    secure = SecureCluster(make_cluster, ("REQUIRED", "REQUESTED", "NONE"), settings)
    stranger = Stores(tmp_path / "stranger")
    stranger.issue("mallory", "mallory@example.org")
    stores.path("mallory.pem").write_bytes(stranger.path("mallory.pem").read_bytes())
    reached = {
        (listener, name): is_reached(librdkafka(secure.bootstrap(listener), stores, name))
        for listener in ("REQUIRED", "REQUESTED", "NONE")
        for name in (None, "alice", "mallory")
        # Only Java's servers tell their authorities, so that librdkafka leaves out a certificate of another one.
        if (listener, name) != ("REQUESTED", "mallory")
    }
    assert reached == {
        ("REQUIRED", None): False,
        ("REQUIRED", "alice"): True,
        ("REQUIRED", "mallory"): False,
        ("REQUESTED", None): True,
        ("REQUESTED", "alice"): True,
        ("NONE", None): True,
        ("NONE", "alice"): True,
        ("NONE", "mallory"): True,
    }
    assert not is_reached(librdkafka(secure.bootstrap("NONE"), stranger))


@pytest.mark.full
def test_kafka_python_and_aiokafka_show_their_certificates(make_cluster: ClusterFactory, stores: Stores) -> None:
    settings = stores.properties("broker", "PEM") | {"ssl.client.auth": "required"}
    secure = SecureCluster(make_cluster, ("SSL",), settings)
    create_topic(secure.cluster, "python")
    values = [f"{i:06}".encode() * 100 for i in range(500)]
    tls = context(stores, name="alice")
    python = {"bootstrap_servers": secure.bootstrap("SSL"), "security_protocol": "SSL", "ssl_context": tls}
    producer = KafkaProducer(**python)
    for value in values:
        producer.send("python", value)
    producer.flush(TIMEOUT)
    producer.close()
    consumer = KafkaConsumer("python", auto_offset_reset="earliest", consumer_timeout_ms=60000, **python)
    assert [record.value for _, record in zip(values, consumer, strict=False)] == values
    consumer.close()

    async def both() -> list[bytes | None]:
        producer = AIOKafkaProducer(**python)
        await producer.start()
        for value in values:
            await producer.send("python", value)
        await producer.stop()
        consumer = AIOKafkaConsumer("python", auto_offset_reset="earliest", **python)
        await consumer.start()
        found = [(await consumer.getone()).value for _ in range(2 * len(values))]
        await consumer.stop()
        return found

    assert asyncio.run(asyncio.wait_for(both(), TIMEOUT)) == values + values


def test_versions_and_ciphers_are_those_of_the_listener(make_cluster: ClusterFactory, stores: Stores) -> None:
    settings = stores.properties("broker", "PEM") | {
        "listener.name.old.ssl.enabled.protocols": "TLSv1.2",
        "listener.name.old.ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,"
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "listener.name.new.ssl.enabled.protocols": "TLSv1.3",
    }
    secure = SecureCluster(make_cluster, ("OLD", "NEW", "BOTH"), settings)
    agreed = {}
    for listener in ("OLD", "NEW", "BOTH"):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            try:
                with handshake(secure.port(listener), context(stores, version)) as sock:
                    agreed[listener, version.name] = sock.version()
                    if listener == "OLD":
                        assert str((sock.cipher() or ("",))[0]).endswith("-AES128-GCM-SHA256")
            except (ssl.SSLError, ConnectionError):
                agreed[listener, version.name] = None
    assert agreed == {
        ("OLD", "TLSv1_2"): "TLSv1.2",
        ("OLD", "TLSv1_3"): None,
        ("NEW", "TLSv1_2"): None,
        ("NEW", "TLSv1_3"): "TLSv1.3",
        ("BOTH", "TLSv1_2"): "TLSv1.2",
        ("BOTH", "TLSv1_3"): "TLSv1.3",
    }


def test_brokers_replicate_over_tls_and_survive_a_kill(make_cluster: ClusterFactory, stores: Stores) -> None:
    settings = stores.properties("broker", "PEM") | {
        "inter.broker.listener.name": "SSL",
        "ssl.client.auth": "required",
        "min.insync.replicas": "2",
    }
    secure = SecureCluster(make_cluster, ("SSL",), settings, brokers=3)
    create_topic(secure.cluster, "replicated", replicas=3)
    client = librdkafka(secure.bootstrap("SSL"), stores, "alice") | {"acks": "all"}
    values = [f"{i:06}".encode() * 100 for i in range(3000)]
    produce(client, "replicated", values)
    secure.cluster.kill_broker(2)
    produce(client, "replicated", values)
    secure.cluster.start_broker(2)
    admin = AdminClient({"bootstrap.servers": secure.cluster.bootstrap})

    def in_sync() -> bool:
        return len(admin.list_topics("replicated", 5).topics["replicated"].partitions[0].isrs) == 3

    wait_for(in_sync, "broker 2 is in sync again", TIMEOUT)
    assert consume(client, "replicated", 6000) == values + values


def test_clients_that_stall_in_a_handshake_cost_no_other_client_anything(
    make_cluster: ClusterFactory, stores: Stores
) -> None:
    secure = SecureCluster(make_cluster, ("SSL",), stores.properties("broker", "PEM"))
    outgoing = ssl.MemoryBIO()
    stalled = context(stores).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        stalled.do_handshake()
    hello = outgoing.read()
    request = bytes.fromhex("0000000e00120000000000010004") + b"test"
    healthy = handshake(secure.port("SSL"), context(stores))

    def times(count: int) -> list[float]:
        found = []
        for _ in range(count):
            began = time.monotonic()
            healthy.sendall(request)
            while len(healthy.recv(65536)) < 4:
                pass
            found.append(time.monotonic() - began)
        return found

    alone = statistics.median(times(200))
    others = []
    for index in range(200):
        other = socket.create_connection(("127.0.0.1", secure.port("SSL")), TIMEOUT)
        other.sendall(hello[: len(hello) if index % 2 else index])
        others.append(other)
    during = times(200)
    # Not the longest, because a busy machine stalls for longer than a broker that waits in a handshake.
    print(f"median {1000 * alone:.2f} ms alone, {1000 * statistics.median(during):.2f} ms beside stalled handshakes")
    assert statistics.median(during) < max(0.5, 3 * alone)
    assert is_reached(librdkafka(secure.bootstrap("SSL"), stores))
    for other in others:
        other.close()
    healthy.close()


def serials(port: int, stores: Stores) -> set[str]:
    """The serial numbers of the certificates that new connections see: of several, because Kafka has many threads."""
    found = set()
    for _ in range(8):
        with handshake(port, context(stores)) as sock:
            found.add(str((sock.getpeercert() or {})["serialNumber"]))
    return found


def alter_broker(cluster: LocalCluster, settings: Mapping[str, str]) -> str:
    """Kafka's own tool changes the configuration of broker 1; what it says."""
    done = run_tool(
        KAFKA_3_9,
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", cluster.bootstrap, "--entity-type", "brokers", "--entity-name", "1", "--alter"),
        *("--add-config", ",".join(f"{name}={value}" for name, value in settings.items())),
        check=False,
    )
    return done.out + done.err


def test_certificates_are_replaced_while_the_broker_runs(make_cluster: ClusterFactory, stores: Stores) -> None:
    secure = SecureCluster(make_cluster, ("SSL",), stores.properties("broker", "PEM", "listener.name.ssl."))
    port, location = secure.port("SSL"), "listener.name.ssl.ssl.keystore.location"
    create_topic(secure.cluster, "rotated")
    old_connection = Producer(librdkafka(secure.bootstrap("SSL"), stores))
    assert old_connection.list_topics("rotated", 10).topics
    before = serials(port, stores)

    # Another file: new connections see its certificate.
    stores.issue("second")
    assert "Completed updating config" in alter_broker(secure.cluster, {location: str(stores.path("second.pem"))})
    wait_for(lambda: serials(port, stores).isdisjoint(before), "the second certificate")
    after = serials(port, stores)

    # The same file, which is newer now: it is read again.
    stores.issue("second")
    assert serials(port, stores) == after
    assert "Completed updating config" in alter_broker(secure.cluster, {location: str(stores.path("second.pem"))})
    wait_for(lambda: serials(port, stores).isdisjoint(before | after), "the certificate of the newer file")
    last = serials(port, stores)

    # Another subject, a name less, no store at all: refused, and nothing changes.
    stores.issue("other", common_name="another broker")
    assert "DistinguishedName does not match" in alter_broker(secure.cluster, {location: str(stores.path("other.pem"))})
    stores.issue("narrow", "localhost")
    assert "SubjectAltNames do not match" in alter_broker(secure.cluster, {location: str(stores.path("narrow.pem"))})
    refused = alter_broker(secure.cluster, {location: str(stores.path("missing.pem"))})
    assert "Completed updating config" not in refused
    assert serials(port, stores) == last

    # A connection from before is still served.
    assert old_connection.list_topics("rotated", 10).topics


ODD_NAMES = {
    # Attributes of the subject, as x509 writes them → the name of the principal as Java writes it.
    "plain": ([("CN", "alice"), ("OU", "people"), ("O", "Example"), ("C", "DE")], "C=DE,O=Example,OU=people,CN=alice"),
    "comma": ([("CN", "Smith, John")], "CN=Smith\\, John"),
    "blanks": ([("CN", " two  blanks")], "CN=\\ two  blanks"),
    "signs": ([("CN", 'a+b"c<d>e=g\\h')], 'CN=a\\+b\\"c\\<d\\>e\\=g\\\\h'),
    "hash": ([("CN", "#1")], "CN=\\#1"),
    "umlaut": ([("CN", "Jürgen Ångström")], "CN=Jürgen Ångström"),
    "astral": ([("CN", "𝄞")], "CN=𝄞"),
    "mail": (
        [("CN", "bob"), ("1.2.840.113549.1.9.1", "bob@example.org")],
        "1.2.840.113549.1.9.1=#160f626f62406578616d706c652e6f7267,CN=bob",
    ),
    "domain": (
        [("DC", "org"), ("DC", "example"), ("UID", "bob")],
        "UID=bob,DC=example,DC=org",
    ),
    "serial": ([("2.5.4.5", "42"), ("CN", "bob")], "CN=bob,2.5.4.5=#13023432"),
    "street": (
        [("STREET", "Main 1"), ("L", "Town"), ("ST", "State"), ("CN", "x")],
        "CN=x,ST=State,L=Town,STREET=Main 1",
    ),
    "empty": ([("CN", "bob"), ("OU", "")], "OU=,CN=bob"),
}


def escaped(text: str) -> str:
    """As a value in a file of properties has it, which Java reads as Latin-1."""
    units = struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be"))
    return "".join(f"\\u{unit:04x}" if unit > 126 or chr(unit) == "\\" else chr(unit) for unit in units)


@pytest.mark.full
def test_principals_of_odd_certificates_are_those_of_kafka(make_cluster: ClusterFactory, stores: Stores) -> None:
    """Who may list a topic: only a super user, named as Java writes the subject of the certificate."""
    for name, (attributes, _) in ODD_NAMES.items():
        stores.issue_to(name, attributes)
    stores.issue_to("stranger", [("CN", "stranger")])
    settings = stores.properties("broker", "PEM") | {
        "ssl.client.auth": "required",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": escaped(";".join(["User:ANONYMOUS", *(f"User:{name}" for _, name in ODD_NAMES.values())])),
    }
    secure = SecureCluster(make_cluster, ("SSL",), settings)
    create_topic(secure.cluster, "seen")
    seen = {
        name: "seen"
        in AdminClient(librdkafka(secure.bootstrap("SSL"), stores, name)).list_topics(timeout=TIMEOUT).topics
        for name in [*ODD_NAMES, "stranger"]
    }
    assert seen == {**dict.fromkeys(ODD_NAMES, True), "stranger": False}


@pytest.mark.full
def test_passwords_of_stores_are_kept_encrypted(make_cluster: ClusterFactory, stores: Stores) -> None:
    stores.java_store("broker", "PKCS12")
    stores.java_trust_store("PKCS12")
    settings = stores.properties("broker", "PKCS12", "listener.name.ssl.") | {"password.encoder.secret": "hush"}
    secure = SecureCluster(make_cluster, ("SSL",), settings)
    before = serials(secure.port("SSL"), stores)
    stores.issue("second")
    path = stores.java_store("second", "PKCS12", "another-password")
    prefix = "listener.name.ssl.ssl.keystore"
    change = {f"{prefix}.location": str(path), f"{prefix}.password": "another-password"}
    assert "Completed updating config" in alter_broker(secure.cluster, change)
    wait_for(lambda: serials(secure.port("SSL"), stores).isdisjoint(before), "the second certificate")
    with Tree(secure.cluster.zookeeper) as tree:
        stored = tree.json("/config/brokers/1")["config"]
    assert stored[f"{prefix}.location"] == str(path)
    assert "cipherAlgorithm:AES/CBC/PKCS5Padding" in stored[f"{prefix}.password"]
    assert "another-password" not in str(stored)
    # The next start, too, needs only what ZooKeeper names.
    stores.path("broker.p12").unlink()
    secure.cluster.restart_broker(1)
    assert serials(secure.port("SSL"), stores).isdisjoint(before)


@pytest.mark.kafkalite_only
def test_a_wrong_password_ends_the_start_with_one_line(make_cluster: ClusterFactory, stores: Stores) -> None:
    stores.java_store("broker", "JKS")
    stores.java_trust_store("JKS")
    settings = stores.properties("broker", "JKS") | {"ssl.keystore.password": "a-guess"}
    cluster = make_cluster(1, settings, start=False)
    add_listeners(cluster, ("SSL",))
    with pytest.raises(StartupError, match="broker 1 ended at start"):
        cluster.start()
    lines = [line for line in cluster.log_file(1).read_text().splitlines() if "INFO" not in line]
    assert len(lines) == 1
    path = stores.path("broker.jks")
    assert f"Invalid value {path} for configuration ssl.keystore.location of listener SSL: its password is" in lines[0]
    assert "a-guess" not in lines[0]


@pytest.mark.full
def test_the_steps_of_the_document_lead_to_a_tls_listener(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    certificates, settings, client = (block.text for block in blocks_of("docs/security.md", __file__))
    directory = tmp_path / "stores"
    directory.mkdir()

    def shell(commands: str) -> str:
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-ec", commands],
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    shell(certificates)
    properties = parse_properties(settings.replace("/etc/kafka", str(directory)))
    assert properties.pop("listeners") == "SSL://localhost:9093"
    secure = SecureCluster(make_cluster, ("SSL",), properties)
    create_topic(secure.cluster, "first")
    (directory / "client.properties").write_text("security.protocol=SSL\nssl.ca.location=ca.pem\n")
    said = shell(client.replace("localhost:9093", f"localhost:{secure.port('SSL')}"))
    assert "Verify return code: 0 (ok)" in said
    assert "first" in said.splitlines()
