"""Claims: who coordinates, who takes over, and who may no longer write."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.zk.zk_client import ConnectionLostError, SessionState
from tests.coordinator.group.house import T0, Broker, House
from tests.coordinator.house import run

NONE, NOT_COORDINATOR = ErrorCode.NONE, ErrorCode.NOT_COORDINATOR
UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_everybody_names_the_same_broker_and_it_claims_when_it_is_asked() -> None:
    house = House()
    assert {broker.find() for broker in house.brokers.values()} == {house.preferred().id}
    assert "/consumers/g" not in house.server.paths()
    house.stable("a")
    assert house.server.data("/consumers/g/coordinator_epoch") == b"1"
    assert {broker.find() for broker in house.brokers.values()} == {house.preferred().id}


def test_others_send_clients_away_and_leave_no_trace() -> None:
    house = House()
    for broker in house.others():
        assert broker.join("a").result.error is NOT_COORDINATOR
        assert broker.heartbeat("a-1", 1) is NOT_COORDINATOR
        assert broker.sync("a-1", 1).result.error is NOT_COORDINATOR
        assert broker.commit(5) is NOT_COORDINATOR
    assert "/consumers/g" not in house.server.paths()


def test_what_is_unknown_is_not_claimed_for_nothing() -> None:
    house = House()
    broker = house.preferred()
    assert broker.heartbeat("a-1", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.sync("a-1", 1).result.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.join("a", "a-1").result.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.commit(5, "a-1", 1) is ErrorCode.ILLEGAL_GENERATION
    assert broker.fetch() == {}
    assert "/consumers/g" not in house.server.paths()


def test_the_holder_stays_when_a_better_broker_comes() -> None:
    house = House()
    best = house.preferred()
    second = house.kill(best)
    house.stable("a", broker=second)
    best.client.reconnect()
    house.alive({1, 2, 3})
    assert house.preferred() is best
    assert {broker.find() for broker in house.brokers.values()} == {second.id}


@pytest.mark.parametrize("death", ["killed", "stopped"])
def test_members_carry_on_with_the_next_coordinator(death: str) -> None:
    house = House()
    first = house.preferred()
    ids = house.stable("a", "b")
    assert first.commit(42, ids["a"], 1) is NONE
    if death == "killed":
        second = house.kill(first)
    else:
        house.alive(set(house.brokers) - {first.id})
        run(first.groups.stop())
        second = house.preferred()
    assert second.find() == second.id
    for name, member_id in ids.items():
        assert second.heartbeat(member_id, 1) is NONE, name
        assert second.sync(member_id, 1).result.assignment == member_id.encode()
    assert second.fetch() == {T0: 42}
    assert second.commit(43, ids["b"], 1) is NONE
    # The former one, should it come back, sends them away.
    first.client.reconnect()
    assert first.heartbeat(ids["a"], 1) is NOT_COORDINATOR


def test_twenty_coordinators_one_after_the_other() -> None:
    house = House()
    ids = house.stable("a", "b")
    broker = house.preferred()
    for number in range(20):
        dead, broker = broker, house.kill(broker)
        assert broker.commit(number, ids["a"], 1) is NONE
        assert [broker.heartbeat(each, 1) for each in ids.values()] == [NONE, NONE]
        dead.client.reconnect()
        house.alive({1, 2, 3})
    assert broker.fetch() == {T0: 19}
    assert house.server.data("/consumers/g/coordinator_epoch") == b"21"


def test_requests_that_come_while_a_group_is_loaded_wait() -> None:
    house = House()
    first = house.preferred()
    ids = house.stable("a")
    second = house.kill(first)
    # ZooKeeper takes its time with the claim.
    second.client.black_hole(apply=True)
    waiting = [second.join("b"), second.join("c"), second.sync(ids["a"], 1)]
    assert not any(each.done for each in waiting)
    second.client.lose_connection()
    assert [each.result.error for each in waiting[:2]] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2
    # SyncGroup does not know that error in old clients.
    assert waiting[2].result.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.heartbeat(ids["a"], 1) is NONE
    assert second.heartbeat("anybody", 1) is NONE
    second.client.reconnect()
    # The claim had taken effect: it is found to be its own.
    assert second.heartbeat(ids["a"], 1) is NONE
    assert second.heartbeat("anybody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert house.server.data("/consumers/g/coordinator_epoch") == b"2"


# trap: kafkalite/coordinator/group/group_metadata_manager.py: While ZooKeeper is SUSPENDED a coordinator answers
# members from memory, but commits nothing.
def test_without_a_connection_members_are_answered_from_memory_and_nothing_is_written() -> None:
    house = House()
    broker = house.preferred()
    ids = house.stable("a")
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
def test_a_broker_that_is_cut_off_for_good_answers_from_no_claim_that_may_be_anothers() -> None:
    house = House()
    cut_off = house.preferred()
    ids = house.stable("a")
    waiting = cut_off.join("b")
    cut_off.client.lose_connection()
    house.clock.advance(9.0)
    assert cut_off.heartbeat(ids["a"], 1) is ErrorCode.REBALANCE_IN_PROGRESS
    # ZooKeeper ends its session, which it cannot hear of; another broker takes the group over.
    house.server.expire(cut_off.client.session)
    house.alive(set(house.brokers) - {cut_off.id})
    assert house.preferred().heartbeat(ids["a"], 1) is NONE
    house.clock.advance(9.0)
    assert waiting.result.error is NOT_COORDINATOR
    assert cut_off.heartbeat(ids["a"], 1) is NOT_COORDINATOR
    with pytest.raises(ConnectionLostError):
        cut_off.find()
    with pytest.raises(ApiError, match="NOT_COORDINATOR"):
        cut_off.fetch()


def test_groups_that_were_let_go_for_want_of_zookeeper_are_the_same_when_it_is_back() -> None:
    house = House()
    broker = house.preferred()
    ids = house.stable("a")
    broker.client.lose_connection()
    house.clock.advance(18.0)
    assert broker.coordinated == {}
    # ZooKeeper itself was away, and kept the session.
    broker.client.reconnect()
    assert broker.heartbeat(ids["a"], 1) is NONE
    assert house.server.data("/consumers/g/coordinator_epoch") == b"1"
    house.clock.advance(9.0)
    broker.client.lose_connection()
    house.clock.advance(9.0)
    assert broker.coordinated


def test_a_generation_waits_until_it_can_be_written() -> None:
    house = House()
    broker = house.preferred()
    join = broker.join("a")
    house.clock.advance(3.0)
    broker.client.lose_connection()
    member_id = join.result.member_id
    sync = broker.sync(member_id, 1, assignments={member_id: b"x"})
    house.clock.advance(2.0)
    assert not sync.done
    broker.client.reconnect()
    house.clock.advance(1.0)
    assert sync.result.assignment == b"x"
    assert house.server.data("/consumers/g/generation").startswith(b'{"version":1,"generation":1,')


@pytest.mark.parametrize("applied", [True, False])
def test_a_generation_whose_outcome_is_unknown_is_written_again(applied: bool) -> None:
    house = House()
    broker = house.preferred()
    join = broker.join("a")
    house.clock.advance(3.0)
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
    house.clock.advance(1.0)
    assert sync.result.assignment == b"x"
    assert broker.heartbeat(member_id, 1) is NONE


def test_the_end_of_a_session_ends_everything_at_once() -> None:
    house = House()
    broker = house.preferred()
    ids = house.stable("a")
    waiting = broker.join("b")
    broker.client.expire_session()
    assert waiting.result.error is NOT_COORDINATOR
    # It claims anew, in its new session, and nobody has to rebalance for that.
    assert broker.heartbeat(ids["a"], 1) is NONE
    assert house.server.data("/consumers/g/coordinator_epoch") == b"2"


def paused(house: House) -> tuple[Broker, Broker, dict[str, str]]:
    """A coordinator that hears nothing while its session ends and another one takes over."""
    first = house.preferred()
    ids = house.stable("a", "b")
    first.client._listeners.remove(first.groups.on_session)
    house.alive(set(house.brokers) - {first.id})
    first.client.expire_session()
    second = house.preferred()
    assert second.heartbeat(ids["a"], 1) is NONE
    return first, second, ids


def test_a_paused_coordinator_cannot_commit() -> None:
    house = House()
    first, second, ids = paused(house)
    assert second.commit(10, ids["a"], 1) is NONE
    assert first.commit(5, ids["a"], 1) is NOT_COORDINATOR
    assert second.fetch() == {T0: 10}
    assert first.heartbeat(ids["a"], 1) is NOT_COORDINATOR


# trap: kafkalite/coordinator/group/coordinated_group.py: A paused coordinator begins a generation after another broker
# has claimed the group.
def test_a_paused_coordinator_cannot_begin_a_generation() -> None:
    house = House()
    first, second, ids = paused(house)
    before = house.server.data("/consumers/g/generation")
    joins = [first.join("a", ids["a"]), first.join("b", ids["b"])]
    assert [join.result.generation for join in joins] == [2, 2]
    sync = first.sync(ids["a"], 2, assignments={ids["a"]: b"stolen"})
    assert sync.result.error is NOT_COORDINATOR
    assert house.server.data("/consumers/g/generation") == before
    assert second.sync(ids["a"], 1).result.assignment == ids["a"].encode()
    assert first.coordinated == {}


def test_a_paused_coordinator_keeps_nobody_elses_claim() -> None:
    house = House()
    first, second, _ = paused(house)
    run(first.groups.stop())
    assert second.find() == house.brokers[3].find() == second.id


# trap: kafkalite/coordinator/group/group_metadata_manager.py: Java's client retries OffsetFetch after two errors only:
# a coordinator that stops answers with one of these.
def test_a_broker_that_stops_answers_who_waits_and_takes_nothing_more() -> None:
    house = House()
    broker = house.preferred()
    house.stable("a")
    waiting = broker.join("b")
    run(broker.groups.stop())
    assert waiting.result.error is NOT_COORDINATOR
    assert broker.join("b").result.error is NOT_COORDINATOR
    assert broker.find() != broker.id
    # Java's consumer knows no other error here but COORDINATOR_LOAD_IN_PROGRESS, with which it would come again.
    with pytest.raises(ApiError, match="NOT_COORDINATOR"):
        broker.fetch()
    assert "/consumers/g/coordinator" not in house.server.paths()


def test_a_claim_of_its_own_former_session_is_waited_for() -> None:
    """A broker that restarts quickly finds its old claim, which names it and is not its own."""
    house = House()
    broker = house.preferred()
    ids = house.stable("a")
    again = Broker(house, broker.id)
    assert again.heartbeat(ids["a"], 1) is NOT_COORDINATOR
    house.server.expire(broker.client.session)
    assert again.heartbeat(ids["a"], 1) is NONE


def test_a_session_that_ends_while_a_group_is_loaded() -> None:
    house = House()
    first = house.preferred()
    ids = house.stable("a")
    second = house.kill(first)
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
    """It dies before its n-th request; whoever comes next has generation 1 or 2, whole, and its members go on."""
    house = House()
    first = house.preferred()
    ids = house.stable("a", "b")
    left = step

    def die(*_: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            house.kill(first)

    first.client.before = die
    joins: list[Any] = [first.join("c"), first.join("a", ids["a"]), first.join("b", ids["b"])]
    if left > 0:
        third = joins[0].result.member_id
        members = [*ids.values(), third]
        for each in (ids["b"], third):
            first.sync(each, 2)
        first.sync(ids["a"], 2, assignments=dict.fromkeys(members, b"x"))
    if left > 0:
        house.kill(first)
    second = house.preferred()
    answers = {generation: second.heartbeat(ids["a"], generation) for generation in (1, 2)}
    assert sorted(answers.values()) == [NONE, ErrorCode.ILLEGAL_GENERATION]
    generation = 1 if answers[1] is NONE else 2
    expected = ids["b"].encode() if generation == 1 else b"x"
    assert second.sync(ids["b"], generation).result.assignment == expected
    assert second.commit(1, ids["b"], generation) is NONE
