"""JoinGroup, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.group_metadata import GroupConfig
from kafkalite.coordinator.group.states import GroupState
from tests.coordinator.group.fixtures import RANGE, GroupFixture

STICKY = (("sticky", b"topics"),)
BOTH = (("range", b"topics"), ("sticky", b"topics"))


def test_a_first_member_waits_for_the_initial_delay_and_leads() -> None:
    fixture = GroupFixture()
    ticket = fixture.join("a")
    assert fixture.state() is GroupState.PREPARING_REBALANCE
    fixture.advance(2.9)
    assert not fixture.answers
    fixture.advance(0.1)
    answer = fixture.joined(ticket)
    assert (answer.error, answer.generation, answer.member_id, answer.leader) == (ErrorCode.NONE, 1, "a-1", "a-1")
    assert (answer.protocol_type, answer.protocol, answer.skip_assignment) == ("consumer", "range", False)
    assert [(each.member_id, each.metadata) for each in answer.members] == [("a-1", b"topics")]
    assert fixture.state() is GroupState.COMPLETING_REBALANCE


def test_only_the_leaders_answer_has_all_members() -> None:
    fixture = GroupFixture()
    first, second = fixture.join("a"), fixture.join("b")
    fixture.advance(6.0)
    assert [each.member_id for each in fixture.joined(first).members] == ["a-1", "b-1"]
    assert fixture.joined(second).members == ()
    assert fixture.joined(second).leader == "a-1"


@pytest.mark.parametrize(
    ("comes_at", "begins_at"),
    [
        ([], 3.0),
        ([1.0], 6.0),
        ([2.9, 5.9], 9.0),
        ([1.0, 4.0, 7.0, 9.5], 10.0),
    ],
)
def test_the_initial_delay_grows_while_members_come_up_to_the_rebalance_timeout(
    comes_at: list[float], begins_at: float
) -> None:
    fixture = GroupFixture()
    start = fixture.now
    first = fixture.join("first", rebalance_timeout_ms=10_000)
    for number, when in enumerate(comes_at):
        fixture.advance(start + when - fixture.now)
        fixture.join(f"m{number}", rebalance_timeout_ms=10_000)
    fixture.advance(start + begins_at - 0.01 - fixture.now)
    assert first not in fixture.answers
    fixture.advance(0.02)
    assert fixture.joined(first).generation == 1
    assert len(fixture.joined(first).members) == len(comes_at) + 1


def test_later_generations_begin_as_soon_as_all_members_have_joined() -> None:
    fixture = GroupFixture()
    fixture.stable("a")
    new = fixture.join("b")
    assert fixture.heartbeat("a-1") is ErrorCode.REBALANCE_IN_PROGRESS
    old = fixture.join("a", "a-1")
    assert fixture.joined(new).generation == fixture.joined(old).generation == 2
    assert fixture.joined(old).leader == "a-1"


def test_a_member_that_does_not_join_in_time_is_removed() -> None:
    fixture = GroupFixture()
    fixture.stable("a", "b", rebalance_timeout_ms=7_000)
    new = fixture.join("c", rebalance_timeout_ms=7_000)
    fixture.advance(6.0)
    fixture.heartbeat("a-1")
    fixture.heartbeat("b-1")
    again = fixture.join("b", "b-1", rebalance_timeout_ms=7_000)
    fixture.advance(1.1)
    assert fixture.joined(new).generation == 2
    # The leader was late, so another member leads.
    assert fixture.joined(again).leader == "b-1"
    assert [each.member_id for each in fixture.joined(again).members] == ["b-1", "c-1"]
    assert fixture.heartbeat("a-1") is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "never-given"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "never-given", "instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_an_empty_group_refuses_an_invalid_join(fields: dict[str, Any], error: ErrorCode) -> None:
    fixture = GroupFixture()
    ticket = fixture.join("a", **fields)
    assert fixture.joined(ticket).error is error
    assert fixture.joined(ticket).member_id == fields.get("member_id", "")
    assert fixture.state() is GroupState.EMPTY and not fixture.group.members


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"protocols": STICKY}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect", "member_id": "a-1"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "never-given"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "a-1", "instance_id": "no such"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "a-1", "instance_id": "s"}, ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_a_stable_group_refuses_an_invalid_join(fields: dict[str, Any], error: ErrorCode) -> None:
    fixture = GroupFixture()
    fixture.join("a")
    fixture.join("s", instance_id="s")
    fixture.advance(6.0)
    fixture.assign()
    ticket = fixture.join("x", **fields)
    assert fixture.joined(ticket).error is error
    assert fixture.state() is GroupState.STABLE and fixture.group.members.ids == {"a-1", "s-1"}


def test_a_dead_group_answers_coordinator_not_available() -> None:
    fixture = GroupFixture()
    fixture.die()
    assert fixture.joined(fixture.join("a")).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert fixture.joined(fixture.join("a", "a-1")).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


# MEMBER_ID_REQUIRED


def test_a_member_without_an_id_gets_one_and_joins_with_it() -> None:
    fixture = GroupFixture()
    answer = fixture.joined(fixture.join("a", require_known_member_id=True))
    assert (answer.error, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "a-1")
    assert fixture.state() is GroupState.EMPTY
    ticket = fixture.join("a", "a-1", require_known_member_id=True)
    fixture.advance(3.0)
    assert fixture.joined(ticket).member_id == "a-1"
    assert not fixture.group.members.pending


def test_static_members_are_members_at_once() -> None:
    fixture = GroupFixture()
    ticket = fixture.join("a", require_known_member_id=True, instance_id="s")
    fixture.advance(3.0)
    assert fixture.joined(ticket).error is ErrorCode.NONE


def test_a_rebalance_waits_for_the_owner_of_a_pending_id() -> None:
    fixture = GroupFixture()
    fixture.stable("a")
    fixture.join("b", require_known_member_id=True)
    # A rebalance has begun meanwhile and the only member has joined; it waits for the owner of the id.
    old = fixture.join("a", "a-1")
    assert old not in fixture.answers
    new = fixture.join("b", "b-1")
    assert fixture.joined(old).generation == fixture.joined(new).generation == 2


def test_a_pending_id_expires_after_its_session_timeout() -> None:
    fixture = GroupFixture()
    fixture.stable("a")
    fixture.join("b", require_known_member_id=True, session_timeout_ms=6_000)
    fixture.heartbeat("a-1")
    old = fixture.join("a", "a-1")
    fixture.advance(5.9)
    assert old not in fixture.answers
    fixture.advance(0.2)
    assert len(fixture.joined(old).members) == 1
    assert fixture.joined(fixture.join("b", "b-1")).error is ErrorCode.UNKNOWN_MEMBER_ID


# Members that join again


def test_a_leader_that_joins_again_begins_a_rebalance_and_a_follower_does_not() -> None:
    fixture = GroupFixture()
    fixture.stable("a", "b")
    follower = fixture.joined(fixture.join("b", "b-1"))
    assert (follower.generation, follower.leader, follower.members) == (1, "a-1", ())
    assert fixture.state() is GroupState.STABLE
    fixture.join("a", "a-1")
    assert fixture.state() is GroupState.PREPARING_REBALANCE


def test_a_follower_with_other_metadata_begins_a_rebalance() -> None:
    fixture = GroupFixture()
    fixture.stable("a", "b")
    fixture.join("b", "b-1", protocols=(("range", b"other topics"),))
    assert fixture.state() is GroupState.PREPARING_REBALANCE


@pytest.mark.parametrize(("member_id", "sees"), [("a-1", 2), ("b-1", 0)])
def test_a_repeated_join_before_the_assignment_gets_the_same_answer(member_id: str, sees: int) -> None:
    fixture = GroupFixture()
    fixture.join("a")
    fixture.join("b")
    fixture.advance(6.0)
    again = fixture.joined(fixture.join("x", member_id))
    assert (again.generation, again.leader, len(again.members)) == (1, "a-1", sees)
    assert fixture.state() is GroupState.COMPLETING_REBALANCE


def test_other_metadata_before_the_assignment_begins_a_rebalance() -> None:
    fixture = GroupFixture()
    fixture.join("a")
    fixture.join("b")
    fixture.advance(6.0)
    fixture.durable = False
    waiting = fixture.sync("a-1")
    fixture.join("b", "b-1", protocols=BOTH)
    assert fixture.state() is GroupState.PREPARING_REBALANCE
    assert fixture.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_abandoned_join_is_answered_when_the_member_joins_again() -> None:
    fixture = GroupFixture()
    first = fixture.join("a", instance_id="a")
    second = fixture.join("a", "a-1", instance_id="a")
    assert fixture.joined(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    fixture.advance(3.0)
    assert fixture.joined(second).error is ErrorCode.NONE


def test_timeouts_are_those_of_the_last_join() -> None:
    fixture = GroupFixture()
    fixture.stable("a")
    fixture.join("a", "a-1", session_timeout_ms=20_000, rebalance_timeout_ms=30_000)
    fixture.assign()
    fixture.advance(19.0)
    assert fixture.heartbeat("a-1") is ErrorCode.NONE
    assert fixture.group.members.rebalance_timeout_ms == 30_000


# Size


def test_a_full_group_refuses_new_members() -> None:
    fixture = GroupFixture(GroupConfig(max_size=2))
    fixture.stable("a", "b")
    refused = fixture.joined(fixture.join("c"))
    assert (refused.error, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert fixture.joined(fixture.join("b", "b-1")).error is ErrorCode.NONE
    assert fixture.state() is GroupState.STABLE


def test_a_group_above_the_limit_keeps_the_members_that_join_first() -> None:
    fixture = GroupFixture(GroupConfig(max_size=2))
    fixture.stable("a", "b")
    fixture.join("a", "a-1")
    fixture.join("c")
    late = fixture.join("b", "b-1")
    assert fixture.joined(late).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert fixture.group.members.ids == {"a-1", "c-1"}
    assert fixture.state() is GroupState.COMPLETING_REBALANCE


def test_a_full_group_refuses_the_owner_of_a_pending_id() -> None:
    fixture = GroupFixture(GroupConfig(max_size=1))
    fixture.join("a", require_known_member_id=True)
    fixture.join("b", require_known_member_id=True)
    first = fixture.join("a", "a-1")
    assert fixture.joined(fixture.join("b", "b-1")).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    fixture.advance(3.0)
    assert len(fixture.joined(first).members) == 1


# Static members


def test_a_static_member_rejoins_without_a_rebalance() -> None:
    fixture = GroupFixture()
    fixture.stable("a")
    fixture.join("s", instance_id="s")
    fixture.join("a", "a-1")
    fixture.assign()
    back = fixture.joined(fixture.join("s", instance_id="s"))
    assert (back.error, back.member_id, back.generation, back.leader) == (ErrorCode.NONE, "s-2", 2, "a-1")
    assert fixture.state() is GroupState.STABLE
    assert fixture.synced(fixture.sync("s-2", instance_id="s")).assignment == b"to s-1"
    assert fixture.kept is not None and fixture.kept.replaced == ("s-1", "s-2")
    assert {record.member_id: record.assignment for record in fixture.kept.members} == {
        "a-1": b"to a-1",
        "s-2": b"to s-1",
    }


def test_of_two_members_with_one_instance_id_the_older_is_fenced() -> None:
    fixture = GroupFixture()
    fixture.stable("s", instance_id="s")
    fixture.join("s", instance_id="s")
    assert fixture.heartbeat("s-1", instance_id="s") is ErrorCode.FENCED_INSTANCE_ID
    assert fixture.heartbeat("s-1") is ErrorCode.UNKNOWN_MEMBER_ID
    assert fixture.synced(fixture.sync("s-1", instance_id="s")).error is ErrorCode.FENCED_INSTANCE_ID
    assert fixture.joined(fixture.join("s", "s-1", instance_id="s")).error is ErrorCode.FENCED_INSTANCE_ID
    assert fixture.commit("s-1", 1, "s") is ErrorCode.FENCED_INSTANCE_ID
    assert fixture.heartbeat("s-2", instance_id="s") is ErrorCode.NONE


def test_waiting_requests_of_a_replaced_static_member_are_fenced() -> None:
    fixture = GroupFixture()
    waiting = fixture.join("s", instance_id="s")
    fixture.join("s", instance_id="s")
    assert fixture.joined(waiting).error is ErrorCode.FENCED_INSTANCE_ID
    fixture.advance(3.0)
    fixture.durable = False
    syncing = fixture.sync("s-2", instance_id="s")
    fixture.join("s", instance_id="s")
    assert fixture.synced(syncing).error is ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize(
    ("can_skip", "leader", "skip", "members"),
    [(True, "s-2", True, 1), (False, "s-1", False, 0)],
    ids=["version 9", "version 8"],
)
def test_a_static_leader_that_rejoins_does_not_assign(can_skip: bool, leader: str, skip: bool, members: int) -> None:
    fixture = GroupFixture()
    fixture.stable("s", instance_id="s")
    back = fixture.joined(fixture.join("s", instance_id="s", can_skip_assignment=can_skip))
    assert (back.leader, back.skip_assignment, len(back.members)) == (leader, skip, members)
    assert fixture.group.members.leader == "s-2"


def test_a_static_member_with_another_protocol_begins_a_rebalance() -> None:
    fixture = GroupFixture()
    fixture.stable("s", instance_id="s", protocols=BOTH)
    back = fixture.join("s", instance_id="s", protocols=STICKY)
    fixture.advance(60.0)
    assert (fixture.joined(back).generation, fixture.joined(back).protocol) == (2, "sticky")


def test_a_static_member_that_rejoins_before_the_assignment_begins_a_rebalance() -> None:
    fixture = GroupFixture()
    fixture.join("a")
    fixture.join("s", instance_id="s")
    fixture.advance(6.0)
    back = fixture.join("s", instance_id="s")
    assert fixture.state() is GroupState.PREPARING_REBALANCE
    leader = fixture.join("a", "a-1")
    assert fixture.joined(back).generation == fixture.joined(leader).generation == 2
    assert [each.instance_id for each in fixture.joined(leader).members] == [None, "s"]


def test_a_static_member_gets_its_new_id_once_it_is_durable() -> None:
    fixture = GroupFixture()
    fixture.stable("s", instance_id="s")
    fixture.durable = False
    back = fixture.join("s", instance_id="s")
    assert back not in fixture.answers
    fixture.write()
    assert fixture.joined(back).member_id == "s-2"


def test_a_static_member_whose_new_id_cannot_be_stored_gets_an_error() -> None:
    fixture = GroupFixture()
    fixture.stable("s", instance_id="s")
    fixture.durable = False
    back = fixture.join("s", instance_id="s")
    fixture.write(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (fixture.joined(back).error, fixture.joined(back).member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")
    again = fixture.join("s", instance_id="s")
    fixture.write()
    assert fixture.joined(again).member_id == "s-3"


def test_a_rebalance_overtakes_the_store_of_a_static_member() -> None:
    fixture = GroupFixture()
    fixture.stable("s", instance_id="s")
    fixture.durable = False
    back = fixture.join("s", instance_id="s")
    new = fixture.join("b")
    # It counts as joined for the next generation.
    assert fixture.joined(back).generation == fixture.joined(new).generation == 2
    fixture.write()
    assert fixture.state() is GroupState.COMPLETING_REBALANCE


def test_a_static_member_that_was_overtaken_by_a_rebalance_waits_with_the_others() -> None:
    fixture = GroupFixture()
    fixture.stable("a")
    fixture.join("s", instance_id="s")
    fixture.join("a", "a-1")
    fixture.assign()
    fixture.durable = False
    back = fixture.join("s", instance_id="s")
    fixture.join("b")
    fixture.write()
    # The generation of the pending answer is over.
    assert back not in fixture.answers
    leader = fixture.join("a", "a-1")
    assert fixture.joined(back).generation == fixture.joined(leader).generation == 3


def test_static_members_that_do_not_join_stay_until_their_sessions_end() -> None:
    fixture = GroupFixture()
    fixture.stable("a")
    fixture.join("s", instance_id="s", session_timeout_ms=120_000)
    fixture.join("a", "a-1")
    fixture.assign()
    fixture.heartbeat("a-1")
    again = fixture.join("a", "a-1")
    fixture.advance(60.1)
    assert [each.member_id for each in fixture.joined(again).members] == ["a-1", "s-1"]


def test_a_rebalance_without_joins_waits_for_the_sessions_of_static_members() -> None:
    fixture = GroupFixture()
    fixture.stable("a")
    fixture.join("s", instance_id="s", session_timeout_ms=300_000)
    fixture.join("a", "a-1")
    fixture.assign()
    fixture.leave("a-1")
    fixture.advance(240.0)
    assert fixture.state() is GroupState.PREPARING_REBALANCE and fixture.group.generation == 2
    fixture.advance(100.0)
    assert fixture.state() is GroupState.EMPTY and fixture.group.generation == 3


def test_all_protocols_of_a_member_are_compared() -> None:
    fixture = GroupFixture()
    fixture.stable("a", "b", protocols=BOTH)
    fixture.join("b", "b-1", protocols=RANGE)
    assert fixture.state() is GroupState.PREPARING_REBALANCE
