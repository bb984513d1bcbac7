"""Connections to a secured ZooKeeper, by TLS, SASL and digest: of brokers, guardians, watchdogs and tools."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import psutil
import pytest

from integration.conftest import TEST_OVERRIDES
from integration.harness.clients import fresh_topic
from integration.harness.commands import command
from integration.harness.java import KAFKA_3_9, run_tool
from integration.harness.wait import FailedError
from integration.security.test_zookeeper import committed, new_topic, produce, read_as
from kafkalite.broker.guardian_process import close_session
from kafkalite.broker.watchdog import Watchdog
from kafkalite.common.errors import StartupError
from kafkalite.consumer import ZooKeeperConsumer
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.security import ClusterSecurity
from kafkalite.embedded.zookeeper import EmbeddedZooKeeper
from kafkalite.testing.clock import ManualClock
from kafkalite.zk.blocking import BlockingLoop
from kafkalite.zk.kazoo_client import KazooZkClient
from kafkalite.zk.session_security import OPEN, ZkSecurity, ZkTls
from kafkalite.zk.zk_client import EventType, NotAuthorizedError, SessionState, WatchEvent
from kafkalite.zk.znode_acls import Acl

pytestmark = pytest.mark.kafkalite_only
SESSION_MS = 120_000
"""The session timeout of the brokers: none ends by it while a test waits."""
SASL_USER, SASL_PASSWORD = "kafka", "planted-sasl-secret"
ENFORCED = {
    "enforce.auth.enabled": "true",
    "enforce.auth.schemes": "sasl",
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> ClusterSecurity:
    """A CA that issues certificates to brokers, strangers and ZooKeeper."""
    return ClusterSecurity.create(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def tls_zookeeper(tmp_path_factory: pytest.TempPathFactory, authority: ClusterSecurity) -> Iterator[EmbeddedZooKeeper]:
    """Serves TLS alone, to clients with a certificate of the CA."""
    with EmbeddedZooKeeper(
        tmp_path_factory.mktemp("tls"), properties=authority.zookeeper_properties(), tls=authority.zookeeper_client()
    ) as server:
        yield server


@pytest.fixture(scope="module")
def sasl_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """Serves users who have logged in by SASL alone."""
    with EmbeddedZooKeeper(
        tmp_path_factory.mktemp("sasl"), properties=ENFORCED, logins={SASL_USER: SASL_PASSWORD}
    ) as server:
        yield server


def certified(authority: ClusterSecurity, name: str) -> ZkSecurity:
    """TLS with a certificate of the CA."""
    return ZkSecurity(ZkTls(authority.issue(name, name).read_bytes(), authority.ca_file.read_bytes()))


SASL = ZkSecurity(sasl=(SASL_USER, SASL_PASSWORD))


class Sessions:
    """Clients of ZooKeeper, closed at the end of a test."""

    def __init__(self, loop: BlockingLoop) -> None:
        self.loop = loop
        self._clients: list[KazooZkClient] = []

    def open(self, hosts: str, security: ZkSecurity, *, set_acl: bool = False, timeout_ms: int = 6000) -> KazooZkClient:
        client = KazooZkClient(
            self.loop.call_from_thread, hosts, timeout_ms, 10_000, security, set_acl, create_chroot=True
        )
        self.loop.run(client.start())
        self._clients.append(client)
        return client

    def assert_refused(self, hosts: str, security: ZkSecurity, why: str) -> None:
        """A client is not let in, and its error says ``why``."""
        said = ""
        # A client may be too impatient to see why, if the machine stalls.
        for patience_ms in (1500, 5000, 20_000):
            client = KazooZkClient(self.loop.call_from_thread, hosts, 2000, patience_ms, security)
            with pytest.raises(StartupError) as caught:
                self.loop.run(client.start())
            said = str(caught.value)
            if why in said:
                return
        raise AssertionError(said)

    def close(self) -> None:
        for client in self._clients:
            self.loop.run(client.close())


@pytest.fixture
def sessions(loop: BlockingLoop) -> Iterator[Sessions]:
    sessions = Sessions(loop)
    yield sessions
    sessions.close()


def tls_settings(authority: ClusterSecurity, name: str = "broker") -> dict[str, str]:
    """Properties of brokers that show a certificate to ZooKeeper."""
    return {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.keystore.location": str(authority.issue(name, name)),
        "zookeeper.ssl.truststore.location": str(authority.ca_file),
    }


def jaas_file(directory: Path) -> Path:
    """A JAAS file with which brokers and Kafka's tools log in."""
    file = directory / "client.jaas"
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    file.write_text(f'Client {{\n  {module} required username="{SASL_USER}" password="{SASL_PASSWORD}";\n}};\n')
    return file


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[Callable[[str, Mapping[str, str]], LocalCluster]]:
    clusters: list[LocalCluster] = []

    def start(zookeeper: str, overrides: Mapping[str, str]) -> LocalCluster:
        directory = tmp_path / f"cluster-{len(clusters)}"
        session = {"zookeeper.session.timeout.ms": str(SESSION_MS)}
        cluster = LocalCluster(directory, 2, overrides={**TEST_OVERRIDES, **session, **overrides}, zookeeper=zookeeper)
        clusters.append(cluster)
        cluster.start()
        return cluster

    yield start
    for cluster in clusters:
        cluster.close()


def works(cluster: LocalCluster) -> None:
    """Records are written and read, in a group and in a transaction."""
    topic, group = new_topic(cluster), fresh_topic("group")
    values = produce(cluster, topic, 5) + produce(cluster, topic, 5, **{"transactional.id": fresh_topic("txn")})
    assert sorted(set(read_as(cluster, group, topic, 10))) == sorted(set(values))
    assert committed(cluster, group, topic) >= 10


def wait_until_gone(sessions: Sessions, client: KazooZkClient, path: str, act: Callable[[], object]) -> None:
    """Wait after ``act`` until ``path`` does not exist, for a quarter of the timeout of the broker's session."""
    events: list[WatchEvent] = []
    assert sessions.loop.run(client.exists(path, events.append)) is not None
    started = time.monotonic()
    act()
    sessions.loop.wait(lambda: bool(events), SESSION_MS / 4000)
    assert events[0].type is EventType.DELETED
    print(f"gone after {time.monotonic() - started:.3f} s")


# TLS


@pytest.mark.full
def test_strangers_are_not_let_in_by_tls(
    tls_zookeeper: EmbeddedZooKeeper, authority: ClusterSecurity, sessions: Sessions, tmp_path: Path
) -> None:
    hosts = tls_zookeeper.connect_string
    ours, others = authority.ca_file.read_bytes(), ClusterSecurity.create(tmp_path)
    foreign = others.issue("broker", "broker").read_bytes()
    sessions.assert_refused(hosts, OPEN, "does its port serve TLS")
    sessions.assert_refused(hosts, ZkSecurity(ZkTls(b"", ours)), "does it trust the certificate")
    sessions.assert_refused(hosts, ZkSecurity(ZkTls(foreign, ours)), "does it trust the certificate")
    untrusted = ZkTls(foreign, others.ca_file.read_bytes())
    sessions.assert_refused(hosts, ZkSecurity(untrusted), "unable to get local issuer certificate")
    elsewhere = authority.issue("elsewhere", "elsewhere", ("elsewhere.example",))
    with EmbeddedZooKeeper(
        tmp_path / "elsewhere",
        properties={**authority.zookeeper_properties(), "ssl.keyStore.location": str(elsewhere)},
        tls=_unchecked(authority),
    ) as server:
        known = certified(authority, "broker")
        sessions.assert_refused(server.connect_string, known, "IP address mismatch")
        assert known.tls is not None
        unchecked = ZkTls(known.tls.key_store, known.tls.trust_store, checks_host_names=False)
        sessions.open(server.connect_string, ZkSecurity(unchecked))


def test_large_answers_and_bursts_come_whole_by_tls(
    tls_zookeeper: EmbeddedZooKeeper, authority: ClusterSecurity, sessions: Sessions
) -> None:
    """Decrypted bytes that wait in OpenSSL make no socket readable."""
    # A long session timeout, because the answer to a heartbeat would make the socket readable.
    client = sessions.open(tls_zookeeper.connect_string, certified(authority, "broker"), timeout_ms=60_000)
    data = bytes(range(256)) * 3500
    sessions.loop.run(client.create("/large", data))
    for _ in range(20):
        assert sessions.loop.run(client.get("/large"), 10)[0] == data
    burst = [client.set("/large", data[: 1000 + number]) for number in range(500)]
    for future in burst:
        sessions.loop.run(future, 10)
    burst_of_reads = [client.get("/large") for _ in range(500)]
    for read in burst_of_reads:
        assert sessions.loop.run(read, 10)[0] == data[:1499]


def test_a_cluster_runs_by_tls_and_its_certificate_owns_its_znodes(
    tls_zookeeper: EmbeddedZooKeeper,
    authority: ClusterSecurity,
    sessions: Sessions,
    start_cluster: Callable[[str, Mapping[str, str]], LocalCluster],
    tmp_path: Path,
) -> None:
    """Also: a killed broker's session ends long before its timeout, strangers with a certificate write nothing."""
    hosts = f"{tls_zookeeper.connect_string}/cluster"
    cluster = start_cluster(hosts, {**tls_settings(authority), "zookeeper.set.acl": "true"})
    works(cluster)
    stranger = sessions.open(hosts, certified(authority, "stranger"))
    owner = Acl(31, "x509", "CN=broker")
    assert sessions.loop.run(stranger.get_acl("/controller_epoch")) == (owner, Acl(1, "world", "anyone"))
    with pytest.raises(NotAuthorizedError):
        sessions.loop.run(stranger.set("/controller_epoch", b"77"))
    with pytest.raises(NotAuthorizedError):
        sessions.loop.run(stranger.get("/config/users"))
    wait_until_gone(sessions, stranger, "/brokers/ids/1", lambda: cluster.kill_broker(1))
    cluster.start_broker(1)
    works(cluster)
    config = tmp_path / "zookeeper.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in tls_settings(authority).items()))
    flags = ["--zookeeper", hosts, "--zk-tls-config-file", config]
    assert command("zk", "verify", *flags).lines[-1].endswith(" 0 faults")
    assert command("zk", "secure", *flags, "--acl", "secure", "--dry-run", "--json").json["changes"] == []
    logs = "".join(cluster.log_file(broker_id).read_text() for broker_id in cluster.broker_ids)
    assert "PRIVATE KEY" not in logs and "Traceback" not in logs


@pytest.mark.full
def test_tls_without_client_certificates_and_a_digest(
    authority: ClusterSecurity,
    tmp_path: Path,
    sessions: Sessions,
    start_cluster: Callable[[str, Mapping[str, str]], LocalCluster],
) -> None:
    properties = {
        **authority.zookeeper_properties(),
        "ssl.clientAuth": "none",
        "enforce.auth.enabled": "true",
        "enforce.auth.schemes": "digest",
    }
    with EmbeddedZooKeeper(tmp_path / "zookeeper", properties=properties, tls=authority.zookeeper_client()) as server:
        settings = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.truststore.location": str(authority.ca_file),
            "zookeeper.auth.digest": "kafka:planted-digest-secret",
            "zookeeper.set.acl": "true",
        }
        cluster = start_cluster(f"{server.connect_string}/digest", settings)
        works(cluster)
        tls = ZkTls(b"", authority.ca_file.read_bytes())
        stranger = sessions.open(cluster.zookeeper, ZkSecurity(tls, "stranger:secret"))
        with pytest.raises(NotAuthorizedError):
            sessions.loop.run(stranger.set("/controller_epoch", b"77"))
        wait_until_gone(sessions, stranger, "/brokers/ids/1", lambda: cluster.kill_broker(1))
        logs = "".join(cluster.log_file(broker_id).read_text() for broker_id in cluster.broker_ids)
        assert "planted-digest-secret" not in logs


@pytest.mark.parametrize("kind", ["tls", pytest.param("sasl", marks=pytest.mark.full)])
def test_the_watchdog_ends_a_secured_session(
    kind: str,
    tls_zookeeper: EmbeddedZooKeeper,
    sasl_zookeeper: EmbeddedZooKeeper,
    authority: ClusterSecurity,
    sessions: Sessions,
) -> None:
    server = tls_zookeeper if kind == "tls" else sasl_zookeeper
    security = certified(authority, "broker") if kind == "tls" else SASL
    hung = sessions.open(server.connect_string, security, timeout_ms=1000)
    states: list[SessionState] = []
    hung.add_listener(states.append)
    session = hung.session
    # A clock that does not advance stands for a reactor that hangs.
    watchdog = Watchdog(server.connect_string, ManualClock(), partial(close_session, security=security))
    watchdog.watch(session, hung.password, hung.session_timeout_ms)
    try:
        sessions.loop.wait(lambda: SessionState.EXPIRED in states, 30)
        sessions.loop.wait(lambda: hung.state is SessionState.CONNECTED, 30)
        assert hung.session != session
    finally:
        watchdog.stop()


@pytest.mark.full
def test_a_session_goes_on_after_a_restart_of_a_secured_server(
    authority: ClusterSecurity, tmp_path: Path, sessions: Sessions
) -> None:
    server = EmbeddedZooKeeper(
        tmp_path / "zookeeper",
        properties=authority.zookeeper_properties(),
        tls=authority.zookeeper_client(),
        logins={SASL_USER: SASL_PASSWORD},
    )
    with server:
        known = certified(authority, "broker")
        client = sessions.open(server.connect_string, ZkSecurity(known.tls, "a:b", SASL.sasl), timeout_ms=30_000)
        sessions.loop.run(client.create("/mine", ephemeral=True))
        session = client.session
        server.kill()
        sessions.loop.wait(lambda: client.state is SessionState.SUSPENDED, 20)
        server.start()
        sessions.loop.wait(lambda: client.state is SessionState.CONNECTED, 20)
        assert client.session == session and sessions.loop.run(client.exists("/mine")) is not None


# SASL


def test_users_log_in_by_digest_md5(sasl_zookeeper: EmbeddedZooKeeper, sessions: Sessions) -> None:
    hosts = sasl_zookeeper.connect_string
    client = sessions.open(hosts, SASL, set_acl=True)
    sessions.loop.run(client.create("/owned"))
    assert sessions.loop.run(client.get_acl("/owned"))[0] == Acl(31, "sasl", SASL_USER)
    for wrong in (("kafka", "wrong"), ("nobody", SASL_PASSWORD)):
        sessions.assert_refused(hosts, ZkSecurity(sasl=wrong), "user or password is wrong")


@pytest.mark.full
def test_a_cluster_runs_by_sasl_and_kafkas_own_tool_secures_it(
    sasl_zookeeper: EmbeddedZooKeeper,
    sessions: Sessions,
    start_cluster: Callable[[str, Mapping[str, str]], LocalCluster],
    tmp_path: Path,
) -> None:
    """The ensemble refuses every request of a client that has not logged in, the guardian's among them."""
    hosts, jaas = f"{sasl_zookeeper.connect_string}/sasl", jaas_file(tmp_path)
    cluster = start_cluster(hosts, {"java.security.auth.login.config": str(jaas)})
    friend = sessions.open(hosts, SASL)
    works(cluster)
    topic = new_topic(cluster)
    produce(cluster, topic, 1)
    login = {"java.security.auth.login.config": str(jaas)}
    with ZooKeeperConsumer(hosts, "old", [topic], security=login, auto_offset_reset="smallest") as consumer:
        assert consumer.poll(60) is not None
    for acl, expected in (("secure", (31, 1)), ("unsecure", (31,)), ("secure", (31, 1))):
        migrate(hosts, jaas, acl)
        found = sessions.loop.run(friend.get_acl("/brokers/topics"))
        assert tuple(entry.permissions for entry in found) == expected
        works(cluster)
    # Ours does what the tool of Kafka does not know.
    config = tmp_path / "zookeeper.properties"
    config.write_text(f"java.security.auth.login.config={jaas}\n")
    flags = ["--zookeeper", hosts, "--zk-tls-config-file", config]
    planned = command("zk", "secure", *flags, "--acl", "secure", "--dry-run", "--json").json["changes"]
    roots = {f"/{each['path'].split('/')[1]}" for each in planned}
    assert {"/consumers", "/transactions"} <= roots, planned
    assert roots <= {"/consumers", "/transactions", "/brokers", "/config"}, planned
    command("zk", "secure", *flags, "--acl", "secure")
    groups = ("groups", "--bootstrap-server", cluster.bootstrap, "--list")
    assert "are not shown" in command(*groups).err
    assert "are not shown" not in command(*groups, "--zk-tls-config-file", config).err
    assert command("zk", "verify", *flags).lines[-1].endswith(" 0 faults")
    commands = [child.cmdline() for child in psutil.Process(cluster.pid(1)).children()]
    assert any("guardian_process.py" in word for words in commands for word in words)
    assert not any(SASL_PASSWORD in word for words in commands for word in words)
    wait_until_gone(sessions, friend, "/brokers/ids/1", lambda: cluster.kill_broker(1))
    cluster.start_broker(1)
    works(cluster)
    logs = "".join(cluster.log_file(broker_id).read_text() for broker_id in cluster.broker_ids)
    assert SASL_PASSWORD not in logs and "Traceback" not in logs


def migrate(hosts: str, jaas: Path, acl: str) -> None:
    """Run Kafka's ``ZkSecurityMigrator``."""
    try:
        run_tool(
            KAFKA_3_9,
            "kafka.admin.ZkSecurityMigrator",
            "--zookeeper.connect",
            hosts,
            "--zookeeper.acl",
            acl,
            flags=[f"-Djava.security.auth.login.config={jaas}"],
        )
    except FailedError as error:
        raise AssertionError(str(error)) from None


def test_a_broker_with_a_wrong_password_says_so(sasl_zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    jaas = jaas_file(tmp_path)
    jaas.write_text(jaas.read_text().replace(SASL_PASSWORD, "wrong-password"))
    overrides = {"java.security.auth.login.config": str(jaas), "zookeeper.connection.timeout.ms": "6000"}
    cluster = LocalCluster(tmp_path / "cluster", 1, overrides=overrides, zookeeper=sasl_zookeeper.connect_string)
    try:
        with pytest.raises(StartupError):
            cluster.start()
        text = cluster.log_file(1).read_text()
        assert "the SASL login at 127.0.0.1 failed: user or password is wrong" in text
        assert "wrong-password" not in text and "Traceback" not in text
    finally:
        cluster.close()


def test_a_broker_that_zookeeper_does_not_ask_for_its_certificate_says_so(
    authority: ClusterSecurity, tmp_path: Path
) -> None:
    properties = {**authority.zookeeper_properties(), "ssl.clientAuth": "none"}
    with EmbeddedZooKeeper(tmp_path / "zookeeper", properties=properties, tls=authority.zookeeper_client()) as server:
        overrides = {**tls_settings(authority), "zookeeper.set.acl": "true"}
        cluster = LocalCluster(tmp_path / "cluster", 1, overrides=overrides, zookeeper=server.connect_string)
        try:
            with pytest.raises(StartupError):
                cluster.start()
            text = cluster.log_file(1).read_text()
            assert "ZooKeeper knows no identity of this broker" in text and "Traceback" not in text
        finally:
            cluster.close()


def _unchecked(authority: ClusterSecurity) -> ssl.SSLContext:
    context = authority.zookeeper_client()
    context.check_hostname = False
    return context
