"""Clients of every library log in by SASL, or do not; ``KAFKALITE_TEST_BROKER=kafka`` runs it against Kafka 3.9.1."""

from __future__ import annotations

import asyncio
import json
import random
import re
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jwt
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from kafka import KafkaConsumer, KafkaProducer

from integration.conftest import AGAINST_KAFKA, TEST_OVERRIDES, ClusterFactory, launcher
from integration.harness.clients import fresh_topic
from integration.harness.commands import command
from integration.harness.java import KAFKA_2_8, KAFKA_3_9, run_tool
from integration.harness.raw import RawClient
from integration.harness.tree import Tree
from integration.harness.wait import FailedError, wait_for
from integration.security.sasl_cluster import BROKER_PASSWORD, LISTENER, MECHANISMS, PASSWORD, USERS, Login, SaslCluster
from integration.security.stores import Stores
from kafkalite.common.errors import ErrorCode
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.security.sasl_client import ScramSaslClient
from kafkalite.security.scram_credentials import SCRAM_MECHANISMS, SCRAM_SHA_512, ScramCredential
from kafkalite.spark.client.cluster import ClusterConnections
from kafkalite.spark.client.config import ClientConfig

TIMEOUT = 30.0
FAILED = "Authentication failed during authentication due to invalid credentials with SASL mechanism"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslCluster]:
    """One broker whose users have credentials of both mechanisms."""
    clusters: list[LocalCluster] = []

    def make(brokers: int, overrides: dict[str, str], **_: object) -> LocalCluster:
        cluster = LocalCluster(
            tmp_path_factory.mktemp("sasl") / "cluster",
            brokers,
            overrides={**TEST_OVERRIDES, **overrides},
            launcher=launcher(),
        )
        clusters.append(cluster)
        return cluster

    made = SaslCluster(make, {"listener.name.client.scram-sha-256.connections.max.reauth.ms": "3000"}).start()
    made.set_password("alice", PASSWORD, "SCRAM-SHA-256", "SCRAM-SHA-512")
    yield made
    for cluster in clusters:
        cluster.close()


@pytest.fixture
def topic(secured: SaslCluster) -> str:
    """A topic with one partition."""
    name = fresh_topic("sasl")
    admin = AdminClient({"bootstrap.servers": secured.cluster.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(2 * TIMEOUT)
    return name


def librdkafka(bootstrap: str, login: Login, topic: str, _: Path) -> list[bytes]:
    settings = login.librdkafka(bootstrap)
    errors: list[str] = []
    told: list[object] = []
    producer = Producer({**settings, "error_cb": lambda error: errors.append(str(error))})
    producer.produce(topic, b"librdkafka", on_delivery=lambda error, _: told.append(error))

    def refused() -> bool:
        return any("_AUTHENTICATION" in error for error in errors)

    wait_for(lambda: producer.poll(0.1) or told or refused(), "an answer")
    if refused():
        raise PermissionError(errors)
    consumer = Consumer({**settings, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(2 * TIMEOUT)
    consumer.close()
    assert message is not None
    return [message.value()]


def kafka_python(bootstrap: str, login: Login, topic: str, _: Path) -> list[bytes]:
    settings = login.python(bootstrap)
    # With a wrong password the client tries for all that time.
    patience = 60_000 if login.password == PASSWORD else 2000
    producer = KafkaProducer(**settings, max_block_ms=patience, bootstrap_timeout_ms=patience)
    producer.send(topic, b"kafka-python").get(2 * TIMEOUT)
    producer.close()
    consumer = KafkaConsumer(topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=60000)
    values = [next(consumer).value]
    consumer.close()
    return values


def aiokafka(bootstrap: str, login: Login, topic: str, _: Path) -> list[bytes]:
    async def work() -> list[bytes]:
        producer = AIOKafkaProducer(**login.python(bootstrap))
        await producer.start()
        try:
            await producer.send_and_wait(topic, b"aiokafka")
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(topic, **login.python(bootstrap), auto_offset_reset="earliest")
        await consumer.start()
        try:
            return [(await consumer.getone()).value]
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(work(), TIMEOUT))


def java(bootstrap: str, login: Login, topic: str, folder: Path) -> list[bytes]:
    config = str(login.properties(folder / "client.properties"))
    where = ("--bootstrap-server", bootstrap, "--topic", topic)
    producer = "kafka.tools.ConsoleProducer"
    sent = run_tool(KAFKA_3_9, producer, *where, "--producer.config", config, "--max-block-ms", "30000", stdin="java\n")
    if "SaslAuthenticationException" in sent.err:
        raise PermissionError(sent.err)
    consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    more = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "60000", "--consumer.config", config)
    return [line.encode() for line in run_tool(KAFKA_3_9, consumer, *where, *more).lines()]


CLIENTS = {"librdkafka": librdkafka, "kafka-python": kafka_python, "aiokafka": aiokafka, "java": java}
Client = Callable[[str, Login, str, Path], list[bytes]]


# `make test` runs Java, whose start takes longest, with the last mechanism only.
EACH_CLIENT = [
    pytest.param(
        client, mechanism, marks=[pytest.mark.full] if client == "java" and mechanism != MECHANISMS[-1] else []
    )
    for client in CLIENTS
    for mechanism in MECHANISMS
]


@pytest.mark.parametrize(("client", "mechanism"), EACH_CLIENT)
def test_a_client_with_the_right_password_produces_and_consumes(
    secured: SaslCluster, topic: str, client: str, mechanism: str, tmp_path: Path
) -> None:
    assert CLIENTS[client](secured.bootstrap, Login(mechanism), topic, tmp_path) == [client.encode()]


@pytest.mark.parametrize(("client", "mechanism"), [each for each in EACH_CLIENT if "SCRAM-SHA-256" not in each.values])
def test_a_client_with_a_wrong_password_is_refused(
    secured: SaslCluster, topic: str, client: str, mechanism: str, tmp_path: Path
) -> None:
    with pytest.raises(Exception) as caught:
        CLIENTS[client](secured.bootstrap, Login(mechanism, password="no"), topic, tmp_path)
    assert not isinstance(caught.value, AssertionError)


# What is on the wire


def handshake(connection: RawClient, mechanism: str, version: int = 1) -> tuple[int, list[str]]:
    answer = connection.ask(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)
    return answer.error_code, sorted(answer.mechanisms)


def authenticate(connection: RawClient, token: bytes, version: int = 2) -> tuple[int, str | None]:
    answer = connection.ask(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=token)
    return answer.error_code, answer.error_message


def is_closed(connection: RawClient) -> bool:
    with pytest.raises((ConnectionError, TimeoutError, EOFError)) as caught:
        connection.ask(ApiKey.METADATA, 1, topics=None)
    return not isinstance(caught.value, TimeoutError)


def plain(user: str, password: str) -> bytes:
    return f"\0{user}\0{password}".encode()


def test_an_unknown_mechanism_is_answered_with_the_list_and_the_end(secured: SaslCluster) -> None:
    connection = secured.connect()
    assert handshake(connection, "GSSAPI") == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, sorted(MECHANISMS))
    assert is_closed(connection)


@pytest.mark.parametrize(
    ("mechanism", "token", "text"),
    [
        ("PLAIN", plain("alice", "wrong"), "Authentication failed: Invalid username or password"),
        ("PLAIN", plain("nobody", "wrong"), "Authentication failed: Invalid username or password"),
        ("PLAIN", b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        ("PLAIN", b"\0alice\0b\0c\0d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        ("PLAIN", plain("", PASSWORD), "Authentication failed: username not specified"),
        ("PLAIN", plain("alice", ""), "Authentication failed: password not specified"),
        (
            "PLAIN",
            b"bob" + plain("alice", PASSWORD),
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        ("SCRAM-SHA-256", b"nonsense", f"{FAILED} SCRAM-SHA-256"),
    ],
)
def test_a_wrong_token_is_answered_late_and_the_connection_closed(
    secured: SaslCluster, mechanism: str, token: bytes, text: str
) -> None:
    connection = secured.connect()
    assert handshake(connection, mechanism)[0] == ErrorCode.NONE
    begin = time.monotonic()
    assert authenticate(connection, token) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
    assert time.monotonic() - begin >= 0.09
    assert is_closed(connection)


def test_requests_before_authentication_are_refused(secured: SaslCluster) -> None:
    assert is_closed(secured.connect())
    connection = secured.connect()
    assert handshake(connection, "PLAIN")[0] == ErrorCode.NONE
    try:
        # Kafka answers a request after the handshake with an error, kafkalite does not.
        answer = connection.ask(ApiKey.FIND_COORDINATOR, 1, key="g", key_type=0)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    except ConnectionError:
        pass
    assert is_closed(connection)


def test_versions_are_told_before_authentication(secured: SaslCluster) -> None:
    connection = secured.connect()
    answer = connection.ask(ApiKey.API_VERSIONS, 2)
    served = {each.api_key for each in answer.api_keys}
    assert {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.ALTER_USER_SCRAM_CREDENTIALS} <= served
    assert handshake(connection, "PLAIN")[0] == ErrorCode.NONE
    assert authenticate(connection, plain("alice", PASSWORD)) == (ErrorCode.NONE, "")
    assert connection.ask(ApiKey.METADATA, 1, topics=[]).brokers


def test_an_authenticated_client_has_no_second_handshake_where_sessions_do_not_end(secured: SaslCluster) -> None:
    connection = secured.connect()
    handshake(connection, "PLAIN")
    authenticate(connection, plain("alice", PASSWORD))
    assert handshake(connection, "PLAIN") == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert authenticate(connection, b"x") == (
        ErrorCode.ILLEGAL_SASL_STATE,
        "SaslAuthenticate request received after successful authentication",
    )


def test_a_large_frame_before_authentication_closes_the_connection(secured: SaslCluster) -> None:
    connection = secured.connect()
    connection.socket.sendall(struct.pack(">i", 524289) + b"x" * 1000)
    assert is_closed(connection)


# Sessions


def login(connection: RawClient, user: str = "alice", mechanism: str = "SCRAM-SHA-256", version: int = 2) -> int:
    """Authenticate by SCRAM; the length of the session in ms."""
    assert handshake(connection, mechanism)[0] == ErrorCode.NONE
    exchange = ScramSaslClient(SCRAM_MECHANISMS[mechanism], user, USERS[user], random.Random())
    token: bytes | None = exchange.evaluate(None)
    lifetime = -1
    while token is not None:
        answer = connection.ask(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=token)
        assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, "")
        token, lifetime = exchange.evaluate(bytes(answer.auth_bytes)), answer.session_lifetime_ms
    return lifetime


def test_a_session_ends_unless_the_client_authenticates_again(secured: SaslCluster) -> None:
    wait_for(lambda: outlives_a_quiet_session(secured), "a session without a stall of the machine")


def outlives_a_quiet_session(secured: SaslCluster) -> bool:
    """Authenticate repeatedly for longer than a session, and not on another connection, which must be closed.

    ``False`` if the machine stalled for so long that the session of the first connection may have ended as well.
    """
    connection, quiet = secured.connect(), secured.connect()
    assert login(quiet) == 3000
    begun = last = time.monotonic()
    assert login(connection) == 3000
    while (now := time.monotonic()) < begun + 4:
        # Not more often, because a broker takes one authentication a second.
        time.sleep(1.1)
        try:
            assert login(connection) == 3000
            assert connection.ask(ApiKey.METADATA, 1, topics=[]).brokers
        except OSError:
            assert time.monotonic() - last >= 3, "the session ended too early"
            return False
        last = now + 1.1
    assert is_closed(quiet)
    return True


def test_another_user_or_mechanism_cannot_take_over_a_connection(secured: SaslCluster) -> None:
    connection = secured.connect()
    login(connection)
    assert handshake(connection, "PLAIN")[0] == ErrorCode.NONE
    with pytest.raises(ConnectionError):
        authenticate(connection, plain("alice", PASSWORD))


@pytest.mark.full
def test_librdkafka_and_java_stay_logged_in_while_their_sessions_end(
    secured: SaslCluster, topic: str, tmp_path: Path
) -> None:
    """Both at the same time, for three sessions at least."""
    # A machine that stalls for longer than a session ends librdkafka's connection, too.
    for _ in range(3):
        if not errors_in_sessions(secured, topic, tmp_path):
            return
    raise AssertionError("librdkafka lost its connection in each of three attempts")


def errors_in_sessions(secured: SaslCluster, topic: str, directory: Path) -> list[str]:
    """What librdkafka reports while it produces beside Java; both lose no record."""
    errors: list[str] = []
    failures: list[object] = []
    settings = Login("SCRAM-SHA-256").librdkafka(secured.bootstrap)
    producer = Producer({**settings, "error_cb": lambda error: errors.append(str(error))})
    config = str(Login("SCRAM-SHA-256").properties(directory / "client.properties"))
    flags = ("--topic", topic, "--max-messages", "100", "--throughput", "10", "--producer.config", config)
    with ThreadPoolExecutor(1) as threads:
        java = threads.submit(
            lambda: run_tool(
                KAFKA_3_9,
                "org.apache.kafka.tools.VerifiableProducer",
                *("--bootstrap-server", secured.bootstrap),
                *flags,
            )
        )
        while not java.done():
            producer.produce(topic, b"x", callback=lambda error, _: failures.append(error) if error else None)
            producer.poll(0.2)
    assert producer.flush(TIMEOUT) == 0
    assert failures == []
    assert '"acked":100' in java.result().out
    return errors


# Credentials


def test_credentials_are_altered_by_kafkas_tool_through_a_broker(secured: SaslCluster) -> None:
    user = "carol"
    secured.set_password(user, "one", "SCRAM-SHA-512", iterations=8192)
    described = secured.describe_user(user)
    assert "SCRAM-SHA-512=iterations=8192" in described.replace(" ", "")
    wait_for(lambda: can_login(secured, Login("SCRAM-SHA-512", user, "one")), "the first password is obeyed")
    secured.set_password(user, "two", "SCRAM-SHA-512")
    wait_for(lambda: can_login(secured, Login("SCRAM-SHA-512", user, "two")), "the second password is obeyed")
    assert not can_login(secured, Login("SCRAM-SHA-512", user, "one"))
    secured.alter_user(user, "--delete-config", "SCRAM-SHA-512")
    wait_for(lambda: not can_login(secured, Login("SCRAM-SHA-512", user, "two")), "the user is gone")
    with pytest.raises(FailedError, match="ResourceNotFoundException"):
        secured.alter_user(user, "--delete-config", "SCRAM-SHA-512")


@pytest.mark.full
def test_credentials_that_the_tool_of_kafka_2_8_writes_into_zookeeper_are_obeyed(secured: SaslCluster) -> None:
    user = "d/o,ra = 1"
    where = ("--zookeeper", secured.cluster.zookeeper, "--entity-type", "users", "--entity-name", user)
    run_tool(
        KAFKA_2_8,
        "kafka.admin.ConfigCommand",
        *where,
        *("--alter", "--add-config", "SCRAM-SHA-256=[iterations=5000,password=from-zookeeper]"),
    )
    wait_for(lambda: can_login(secured, Login("SCRAM-SHA-256", user, "from-zookeeper")), "the password is obeyed")
    assert "SCRAM-SHA-256=iterations=5000" in secured.describe_user(user).replace(" ", "")


def can_login(secured: SaslCluster, login: Login) -> bool:
    with secured.connect() as connection:
        handshake(connection, login.mechanism)
        exchange = ScramSaslClient(SCRAM_MECHANISMS[login.mechanism], login.user, login.password, random.Random())
        code, _, challenge = token(connection, exchange.evaluate(None) or b"")
        if code == ErrorCode.NONE:
            code, _, challenge = token(connection, exchange.evaluate(challenge) or b"")
        return code == ErrorCode.NONE


def token(connection: RawClient, data: bytes) -> tuple[int, str | None, bytes]:
    answer = connection.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=data)
    return answer.error_code, answer.error_message, bytes(answer.auth_bytes)


# Brokers among themselves


@pytest.mark.parametrize(
    ("mechanism", "protocol"),
    [
        pytest.param("PLAIN", "SASL_PLAINTEXT", marks=pytest.mark.full),
        pytest.param("SCRAM-SHA-512", "SASL_PLAINTEXT", marks=pytest.mark.full),
        ("SCRAM-SHA-512", "SASL_SSL"),
    ],
)
def test_brokers_log_in_to_one_another_while_their_sessions_end(
    make_cluster: ClusterFactory, mechanism: str, protocol: str, tmp_path: Path
) -> None:
    stores = Stores(tmp_path / "stores")
    stores.issue("broker")
    settings = {
        **stores.properties("broker", "PEM"),
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "inter.broker.listener.name": LISTENER,
        "connections.max.reauth.ms": "2000",
        "min.insync.replicas": "3",
    }
    secured = SaslCluster(make_cluster, settings, 3, protocol)
    credential = ScramCredential.from_password(SCRAM_SHA_512, BROKER_PASSWORD, b"salt", 4096)
    with Tree(secured.cluster.zookeeper) as tree:
        tree.write("/config/users/broker", {"version": 1, "config": {SCRAM_SHA_512.name: credential.text()}})
    secured.start()
    admin = AdminClient({"bootstrap.servers": secured.cluster.bootstrap})
    admin.create_topics([NewTopic("replicated", 3, 3)])["replicated"].result(2 * TIMEOUT)
    login = Login("PLAIN").librdkafka(secured.bootstrap)
    tls = {"security.protocol": protocol, "ssl.ca.location": str(stores.path("ca.pem"))}
    producer = Producer({**login, **tls, "acks": "all"})
    failures: list[object] = []
    end = time.monotonic() + 6
    while time.monotonic() < end:
        producer.produce("replicated", b"x", callback=lambda error, _: failures.append(error) if error else None)
        assert producer.flush(TIMEOUT) == 0
        time.sleep(0.05)
    assert failures == []
    logs = "".join(secured.cluster.log_file(broker_id).read_text() for broker_id in secured.cluster.broker_ids)
    assert not [password for password in USERS.values() if password in logs]


# Delegation tokens

TOKEN_SECRET = "planted-token-secret-44ab"
TOKEN_TOOL = "org.apache.kafka.tools.DelegationTokenCommand"


@pytest.mark.full
def test_a_delegation_token_is_made_used_and_ended_by_kafkas_tool(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    secured = SaslCluster(make_cluster, {"delegation.token.secret.key": TOKEN_SECRET}, brokers=2).start()
    secured.set_password("alice", PASSWORD, "SCRAM-SHA-256")
    wait_for(lambda: can_login(secured, Login("SCRAM-SHA-256")), "alice can log in")
    config = str(Login("PLAIN").properties(tmp_path / "alice.properties"))

    def tool(*arguments: str) -> str:
        return run_tool(
            KAFKA_3_9, TOKEN_TOOL, "--bootstrap-server", secured.bootstrap, "--command-config", config, *arguments
        ).out

    made = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    token_id, password = re.findall(r"^(\S{22})\s+(\S{80,})\s+User:alice\s", made, re.MULTILINE)[0]
    assert token_id in tool("--describe", "--owner-principal", "User:alice")
    wait_for(lambda: token_logins(secured, token_id, password) == {ErrorCode.NONE}, "both brokers know the token")
    assert token_login(secured, token_id, password[:-4] + "AAA=") == ErrorCode.SASL_AUTHENTICATION_FAILED
    tool("--renew", "--renew-time-period", "-1", "--hmac", password)
    with Tree(secured.cluster.zookeeper) as tree:
        stored = tree.json(f"/delegation_token/tokens/{token_id}")
    assert (stored["version"], stored["owner"], stored["renewers"]) == (3, "User%3Aalice", ["User%3Abob"])
    tool("--expire", "--expiry-time-period", "-1", "--hmac", password)
    gone = {ErrorCode.SASL_AUTHENTICATION_FAILED}
    wait_for(lambda: token_logins(secured, token_id, password) == gone, "no broker knows the token")


def token_logins(secured: SaslCluster, token_id: str, password: str) -> set[int]:
    return {token_login(secured, token_id, password, broker_id) for broker_id in (1, 2)}


def token_login(secured: SaslCluster, token_id: str, password: str, broker_id: int = 1) -> int:
    with secured.connect(broker_id) as connection:
        handshake(connection, "SCRAM-SHA-256")
        exchange = ScramSaslClient(
            SCRAM_MECHANISMS["SCRAM-SHA-256"], token_id, password, random.Random(), is_token=True
        )
        code, _, challenge = token(connection, exchange.evaluate(None) or b"")
        if code == ErrorCode.NONE:
            code, _, _ = token(connection, exchange.evaluate(challenge) or b"")
        if code == ErrorCode.NONE:
            refused = connection.ask(ApiKey.CREATE_DELEGATION_TOKEN, 1, renewers=[], max_lifetime_ms=-1)
            assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return code


# Tokens of another party

OAUTH = "listener.name.client.oauthbearer.sasl"
OAUTH_HANDLER = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"


def test_tokens_that_a_key_of_a_jwks_has_signed_log_in_and_end_the_session(
    make_cluster: ClusterFactory, tmp_path: Path
) -> None:
    key, other = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    jwks = tmp_path / "jwks.json"
    jwks.write_text(json.dumps({"keys": [public_key(key, "one")]}))
    secured = SaslCluster(
        make_cluster,
        {
            "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
            f"{OAUTH}.jaas.config": OAUTH_MODULE,
            f"{OAUTH}.server.callback.handler.class": OAUTH_HANDLER,
            f"{OAUTH}.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
            f"{OAUTH}.oauthbearer.jwks.endpoint.refresh.ms": "500",
            f"{OAUTH}.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.clock.skew.seconds": "0",
        },
    ).start()
    good = access_token(key, "one")
    wait_for(lambda: oauth_login(secured, good)[0] == ErrorCode.NONE, "the token is good")
    assert 0 < oauth_login(secured, good)[1] <= 60_000
    for bad in (
        access_token(other, "one"),
        access_token(key, "one", aud="other"),
        access_token(key, "one", exp=int(time.time()) - 5),
        jwt.encode({"sub": "alice", "exp": int(time.time()) + 60, "aud": "kafka"}, "", "none"),
        good[:-10],
    ):
        assert oauth_login(secured, bad)[0] == ErrorCode.SASL_AUTHENTICATION_FAILED
    if not AGAINST_KAFKA:
        # Kafka reads a file once; it repeats the fetch from a server only.
        jwks.write_text(json.dumps({"keys": [public_key(key, "one"), public_key(other, "two")]}))
        wait_for(lambda: oauth_login(secured, access_token(other, "two"))[0] == ErrorCode.NONE, "the new key is known")
    errors: list[str] = []
    admin = AdminClient(
        {
            "bootstrap.servers": secured.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (access_token(key, "one"), time.time() + 60),
            "error_cb": lambda error: errors.append(str(error)),
        }
    )
    admin.poll(0.1)
    assert admin.list_topics(timeout=TIMEOUT).brokers
    assert errors == []


def public_key(key: rsa.RSAPrivateKey, name: str) -> dict[str, object]:
    return {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": name, "alg": "RS256", "use": "sig"}


def access_token(key: rsa.RSAPrivateKey, name: str, **claims: object) -> str:
    now = int(time.time())
    body = {"sub": "alice", "iss": "idp", "aud": "kafka", "scope": "kafka", "iat": now, "exp": now + 60, **claims}
    return jwt.encode(body, key, "RS256", {"kid": name})


def oauth_login(secured: SaslCluster, access: str) -> tuple[int, int]:
    """The error and the length of the session in ms."""
    with secured.connect() as connection:
        handshake(connection, "OAUTHBEARER")
        first = f"n,,\x01auth=Bearer {access}\x01\x01".encode()
        answer = connection.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=first)
        if answer.auth_bytes:
            # The broker says in JSON what is wrong, and refuses the client after this message.
            answer = connection.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\x01")
        return answer.error_code, answer.session_lifetime_ms


# Our own programs


@pytest.mark.parametrize(
    "mechanism", [*(pytest.param(each, marks=pytest.mark.full) for each in MECHANISMS[:-1]), MECHANISMS[-1]]
)
def test_our_command_line_logs_in(secured: SaslCluster, topic: str, mechanism: str, tmp_path: Path) -> None:
    config = str(Login(mechanism).properties(tmp_path / "client.properties"))
    where = ("--bootstrap-server", secured.bootstrap, "--command-config", config)
    assert topic in kafkalite("topics", "--list", *where)


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "--list", "--command-config"),
        ("groups", "--list", "--command-config"),
        ("produce", "--topic", "TOPIC", "--producer.config"),
        ("consume", "--topic", "TOPIC", "--from-beginning", "--consumer.config"),
        ("consume", "--topic", "TOPIC", "--group", "g", "--consumer.config"),
        ("perf", "latency", "--topic", "TOPIC", "--num-records", "1", "--command-config"),
        ("perf", "produce", "--topic", "TOPIC", "--num-records", "1", "--record-size", "1", "--command-config"),
    ],
)
def test_a_refused_login_ends_a_command_with_one_line(
    secured: SaslCluster, topic: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    wrong = Login("PLAIN", password="planted-wrong-password").properties(tmp_path / "wrong.properties")
    # Longer than a test may take: a command that tries again until its time is over does not end.
    wrong.write_text(f"{wrong.read_text()}bootstrap.timeout.ms=3600000\n" if "--list" in words else wrong.read_text())
    called = [topic if word == "TOPIC" else word for word in words]
    done = command(*called, wrong, "--bootstrap-server", secured.bootstrap, stdin="one\n", code=1)
    assert "Authentication failed" in done.err
    # As Kafka's ConsoleConsumer, `consume` says at its end how many records it printed.
    assert len([line for line in done.err.splitlines() if not line.startswith("Processed a total of 0")]) == 1
    assert "planted" not in done.err


def kafkalite(*arguments: str) -> str:
    done = command(*arguments)
    assert "Traceback" not in done.err
    return done.out


def test_our_command_line_sets_and_removes_credentials(secured: SaslCluster) -> None:
    where = ("configs", "--bootstrap-server", secured.cluster.bootstrap, "--user", "frank", "--alter")
    kafkalite(*where, "--add-config", "SCRAM-SHA-512=[iterations=5000,password=of-frank]")
    wait_for(lambda: can_login(secured, Login("SCRAM-SHA-512", "frank", "of-frank")), "the password is obeyed")
    assert "SCRAM-SHA-512=iterations=5000" in secured.describe_user("frank").replace(" ", "")
    kafkalite(*where, "--delete-config", "SCRAM-SHA-512")
    wait_for(lambda: not can_login(secured, Login("SCRAM-SHA-512", "frank", "of-frank")), "the user is gone")


def test_the_spark_sources_client_logs_in(secured: SaslCluster, topic: str) -> None:
    for mechanism in MECHANISMS:
        login = Login(mechanism)
        config = ClientConfig.from_kafka(
            {
                "bootstrap.servers": secured.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": login.jaas,
            }
        )
        with ClusterConnections(config) as connections:
            assert list(connections.topics([topic])) == [topic]


# Secrets


def test_no_password_is_in_logs_or_descriptions(secured: SaslCluster) -> None:
    for password in (PASSWORD, "planted-wrong-password"):
        for mechanism in MECHANISMS:
            with secured.connect() as connection:
                handshake(connection, mechanism)
                token(connection, plain("alice", password))
    described = run_tool(
        KAFKA_3_9,
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", secured.cluster.bootstrap, "--describe", "--all"),
        *("--entity-type", "brokers", "--entity-name", "1"),
    ).out
    assert "sasl.jaas.config=null" in described
    users = secured.describe_user("alice")
    log = secured.cluster.log_file(1).read_text()
    for secret in (*USERS.values(), "planted-wrong-password", "stored_key", "server_key"):
        assert secret not in described
        assert secret not in users
        assert secret not in log
