"""JoinGroup, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.group_metadata import GroupLimits
from kafkalite.coordinator.group.states import GroupState
from tests.coordinator.group.room import RANGE, Room

STICKY = (("sticky", b"topics"),)
BOTH = (("range", b"topics"), ("sticky", b"topics"))


def test_a_first_member_waits_for_the_initial_delay_and_leads() -> None:
    room = Room()
    ticket = room.join("a")
    assert room.state() is GroupState.PREPARING_REBALANCE
    room.advance(2.9)
    assert not room.answers
    room.advance(0.1)
    answer = room.joined(ticket)
    assert (answer.error, answer.generation, answer.member_id, answer.leader) == (ErrorCode.NONE, 1, "a-1", "a-1")
    assert (answer.protocol_type, answer.protocol, answer.skip_assignment) == ("consumer", "range", False)
    assert [(each.member_id, each.metadata) for each in answer.members] == [("a-1", b"topics")]
    assert room.state() is GroupState.COMPLETING_REBALANCE


def test_only_the_leaders_answer_has_all_members() -> None:
    room = Room()
    first, second = room.join("a"), room.join("b")
    room.advance(6.0)
    assert [each.member_id for each in room.joined(first).members] == ["a-1", "b-1"]
    assert room.joined(second).members == ()
    assert room.joined(second).leader == "a-1"


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
    room = Room()
    start = room.now
    first = room.join("first", rebalance_timeout_ms=10_000)
    for number, when in enumerate(comes_at):
        room.advance(start + when - room.now)
        room.join(f"m{number}", rebalance_timeout_ms=10_000)
    room.advance(start + begins_at - 0.01 - room.now)
    assert first not in room.answers
    room.advance(0.02)
    assert room.joined(first).generation == 1
    assert len(room.joined(first).members) == len(comes_at) + 1


def test_later_generations_begin_as_soon_as_all_members_have_joined() -> None:
    room = Room()
    room.stable("a")
    new = room.join("b")
    assert room.heartbeat("a-1") is ErrorCode.REBALANCE_IN_PROGRESS
    old = room.join("a", "a-1")
    assert room.joined(new).generation == room.joined(old).generation == 2
    assert room.joined(old).leader == "a-1"


def test_a_member_that_does_not_join_in_time_is_removed() -> None:
    room = Room()
    room.stable("a", "b", rebalance_timeout_ms=7_000)
    new = room.join("c", rebalance_timeout_ms=7_000)
    room.advance(6.0)
    room.heartbeat("a-1")
    room.heartbeat("b-1")
    again = room.join("b", "b-1", rebalance_timeout_ms=7_000)
    room.advance(1.1)
    assert room.joined(new).generation == 2
    # The leader was late, so another member leads.
    assert room.joined(again).leader == "b-1"
    assert [each.member_id for each in room.joined(again).members] == ["b-1", "c-1"]
    assert room.heartbeat("a-1") is ErrorCode.UNKNOWN_MEMBER_ID


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
    room = Room()
    ticket = room.join("a", **fields)
    assert room.joined(ticket).error is error
    assert room.joined(ticket).member_id == fields.get("member_id", "")
    assert room.state() is GroupState.EMPTY and not room.group.members


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
    room = Room()
    room.join("a")
    room.join("s", instance_id="s")
    room.advance(6.0)
    room.assign()
    ticket = room.join("x", **fields)
    assert room.joined(ticket).error is error
    assert room.state() is GroupState.STABLE and room.group.members.ids == {"a-1", "s-1"}


def test_a_dead_group_answers_coordinator_not_available() -> None:
    room = Room()
    room.die()
    assert room.joined(room.join("a")).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert room.joined(room.join("a", "a-1")).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


# MEMBER_ID_REQUIRED


def test_a_member_without_an_id_gets_one_and_joins_with_it() -> None:
    room = Room()
    answer = room.joined(room.join("a", require_known_member_id=True))
    assert (answer.error, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "a-1")
    assert room.state() is GroupState.EMPTY
    ticket = room.join("a", "a-1", require_known_member_id=True)
    room.advance(3.0)
    assert room.joined(ticket).member_id == "a-1"
    assert not room.group.members.pending


def test_static_members_are_members_at_once() -> None:
    room = Room()
    ticket = room.join("a", require_known_member_id=True, instance_id="s")
    room.advance(3.0)
    assert room.joined(ticket).error is ErrorCode.NONE


def test_a_rebalance_waits_for_the_owner_of_a_pending_id() -> None:
    room = Room()
    room.stable("a")
    room.join("b", require_known_member_id=True)
    # A rebalance has begun meanwhile and the only member has joined; it waits for the owner of the id.
    old = room.join("a", "a-1")
    assert old not in room.answers
    new = room.join("b", "b-1")
    assert room.joined(old).generation == room.joined(new).generation == 2


def test_a_pending_id_expires_after_its_session_timeout() -> None:
    room = Room()
    room.stable("a")
    room.join("b", require_known_member_id=True, session_timeout_ms=6_000)
    room.heartbeat("a-1")
    old = room.join("a", "a-1")
    room.advance(5.9)
    assert old not in room.answers
    room.advance(0.2)
    assert len(room.joined(old).members) == 1
    assert room.joined(room.join("b", "b-1")).error is ErrorCode.UNKNOWN_MEMBER_ID


# Members that join again


def test_a_leader_that_joins_again_begins_a_rebalance_and_a_follower_does_not() -> None:
    room = Room()
    room.stable("a", "b")
    follower = room.joined(room.join("b", "b-1"))
    assert (follower.generation, follower.leader, follower.members) == (1, "a-1", ())
    assert room.state() is GroupState.STABLE
    room.join("a", "a-1")
    assert room.state() is GroupState.PREPARING_REBALANCE


def test_a_follower_with_other_metadata_begins_a_rebalance() -> None:
    room = Room()
    room.stable("a", "b")
    room.join("b", "b-1", protocols=(("range", b"other topics"),))
    assert room.state() is GroupState.PREPARING_REBALANCE


@pytest.mark.parametrize(("member_id", "sees"), [("a-1", 2), ("b-1", 0)])
def test_a_repeated_join_before_the_assignment_gets_the_same_answer(member_id: str, sees: int) -> None:
    room = Room()
    room.join("a")
    room.join("b")
    room.advance(6.0)
    again = room.joined(room.join("x", member_id))
    assert (again.generation, again.leader, len(again.members)) == (1, "a-1", sees)
    assert room.state() is GroupState.COMPLETING_REBALANCE


def test_other_metadata_before_the_assignment_begins_a_rebalance() -> None:
    room = Room()
    room.join("a")
    room.join("b")
    room.advance(6.0)
    room.durable = False
    waiting = room.sync("a-1")
    room.join("b", "b-1", protocols=BOTH)
    assert room.state() is GroupState.PREPARING_REBALANCE
    assert room.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_abandoned_join_is_answered_when_the_member_joins_again() -> None:
    room = Room()
    first = room.join("a", instance_id="a")
    second = room.join("a", "a-1", instance_id="a")
    assert room.joined(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    room.advance(3.0)
    assert room.joined(second).error is ErrorCode.NONE


def test_timeouts_are_those_of_the_last_join() -> None:
    room = Room()
    room.stable("a")
    room.join("a", "a-1", session_timeout_ms=20_000, rebalance_timeout_ms=30_000)
    room.assign()
    room.advance(19.0)
    assert room.heartbeat("a-1") is ErrorCode.NONE
    assert room.group.members.rebalance_timeout_ms == 30_000


# Size


def test_a_full_group_refuses_new_members() -> None:
    room = Room(GroupLimits(max_size=2))
    room.stable("a", "b")
    refused = room.joined(room.join("c"))
    assert (refused.error, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert room.joined(room.join("b", "b-1")).error is ErrorCode.NONE
    assert room.state() is GroupState.STABLE


def test_a_group_above_the_limit_keeps_the_members_that_join_first() -> None:
    room = Room(GroupLimits(max_size=2))
    room.stable("a", "b")
    room.join("a", "a-1")
    room.join("c")
    late = room.join("b", "b-1")
    assert room.joined(late).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert room.group.members.ids == {"a-1", "c-1"}
    assert room.state() is GroupState.COMPLETING_REBALANCE


def test_a_full_group_refuses_the_owner_of_a_pending_id() -> None:
    room = Room(GroupLimits(max_size=1))
    room.join("a", require_known_member_id=True)
    room.join("b", require_known_member_id=True)
    first = room.join("a", "a-1")
    assert room.joined(room.join("b", "b-1")).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    room.advance(3.0)
    assert len(room.joined(first).members) == 1


# Static members


def test_a_static_member_rejoins_without_a_rebalance() -> None:
    room = Room()
    room.stable("a")
    room.join("s", instance_id="s")
    room.join("a", "a-1")
    room.assign()
    back = room.joined(room.join("s", instance_id="s"))
    assert (back.error, back.member_id, back.generation, back.leader) == (ErrorCode.NONE, "s-2", 2, "a-1")
    assert room.state() is GroupState.STABLE
    assert room.synced(room.sync("s-2", instance_id="s")).assignment == b"to s-1"
    assert room.kept is not None and room.kept.replaced == ("s-1", "s-2")
    assert {record.member_id: record.assignment for record in room.kept.members} == {
        "a-1": b"to a-1",
        "s-2": b"to s-1",
    }


def test_of_two_members_with_one_instance_id_the_older_is_fenced() -> None:
    room = Room()
    room.stable("s", instance_id="s")
    room.join("s", instance_id="s")
    assert room.heartbeat("s-1", instance_id="s") is ErrorCode.FENCED_INSTANCE_ID
    assert room.heartbeat("s-1") is ErrorCode.UNKNOWN_MEMBER_ID
    assert room.synced(room.sync("s-1", instance_id="s")).error is ErrorCode.FENCED_INSTANCE_ID
    assert room.joined(room.join("s", "s-1", instance_id="s")).error is ErrorCode.FENCED_INSTANCE_ID
    assert room.commit("s-1", 1, "s") is ErrorCode.FENCED_INSTANCE_ID
    assert room.heartbeat("s-2", instance_id="s") is ErrorCode.NONE


def test_waiting_requests_of_a_replaced_static_member_are_fenced() -> None:
    room = Room()
    waiting = room.join("s", instance_id="s")
    room.join("s", instance_id="s")
    assert room.joined(waiting).error is ErrorCode.FENCED_INSTANCE_ID
    room.advance(3.0)
    room.durable = False
    syncing = room.sync("s-2", instance_id="s")
    room.join("s", instance_id="s")
    assert room.synced(syncing).error is ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize(
    ("can_skip", "leader", "skip", "members"),
    [(True, "s-2", True, 1), (False, "s-1", False, 0)],
    ids=["version 9", "version 8"],
)
def test_a_static_leader_that_rejoins_does_not_assign(can_skip: bool, leader: str, skip: bool, members: int) -> None:
    room = Room()
    room.stable("s", instance_id="s")
    back = room.joined(room.join("s", instance_id="s", can_skip_assignment=can_skip))
    assert (back.leader, back.skip_assignment, len(back.members)) == (leader, skip, members)
    assert room.group.members.leader == "s-2"


def test_a_static_member_with_another_protocol_begins_a_rebalance() -> None:
    room = Room()
    room.stable("s", instance_id="s", protocols=BOTH)
    back = room.join("s", instance_id="s", protocols=STICKY)
    room.advance(60.0)
    assert (room.joined(back).generation, room.joined(back).protocol) == (2, "sticky")


def test_a_static_member_that_rejoins_before_the_assignment_begins_a_rebalance() -> None:
    room = Room()
    room.join("a")
    room.join("s", instance_id="s")
    room.advance(6.0)
    back = room.join("s", instance_id="s")
    assert room.state() is GroupState.PREPARING_REBALANCE
    leader = room.join("a", "a-1")
    assert room.joined(back).generation == room.joined(leader).generation == 2
    assert [each.instance_id for each in room.joined(leader).members] == [None, "s"]


def test_a_static_member_gets_its_new_id_once_it_is_durable() -> None:
    room = Room()
    room.stable("s", instance_id="s")
    room.durable = False
    back = room.join("s", instance_id="s")
    assert back not in room.answers
    room.write()
    assert room.joined(back).member_id == "s-2"


def test_a_static_member_whose_new_id_cannot_be_stored_gets_an_error() -> None:
    room = Room()
    room.stable("s", instance_id="s")
    room.durable = False
    back = room.join("s", instance_id="s")
    room.write(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (room.joined(back).error, room.joined(back).member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")
    again = room.join("s", instance_id="s")
    room.write()
    assert room.joined(again).member_id == "s-3"


def test_a_rebalance_overtakes_the_store_of_a_static_member() -> None:
    room = Room()
    room.stable("s", instance_id="s")
    room.durable = False
    back = room.join("s", instance_id="s")
    new = room.join("b")
    # It counts as joined for the next generation.
    assert room.joined(back).generation == room.joined(new).generation == 2
    room.write()
    assert room.state() is GroupState.COMPLETING_REBALANCE


def test_a_static_member_that_was_overtaken_by_a_rebalance_waits_with_the_others() -> None:
    room = Room()
    room.stable("a")
    room.join("s", instance_id="s")
    room.join("a", "a-1")
    room.assign()
    room.durable = False
    back = room.join("s", instance_id="s")
    room.join("b")
    room.write()
    # The generation of the pending answer is over.
    assert back not in room.answers
    leader = room.join("a", "a-1")
    assert room.joined(back).generation == room.joined(leader).generation == 3


def test_static_members_that_do_not_join_stay_until_their_sessions_end() -> None:
    room = Room()
    room.stable("a")
    room.join("s", instance_id="s", session_timeout_ms=120_000)
    room.join("a", "a-1")
    room.assign()
    room.heartbeat("a-1")
    again = room.join("a", "a-1")
    room.advance(60.1)
    assert [each.member_id for each in room.joined(again).members] == ["a-1", "s-1"]


def test_a_rebalance_without_joins_waits_for_the_sessions_of_static_members() -> None:
    room = Room()
    room.stable("a")
    room.join("s", instance_id="s", session_timeout_ms=300_000)
    room.join("a", "a-1")
    room.assign()
    room.leave("a-1")
    room.advance(240.0)
    assert room.state() is GroupState.PREPARING_REBALANCE and room.group.generation == 2
    room.advance(100.0)
    assert room.state() is GroupState.EMPTY and room.group.generation == 3


def test_all_protocols_of_a_member_are_compared() -> None:
    room = Room()
    room.stable("a", "b", protocols=BOTH)
    room.join("b", "b-1", protocols=RANGE)
    assert room.state() is GroupState.PREPARING_REBALANCE
