"""Deadlines of sessions, rebalances and syncs; failed stores; dead groups."""

from __future__ import annotations

import math

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.group_metadata import GroupLimits
from kafkalite.coordinator.group.states import GroupState
from kafkalite.coordinator.group.values import StoreKind
from tests.coordinator.group.room import Room


def test_a_silent_member_is_removed_after_its_session_timeout() -> None:
    room = Room()
    room.stable("a", "b")
    room.advance(9.9)
    assert room.heartbeat("a-1") is ErrorCode.NONE
    assert room.state() is GroupState.STABLE
    room.advance(0.2)
    assert room.group.members.ids == {"a-1"}
    assert room.state() is GroupState.PREPARING_REBALANCE


def test_heartbeats_extend_a_session_without_a_wake_up() -> None:
    room = Room()
    room.stable("a")
    woken_at = room.group.wakes_at
    for _ in range(5):
        room.now += 1.0
        assert room.heartbeat("a-1") is ErrorCode.NONE
    assert room.group.wakes_at == woken_at
    room.advance(woken_at - room.now)
    # The wake-up evaluates the current deadlines.
    assert room.group.wakes_at == pytest.approx(woken_at + 5.0)
    assert room.state() is GroupState.STABLE


def test_the_generation_without_members_is_stored() -> None:
    room = Room()
    room.stable("a")
    room.advance(10.1)
    assert (room.state(), room.group.generation, room.group.protocol) == (GroupState.EMPTY, 2, "")
    assert room.kept is not None
    assert (room.kept.kind, room.kept.generation.number, room.kept.members) == (StoreKind.EMPTY, 2, ())
    assert room.kept.generation.protocol_type == "consumer"
    assert room.group.wakes_at == math.inf


def test_a_member_that_waits_for_an_answer_needs_no_heartbeats() -> None:
    room = Room()
    room.stable("a", "b", rebalance_timeout_ms=120_000)
    waiting = room.join("b", "b-1", protocols=(("range", b"other"),), rebalance_timeout_ms=120_000)
    for _ in range(10):
        room.advance(9.0)
        room.heartbeat("a-1")
    assert waiting not in room.answers
    room.join("a", "a-1", rebalance_timeout_ms=120_000)
    assert room.joined(waiting).generation == 2
    # Its session timeout restarts with the answer.
    room.advance(9.9)
    assert "b-1" in room.group.members


def test_a_new_member_may_be_silent_for_five_minutes() -> None:
    room = Room()
    room.stable("s", instance_id="s", session_timeout_ms=1_800_000, rebalance_timeout_ms=900_000)
    new = room.join("b")
    room.advance(299.0)
    assert new not in room.answers
    room.advance(2.0)
    assert room.joined(new).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert room.joined(new).member_id == ""
    assert room.group.members.ids == {"s-1"}


def test_a_member_that_does_not_sync_is_removed_after_the_rebalance_timeout() -> None:
    room = Room()
    room.join("a", rebalance_timeout_ms=20_000)
    room.join("b", rebalance_timeout_ms=20_000)
    room.advance(6.0)
    room.sync("a-1")
    for _ in range(4):
        room.advance(4.9)
        room.heartbeat("a-1")
        room.heartbeat("b-1")
    assert room.state() is GroupState.STABLE
    room.advance(1.0)
    assert room.group.members.ids == {"a-1"}
    assert room.state() is GroupState.PREPARING_REBALANCE


def test_a_leader_that_does_not_sync_is_removed_and_the_followers_rebalance() -> None:
    room = Room()
    room.join("a", rebalance_timeout_ms=8_000)
    room.join("b", rebalance_timeout_ms=8_000)
    room.advance(6.0)
    follower = room.sync("b-1")
    room.advance(8.1)
    assert room.synced(follower).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert room.group.members.leader == "b-1"


def test_the_sync_deadline_ends_when_all_members_have_synced() -> None:
    room = Room()
    room.stable("a", session_timeout_ms=600_000)
    room.advance(599.0)
    assert room.state() is GroupState.STABLE


def test_a_static_member_that_came_back_has_until_the_same_time_to_sync() -> None:
    room = Room()
    room.join("a", rebalance_timeout_ms=20_000)
    room.join("s", instance_id="s", rebalance_timeout_ms=20_000)
    room.advance(6.0)
    room.sync("a-1")
    room.durable = False
    back = room.join("s", instance_id="s", rebalance_timeout_ms=20_000)
    for _ in range(3):
        room.advance(6.5)
        room.heartbeat("a-1")
    room.advance(1.0)
    # Its new id was never stored; its request is answered nevertheless.
    assert room.joined(back).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert room.group.members.ids == {"a-1"}


def test_a_generation_that_cannot_be_stored_begins_a_rebalance() -> None:
    room = Room()
    room.durable = False
    room.join("a")
    room.advance(3.0)
    ticket = room.sync("a-1", assignments={"a-1": b"x"})
    room.write(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert room.synced(ticket).error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert room.state() is GroupState.PREPARING_REBALANCE
    again = room.join("a", "a-1")
    assert room.joined(again).generation == 2


def test_a_store_that_comes_after_the_end_of_its_generation_changes_nothing() -> None:
    room = Room()
    room.durable = False
    room.join("a")
    room.advance(3.0)
    ticket = room.sync("a-1", assignments={"a-1": b"x"})
    new = room.join("b")
    assert room.synced(ticket).error is ErrorCode.REBALANCE_IN_PROGRESS
    room.write()
    assert room.state() is GroupState.PREPARING_REBALANCE
    room.join("a", "a-1")
    assert room.joined(new).generation == 2
    leader = room.sync("a-1", assignments={"a-1": b"y"})
    room.write()
    assert room.synced(leader).assignment == b"y"


@pytest.mark.parametrize("state", ["preparing", "completing", "syncing", "stable"])
def test_a_dead_group_answers_all_waiting_requests(state: str) -> None:
    room = Room()
    room.durable = False
    room.join("a")
    room.join("b", instance_id="b")
    if state != "preparing":
        room.advance(6.0)
    if state == "syncing":
        room.assign()
    if state == "stable":
        room.assign()
        room.write()
        room.join("b", instance_id="b")
    waiting = room.open_tickets
    assert bool(waiting) == (state != "completing")
    room.die(ErrorCode.NOT_COORDINATOR)
    assert {room.answers[ticket].error for ticket in waiting} <= {ErrorCode.NOT_COORDINATOR}
    assert not room.open_tickets
    assert room.group.wakes_at == math.inf
    room.die()


def test_an_initial_delay_outlives_the_member_that_began_it() -> None:
    room = Room()
    room.join("a", instance_id="a")
    room.leave("a-1")
    assert room.state() is GroupState.PREPARING_REBALANCE
    room.advance(3.0)
    assert (room.state(), room.group.generation) == (GroupState.EMPTY, 1)


def test_without_an_initial_delay_the_first_member_is_a_generation() -> None:
    room = Room(GroupLimits(initial_rebalance_delay_ms=0))
    ticket = room.join("a")
    room.advance(0.0)
    assert room.joined(ticket).generation == 1
