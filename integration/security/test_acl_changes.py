"""ACLs change while brokers run: by Kafka's tools and by ours, through brokers and ZooKeeper, across a cut from it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.conftest import TEST_OVERRIDES, launcher
from integration.faults.relay import Relay
from integration.harness.commands import command
from integration.harness.java import KAFKA_2_8, KAFKA_3_9, run_tool
from integration.harness.tree import Tree
from integration.harness.wait import wait_for
from integration.security.acl_matrix import User
from kafkalite.common.errors import ErrorCode
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.processes import free_ports
from kafkalite.embedded.zookeeper import EmbeddedZooKeeper
from kafkalite.protocol.api_keys import ApiKey

ACLS = "kafka.admin.AclCommand"
SOON = 1.0
"""Seconds within which a change is to be obeyed by every broker."""


class TwoBrokersFixture:
    """Two brokers; the second reaches ZooKeeper through a relay. Clients log in as alice or admin."""

    def __init__(self, cluster: LocalCluster, sasl: list[str], relay: Relay) -> None:
        self.cluster = cluster
        self.sasl = sasl
        self.relay = relay
        self._alice: dict[int, User] = {}
        """Her connections by broker."""

    def close(self) -> None:
        """Close alice's connections."""
        for alice in self._alice.values():
            alice.close()

    def error(self, broker_id: int, topic: str) -> ErrorCode:
        """What alice is told of the topic by a broker, on one connection, because a connection keeps its decisions."""
        alice = self._alice.get(broker_id)
        if alice is None:
            alice = self._alice[broker_id] = User(self.sasl[broker_id - 1], "alice")
        (found,) = alice.ask(
            ApiKey.METADATA,
            9,
            topics=[{"name": topic}],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        ).topics
        return ErrorCode(found.error_code)

    def may(self, broker_id: int, topic: str) -> bool:
        """Whether alice may describe the topic, as that broker sees it."""
        return self.error(broker_id, topic) is not ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def all_agree(self, topic: str, *, allowed: bool) -> None:
        """Wait until every broker lets alice describe the topic, or not."""
        wait_for(lambda: all(self.may(each, topic) is allowed for each in (1, 2)), f"alice may: {allowed}")

    def acls(self, *arguments: str) -> str:
        """Kafka's tool through the second broker."""
        return run_tool(KAFKA_3_9, ACLS, "--bootstrap-server", self.cluster.address(2), *arguments).out

    def acls_of_2_8(self, *arguments: str) -> str:
        """Kafka's tool of 2.8.2 on ZooKeeper."""
        connect = f"zookeeper.connect={self.cluster.zookeeper}"
        return run_tool(KAFKA_2_8, ACLS, "--authorizer-properties", connect, *arguments).out

    def kafkalite(self, *arguments: str) -> str:
        """``kafkalite acls`` through the first broker."""
        return command("acls", "--bootstrap-server", self.cluster.address(1), *arguments).out


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBrokersFixture]:
    folder: Path = tmp_path_factory.mktemp("changes")
    with EmbeddedZooKeeper(folder / "zookeeper") as zookeeper, Relay(zookeeper.connect_string) as relay:
        cluster = LocalCluster(
            folder / "cluster", 2, zookeeper=zookeeper.connect_string, overrides=TEST_OVERRIDES, launcher=launcher()
        )
        sasl = [f"127.0.0.1:{port}" for port in free_ports(2)]
        for broker_id, address in enumerate(sasl, 1):
            cluster.override_broker(
                broker_id,
                {
                    "listeners": f"PLAINTEXT://{cluster.address(broker_id)},SASL://{address}",
                    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
                    "inter.broker.listener.name": "PLAINTEXT",
                    "sasl.enabled.mechanisms": "PLAIN",
                    "listener.name.sasl.plain.sasl.jaas.config": (
                        "org.apache.kafka.common.security.plain.PlainLoginModule required "
                        'user_alice="matrix" user_admin="matrix";'
                    ),
                    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                    "super.users": "User:ANONYMOUS;User:admin",
                    **({"zookeeper.connect": relay.address} if broker_id == 2 else {}),
                },
            )
        try:
            cluster.start()
            made = TwoBrokersFixture(cluster, sasl, relay)
            yield made
            made.close()
        finally:
            cluster.close()


def test_kafkas_tool_changes_acls_through_a_broker(fixture: TwoBrokersFixture) -> None:
    grant = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "java")
    said = fixture.acls("--add", *grant)
    assert "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)" in said
    fixture.all_agree("java", allowed=True)
    assert "name=java, patternType=LITERAL" in fixture.acls("--list", "--topic", "java")
    fixture.acls("--remove", "--force", *grant)
    fixture.all_agree("java", allowed=False)
    assert "User:alice" not in fixture.acls("--list", "--topic", "java")


def test_the_tool_of_2_8_changes_acls_in_zookeeper(fixture: TwoBrokersFixture) -> None:
    prefix = ("--topic", "zk-", "--resource-pattern-type", "prefixed")
    grant = ("--allow-principal", "User:alice", "--operation", "Read", *prefix)
    fixture.acls_of_2_8("--add", *grant)
    fixture.all_agree("zk-topic", allowed=True)
    assert "operation=READ" in fixture.kafkalite("--list", *prefix)
    fixture.acls_of_2_8("--remove", "--force", *grant)
    fixture.all_agree("zk-topic", allowed=False)


@pytest.mark.full
def test_the_tool_of_2_8_shows_what_was_added_through_a_broker(fixture: TwoBrokersFixture) -> None:
    eve = ("--deny-principal", "User:eve", "--deny-host", "10.0.0.9")
    fixture.kafkalite("--add", *eve, "--operation", "Write", "--topic", "shown")
    said = fixture.acls_of_2_8("--list", "--topic", "shown")
    assert "principal=User:eve, host=10.0.0.9, operation=WRITE, permissionType=DENY" in said


@pytest.mark.full
def test_our_tool_says_what_kafkas_says(fixture: TwoBrokersFixture) -> None:
    """The same ACLs in the same words, whichever tool and broker shows them."""
    fixture.kafkalite("--add", "--allow-principal", "User:alice", "--producer", "--topic", "both")
    fixture.kafkalite("--add", "--allow-principal", "User:alice", "--consumer", "--topic", "both", "--group", "both")
    fixture.all_agree("both", allowed=True)
    both = ("--list", "--topic", "both", "--group", "both")
    # Each tool asks a broker of its choice, and the group's ACL reaches the other broker after the topic's.
    wait_for(lambda: "resourceType=GROUP" in fixture.kafkalite(*both), "the group's ACL")
    wait_for(lambda: words(fixture.acls(*both)) == words(fixture.kafkalite(*both)), "the same ACLs")
    fixture.kafkalite("--remove", "--force", "--topic", "both", "--group", "both")
    fixture.all_agree("both", allowed=False)
    assert fixture.kafkalite("--list", "--topic", "both") == ""


def words(said: str) -> list[str]:
    return sorted(line.strip() for line in said.splitlines() if line.strip())


def test_znodes_come_and_go_with_the_acls(fixture: TwoBrokersFixture) -> None:
    with Tree(fixture.cluster.zookeeper) as tree:
        fixture.kafkalite("--add", "--allow-principal", "User:alice", "--operation", "Read", "--group", "seen")
        assert tree.json("/kafka-acl/Group/seen") == {
            "version": 1,
            "acls": [{"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"}],
        }
        fixture.kafkalite("--remove", "--force", "--group", "seen")
        assert not tree.exists("/kafka-acl/Group/seen")


def test_a_removal_reaches_every_broker_within_a_second(fixture: TwoBrokersFixture) -> None:
    took = [SOON]
    # Repeated, because one removal may meet a stall of the machine.
    for number in range(10):
        if took[-1] < SOON:
            break
        topic = f"soon-{number}"
        with User(fixture.sasl[0], "admin") as admin:
            grant(admin, topic)
            fixture.all_agree(topic, allowed=True)
            revoke(admin, topic)
            begun = time.monotonic()
            fixture.all_agree(topic, allowed=False)
        took.append(time.monotonic() - begun)
    assert took[-1] < SOON, took


@pytest.mark.kafkalite_only
def test_a_removal_during_a_cut_from_zookeeper_holds_when_it_is_over(fixture: TwoBrokersFixture) -> None:
    """Until then the broker that is cut off decides by what it has read last."""
    with User(fixture.sasl[0], "admin") as admin:
        grant(admin, "cut")
        fixture.all_agree("cut", allowed=True)
        fixture.relay.cut()
        try:
            revoke(admin, "cut")
            wait_for(lambda: not fixture.may(1, "cut"), "the connected broker obeys")
            assert fixture.may(2, "cut")
        finally:
            fixture.relay.heal()
    fixture.all_agree("cut", allowed=False)


def grant(admin: User, topic: str) -> None:
    (made,) = admin.ask(ApiKey.CREATE_ACLS, 3, creations=[{**_ALICE, "resource_name": topic}]).results
    assert made.error_code == ErrorCode.NONE, made


def revoke(admin: User, topic: str) -> None:
    wanted = {
        "resource_type_filter": 2,
        "resource_name_filter": topic,
        "pattern_type_filter": 3,
        "principal_filter": "User:alice",
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    (result,) = admin.ask(ApiKey.DELETE_ACLS, 3, filters=[wanted]).filter_results
    assert [each.error_code for each in result.matching_acls] == [ErrorCode.NONE]


_ALICE = {
    "resource_type": 2,
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
