"""The next coordinator loads a group after the former one died at any moment; the invariants under random events."""

from __future__ import annotations

import random

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.group_metadata import GroupConfig, GroupMetadata
from kafkalite.coordinator.group.states import GroupState
from kafkalite.coordinator.group.values import JoinAnswer
from kafkalite.zk.znodes.groups import Generation
from tests.coordinator.group.fixtures import LIMITS, GroupFixture


def successor(fixture: GroupFixture, limits: GroupConfig = LIMITS) -> GroupFixture:
    """The next coordinator after ``fixture``'s, which loads the durable generation."""
    after = GroupFixture(limits)
    after.now = fixture.now + 5.0
    after.kept = fixture.kept
    after.ids = fixture.ids
    if fixture.kept is not None:
        after.group = GroupMetadata.load("g", limits, fixture.kept.generation, fixture.kept.members, after.now)
    return after


def test_members_carry_on_with_the_next_coordinator() -> None:
    fixture = GroupFixture()
    fixture.join("a")
    fixture.join("s", instance_id="s")
    fixture.advance(6.0)
    fixture.assign()
    after = successor(fixture)
    assert (after.state(), after.group.generation) == (GroupState.STABLE, 1)
    assert after.heartbeat("a-1", 1) is after.heartbeat("s-1", 1, "s") is ErrorCode.NONE
    assert after.commit("a-1", 1) is ErrorCode.NONE
    assert after.synced(after.sync("s-1", 1, instance_id="s")).assignment == b"to s-1"
    assert after.group.members.leader == "a-1"
    assert not after.stores
    # Their sessions restart, because they could send no heartbeats without a coordinator.
    after.advance(9.9)
    assert after.group.members.ids == {"a-1", "s-1"}
    after.advance(0.2)
    assert after.state() is GroupState.EMPTY
    assert after.joined(after.join("a", "a-1")).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_next_coordinator_removes_members_that_died_with_the_former_one() -> None:
    fixture = GroupFixture()
    fixture.stable("a", "b")
    after = successor(fixture)
    after.advance(9.9)
    assert after.heartbeat("a-1") is ErrorCode.NONE
    after.advance(0.2)
    assert after.group.members.ids == {"a-1"}


def test_the_next_coordinator_keeps_the_stored_leader() -> None:
    fixture = GroupFixture()
    fixture.stable("a", "b", rebalance_timeout_ms=7_000)
    fixture.join("c", rebalance_timeout_ms=7_000)
    fixture.join("b", "b-1", protocols=(("range", b"x"),), rebalance_timeout_ms=7_000)
    fixture.heartbeat("a-1")
    fixture.advance(7.1)
    assert fixture.group.members.leader == "b-1"
    fixture.assign()
    assert successor(fixture).group.members.leader == "b-1"


@pytest.mark.parametrize("moment", ["asked to join", "some joined", "all joined", "assigned, not yet durable"])
def test_the_next_coordinator_drops_an_interrupted_rebalance(moment: str) -> None:
    fixture = GroupFixture()
    fixture.stable("a", "b")
    fixture.join("c")
    if moment != "asked to join":
        fixture.join("b", "b-1")
    if moment in ("all joined", "assigned, not yet durable"):
        fixture.join("a", "a-1")
        assert fixture.group.generation == 2
    if moment == "assigned, not yet durable":
        fixture.durable = False
        fixture.assign()
    waiting = fixture.open_tickets
    fixture.die()
    assert all(fixture.answers[ticket].error is ErrorCode.NOT_COORDINATOR for ticket in waiting)
    after = successor(fixture)
    assert (after.state(), after.group.generation) == (GroupState.STABLE, 1)
    # A member of the dropped generation gets an error, joins again, and finds the others.
    assert after.heartbeat("a-1", 2) is ErrorCode.ILLEGAL_GENERATION
    assert after.synced(after.sync("b-1", 2)).error is ErrorCode.ILLEGAL_GENERATION
    assert after.heartbeat("c-1", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    leader = after.join("a", "a-1")
    after.join("b", "b-1")
    assert (after.joined(leader).generation, len(after.joined(leader).members)) == (2, 2)


def test_a_durable_generation_is_valid_although_no_member_was_answered() -> None:
    fixture = GroupFixture()
    fixture.durable = False
    fixture.join("a")
    fixture.advance(3.0)
    fixture.assign()
    # The write took effect, and the coordinator died before its answer.
    fixture.kept = fixture.stores.pop()
    fixture.die()
    after = successor(fixture)
    assert after.synced(after.sync("a-1", 1)).assignment == b"to a-1"


def test_an_empty_generation_is_loaded_with_its_number_and_time() -> None:
    group = GroupMetadata.load("g", LIMITS, Generation(7, "consumer", "", "", 1234), [], 0.0)
    assert (group.state, group.generation, group.protocol_type) == (GroupState.EMPTY, 7, "consumer")
    assert group.empty_since_ms == 1234


def test_a_group_without_a_stored_generation_is_loaded_empty() -> None:
    group = GroupMetadata.load("g", LIMITS, Generation(0), [], 0.0)
    assert (group.state, group.generation, group.empty_since_ms) == (GroupState.EMPTY, 0, None)


def test_a_loaded_group_above_the_maximal_size_rebalances() -> None:
    fixture = GroupFixture()
    fixture.stable("a", "b", "c")
    after = successor(fixture, GroupConfig(max_size=2))
    assert after.state() is GroupState.PREPARING_REBALANCE
    tickets = [after.join(name, f"{name}-1") for name in "abc"]
    assert after.joined(tickets[2]).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert after.joined(tickets[0]).generation == 2


class Player:
    """A member that follows the protocol most of the time."""

    def __init__(self, name: str, instance_id: str | None) -> None:
        self.name = name
        self.instance_id = instance_id
        self.member_id = ""


def invariants(fixture: GroupFixture) -> None:
    group = fixture.group
    members = list(group.members)
    waiting = [ticket for each in members for ticket in (each.join, each.sync) if ticket is not None]
    assert set(waiting) == fixture.open_tickets, "only members wait, and no member's request is lost"
    assert len(waiting) == len(set(waiting))
    assert (group.members.leader in group.members) == bool(members)
    assert (group.state is GroupState.EMPTY) <= (not members)
    assert group._unsynced <= group.members.ids
    if group.state is GroupState.STABLE:
        assert members and group.members.supports_any([group.protocol])
        assert all(each.sync is None for each in members)
    if group.state is GroupState.PREPARING_REBALANCE:
        assert all(each.sync is None for each in members)
    for each in members:
        assert each.wakes_at >= group.wakes_at
        assert each.instance_id is None or group.members.static_id(each.instance_id) == each.member_id


@pytest.mark.parametrize("seed", range(150))
def test_the_invariants_hold_under_random_events(seed: int) -> None:
    """Members join, sync, leave, stop and rejoin; stores are slow or fail; coordinators die."""
    rng = random.Random(seed)
    fixture = GroupFixture(GroupConfig(max_size=rng.choice((3, 100))), durable=False)
    players = [Player(f"p{number}", f"i{number}" if number % 3 == 0 else None) for number in range(5)]
    generation = 0
    for _ in range(300):
        player = rng.choice(players)
        action = rng.randrange(100)
        if action < 35:
            protocols = rng.choice(((("range", b"1"),), (("range", b"2"), ("sticky", b"2"))))
            ticket = fixture.join(
                player.name,
                player.member_id,
                instance_id=player.instance_id,
                require_known_member_id=rng.random() < 0.5,
                protocols=protocols,
                rebalance_timeout_ms=20_000,
            )
            answer = fixture.answers.get(ticket)
            if isinstance(answer, JoinAnswer) and answer.error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                player.member_id = answer.member_id
            elif answer is not None:
                player.member_id = ""
            else:
                # It waits; the test reads the id that its client does not know yet.
                player.member_id = next(each.member_id for each in fixture.group.members if each.join == ticket)
        elif action < 65:
            assignments = {each.member_id: b"x" for each in fixture.group.members}
            fixture.sync(player.member_id, instance_id=player.instance_id, assignments=assignments)
        elif action < 75:
            fixture.heartbeat(player.member_id, instance_id=player.instance_id)
        elif action < 80:
            fixture.leave(player.member_id)
        elif action < 90:
            fixture.advance(rng.choice((0.1, 1.0, 5.0)))
        elif action < 98:
            if fixture.stores:
                failed = rng.random() < 0.1
                fixture.write(ErrorCode.UNKNOWN_SERVER_ERROR if failed else ErrorCode.NONE)
        else:
            fixture.die()
            assert not fixture.open_tickets
            kept = fixture.kept
            fixture = successor(fixture, fixture.group.limits)
            fixture.durable = False
            assert fixture.group.generation == (kept.generation.number if kept is not None else 0)
            generation = 0
        invariants(fixture)
        assert fixture.group.generation >= generation
        generation = fixture.group.generation
    fixture.die()
    assert not fixture.open_tickets
