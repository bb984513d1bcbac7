"""Administrators' requests, groups beside old consumers, and the expiration of groups."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.coordinator.group.states import GroupState
from kafkalite.coordinator.group.values import GroupListing, LeavingMember
from kafkalite.coordinator.offsets.offset_manager import OffsetConfig
from kafkalite.zk.stores.paths import set_or_create
from kafkalite.zk.znodes.consumers import offset_path
from kafkalite.zk.znodes.offsets import OffsetAndMetadata
from tests.coordinator.group.fixtures import SUBSCRIPTION, T0, U0, Broker, G, GroupCoordinatorFixture
from tests.support import Started, run

NONE = ErrorCode.NONE
DAY = 86_400.0


def describe(broker: Broker, *groups: str) -> Any:
    found = run(broker.groups.admin.describe(groups or (G,)))
    return found if len(found) > 1 else found[0]


def listed(fixture: GroupCoordinatorFixture, *states: str) -> dict[str, str]:
    """The groups that all brokers list; no group twice."""
    found: list[GroupListing] = []
    for broker in fixture.brokers.values():
        found += run(broker.groups.admin.list_groups(states))
    assert len({each.group for each in found}) == len(found)
    return {each.group: each.state for each in found}


def delete(broker: Broker, *groups: str) -> Any:
    return run(broker.groups.admin.delete(groups or (G,)))


# DescribeGroups


def test_a_stable_group_is_described_with_its_members_metadata() -> None:
    fixture = GroupCoordinatorFixture()
    ids = fixture.stable("a")
    found = describe(fixture.preferred())
    assert (found.error, found.state, found.protocol_type, found.protocol) == (NONE, "Stable", "consumer", "range")
    [member] = found.members
    assert (member.member_id, member.client_id, member.client_host) == (ids["a"], "a", "/127.0.0.1")
    assert (member.metadata, member.assignment, member.instance_id) == (SUBSCRIPTION, ids["a"].encode(), None)


def test_between_generations_there_is_no_protocol_and_no_assignment() -> None:
    fixture = GroupCoordinatorFixture()
    fixture.stable("a", instance_id="i")
    fixture.preferred().join("b")
    found = describe(fixture.preferred())
    assert (found.state, found.protocol, len(found.members)) == ("PreparingRebalance", "", 2)
    assert {(each.metadata, each.assignment) for each in found.members} == {(b"", b"")}
    assert found.members[0].instance_id == "i"


def test_a_group_that_does_not_exist_is_described_as_dead() -> None:
    fixture = GroupCoordinatorFixture()
    names = ["g", "h", "i"]
    for broker in fixture.brokers.values():
        for found in describe(broker, *names):
            ours = fixture.preferred(found.group) is broker
            assert (found.error, found.state) == ((NONE, "Dead") if ours else (ErrorCode.NOT_COORDINATOR, ""))


def test_a_claimed_group_without_content_is_described_as_dead() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    broker.join("a", protocols=())
    assert describe(broker).state == "Dead"
    assert delete(broker) == {G: ErrorCode.GROUP_ID_NOT_FOUND}


def test_a_group_that_only_has_offsets_is_empty() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    broker.commit(1)
    found = describe(broker)
    assert (found.state, found.protocol_type, found.protocol, found.members) == ("Empty", "", "", ())


# ListGroups


def test_every_group_is_listed_by_one_broker() -> None:
    fixture = GroupCoordinatorFixture()
    fixture.stable("a")
    for number in range(6):
        name = f"simple-{number}"
        assert fixture.preferred(name).commit(1, group=name) is NONE
    expected = {G: "Stable", **{f"simple-{number}": "Empty" for number in range(6)}}
    assert listed(fixture) == expected
    # Also groups without a coordinator, to which no client has sent a request yet.
    for broker in fixture.brokers.values():
        run(broker.groups.stop())
    fixture.brokers = {broker_id: Broker(fixture, broker_id) for broker_id in (1, 2, 3)}
    assert listed(fixture) == expected
    assert not any(broker.coordinated for broker in fixture.brokers.values())


@pytest.mark.parametrize(
    ("states", "found"),
    [
        (["Stable"], {G}),
        (["stable"], {G}),
        (["Empty"], {"simple"}),
        (["Empty", "STABLE"], {G, "simple"}),
        (["x"], set()),
    ],
)
def test_listing_by_state(states: list[str], found: set[str]) -> None:
    fixture = GroupCoordinatorFixture()
    fixture.stable("a")
    fixture.preferred("simple").commit(1, group="simple")
    assert set(listed(fixture, *states)) == found


@pytest.mark.parametrize(
    ("types", "count"), [([], 1), (["classic"], 1), (["Classic", "consumer"], 1), (["consumer"], 0)]
)
def test_listing_by_type(types: list[str], count: int) -> None:
    fixture = GroupCoordinatorFixture()
    fixture.stable("a")
    found = run(fixture.preferred().groups.admin.list_groups((), types))
    assert found == [GroupListing(G, "consumer", "Stable", "classic")][:count]


def test_a_list_without_zookeeper_fails_with_a_retriable_error() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    broker.client.lose_connection()
    with pytest.raises(ApiError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        run(broker.groups.admin.list_groups())


# DeleteGroups


def test_a_group_without_members_is_deleted_with_its_offsets() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    ids = fixture.stable("a")
    broker.commit(7, ids["a"], 1)
    assert delete(broker) == {G: ErrorCode.NON_EMPTY_GROUP}
    run(broker.groups.leave(G, [LeavingMember(ids["a"])]))
    assert delete(broker, G, G) == {G: NONE}
    assert fixture.server.paths("/consumers/g") == []
    assert broker.fetch() == {}
    assert delete(broker) == {G: ErrorCode.GROUP_ID_NOT_FOUND}
    assert listed(fixture) == {}
    # A new group of that name starts with generation 1.
    assert fixture.stable("b")


def test_a_broker_that_does_not_coordinate_a_group_refuses_to_delete_it() -> None:
    fixture = GroupCoordinatorFixture()
    fixture.preferred().commit(7)
    for broker in fixture.others():
        assert delete(broker) == {G: ErrorCode.NOT_COORDINATOR}


def test_a_group_with_a_pending_member_id_is_not_deleted() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    broker.commit(7)
    broker.join("a", require_known_member_id=True)
    assert delete(broker) == {G: ErrorCode.NON_EMPTY_GROUP}


def test_requests_wait_for_the_end_of_a_deletion() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    broker.commit(7)
    joins: list[Started] = []

    def join(name: str, _: str) -> None:
        if name == "multi" and not joins:
            joins.append(broker.join("a"))
            assert not joins[0].done

    broker.client.before = join
    assert delete(broker) == {G: NONE}
    fixture.clock.advance(3.0)
    assert joins[0].result.error is NONE
    assert "/consumers/g/coordinator" in fixture.server.paths()


def test_a_deletion_without_zookeeper_fails_with_a_retriable_error() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    broker.commit(7)
    broker.client.lose_connection()
    assert delete(broker)[G] in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)


# Old consumers


def test_modern_members_are_refused_where_old_consumers_live(caplog: pytest.LogCaptureFixture) -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    old = fixture.old_consumer(name="old_host-1")
    with caplog.at_level(logging.WARNING):
        assert broker.join("a").result.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert "old_host-1" in caplog.text and "group g" in caplog.text
    # Clients may fetch its offsets nevertheless.
    assert broker.commit(5) is NONE
    assert delete(broker) == {G: ErrorCode.NON_EMPTY_GROUP}
    assert describe(broker).state == "Empty"
    old.close()
    join = broker.join("a")
    fixture.clock.advance(3.0)
    assert join.result.error is NONE


def test_the_coordinator_warns_of_old_consumers_that_join_modern_members(caplog: pytest.LogCaptureFixture) -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    ids = fixture.stable("a")
    with caplog.at_level(logging.WARNING):
        fixture.old_consumer(name="old_host-1")
    assert "old_host-1" in caplog.text
    assert broker.heartbeat(ids["a"], 1) is NONE
    # The members continue, and others may join them.
    broker.join("b")
    assert broker.heartbeat(ids["a"], 1) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoin = broker.join("a", ids["a"])
    assert rejoin.result.generation == 2


def test_the_next_coordinator_refuses_members_beside_old_consumers(caplog: pytest.LogCaptureFixture) -> None:
    fixture = GroupCoordinatorFixture()
    ids = fixture.stable("a")
    second = fixture.kill(fixture.preferred())
    assert second.heartbeat(ids["a"], 1) is NONE
    with caplog.at_level(logging.WARNING):
        fixture.old_consumer()
    assert "ZooKeeper consumers besides" in caplog.text


def test_old_consumers_that_join_while_the_connection_is_lost_are_found_afterwards(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    fixture.stable("a")
    broker.client.lose_connection()
    fixture.old_consumer()
    with caplog.at_level(logging.WARNING):
        broker.client.reconnect()
    assert "ZooKeeper consumers besides" in caplog.text


def test_a_join_fails_while_old_consumers_cannot_be_read() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    broker.commit(5)
    broker.client.lose_connection()
    assert broker.join("a").result.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_the_watch_on_old_consumers_ends_with_the_claim(caplog: pytest.LogCaptureFixture) -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    fixture.stable("a")
    run(broker.groups.stop())
    requests = broker.client.requests
    with caplog.at_level(logging.WARNING):
        fixture.old_consumer()
    assert caplog.text == ""
    assert broker.client.requests == requests


# trap: kafkalite/coordinator/group/old_consumers.py: Each new callable passed as a watch is one more watch in kazoo: a
# group keeps one.
def test_a_group_that_is_claimed_repeatedly_has_one_watch() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    assert broker.commit(5) is NONE
    for _ in range(5):
        run(broker.groups._groups.release(broker.coordinated[G]))
        assert broker.commit(6) is NONE
    kinds = broker.client._data_watches, broker.client._child_watches
    assert sum(len(kind.get("/consumers/g/ids", ())) for kind in kinds) == 1


# Expiration


def expiring() -> GroupCoordinatorFixture:
    fixture = GroupCoordinatorFixture(OffsetConfig(retention_ms=3_600_000))
    for broker in fixture.brokers.values():
        broker.groups.start()
    return fixture


def test_a_group_lasts_as_long_as_its_offsets_after_its_last_member() -> None:
    fixture = expiring()
    broker = fixture.preferred()
    ids = fixture.stable("a")
    broker.commit(7, ids["a"], 1)
    # The commit is older than the retention when the member leaves.
    for _ in range(500):
        fixture.clock.advance(9.0)
        broker.heartbeat(ids["a"], 1)
    assert broker.fetch() == {T0: 7}
    run(broker.groups.leave(G, [LeavingMember(ids["a"])]))
    fixture.clock.advance(3_500.0)
    assert broker.fetch() == {T0: 7}
    fixture.clock.advance(1_000.0)
    assert fixture.server.paths("/consumers/g") == []
    assert describe(broker).state == "Dead"


def test_the_next_coordinator_knows_since_when_a_group_is_empty() -> None:
    fixture = expiring()
    broker = fixture.preferred()
    ids = fixture.stable("a")
    fixture.clock.advance(1.0)
    broker.commit(7, ids["a"], 1)
    run(broker.groups.leave(G, [LeavingMember(ids["a"])]))
    fixture.clock.advance(3_000.0)
    second = fixture.kill(broker)
    assert second.fetch() == {T0: 7}
    fixture.clock.advance(1_300.0)
    assert fixture.server.paths("/consumers/g") == []


def test_offsets_of_topics_without_a_subscribed_member_expire() -> None:
    fixture = expiring()
    broker = fixture.preferred()
    run(set_or_create(fixture.tools, offset_path(G, U0), b"5"))
    ids = fixture.stable("a")
    broker.commit(7, ids["a"], 1)
    for _ in range(700):
        fixture.clock.advance(9.0)
        broker.heartbeat(ids["a"], 1)
    assert T0 in broker.fetch()
    assert broker.coordinated[G].core.state is GroupState.STABLE


def test_groups_without_a_coordinator_are_expired_by_the_broker_that_would_claim_them() -> None:
    fixture = expiring()
    first = fixture.preferred()
    assert first.commit(7) is NONE
    second = fixture.kill(first)
    fixture.clock.advance(3_000.0)
    # The broker has checked the group and released it again.
    assert second.coordinated == {}
    assert "/consumers/g/coordinator" not in fixture.server.paths()
    fixture.clock.advance(1_300.0)
    assert fixture.server.paths("/consumers/g") == []


def test_groups_of_old_consumers_do_not_expire() -> None:
    fixture = expiring()
    fixture.old_consumer()
    fixture.clock.advance(5 * DAY)
    assert "/consumers/g/ids/old" in fixture.server.paths()


def test_a_claimed_group_without_content_is_removed() -> None:
    fixture = expiring()
    fixture.preferred().join("a", require_known_member_id=True)
    fixture.clock.advance(700.0)
    assert fixture.server.paths("/consumers/g") == []


def test_a_group_that_a_member_joins_during_the_expiration_stays() -> None:
    fixture = expiring()
    broker = fixture.preferred()
    broker.join("a", require_known_member_id=True)
    joins: list[Started] = []
    has_any = broker.offsets.has_any

    async def join_meanwhile(group: str) -> bool:
        found = await has_any(group)
        joins.append(broker.join("b", require_known_member_id=True))
        return found

    broker.offsets.has_any = join_meanwhile  # type: ignore[method-assign]
    fixture.clock.advance(601.0)
    member_id = joins[0].result.member_id
    join_again = broker.join("b", member_id)
    fixture.clock.advance(3.0)
    assert join_again.result.error is NONE


# trap: kafkalite/coordinator/offsets/offset_removal.py: A group expires while a member commits: the new offset must
# stay.
@pytest.mark.parametrize(
    "moment", [("get_children", "/consumers/g/owners"), ("multi", "/consumers/g/coordinator_epoch")]
)
def test_an_offset_that_is_committed_while_a_group_expires_is_not_lost(moment: tuple[str, str]) -> None:
    fixture = expiring()
    broker = fixture.preferred()
    broker.join("a", require_known_member_id=True)

    def commit(name: str, path: str) -> None:
        if (name, path) == moment and broker.coordinated == {}:
            broker.client.before = None
            run(fixture.others()[0].offsets.commit(G, {T0: OffsetAndMetadata(7)}, None))
            came.append(path)

    came: list[str] = []
    broker.client.before = commit
    fixture.clock.advance(700.0)
    assert came and broker.fetch() == {T0: 7}


def test_the_expiration_runs_again_after_a_failure() -> None:
    fixture = expiring()
    broker = fixture.preferred()
    assert broker.commit(7) is NONE
    broker.client.lose_connection()
    fixture.clock.advance(700.0)
    broker.client.reconnect()
    fixture.clock.advance(5_000.0)
    assert fixture.server.paths("/consumers/g") == []


def test_the_offsets_that_are_committed_and_deleted_are_counted_and_the_groups_by_state() -> None:
    fixture = expiring()
    broker = fixture.preferred()
    assert broker.commit(7) is NONE
    assert (broker.groups.stats.commits, broker.groups.stats.deletions) == (1, 0)
    assert broker.groups.states() == {GroupState.EMPTY: 1}
    assert run(broker.groups.offsets.delete(G, [T0])) == {T0: NONE}
    assert (broker.groups.stats.commits, broker.groups.stats.deletions) == (1, 1)


def test_the_expiration_ends_with_the_broker() -> None:
    fixture = expiring()
    broker = fixture.preferred()
    run(broker.groups.stop())
    requests = broker.client.requests
    fixture.clock.advance(5_000.0)
    assert broker.client.requests == requests
