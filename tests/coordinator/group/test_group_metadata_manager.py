"""Claims of groups: placement, take-over, lost sessions and fenced writes."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.zk.stores.groups import GroupStore
from kafkalite.zk.zk_client import ConnectionLostError, NodeExistsError, SessionState
from tests.coordinator.group.fixtures import T0, Broker, GroupCoordinatorFixture
from tests.support import run

NONE, NOT_COORDINATOR = ErrorCode.NONE, ErrorCode.NOT_COORDINATOR
UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_all_brokers_name_the_same_broker_which_claims_on_demand() -> None:
    fixture = GroupCoordinatorFixture()
    assert {broker.find() for broker in fixture.brokers.values()} == {fixture.preferred().id}
    assert "/consumers/g" not in fixture.server.paths()
    fixture.stable("a")
    assert fixture.server.data("/consumers/g/coordinator_epoch") == b"1"
    assert {broker.find() for broker in fixture.brokers.values()} == {fixture.preferred().id}


def test_other_brokers_answer_not_coordinator_and_write_nothing() -> None:
    fixture = GroupCoordinatorFixture()
    for broker in fixture.others():
        assert broker.join("a").result.error is NOT_COORDINATOR
        assert broker.heartbeat("a-1", 1) is NOT_COORDINATOR
        assert broker.sync("a-1", 1).result.error is NOT_COORDINATOR
        assert broker.commit(5) is NOT_COORDINATOR
    assert "/consumers/g" not in fixture.server.paths()


def test_a_group_that_does_not_exist_is_not_claimed() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    assert broker.heartbeat("a-1", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.sync("a-1", 1).result.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.join("a", "a-1").result.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.commit(5, "a-1", 1) is ErrorCode.ILLEGAL_GENERATION
    assert broker.fetch() == {}
    assert "/consumers/g" not in fixture.server.paths()


def test_the_claim_stays_with_its_holder_when_a_preferred_broker_starts() -> None:
    fixture = GroupCoordinatorFixture()
    best = fixture.preferred()
    second = fixture.kill(best)
    fixture.stable("a", broker=second)
    best.client.reconnect()
    fixture.alive({1, 2, 3})
    assert fixture.preferred() is best
    assert {broker.find() for broker in fixture.brokers.values()} == {second.id}


@pytest.mark.parametrize("death", ["killed", "stopped"])
def test_members_carry_on_with_the_next_coordinator(death: str) -> None:
    fixture = GroupCoordinatorFixture()
    first = fixture.preferred()
    ids = fixture.stable("a", "b")
    assert first.commit(42, ids["a"], 1) is NONE
    if death == "killed":
        second = fixture.kill(first)
    else:
        fixture.alive(set(fixture.brokers) - {first.id})
        run(first.groups.stop())
        second = fixture.preferred()
    assert second.find() == second.id
    for name, member_id in ids.items():
        assert second.heartbeat(member_id, 1) is NONE, name
        assert second.sync(member_id, 1).result.assignment == member_id.encode()
    assert second.fetch() == {T0: 42}
    assert second.commit(43, ids["b"], 1) is NONE
    # The former coordinator answers NOT_COORDINATOR.
    first.client.reconnect()
    assert first.heartbeat(ids["a"], 1) is NOT_COORDINATOR


def test_twenty_coordinators_one_after_the_other() -> None:
    fixture = GroupCoordinatorFixture()
    ids = fixture.stable("a", "b")
    broker = fixture.preferred()
    for number in range(20):
        dead, broker = broker, fixture.kill(broker)
        assert broker.commit(number, ids["a"], 1) is NONE
        assert [broker.heartbeat(each, 1) for each in ids.values()] == [NONE, NONE]
        dead.client.reconnect()
        fixture.alive({1, 2, 3})
    assert broker.fetch() == {T0: 19}
    assert fixture.server.data("/consumers/g/coordinator_epoch") == b"21"


def test_requests_wait_while_a_group_is_loaded() -> None:
    fixture = GroupCoordinatorFixture()
    first = fixture.preferred()
    ids = fixture.stable("a")
    second = fixture.kill(first)
    # ZooKeeper answers the claim late.
    second.client.black_hole(apply=True)
    waiting = [second.join("b"), second.join("c"), second.sync(ids["a"], 1)]
    assert not any(each.done for each in waiting)
    second.client.lose_connection()
    assert [each.result.error for each in waiting[:2]] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2
    # Old clients do not know that error in SyncGroup.
    assert waiting[2].result.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.heartbeat(ids["a"], 1) is NONE
    assert second.heartbeat("anybody", 1) is NONE
    second.client.reconnect()
    # The claim had taken effect, and the broker recognises it as its own.
    assert second.heartbeat(ids["a"], 1) is NONE
    assert second.heartbeat("anybody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert fixture.server.data("/consumers/g/coordinator_epoch") == b"2"


# trap: kafkalite/coordinator/group/group_metadata_manager.py: While ZooKeeper is SUSPENDED a coordinator answers
# members from memory, but commits nothing.
def test_without_a_connection_members_are_answered_from_memory() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    ids = fixture.stable("a")
    broker.client.lose_connection()
    assert broker.heartbeat(ids["a"], 1) is NONE
    assert broker.find() == broker.id
    assert broker.commit(1, ids["a"], 1) is UNAVAILABLE
    assert broker.coordinated
    broker.client.reconnect()
    assert broker.commit(2, ids["a"], 1) is NONE
    assert broker.heartbeat(ids["a"], 1) is NONE


# trap: kafkalite/coordinator/group/group_metadata_manager.py: A broker that is cut off from ZooKeeper for good gets no
# event of it: it must doubt its claims by itself.
def test_a_broker_without_zookeeper_for_a_session_timeout_lets_its_groups_go() -> None:
    fixture = GroupCoordinatorFixture()
    cut_off = fixture.preferred()
    ids = fixture.stable("a")
    waiting = cut_off.join("b")
    cut_off.client.lose_connection()
    fixture.clock.advance(9.0)
    assert cut_off.heartbeat(ids["a"], 1) is ErrorCode.REBALANCE_IN_PROGRESS
    # ZooKeeper expires the session without the broker's knowledge, and another broker takes the group over.
    fixture.server.expire(cut_off.client.session)
    fixture.alive(set(fixture.brokers) - {cut_off.id})
    assert fixture.preferred().heartbeat(ids["a"], 1) is NONE
    fixture.clock.advance(9.0)
    assert waiting.result.error is NOT_COORDINATOR
    assert cut_off.heartbeat(ids["a"], 1) is NOT_COORDINATOR
    with pytest.raises(ConnectionLostError):
        cut_off.find()
    with pytest.raises(ApiError, match="NOT_COORDINATOR"):
        cut_off.fetch()


def test_groups_that_were_let_go_without_zookeeper_are_loaded_unchanged_afterwards() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    ids = fixture.stable("a")
    broker.client.lose_connection()
    fixture.clock.advance(18.0)
    assert broker.coordinated == {}
    # ZooKeeper was down and kept the session.
    broker.client.reconnect()
    assert broker.heartbeat(ids["a"], 1) is NONE
    assert fixture.server.data("/consumers/g/coordinator_epoch") == b"1"
    fixture.clock.advance(9.0)
    broker.client.lose_connection()
    fixture.clock.advance(9.0)
    assert broker.coordinated


# trap: kafkalite/coordinator/group/coordinated_group.py: The write of a generation takes effect after the answer to it
# was lost and its repetition had read the znodes: SyncGroup fails for a generation that is stored.
@pytest.mark.parametrize("is_outcome_unknown", [True, False])
def test_a_generation_whose_first_write_takes_effect_late(
    monkeypatch: pytest.MonkeyPatch, is_outcome_unknown: bool
) -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    join = broker.join("a")
    fixture.clock.advance(3.0)
    path = "/consumers/g/generation"
    failures: list[Exception] = [ConnectionLostError(path)] * is_outcome_unknown + [NodeExistsError(path)]
    save = GroupStore.save

    async def fail_at_first(self: GroupStore, *args: Any) -> None:
        if failures:
            raise failures.pop(0)
        await save(self, *args)

    monkeypatch.setattr(GroupStore, "save", fail_at_first)
    member_id = join.result.member_id
    sync = broker.sync(member_id, 1, assignments={member_id: b"x"})
    fixture.clock.advance(1.0)
    assert sync.result.error is (NONE if is_outcome_unknown else ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_generation_waits_until_it_can_be_written() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    join = broker.join("a")
    fixture.clock.advance(3.0)
    broker.client.lose_connection()
    member_id = join.result.member_id
    sync = broker.sync(member_id, 1, assignments={member_id: b"x"})
    fixture.clock.advance(2.0)
    assert not sync.done
    broker.client.reconnect()
    fixture.clock.advance(1.0)
    assert sync.result.assignment == b"x"
    assert fixture.server.data("/consumers/g/generation").startswith(b'{"version":1,"generation":1,')


@pytest.mark.parametrize("applied", [True, False])
def test_a_generation_is_written_again_if_the_outcome_is_unknown(applied: bool) -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    join = broker.join("a")
    fixture.clock.advance(3.0)
    member_id = join.result.member_id
    hole = "multi"

    def lose(name: str, _: str) -> None:
        nonlocal hole
        if name == hole:
            hole = ""
            broker.client.black_hole(apply=applied)

    broker.client.before = lose
    sync = broker.sync(member_id, 1, assignments={member_id: b"x"})
    assert not sync.done
    broker.client.lose_connection()
    broker.client.reconnect()
    fixture.clock.advance(1.0)
    assert sync.result.assignment == b"x"
    assert broker.heartbeat(member_id, 1) is NONE


def test_an_expired_session_ends_all_claims_at_once() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    ids = fixture.stable("a")
    waiting = broker.join("b")
    broker.client.expire_session()
    assert waiting.result.error is NOT_COORDINATOR
    # It claims the group again in its new session, without a rebalance.
    assert broker.heartbeat(ids["a"], 1) is NONE
    assert fixture.server.data("/consumers/g/coordinator_epoch") == b"2"


def paused(fixture: GroupCoordinatorFixture) -> tuple[Broker, Broker, dict[str, str]]:
    """A coordinator that is paused while its session expires and another broker takes over."""
    first = fixture.preferred()
    ids = fixture.stable("a", "b")
    first.client._listeners.remove(first.groups.on_session)
    fixture.alive(set(fixture.brokers) - {first.id})
    first.client.expire_session()
    second = fixture.preferred()
    assert second.heartbeat(ids["a"], 1) is NONE
    return first, second, ids


def test_a_paused_coordinator_cannot_commit() -> None:
    fixture = GroupCoordinatorFixture()
    first, second, ids = paused(fixture)
    assert second.commit(10, ids["a"], 1) is NONE
    assert first.commit(5, ids["a"], 1) is NOT_COORDINATOR
    assert second.fetch() == {T0: 10}
    assert first.heartbeat(ids["a"], 1) is NOT_COORDINATOR


# trap: kafkalite/coordinator/group/coordinated_group.py: A paused coordinator begins a generation after another broker
# has claimed the group.
def test_a_paused_coordinator_cannot_store_a_generation() -> None:
    fixture = GroupCoordinatorFixture()
    first, second, ids = paused(fixture)
    before = fixture.server.data("/consumers/g/generation")
    joins = [first.join("a", ids["a"]), first.join("b", ids["b"])]
    assert [join.result.generation for join in joins] == [2, 2]
    sync = first.sync(ids["a"], 2, assignments={ids["a"]: b"stolen"})
    assert sync.result.error is NOT_COORDINATOR
    assert fixture.server.data("/consumers/g/generation") == before
    assert second.sync(ids["a"], 1).result.assignment == ids["a"].encode()
    assert first.coordinated == {}


def test_a_paused_coordinator_lets_go_of_a_group_that_another_has_claimed() -> None:
    fixture = GroupCoordinatorFixture()
    first, second, _ = paused(fixture)
    run(first.groups.stop())
    assert second.find() == fixture.brokers[3].find() == second.id


# trap: kafkalite/coordinator/group/group_metadata_manager.py: Java's client retries OffsetFetch after two errors only:
# a coordinator that stops answers with one of these.
def test_a_stopping_broker_answers_waiting_requests_and_claims_nothing() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    fixture.stable("a")
    waiting = broker.join("b")
    run(broker.groups.stop())
    assert waiting.result.error is NOT_COORDINATOR
    assert broker.join("b").result.error is NOT_COORDINATOR
    assert broker.find() != broker.id
    # With COORDINATOR_LOAD_IN_PROGRESS, the other error that Java's consumer knows here, it would retry this broker.
    with pytest.raises(ApiError, match="NOT_COORDINATOR"):
        broker.fetch()
    assert "/consumers/g/coordinator" not in fixture.server.paths()


def test_a_broker_waits_for_the_end_of_its_former_sessions_claim() -> None:
    """A broker that restarts quickly finds its old claim, which names it and is not its own."""
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    ids = fixture.stable("a")
    again = Broker(fixture, broker.id)
    assert again.heartbeat(ids["a"], 1) is NOT_COORDINATOR
    fixture.server.expire(broker.client.session)
    assert again.heartbeat(ids["a"], 1) is NONE


def test_a_load_is_dropped_when_the_session_expires() -> None:
    fixture = GroupCoordinatorFixture()
    first = fixture.preferred()
    ids = fixture.stable("a")
    second = fixture.kill(first)
    expired = False

    def expire(name: str, path: str) -> None:
        nonlocal expired
        if name == "get" and path.endswith("/generation") and not expired:
            expired = True
            second.groups.on_session(SessionState.EXPIRED)

    second.client.before = expire
    assert second.heartbeat(ids["a"], 1) is NOT_COORDINATOR
    assert second.coordinated == {}
    assert second.heartbeat(ids["a"], 1) is NONE


@pytest.mark.parametrize("step", range(1, 12))
def test_a_coordinator_that_dies_at_any_step_of_a_rebalance(step: int) -> None:
    """It dies before its n-th request; the next one loads generation 1 or 2 completely, and its members continue."""
    fixture = GroupCoordinatorFixture()
    first = fixture.preferred()
    ids = fixture.stable("a", "b")
    left = step

    def die(*_: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            fixture.kill(first)

    first.client.before = die
    joins: list[Any] = [first.join("c"), first.join("a", ids["a"]), first.join("b", ids["b"])]
    if left > 0:
        third = joins[0].result.member_id
        members = [*ids.values(), third]
        for each in (ids["b"], third):
            first.sync(each, 2)
        first.sync(ids["a"], 2, assignments=dict.fromkeys(members, b"x"))
    if left > 0:
        fixture.kill(first)
    second = fixture.preferred()
    answers = {generation: second.heartbeat(ids["a"], generation) for generation in (1, 2)}
    assert sorted(answers.values()) == [NONE, ErrorCode.ILLEGAL_GENERATION]
    generation = 1 if answers[1] is NONE else 2
    expected = ids["b"].encode() if generation == 1 else b"x"
    assert second.sync(ids["b"], generation).result.assignment == expected
    assert second.commit(1, ids["b"], generation) is NONE
