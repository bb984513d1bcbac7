"""Credentials, ACLs, quotas and delegation tokens that one kind of broker wrote into ZooKeeper and the other obeys.

The two kinds run one after the other on the same tree: kafkalite writes, Apache Kafka 3.9.1 obeys and changes it, and
kafkalite obeys the changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from integration.conftest import AGAINST_KAFKA, TEST_OVERRIDES
from integration.harness.commands import command
from integration.harness.java import kafka_launcher
from integration.harness.wait import wait_for
from integration.harness.wire import Wire
from integration.security.acl_cases import plain
from integration.security.acl_matrix import ask
from integration.security.scram_login import log_in, token_password
from kafkalite.common.acls import AclOperation, AclPermissionType, AclResourceType, PatternType
from kafkalite.common.errors import ErrorCode
from kafkalite.embedded.cluster import Launcher, LocalCluster, kafkalite_launcher
from kafkalite.embedded.processes import free_ports
from kafkalite.embedded.zookeeper import EmbeddedZooKeeper
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.record.records import Record, encode_batch

TIMEOUT = 60.0
SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
ALICE, BOB, CAROL = "alice", "b/o,b = 1", "carol"
"""Users; the second one's name has characters that znodes have in another form."""
PASSWORDS = {ALICE: "of-alice", BOB: "of-bob", CAROL: "of-carol"}
TOPICS = ("own", "team-1", "team-secret", "host", "hidden")
MUCH = 500_000

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="both kinds of brokers take part already")


class Token(NamedTuple):
    """What the maker of a token is told."""

    id: str
    hmac: bytes


class Broker:
    """A running broker: ``open_address`` is its listener for super users, ``address`` that with SASL.

    ``passwords`` are those that were written last, also by other brokers.
    """

    def __init__(self, open_address: str, address: str, passwords: dict[str, str]) -> None:
        self._open_address = open_address
        self._address = address
        self._passwords = passwords

    # Changes

    def set_password(self, user: str, password: str, *mechanisms: ScramMechanism) -> None:
        """New credentials; SCRAM-SHA-512 is among them."""
        self._passwords[user] = password
        self._alter_credentials(
            *(
                UserScramCredentialUpsertion(user, ScramCredentialInfo(each, 4096 + each.value), password.encode())
                for each in mechanisms
            )
        )

    def delete_password(self, user: str, mechanism: ScramMechanism) -> None:
        """Remove the credentials."""
        self._alter_credentials(UserScramCredentialDeletion(user, mechanism))

    def _alter_credentials(self, *alterations: UserScramCredentialAlteration) -> None:
        admin = AdminClient({"bootstrap.servers": self._open_address})
        for future in admin.alter_user_scram_credentials(list(alterations)).values():
            future.result(TIMEOUT)

    def create_topics(self) -> None:
        """Make the topics that the ACLs are about."""
        made = self._admin(
            ApiKey.CREATE_TOPICS,
            5,
            topics=[
                {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
                for name in TOPICS
            ],
            timeout_ms=10_000,
            validate_only=False,
        )
        assert {each.error_code for each in made.topics} == {ErrorCode.NONE}

    def add_acl(
        self,
        user: str,
        name: str,
        operation: AclOperation = AclOperation.ALL,
        *,
        pattern: PatternType = PatternType.LITERAL,
        permission: AclPermissionType = AclPermissionType.ALLOW,
        host: str = "*",
    ) -> None:
        """An ACL of a topic."""
        acl = {
            "resource_type": AclResourceType.TOPIC,
            "resource_name": name,
            "resource_pattern_type": pattern,
            "principal": f"User:{user}",
            "host": host,
            "operation": operation,
            "permission_type": permission,
        }
        (result,) = self._admin(ApiKey.CREATE_ACLS, 3, creations=[acl]).results
        assert result.error_code == ErrorCode.NONE, result

    def remove_acls(self, name: str) -> None:
        """Remove all ACLs of a topic."""
        (result,) = self._admin(
            ApiKey.DELETE_ACLS, 3, filters=[{**_ANY_ACL, "resource_type_filter": 2, "resource_name_filter": name}]
        ).filter_results
        assert result.matching_acls

    def set_quota(self, key: str, value: float | None, **entity: str | None) -> None:
        """Set a quota of ``entity``, as ``user="alice"``, or remove it; a name that is ``None`` is the default."""
        asked = {
            "entity": [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in entity.items()],
            "ops": [{"key": key, "value": value or 0.0, "remove": value is None}],
        }
        (result,) = self._admin(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[asked], validate_only=False).entries
        assert result.error_code == ErrorCode.NONE, result

    def create_token(self, user: str, *renewers: str) -> Token:
        """A token of the user."""
        with self._as(user) as client:
            made = ask(
                client,
                ApiKey.CREATE_DELEGATION_TOKEN,
                3,
                owner_principal_type=None,
                owner_principal_name=None,
                renewers=[{"principal_type": "User", "principal_name": name} for name in renewers],
                max_lifetime_ms=-1,
            )
            assert made.error_code == ErrorCode.NONE, made
            return Token(made.token_id, bytes(made.hmac))

    def renew_token(self, user: str, token: Token) -> None:
        """Let a token end in an hour."""
        with self._as(user) as client:
            answer = ask(client, ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=token.hmac, renew_period_ms=3_600_000)
            assert answer.error_code == ErrorCode.NONE

    def end_token(self, user: str, token: Token) -> None:
        """End a token."""
        with self._as(user) as client:
            answer = ask(client, ApiKey.EXPIRE_DELEGATION_TOKEN, 2, hmac=token.hmac, expiry_time_period_ms=-1)
            assert answer.error_code == ErrorCode.NONE

    # What holds

    def logins(self) -> dict[tuple[str, str, str], bool]:
        """User, mechanism and password → whether the broker lets the client in."""
        return {
            (user, mechanism, password): self.lets_in(user, mechanism, password)
            for user in PASSWORDS
            for mechanism in (SHA_256, SHA_512)
            for password in (PASSWORDS[user], f"new-{PASSWORDS[user]}")
        }

    def lets_in(self, user: str, mechanism: str, password: str, *, is_token: bool = False) -> bool:
        """Whether the login succeeds."""
        with Wire(self._address) as client:
            return log_in(client, mechanism, user, password, is_token=is_token) == ErrorCode.NONE

    def accepts(self, token: Token) -> bool:
        """Whether the token logs in."""
        return self.lets_in(token.id, SHA_256, token_password(token.hmac), is_token=True)

    def may(self, user: str, token: Token | None = None) -> dict[str, tuple[bool, bool]]:
        """Topic → whether the user, who may come with a token, may describe it and write to it."""
        with self._as(user, token) as client:
            found = ask(
                client,
                ApiKey.METADATA,
                9,
                topics=[{"name": name} for name in TOPICS],
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            ).topics
            seen = {each.name: each.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED for each in found}
            return {name: (seen[name], _produced(client, name)[0] == ErrorCode.NONE) for name in TOPICS}

    def is_throttled(self, user: str) -> bool:
        """Whether the broker throttles half a megabyte of the user."""
        with self._as(user) as client:
            error, throttle_ms = _produced(client, "own", MUCH)
            assert error == ErrorCode.NONE
            return throttle_ms > 0

    def described(self) -> dict[str, Any]:
        """ACLs, quotas, credentials and tokens as the broker shows them."""
        with self._as(ALICE) as alice:
            tokens = ask(alice, ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, owners=None).tokens
        answers = {
            "ACLs": self._admin(ApiKey.DESCRIBE_ACLS, 3, **_ANY_ACL),
            "quotas": self._admin(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=[], strict=False),
            "credentials": self._admin(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None),
            "tokens": tokens,
        }
        return {name: _in_order(plain(answer)) for name, answer in answers.items()}

    def _admin(self, api: ApiKey, version: int, **fields: Any) -> Any:
        with Wire(self._open_address) as client:
            return ask(client, api, version, **fields)

    @contextmanager
    def _as(self, user: str, token: Token | None = None) -> Iterator[Wire]:
        with Wire(self._address) as client:
            if token is None:
                assert log_in(client, SHA_512, user, self._passwords[user]) == ErrorCode.NONE
            else:
                assert log_in(client, SHA_256, token.id, token_password(token.hmac), is_token=True) == ErrorCode.NONE
            yield client


_ANY_ACL = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def _produced(client: Wire, topic: str, size: int = 1) -> tuple[int, int]:
    """The error, and the milliseconds for which the client is throttled."""
    records = encode_batch([Record(0, 1, None, b"x" * size)])
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    answer = ask(client, ApiKey.PRODUCE, 9, transactional_id=None, acks=1, timeout_ms=10_000, topic_data=data)
    return answer.responses[0].partition_responses[0].error_code, answer.throttle_time_ms


def _in_order(value: Any) -> Any:
    """The same with every list sorted, because neither kind of broker promises an order."""
    if isinstance(value, dict):
        return {name: _in_order(each) for name, each in value.items()}
    if isinstance(value, list):
        return sorted(map(_in_order, value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


class SharedTree:
    """A ZooKeeper on which brokers of one kind after the other run."""

    def __init__(self, folder: Path, zookeeper: str) -> None:
        self._folder = folder
        self._zookeeper = f"{zookeeper}/shared"
        self._runs = 0
        self._passwords: dict[str, str] = {}

    @contextmanager
    def broker(self, launcher: Launcher) -> Iterator[Broker]:
        """A broker while the ``with`` statement runs."""
        self._runs += 1
        # Each has log directories of its own, because the topics' records do not matter here.
        cluster = LocalCluster(
            self._folder / f"run-{self._runs}",
            1,
            zookeeper=self._zookeeper,
            overrides=TEST_OVERRIDES,
            launcher=launcher,
        )
        address = f"127.0.0.1:{free_ports(1)[0]}"
        module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        cluster.override_broker(
            1,
            {
                "listeners": f"PLAINTEXT://{cluster.address(1)},SASL://{address}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": f"{SHA_256},{SHA_512}",
                "listener.name.sasl.scram-sha-256.sasl.jaas.config": module,
                "listener.name.sasl.scram-sha-512.sasl.jaas.config": module,
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                "super.users": "User:ANONYMOUS",
                "delegation.token.secret.key": "shared-secret",
            },
        )
        try:
            cluster.start(60)
            yield Broker(cluster.address(1), address, self._passwords)
            cluster.stop()
        finally:
            cluster.close()
        command("zk", "verify", "--zookeeper", self._zookeeper)


def write_first(broker: Broker) -> tuple[Token, Token]:
    """What the first broker writes: an own token of alice, and one that bob may renew."""
    broker.create_topics()
    for user in (ALICE, BOB):
        broker.set_password(user, PASSWORDS[user], ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    broker.set_password(CAROL, PASSWORDS[CAROL], ScramMechanism.SCRAM_SHA_512)
    broker.add_acl("*", "own", AclOperation.WRITE)
    broker.add_acl(ALICE, "team-", pattern=PatternType.PREFIXED)
    broker.add_acl(ALICE, "team-secret", AclOperation.WRITE, permission=AclPermissionType.DENY, host="127.0.0.1")
    broker.add_acl(ALICE, "host", host="10.1.2.3")
    broker.add_acl(BOB, "host", AclOperation.DESCRIBE, host="127.0.0.1")
    broker.set_quota("producer_byte_rate", 1000.0, user=ALICE)
    broker.set_quota("producer_byte_rate", 1000.0, user=BOB, client_id="wire")
    broker.set_quota("consumer_byte_rate", 2.5e6, client_id=None)
    broker.set_quota("request_percentage", 12.5, user=None, client_id="x")
    broker.set_quota("connection_creation_rate", 500.0, ip="10.1.2.3")
    wait_for(lambda: all(broker.lets_in(user, SHA_512, PASSWORDS[user]) for user in PASSWORDS), "all users log in")
    return broker.create_token(ALICE), broker.create_token(ALICE, BOB)


FIRST_LOGINS = {
    (user, mechanism, password)
    for user in PASSWORDS
    for mechanism in (SHA_256, SHA_512)
    for password in (PASSWORDS[user],)
    if (user, mechanism) != (CAROL, SHA_256)
}
NO, SEES, ALL = (False, False), (True, False), (True, True)
FIRST_RIGHTS = {
    ALICE: {"own": ALL, "team-1": ALL, "team-secret": SEES, "host": NO, "hidden": NO},
    BOB: {"own": ALL, "team-1": NO, "team-secret": NO, "host": SEES, "hidden": NO},
    CAROL: {"own": ALL, "team-1": NO, "team-secret": NO, "host": NO, "hidden": NO},
}


def change(broker: Broker, own: Token, renewable: Token) -> Token:
    """What the second broker changes; a token that it makes."""
    broker.set_password(ALICE, f"new-{PASSWORDS[ALICE]}", ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    broker.delete_password(BOB, ScramMechanism.SCRAM_SHA_256)
    broker.remove_acls("team-secret")
    broker.remove_acls("host")
    broker.add_acl(CAROL, "hid", AclOperation.WRITE, pattern=PatternType.PREFIXED)
    broker.set_quota("producer_byte_rate", None, user=ALICE)
    broker.set_quota("producer_byte_rate", 1000.0, user=None)
    broker.set_quota("producer_byte_rate", 1e9, user=BOB, client_id="wire")
    wait_for(lambda: broker.lets_in(ALICE, SHA_512, f"new-{PASSWORDS[ALICE]}"), "alice has a new password")
    broker.end_token(ALICE, own)
    broker.renew_token(BOB, renewable)
    return broker.create_token(CAROL)


SECOND_LOGINS = {
    (ALICE, SHA_256, f"new-{PASSWORDS[ALICE]}"),
    (ALICE, SHA_512, f"new-{PASSWORDS[ALICE]}"),
    (BOB, SHA_512, PASSWORDS[BOB]),
    (CAROL, SHA_512, PASSWORDS[CAROL]),
}
SECOND_RIGHTS = {
    ALICE: {"own": ALL, "team-1": ALL, "team-secret": ALL, "host": NO, "hidden": NO},
    BOB: {"own": ALL, "team-1": NO, "team-secret": NO, "host": NO, "hidden": NO},
    CAROL: {"own": ALL, "team-1": NO, "team-secret": NO, "host": NO, "hidden": ALL},
}


def test_what_one_kind_of_broker_writes_the_other_obeys(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as zookeeper:
        tree = SharedTree(tmp_path, zookeeper.connect_string)
        with tree.broker(kafkalite_launcher) as first:
            own, renewable = write_first(first)
            told = first.described()

        with tree.broker(kafka_launcher()) as second:
            assert second.described() == told
            assert {login for login, works in second.logins().items() if works} == FIRST_LOGINS
            assert {user: second.may(user) for user in PASSWORDS} == FIRST_RIGHTS
            assert second.accepts(own)
            assert second.accepts(renewable)
            assert second.may(ALICE, renewable) == FIRST_RIGHTS[ALICE]
            # The last question, because a throttled user waits for the next answer.
            assert [second.is_throttled(user) for user in PASSWORDS] == [True, True, False]
            made = change(second, own, renewable)
            told = second.described()

        with tree.broker(kafkalite_launcher) as third:
            assert third.described() == told
            assert {login for login, works in third.logins().items() if works} == SECOND_LOGINS
            assert {user: third.may(user) for user in PASSWORDS} == SECOND_RIGHTS
            assert not third.accepts(own)
            assert third.accepts(renewable)
            assert third.accepts(made)
            assert third.may(CAROL, made) == SECOND_RIGHTS[CAROL]
            assert [third.is_throttled(user) for user in PASSWORDS] == [True, False, True]
