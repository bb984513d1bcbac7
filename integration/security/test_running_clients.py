"""Clients of every library run while certificates, passwords and tokens change, and while their sessions end.

``KAFKALITE_TEST_BROKER=kafka`` runs it against Kafka 3.9.1.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from integration.conftest import TEST_OVERRIDES, launcher
from integration.harness.wait import wait_for
from integration.security.acl_matrix import ask
from integration.security.running_java import JavaPairs
from integration.security.running_pair import ClientLogin, RunningPair
from integration.security.running_python import start_aiokafka, start_confluent, start_kafka_python
from integration.security.scram_login import log_in, token_password
from integration.security.stores import Stores
from integration.security.token_issuer import AUDIENCE, TokenIssuer
from kafkalite.common.errors import ErrorCode
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.processes import free_ports
from kafkalite.network.blocking_client import BlockingConnection
from kafkalite.protocol.api_keys import ApiKey

TIMEOUT = 60.0
LIBRARIES = ("confluent", "kafka-python", "aiokafka", "java")
PLAIN, SHA_256, SHA_512, OAUTH = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"
SESSION = 4.0
"""Seconds of a session that began with SCRAM-SHA-256."""
TOKEN_LIFE = 12.0
LOST_CONNECTION = ("transport failure", "brokers are down", "isconnect", "timed out")
"""What librdkafka says of a connection that was lost, as where the machine stalls until a session has ended."""
TOPIC = "running"
PARTITIONS = 64
"""Each pair has one of its own."""
USERS = {name: f"of-{name}" for name in ("steady", "changed", "holder")}
MODULES = "org.apache.kafka.common.security"
VALIDATOR = f"{MODULES}.oauthbearer.secured.OAuthBearerValidatorCallbackHandler"


class RunningClients:
    """A broker with the listeners ``TLS`` and ``SASL`` (SASL_SSL), and the pairs that use it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.stores = Stores(folder / "stores")
        self.stores.issue("broker")
        self.issuer = TokenIssuer(folder / "keys.json", "steady", TOKEN_LIFE)
        self.cluster = LocalCluster(folder / "cluster", 1, overrides=TEST_OVERRIDES, launcher=launcher())
        self.ports = dict(zip(("TLS", "SASL"), free_ports(2), strict=True))
        self.cluster.override_broker(1, self._properties())
        self._admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        self._java: JavaPairs | None = None
        self._pairs: list[RunningPair] = []
        self.begun = time.time()
        """When every pair had read records, in seconds of the epoch."""

    def _properties(self) -> dict[str, str]:
        oauth, scram = "listener.name.sasl.oauthbearer", f"{MODULES}.scram.ScramLoginModule required;"
        logins = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
        return {
            "listeners": f"PLAINTEXT://{self.cluster.address(1)},"
            + ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,SASL:SASL_SSL",
            **self.stores.properties("broker", "PEM", "listener.name.tls."),
            **self.stores.properties("broker", "PEM", "listener.name.sasl."),
            "sasl.enabled.mechanisms": ",".join((PLAIN, SHA_256, SHA_512, OAUTH)),
            "listener.name.sasl.plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required {logins};",
            "listener.name.sasl.scram-sha-256.sasl.jaas.config": scram,
            "listener.name.sasl.scram-sha-256.connections.max.reauth.ms": str(int(SESSION * 1000)),
            "listener.name.sasl.scram-sha-512.sasl.jaas.config": scram,
            f"{oauth}.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
            f"{oauth}.sasl.server.callback.handler.class": VALIDATOR,
            f"{oauth}.sasl.oauthbearer.jwks.endpoint.url": (self._folder / "keys.json").as_uri(),
            f"{oauth}.sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.clock.skew.seconds": "0",
            "delegation.token.secret.key": "secret-of-tokens",
        }

    def start(self) -> None:
        """Start the broker, and let the users log in."""
        self.cluster.start()
        self._admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(TIMEOUT)
        for user, password in USERS.items():
            self.set_password(user, password)

    def close(self) -> None:
        """End the clients and the broker."""
        self.end(self._pairs)
        if self._java is not None:
            self._java.close()
        self.cluster.close()
        self.issuer.close()

    # Clients

    def open(self, library: str, mechanism: str | None, user: str = "steady", **more: str) -> RunningPair:
        """Start a pair; without a mechanism it connects to ``TLS``. ``more`` are options of Java's login."""
        name = f"{library}-{mechanism or 'TLS'}-{len(self._pairs)}"
        pair = RunningPair(name, TOPIC, len(self._pairs), self._login(name, mechanism, user, more))
        self._pairs.append(pair)
        if library == "java":
            self._java = self._java or JavaPairs(self._folder)
            self._java.start(pair)
        else:
            starts = {"confluent": start_confluent, "kafka-python": start_kafka_python, "aiokafka": start_aiokafka}
            starts[library](pair)
        return pair

    def end(self, pairs: Sequence[RunningPair]) -> None:
        """End pairs."""
        for pair in pairs:
            pair.stopping.set()
            pair.closing.set()
        for pair in pairs:
            pair.join(10)

    def _login(self, name: str, mechanism: str | None, user: str, more: dict[str, str]) -> ClientLogin:
        bootstrap = f"127.0.0.1:{self.ports['SASL' if mechanism else 'TLS']}"
        protocol = "SASL_SSL" if mechanism else "SSL"
        common = {"bootstrap.servers": bootstrap, "security.protocol": protocol}
        authority = str(self.stores.path("ca.pem"))
        librdkafka = {**common, "ssl.ca.location": authority}
        java = {**common, "ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
        if mechanism is None:
            return ClientLogin(librdkafka, java)
        librdkafka["sasl.mechanism"] = java["sasl.mechanism"] = mechanism
        if mechanism == OAUTH:
            java |= {
                "sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required "
                f'clientId="{name}" clientSecret="none";',
                "sasl.login.callback.handler.class": (f"{MODULES}.oauthbearer.secured.OAuthBearerLoginCallbackHandler"),
                "sasl.oauthbearer.token.endpoint.url": self.issuer.url(name),
                "sasl.login.refresh.window.factor": "0.5",
                "sasl.login.refresh.min.period.seconds": "0",
                "sasl.login.refresh.buffer.seconds": "0",
            }
            return ClientLogin(librdkafka, java, partial(self.issuer.issue, name))
        password = more.pop("password", USERS.get(user, ""))
        librdkafka |= {"sasl.username": user, "sasl.password": password}
        module = "plain.PlainLoginModule" if mechanism == PLAIN else "scram.ScramLoginModule"
        options = "".join(f' {key}="{value}"' for key, value in more.items())
        java["sasl.jaas.config"] = f'{MODULES}.{module} required username="{user}" password="{password}"{options};'
        return ClientLogin(librdkafka, java)

    # Changes

    def set_password(self, user: str, password: str) -> None:
        """New credentials of both kinds, which the broker obeys when this returns."""
        changes: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(user, ScramCredentialInfo(each, 4096), password.encode())
            for each in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        for future in self._admin.alter_user_scram_credentials(changes).values():
            future.result(TIMEOUT)
        for mechanism in (SHA_256, SHA_512):
            wait_for(partial(self.lets_in, mechanism, user, password), "the password is obeyed")

    def set_certificate(self, name: str) -> None:
        """Let both listeners show another certificate, as kafka-configs does."""
        entries = [
            ConfigEntry(
                f"listener.name.{listener}.ssl.keystore.location",
                str(self.stores.path(f"{name}.pem")),
                incremental_operation=AlterConfigOpType.SET,
            )
            for listener in ("tls", "sasl")
        ]
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=entries)
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result(TIMEOUT)

    def serial(self, listener: str) -> str:
        """The serial number of the certificate that a new connection sees."""
        with self._socket(listener) as connected:
            return str((connected.getpeercert() or {})["serialNumber"])

    def lets_in(self, mechanism: str, user: str, password: str) -> bool:
        """Whether the login succeeds."""
        with self._connection() as connection:
            return log_in(connection, mechanism, user, password) == ErrorCode.NONE

    @contextmanager
    def as_user(self, user: str) -> Iterator[BlockingConnection]:
        """A connection of a user."""
        with self._connection() as connection:
            assert log_in(connection, SHA_512, user, USERS[user]) == ErrorCode.NONE
            yield connection

    def _connection(self) -> BlockingConnection:
        return BlockingConnection(self._socket("SASL"), "test")

    def _socket(self, listener: str) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=str(self.stores.path("ca.pem")))
        return context.wrap_socket(
            socket.create_connection(("127.0.0.1", self.ports[listener]), TIMEOUT), server_hostname="127.0.0.1"
        )


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningClients]:
    """A broker."""
    clients = RunningClients(tmp_path_factory.mktemp("running"))
    try:
        clients.start()
        yield clients
    finally:
        clients.close()


@pytest.fixture(scope="module")
def pairs(running: RunningClients) -> list[RunningPair]:
    """A pair of every library and every way to log in, all of which have begun."""
    found = [running.open(library, kind) for library in LIBRARIES for kind in (None, PLAIN, SHA_256, SHA_512, OAUTH)]
    go_on(found, "it has begun")
    running.begun = time.time()
    return found


def go_on(pairs: Sequence[RunningPair], what: str) -> None:
    """Wait until records that were sent from now on are delivered to all; none is lost or doubled."""
    marks = [(pair, pair.sent + 2) for pair in pairs]

    def late() -> list[str]:
        return [str(pair) for pair, mark in marks if not pair.read or pair.read[-1] < mark]

    try:
        wait_for(lambda: not late(), f"every client goes on: {what}", 90)
    except AssertionError as error:
        raise AssertionError(f"{error}: {late()}") from None
    for pair in pairs:
        pair.check()


def unharmed(pairs: Sequence[RunningPair]) -> None:
    """No library gave up a record, or told its application of an error that it does not mend itself."""
    for pair in pairs:
        errors = [error for error in pair.errors if not any(text in error for text in LOST_CONNECTION)]
        assert not pair.failures + errors, str(pair)


@pytest.mark.full
def test_the_brokers_certificate_is_replaced(running: RunningClients, pairs: list[RunningPair]) -> None:
    before = {listener: running.serial(listener) for listener in running.ports}
    running.stores.issue("second")
    running.set_certificate("second")
    wait_for(lambda: all(running.serial(each) != serial for each, serial in before.items()), "the second certificate")
    go_on(pairs, "the broker has another certificate")
    late = [running.open(library, None) for library in LIBRARIES]
    go_on(late, "it has seen the second certificate only")
    unharmed([*pairs, *late])
    running.end(late)


@pytest.mark.full
def test_sessions_and_tokens_end(running: RunningClients, pairs: list[RunningPair]) -> None:
    begin = running.begun
    tokens = [pair for pair in pairs if pair.login.token is not None]
    assert len(tokens) == len(LIBRARIES)

    def all_have_ended() -> bool:
        issued = [running.issuer.issued[pair.name] for pair in tokens]
        ended = time.time() > begin + 2 * SESSION and time.time() > begin + TOKEN_LIFE
        return ended and all(ends[-1] > begin + TOKEN_LIFE for ends in issued)

    wait_for(all_have_ended, "all sessions and tokens from before have ended", 60)
    go_on(pairs, "sessions and tokens have ended")
    unharmed(pairs)


@pytest.mark.full
def test_a_password_is_changed(running: RunningClients, pairs: list[RunningPair]) -> None:
    """Who is logged in stays so until the session ends; the new password is good for the next login."""
    long = [running.open(library, SHA_512, "changed") for library in LIBRARIES]
    short = [running.open(library, SHA_256, "changed") for library in LIBRARIES]
    go_on([*long, *short], "it has begun")
    running.set_password("changed", "another")
    for pair in short:
        # librdkafka takes another password while it runs; the others keep the old one here.
        pair.password = "another"
    assert not running.lets_in(SHA_512, "changed", USERS["changed"])
    late = [running.open(library, SHA_512, "changed", password="another") for library in LIBRARIES]
    go_on([*long, *late, *short[:1]], "the password is another")
    unharmed([*long, *late])
    for pair in short[1:]:
        wait_for(pair.is_refused, f"the old password is refused: {pair}", 60)
    running.set_password("changed", USERS["changed"])
    # Without kafka-python, whose idempotent producer gives up if a record waits while its login is refused.
    go_on(short[2:], "the old password is good again")
    for pair in short:
        pair.check()
    running.end([*long, *late, *short])
    unharmed(pairs)


def test_a_delegation_token_is_renewed_and_ended(running: RunningClients) -> None:
    """Only Java's client can log in by a token."""
    with running.as_user("holder") as holder:
        made = ask(
            holder,
            ApiKey.CREATE_DELEGATION_TOKEN,
            3,
            owner_principal_type=None,
            owner_principal_name=None,
            renewers=[],
            max_lifetime_ms=-1,
        )
        assert made.error_code == ErrorCode.NONE
        password = token_password(bytes(made.hmac))
        short, long = (
            running.open("java", mechanism, made.token_id, password=password, tokenauth="true")
            for mechanism in (SHA_256, SHA_512)
        )
        begin = time.monotonic()
        go_on([short, long], "it has begun")
        renewed = ask(holder, ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=made.hmac, renew_period_ms=3_600_000)
        assert renewed.error_code == ErrorCode.NONE
        wait_for(lambda: time.monotonic() > begin + SESSION, "a session has ended", 60)
        go_on([short, long], "the token is renewed")
        unharmed([short, long])
        ended = ask(holder, ApiKey.EXPIRE_DELEGATION_TOKEN, 2, hmac=made.hmac, expiry_time_period_ms=-1)
        assert ended.error_code == ErrorCode.NONE
    wait_for(
        lambda: any("SaslAuthenticationException" in error for error in short.errors + short.failures),
        f"the token is not good for another session: {short}",
        60,
    )
    go_on([long], "the token has ended, its session has not")
    unharmed([long])
    running.end([short, long])
