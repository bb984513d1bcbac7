"""ACLs in ZooKeeper against the ZooKeeper twin: changes under a version, notifications, cuts, foreign znodes."""

from __future__ import annotations

import json
import logging
import random

import pytest

from kafkalite.common.acls import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from kafkalite.common.tasks import deferred
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.stores import feeds
from kafkalite.zk.stores.acls import MAX_RETRIES, AclStore
from kafkalite.zk.stores.paths import ensure
from kafkalite.zk.zk_client import BadVersionError, ConnectionLostError, ZkClient
from kafkalite.zk.znodes.acls import EXTENDED_CHANGES
from kafkalite.zk.znodes.codec import MalformedZnodeError
from tests.support import run

LITERAL = ResourcePattern(AclResourceType.TOPIC, "t", PatternType.LITERAL)
PREFIXED = ResourcePattern(AclResourceType.TRANSACTIONAL_ID, "t-", PatternType.PREFIXED)
READ = AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
WRITE = AccessControlEntry("User:bob", "10.0.0.1", AclOperation.WRITE, AclPermissionType.DENY)
PATHS = {LITERAL: "/kafka-acl/Topic/t", PREFIXED: "/kafka-acl-extended/prefixed/TransactionalId/t-"}
NOTHING: frozenset[AccessControlEntry] = frozenset()


class AclStoreFixture:
    """A ZooKeeper with Kafka's containers, and a store on one of its clients."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.server = MemoryZooKeeper()
        self.client = self.server.client()
        self.store = self.another(self.client)
        run(self.store.ensure_paths())

    def another(self, client: MemoryZkClient) -> AclStore:
        return AclStore(client, self.clock, random.Random(1))

    def all(self) -> dict[ResourcePattern, frozenset[AccessControlEntry]]:
        return run(self.store.all(lambda _: NOTHING))


@pytest.fixture
def fixture() -> AclStoreFixture:
    return AclStoreFixture()


def test_the_containers_are_those_of_kafka(fixture: AclStoreFixture) -> None:
    types = ("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User")
    assert {path for path in fixture.server.paths("/") if path.startswith("/kafka-acl")} == {
        "/kafka-acl",
        "/kafka-acl-changes",
        "/kafka-acl-extended",
        "/kafka-acl-extended-changes",
        "/kafka-acl-extended/prefixed",
        *(f"/kafka-acl/{name}" for name in types),
        *(f"/kafka-acl-extended/prefixed/{name}" for name in types),
    }


@pytest.mark.parametrize("pattern", [LITERAL, PREFIXED])
def test_a_pattern_has_a_znode_while_it_has_acls(fixture: AclStoreFixture, pattern: ResourcePattern) -> None:
    assert run(fixture.store.change(pattern, lambda entries: entries | {READ})) == {READ}
    assert run(fixture.store.change(pattern, lambda entries: entries | {WRITE})) == {READ, WRITE}
    assert fixture.all() == {pattern: {READ, WRITE}}
    assert run(fixture.store.read(pattern)) == {READ, WRITE}
    assert run(fixture.store.change(pattern, lambda entries: entries - {READ})) == {WRITE}
    assert run(fixture.store.change(pattern, lambda _: NOTHING)) == NOTHING
    assert PATHS[pattern] not in fixture.server.paths("/")
    assert run(fixture.store.read(pattern)) == NOTHING


def test_a_change_that_changes_nothing_writes_nothing(fixture: AclStoreFixture) -> None:
    run(fixture.store.change(LITERAL, lambda _: frozenset({READ})))
    run(fixture.store.change(LITERAL, lambda entries: entries | {READ}))
    run(fixture.store.change(PREFIXED, lambda entries: entries - {READ}))
    assert len(fixture.server.paths("/kafka-acl-changes/")) == 1
    assert not fixture.server.paths("/kafka-acl-extended-changes/")


def test_a_change_that_another_client_overtakes_is_made_from_what_that_client_wrote(fixture: AclStoreFixture) -> None:
    other = fixture.another(fixture.server.client())
    calls = []

    def change(entries: frozenset[AccessControlEntry]) -> frozenset[AccessControlEntry]:
        calls.append(entries)
        if len(calls) == 1:
            run(other.change(LITERAL, lambda present: present | {WRITE}))
        return entries | {READ}

    done: list[object] = []
    deferred(fixture.store.change(LITERAL, change)).addBoth(done.append)
    fixture.clock.advance(1)
    assert done == [{READ, WRITE}]
    assert calls == [NOTHING, {WRITE}]


def test_a_change_that_is_overtaken_every_time_fails(fixture: AclStoreFixture) -> None:
    other = fixture.another(fixture.server.client())
    count = 0

    def change(_: frozenset[AccessControlEntry]) -> frozenset[AccessControlEntry]:
        nonlocal count
        count += 1
        run(other.change(LITERAL, lambda _: frozenset({READ._replace(principal=f"User:{count}")})))
        return frozenset({READ})

    failed: list[object] = []
    deferred(fixture.store.change(LITERAL, change)).addErrback(lambda failure: failed.append(failure.type))
    fixture.clock.advance(60)
    assert failed == [BadVersionError]
    assert count == MAX_RETRIES + 1


def test_a_container_that_was_removed_is_made_again(fixture: AclStoreFixture) -> None:
    run(fixture.client.delete("/kafka-acl/Topic"))
    run(fixture.client.delete("/kafka-acl-changes"))
    done: list[object] = []
    deferred(fixture.store.change(LITERAL, lambda _: frozenset({READ}))).addBoth(done.append)
    fixture.clock.advance(1)
    assert done == [{READ}]


def test_every_change_is_notified_as_kafka_does(fixture: AclStoreFixture) -> None:
    run(fixture.store.change(LITERAL, lambda _: frozenset({READ})))
    run(fixture.store.change(PREFIXED, lambda _: frozenset({READ})))
    assert fixture.server.data("/kafka-acl-changes/acl_changes_0000000000") == b"TOPIC:t"
    assert json.loads(fixture.server.data("/kafka-acl-extended-changes/acl_changes_0000000000")) == {
        "version": 1,
        "resourceType": "TRANSACTIONAL_ID",
        "name": "t-",
        "patternType": "PREFIXED",
    }


def test_other_brokers_hear_of_every_change(fixture: AclStoreFixture) -> None:
    other = fixture.another(fixture.server.client())
    seen: list[ResourcePattern | None] = []
    run(other.watch_changes(seen.append))
    run(fixture.store.change(LITERAL, lambda _: frozenset({READ})))
    run(fixture.store.change(PREFIXED, lambda _: frozenset({READ})))
    run(fixture.store.change(LITERAL, lambda _: NOTHING))
    assert seen == [LITERAL, PREFIXED, LITERAL]


def test_a_watch_that_could_not_begin_leaves_nothing_behind(
    fixture: AclStoreFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker's start tries again after a lost connection; a change would be read once for each attempt."""
    # The twin's notifications are old for this clock, so that the first feed that reads one removes it.
    monkeypatch.setattr(feeds, "KEEP_MS", 1 << 60)
    other = fixture.another(fixture.server.client())
    seen: list[ResourcePattern | None] = []

    async def lose_extended(client: ZkClient, path: str) -> None:
        if path == EXTENDED_CHANGES:
            raise ConnectionLostError(path)
        await ensure(client, path)

    with monkeypatch.context() as patched:
        patched.setattr(feeds, "ensure", lose_extended)
        with pytest.raises(ConnectionLostError):
            run(other.watch_changes(seen.append))
    run(other.watch_changes(seen.append))
    run(fixture.store.change(LITERAL, lambda _: frozenset({READ})))
    assert seen == [LITERAL]


def test_changes_during_a_cut_are_heard_after_it(fixture: AclStoreFixture) -> None:
    client = fixture.server.client()
    seen: list[ResourcePattern | None] = []
    run(fixture.another(client).watch_changes(seen.append))
    client.lose_connection()
    run(fixture.store.change(LITERAL, lambda _: frozenset({READ})))
    assert seen == []
    client.reconnect()
    assert seen == [LITERAL]
    client.expire_session()
    client.reconnect()
    assert seen[1:] == [None, None], "each feed says that it may have missed changes"


def test_a_notification_that_cannot_be_read_makes_every_acl_be_read(fixture: AclStoreFixture) -> None:
    seen: list[ResourcePattern | None] = []
    run(fixture.store.watch_changes(seen.append))
    run(fixture.client.create("/kafka-acl-changes/acl_changes_", b"\xff", sequence=True))
    assert seen == [None]


def test_a_malformed_znode_leaves_the_former_acls_in_force(
    fixture: AclStoreFixture, caplog: pytest.LogCaptureFixture
) -> None:
    run(fixture.store.change(PREFIXED, lambda _: frozenset({READ})))
    run(fixture.client.create(PATHS[LITERAL], b'{"version":2}'))
    with caplog.at_level(logging.ERROR):
        found = run(fixture.store.all(lambda pattern: frozenset({WRITE}) if pattern == LITERAL else NOTHING))
    assert found == {LITERAL: {WRITE}, PREFIXED: {READ}}
    assert PATHS[LITERAL] in caplog.text and "stay in force" in caplog.text
    assert len(run(fixture.store.faults())) == 1
    with pytest.raises(MalformedZnodeError):
        run(fixture.store.read(LITERAL))
    with pytest.raises(MalformedZnodeError):
        run(fixture.store.change(LITERAL, lambda _: NOTHING))


def test_resource_types_of_another_release_are_passed_over(fixture: AclStoreFixture) -> None:
    run(fixture.client.create("/kafka-acl/Planet"))
    run(fixture.client.create("/kafka-acl/Planet/mars", b"?"))
    run(fixture.store.change(LITERAL, lambda _: frozenset({READ})))
    assert list(fixture.all()) == [LITERAL]
