"""Deadlines of sessions, rebalances and syncs; failed stores; dead groups."""

from __future__ import annotations

import math

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.group_metadata import GroupConfig
from kafkalite.coordinator.group.states import GroupState
from kafkalite.coordinator.group.values import StoreKind
from tests.coordinator.group.fixtures import GroupFixture


def test_a_silent_member_is_removed_after_its_session_timeout() -> None:
    fixture = GroupFixture()
    fixture.stable("a", "b")
    fixture.advance(9.9)
    assert fixture.heartbeat("a-1") is ErrorCode.NONE
    assert fixture.state() is GroupState.STABLE
    fixture.advance(0.2)
    assert fixture.group.members.ids == {"a-1"}
    assert fixture.state() is GroupState.PREPARING_REBALANCE


def test_heartbeats_extend_a_session_without_a_wake_up() -> None:
    fixture = GroupFixture()
    fixture.stable("a")
    woken_at = fixture.group.wakes_at
    for _ in range(5):
        fixture.now += 1.0
        assert fixture.heartbeat("a-1") is ErrorCode.NONE
    assert fixture.group.wakes_at == woken_at
    fixture.advance(woken_at - fixture.now)
    # The wake-up evaluates the current deadlines.
    assert fixture.group.wakes_at == pytest.approx(woken_at + 5.0)
    assert fixture.state() is GroupState.STABLE


def test_the_generation_without_members_is_stored() -> None:
    fixture = GroupFixture()
    fixture.stable("a")
    fixture.advance(10.1)
    assert (fixture.state(), fixture.group.generation, fixture.group.protocol) == (GroupState.EMPTY, 2, "")
    assert fixture.kept is not None
    assert (fixture.kept.kind, fixture.kept.generation.number, fixture.kept.members) == (StoreKind.EMPTY, 2, ())
    assert fixture.kept.generation.protocol_type == "consumer"
    assert fixture.group.wakes_at == math.inf


def test_a_member_that_waits_for_an_answer_needs_no_heartbeats() -> None:
    fixture = GroupFixture()
    fixture.stable("a", "b", rebalance_timeout_ms=120_000)
    waiting = fixture.join("b", "b-1", protocols=(("range", b"other"),), rebalance_timeout_ms=120_000)
    for _ in range(10):
        fixture.advance(9.0)
        fixture.heartbeat("a-1")
    assert waiting not in fixture.answers
    fixture.join("a", "a-1", rebalance_timeout_ms=120_000)
    assert fixture.joined(waiting).generation == 2
    # Its session timeout restarts with the answer.
    fixture.advance(9.9)
    assert "b-1" in fixture.group.members


def test_a_new_member_may_be_silent_for_five_minutes() -> None:
    fixture = GroupFixture()
    fixture.stable("s", instance_id="s", session_timeout_ms=1_800_000, rebalance_timeout_ms=900_000)
    new = fixture.join("b")
    fixture.advance(299.0)
    assert new not in fixture.answers
    fixture.advance(2.0)
    assert fixture.joined(new).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert fixture.joined(new).member_id == ""
    assert fixture.group.members.ids == {"s-1"}


def test_a_member_that_does_not_sync_is_removed_after_the_rebalance_timeout() -> None:
    fixture = GroupFixture()
    fixture.join("a", rebalance_timeout_ms=20_000)
    fixture.join("b", rebalance_timeout_ms=20_000)
    fixture.advance(6.0)
    fixture.sync("a-1")
    for _ in range(4):
        fixture.advance(4.9)
        fixture.heartbeat("a-1")
        fixture.heartbeat("b-1")
    assert fixture.state() is GroupState.STABLE
    fixture.advance(1.0)
    assert fixture.group.members.ids == {"a-1"}
    assert fixture.state() is GroupState.PREPARING_REBALANCE


def test_a_leader_that_does_not_sync_is_removed_and_the_followers_rebalance() -> None:
    fixture = GroupFixture()
    fixture.join("a", rebalance_timeout_ms=8_000)
    fixture.join("b", rebalance_timeout_ms=8_000)
    fixture.advance(6.0)
    follower = fixture.sync("b-1")
    fixture.advance(8.1)
    assert fixture.synced(follower).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert fixture.group.members.leader == "b-1"


def test_the_sync_deadline_ends_when_all_members_have_synced() -> None:
    fixture = GroupFixture()
    fixture.stable("a", session_timeout_ms=600_000)
    fixture.advance(599.0)
    assert fixture.state() is GroupState.STABLE


def test_a_static_member_that_came_back_has_until_the_same_time_to_sync() -> None:
    fixture = GroupFixture()
    fixture.join("a", rebalance_timeout_ms=20_000)
    fixture.join("s", instance_id="s", rebalance_timeout_ms=20_000)
    fixture.advance(6.0)
    fixture.sync("a-1")
    fixture.durable = False
    back = fixture.join("s", instance_id="s", rebalance_timeout_ms=20_000)
    for _ in range(3):
        fixture.advance(6.5)
        fixture.heartbeat("a-1")
    fixture.advance(1.0)
    # Its new id was never stored; its request is answered nevertheless.
    assert fixture.joined(back).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert fixture.group.members.ids == {"a-1"}


def test_a_generation_that_cannot_be_stored_begins_a_rebalance() -> None:
    fixture = GroupFixture()
    fixture.durable = False
    fixture.join("a")
    fixture.advance(3.0)
    ticket = fixture.sync("a-1", assignments={"a-1": b"x"})
    fixture.write(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert fixture.synced(ticket).error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert fixture.state() is GroupState.PREPARING_REBALANCE
    again = fixture.join("a", "a-1")
    assert fixture.joined(again).generation == 2


def test_a_store_that_comes_after_the_end_of_its_generation_changes_nothing() -> None:
    fixture = GroupFixture()
    fixture.durable = False
    fixture.join("a")
    fixture.advance(3.0)
    ticket = fixture.sync("a-1", assignments={"a-1": b"x"})
    new = fixture.join("b")
    assert fixture.synced(ticket).error is ErrorCode.REBALANCE_IN_PROGRESS
    fixture.write()
    assert fixture.state() is GroupState.PREPARING_REBALANCE
    fixture.join("a", "a-1")
    assert fixture.joined(new).generation == 2
    leader = fixture.sync("a-1", assignments={"a-1": b"y"})
    fixture.write()
    assert fixture.synced(leader).assignment == b"y"


@pytest.mark.parametrize("state", ["preparing", "completing", "syncing", "stable"])
def test_a_dead_group_answers_all_waiting_requests(state: str) -> None:
    fixture = GroupFixture()
    fixture.durable = False
    fixture.join("a")
    fixture.join("b", instance_id="b")
    if state != "preparing":
        fixture.advance(6.0)
    if state == "syncing":
        fixture.assign()
    if state == "stable":
        fixture.assign()
        fixture.write()
        fixture.join("b", instance_id="b")
    waiting = fixture.open_tickets
    assert bool(waiting) == (state != "completing")
    fixture.die(ErrorCode.NOT_COORDINATOR)
    assert {fixture.answers[ticket].error for ticket in waiting} <= {ErrorCode.NOT_COORDINATOR}
    assert not fixture.open_tickets
    assert fixture.group.wakes_at == math.inf
    fixture.die()


def test_an_initial_delay_outlives_the_member_that_began_it() -> None:
    fixture = GroupFixture()
    fixture.join("a", instance_id="a")
    fixture.leave("a-1")
    assert fixture.state() is GroupState.PREPARING_REBALANCE
    fixture.advance(3.0)
    assert (fixture.state(), fixture.group.generation) == (GroupState.EMPTY, 1)


def test_without_an_initial_delay_the_first_member_is_a_generation() -> None:
    fixture = GroupFixture(GroupConfig(initial_rebalance_delay_ms=0))
    ticket = fixture.join("a")
    fixture.advance(0.0)
    assert fixture.joined(ticket).generation == 1
