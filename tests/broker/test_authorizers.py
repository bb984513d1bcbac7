"""The authorizer that a broker's configuration asks for, and Kafka's on ACLs in the ZooKeeper twin."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from types import ModuleType

import pytest

from kafkalite.broker.acl_authorizer import AclAuthorizer
from kafkalite.broker.authorizers import make_authorizer
from kafkalite.broker.config import BrokerConfig
from kafkalite.common.acls import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from kafkalite.common.errors import ApiError, ErrorCode, StartupError
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.security.authorizer_interface import Authorizer
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.stores.acls import AclStore
from tests.support import run

ALICE, ADMIN = KafkaPrincipal.user("alice"), KafkaPrincipal.user("admin")
TOPIC = ResourcePattern(AclResourceType.TOPIC, "t", PatternType.LITERAL)
READ = AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
EVERY_ACL = AclBindingFilter(
    AclResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


class FriendAuthorizer(Authorizer):
    """An authorizer of the user's own."""

    def __init__(self, configs: Mapping[str, str]) -> None:
        self.friend = configs["house.friend"]

    def authorize(
        self,
        principal: KafkaPrincipal,
        host: str,  # noqa: ARG002
        operation: AclOperation,  # noqa: ARG002
        type_: AclResourceType,  # noqa: ARG002
        name: str,  # noqa: ARG002
    ) -> bool:
        return principal.name == self.friend

    def authorize_by_resource_type(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, type_: AclResourceType
    ) -> bool:
        return self.authorize(principal, host, operation, type_, "")


class Stranger:
    """No authorizer."""

    def __init__(self, configs: Mapping[str, str]) -> None:
        pass


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module ``house_rules``, which the broker can import."""
    module = ModuleType("house_rules")
    vars(module).update(FriendAuthorizer=FriendAuthorizer, Stranger=Stranger)
    monkeypatch.setitem(sys.modules, "house_rules", module)


def made(server: MemoryZooKeeper, **texts: str) -> Authorizer | None:
    config = BrokerConfig.parse(
        {"zookeeper.connect": "zk", **{name.replace("_", "."): text for name, text in texts.items()}}
    )
    return make_authorizer(config, server.client(), ManualClock(), random.Random(1))


def may(authorizer: Authorizer | None, principal: KafkaPrincipal, name: str = "t") -> bool:
    assert authorizer is not None
    return authorizer.authorize(principal, "h", AclOperation.READ, AclResourceType.TOPIC, name)


def test_there_is_none_by_default() -> None:
    assert made(MemoryZooKeeper()) is None


def test_super_users_may_do_everything_with_kafkas() -> None:
    authorizer = made(
        MemoryZooKeeper(),
        authorizer_class_name="kafka.security.authorizer.AclAuthorizer",
        super_users="User:admin;User:root",
    )
    assert may(authorizer, ADMIN) and not may(authorizer, ALICE)


def test_everyone_may_use_what_has_no_acl_where_that_is_configured() -> None:
    name = "kafka.security.authorizer.AclAuthorizer"
    texts = {"authorizer.class.name": name, "allow.everyone.if.no.acl.found": "true", "zookeeper.connect": "zk"}
    authorizer = make_authorizer(BrokerConfig.parse(texts), MemoryZooKeeper().client(), ManualClock(), random.Random(1))
    assert may(authorizer, ALICE)


@pytest.mark.usefixtures("rules")
def test_one_in_python_gets_the_configuration() -> None:
    authorizer = made(MemoryZooKeeper(), authorizer_class_name="house_rules:FriendAuthorizer", house_friend="alice")
    assert may(authorizer, ALICE) and not may(authorizer, ADMIN)
    assert authorizer is not None and authorizer.snapshot is None
    with pytest.raises(ApiError) as caught:
        authorizer.acls(EVERY_ACL)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("house_rules:Nobody", "AttributeError"),
        ("no_such_house:Rules", "ModuleNotFoundError"),
        ("house_rules:FriendAuthorizer", "KeyError"),
        ("house_rules:Stranger", "is no authorizer"),
    ],
)
def test_one_that_cannot_be_made_stops_the_start_with_one_line(name: str, complaint: str) -> None:
    with pytest.raises(StartupError, match=complaint) as caught:
        made(MemoryZooKeeper(), authorizer_class_name=name)
    assert "\n" not in str(caught.value) and name in str(caught.value)


class AclAuthorizersFixture:
    """Kafka's authorizer on two brokers."""

    def __init__(self) -> None:
        # As late as it is for the ZooKeeper without a clock, so that notifications are not removed as old ones.
        self.clock = ManualClock(0)
        self.server = MemoryZooKeeper()
        self.clients = [self.server.client() for _ in range(2)]
        self.brokers = [self.start(client) for client in self.clients]

    def start(self, client: MemoryZkClient) -> AclAuthorizer:
        store = AclStore(client, self.clock, random.Random(1))
        authorizer = AclAuthorizer(store, frozenset({ADMIN}), allow_if_no_acl=False)
        run(authorizer.start())
        return authorizer


def test_what_one_broker_adds_and_removes_all_brokers_obey() -> None:
    fixture = AclAuthorizersFixture()
    one, other = fixture.brokers
    assert run(one.create_acls([AclBinding(TOPIC, READ)])) == [None]
    assert may(one, ALICE) and may(other, ALICE)
    snapshot = other.snapshot
    ((deleted,),) = run(one.delete_acls([EVERY_ACL]))
    assert deleted == (AclBinding(TOPIC, READ), None)
    assert not may(one, ALICE) and not may(other, ALICE)
    assert other.snapshot is not snapshot and not snapshot.is_current


def test_acls_are_read_at_the_start() -> None:
    fixture = AclAuthorizersFixture()
    run(fixture.brokers[0].create_acls([AclBinding(TOPIC, READ)]))
    assert list(fixture.start(fixture.server.client()).acls(EVERY_ACL)) == [AclBinding(TOPIC, READ)]


def test_a_broker_does_not_start_with_acls_that_it_cannot_read() -> None:
    fixture = AclAuthorizersFixture()
    run(fixture.clients[0].create("/kafka-acl/Topic/broken", b"{"))
    with pytest.raises(StartupError, match="/kafka-acl/Topic/broken"):
        fixture.start(fixture.server.client())


def test_a_change_during_a_cut_is_obeyed_after_it() -> None:
    fixture = AclAuthorizersFixture()
    one, other = fixture.brokers
    run(one.create_acls([AclBinding(TOPIC, READ)]))
    fixture.clients[1].lose_connection()
    run(one.delete_acls([EVERY_ACL]))
    assert may(other, ALICE), "what was read last holds"
    fixture.clients[1].reconnect()
    assert not may(other, ALICE)


def test_after_a_new_session_every_acl_is_read_again() -> None:
    fixture = AclAuthorizersFixture()
    one, other = fixture.brokers
    run(one.create_acls([AclBinding(TOPIC, READ)]))
    client = fixture.clients[1]
    client.lose_connection()
    fixture.server.expire(client.session)
    run(fixture.clients[0].delete("/kafka-acl/Topic/t"))
    assert may(other, ALICE)
    client.reconnect()
    assert not may(other, ALICE)


def test_a_change_that_cannot_be_read_leaves_the_former_acls() -> None:
    fixture = AclAuthorizersFixture()
    one, other = fixture.brokers
    run(one.create_acls([AclBinding(TOPIC, READ)]))
    run(fixture.clients[0].set("/kafka-acl/Topic/t", b"{"))
    run(fixture.clients[0].create("/kafka-acl-changes/acl_changes_", b"TOPIC:t", sequence=True))
    assert may(other, ALICE)


def test_wrong_acls_are_refused_and_the_others_added() -> None:
    one, _ = AclAuthorizersFixture().brokers
    wrong = AclBinding(TOPIC._replace(name="a/b"), READ)
    refused, added = run(one.create_acls([wrong, AclBinding(TOPIC, READ)]))
    assert isinstance(refused, ApiError) and refused.code is ErrorCode.INVALID_REQUEST and added is None


def test_an_acl_that_two_filters_match_belongs_to_the_first() -> None:
    one, _ = AclAuthorizersFixture().brokers
    write = READ._replace(operation=AclOperation.WRITE)
    run(one.create_acls([AclBinding(TOPIC, READ), AclBinding(TOPIC, write)]))
    reading = AclBindingFilter(
        AclResourceType.TOPIC, "t", PatternType.LITERAL, None, None, AclOperation.READ, AclPermissionType.ANY
    )
    first, second = run(one.delete_acls([reading, EVERY_ACL]))
    assert [each.binding.entry for each in first] == [READ]
    assert [each.binding.entry for each in second] == [write]


def test_a_filter_by_name_finds_what_this_broker_has_not_heard_of() -> None:
    fixture = AclAuthorizersFixture()
    one, other = fixture.brokers
    other.close()
    run(one.create_acls([AclBinding(TOPIC, READ)]))
    assert not may(other, ALICE)
    named = AclBindingFilter(
        AclResourceType.TOPIC, "t", PatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert [each.binding for each in run(other.delete_acls([named]))[0]] == [AclBinding(TOPIC, READ)]


def test_a_change_while_zookeeper_is_away_is_not_reported_as_made() -> None:
    fixture = AclAuthorizersFixture()
    one, _ = fixture.brokers
    fixture.clients[0].lose_connection()
    (outcome,) = run(one.create_acls([AclBinding(TOPIC, READ)]))
    assert outcome is not None
    assert not may(one, ALICE)


def test_a_connection_that_is_lost_while_a_change_is_read_does_not_lose_the_change() -> None:
    fixture = AclAuthorizersFixture()
    one, other = fixture.brokers
    run(one.create_acls([AclBinding(TOPIC, READ)]))
    client = fixture.clients[1]

    def lose(name: str, path: str) -> None:
        if name == "get" and path == "/kafka-acl/Topic/t":
            client.before = None
            client.lose_connection()

    client.before = lose
    run(one.delete_acls([EVERY_ACL]))
    assert may(other, ALICE)
    client.reconnect()
    assert not may(other, ALICE)
