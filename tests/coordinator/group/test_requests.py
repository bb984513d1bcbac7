"""SyncGroup, Heartbeat, LeaveGroup and commits: the answers in each state to each sender."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.states import GroupState
from kafkalite.coordinator.group.values import LeavingMember
from tests.coordinator.group.fixtures import GroupFixture

NONE, UNKNOWN, ILLEGAL, FENCED, REBALANCE, INCONSISTENT, UNAVAILABLE = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


def empty() -> GroupFixture:
    return GroupFixture()


def stable() -> GroupFixture:
    """``a-1``, which leads, and ``s-1``, the static member ``s``; generation 1."""
    fixture = completing()
    fixture.assign()
    return fixture


def completing() -> GroupFixture:
    fixture = GroupFixture()
    fixture.join("a")
    fixture.join("s", instance_id="s")
    fixture.advance(6.0)
    return fixture


def preparing() -> GroupFixture:
    fixture = stable()
    fixture.join("new")
    return fixture


def dead() -> GroupFixture:
    fixture = stable()
    fixture.die()
    return fixture


STATES: dict[str, Callable[[], GroupFixture]] = {
    "empty": empty,
    "preparing": preparing,
    "completing": completing,
    "stable": stable,
    "dead": dead,
}

# Senders: member id, generation, instance id.
MEMBER = ("a-1", 1, None)
STATIC = ("s-1", 1, "s")
OLD_GENERATION = ("a-1", 0, None)
NEXT_GENERATION = ("a-1", 2, None)
STRANGER = ("x-1", 1, None)
NO_SUCH_INSTANCE = ("a-1", 1, "no such")
OTHERS_INSTANCE = ("a-1", 1, "s")
NO_MEMBER = ("", -1, None)
WHO = {
    "member": MEMBER,
    "static": STATIC,
    "old generation": OLD_GENERATION,
    "next generation": NEXT_GENERATION,
    "stranger": STRANGER,
    "no such instance": NO_SUCH_INSTANCE,
    "other's instance": OTHERS_INSTANCE,
    "no member": NO_MEMBER,
}


def cases(table: dict[str, dict[str, ErrorCode]]) -> pytest.MarkDecorator:
    found = [
        pytest.param(STATES[state], WHO[who], error, id=f"{state}: {who}")
        for state, row in table.items()
        for who, error in row.items()
    ]
    assert len(found) == len(STATES) * len(WHO), "every state and every sender"
    return pytest.mark.parametrize(("make", "who", "error"), found)


def row(*errors: ErrorCode) -> dict[str, ErrorCode]:
    return dict(zip(WHO, errors, strict=True))


@cases(
    {
        #                 member  static  old      next     stranger no such  other's no member
        "empty": row(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
        "preparing": row(REBALANCE, REBALANCE, ILLEGAL, ILLEGAL, UNKNOWN, UNKNOWN, FENCED, UNKNOWN),
        "completing": row(NONE, NONE, ILLEGAL, ILLEGAL, UNKNOWN, UNKNOWN, FENCED, UNKNOWN),
        "stable": row(NONE, NONE, ILLEGAL, ILLEGAL, UNKNOWN, UNKNOWN, FENCED, UNKNOWN),
        "dead": row(*[UNAVAILABLE] * 8),
    }
)
def test_heartbeat(make: Callable[[], GroupFixture], who: tuple[str, int, str | None], error: ErrorCode) -> None:
    assert make().heartbeat(*who) is error


@cases(
    {
        "empty": row(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
        "preparing": row(REBALANCE, REBALANCE, ILLEGAL, ILLEGAL, UNKNOWN, UNKNOWN, FENCED, UNKNOWN),
        # The leader gets its assignment at once, because stores are durable at once here.
        "completing": row(NONE, NONE, ILLEGAL, ILLEGAL, UNKNOWN, UNKNOWN, FENCED, UNKNOWN),
        "stable": row(NONE, NONE, ILLEGAL, ILLEGAL, UNKNOWN, UNKNOWN, FENCED, UNKNOWN),
        "dead": row(*[UNAVAILABLE] * 8),
    }
)
def test_sync(make: Callable[[], GroupFixture], who: tuple[str, int, str | None], error: ErrorCode) -> None:
    fixture = make()
    member_id, generation, instance_id = who
    ticket = fixture.sync(member_id, generation, instance_id=instance_id)
    if fixture.state() is GroupState.COMPLETING_REBALANCE and error is NONE:
        assert ticket not in fixture.answers
        fixture.sync("a-1")
    assert fixture.synced(ticket).error is error


@cases(
    {
        "empty": row(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, NONE),
        "preparing": row(NONE, NONE, ILLEGAL, ILLEGAL, UNKNOWN, UNKNOWN, FENCED, UNKNOWN),
        "completing": row(REBALANCE, REBALANCE, ILLEGAL, ILLEGAL, UNKNOWN, UNKNOWN, FENCED, UNKNOWN),
        "stable": row(NONE, NONE, ILLEGAL, ILLEGAL, UNKNOWN, UNKNOWN, FENCED, UNKNOWN),
        "dead": row(*[UNAVAILABLE] * 8),
    }
)
def test_commit(make: Callable[[], GroupFixture], who: tuple[str, int, str | None], error: ErrorCode) -> None:
    assert make().commit(*who) is error


@cases(
    {
        "empty": row(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, NONE),
        "preparing": row(NONE, NONE, ILLEGAL, ILLEGAL, UNKNOWN, UNKNOWN, FENCED, NONE),
        # Transactional offsets are accepted in each state; versions before 3 do not name the member.
        "completing": row(NONE, NONE, ILLEGAL, ILLEGAL, UNKNOWN, UNKNOWN, FENCED, NONE),
        "stable": row(NONE, NONE, ILLEGAL, ILLEGAL, UNKNOWN, UNKNOWN, FENCED, NONE),
        "dead": row(*[UNAVAILABLE] * 8),
    }
)
def test_commit_within_a_transaction(
    make: Callable[[], GroupFixture], who: tuple[str, int, str | None], error: ErrorCode
) -> None:
    assert make().commit(*who, transactional=True) is error


# SyncGroup


# trap: kafkalite/coordinator/group/group_metadata.py: SyncGroup is answered before the generation is durable.
def test_no_sync_is_answered_before_the_assignment_is_durable() -> None:
    fixture = completing()
    fixture.durable = False
    tickets = fixture.assign()
    assert not set(tickets.values()) & set(fixture.answers)
    assert fixture.state() is GroupState.COMPLETING_REBALANCE
    fixture.write()
    assert fixture.state() is GroupState.STABLE
    assert {name: fixture.synced(ticket).assignment for name, ticket in tickets.items()} == {
        "a-1": b"to a-1",
        "s-1": b"to s-1",
    }
    answer = fixture.synced(tickets["a-1"])
    assert (answer.protocol_type, answer.protocol) == ("consumer", "range")


def test_a_member_without_an_assignment_gets_an_empty_one() -> None:
    fixture = completing()
    follower = fixture.sync("s-1")
    fixture.sync("a-1", assignments={"a-1": b"all", "gone": b"x"})
    assert fixture.synced(follower).assignment == b""
    assert fixture.synced(fixture.sync("a-1")).assignment == b"all"


def test_a_late_sync_gets_the_stored_assignment() -> None:
    fixture = completing()
    fixture.sync("a-1", assignments={"s-1": b"part"})
    assert fixture.synced(fixture.sync("s-1")).assignment == b"part"


def test_an_assignment_from_a_follower_is_ignored() -> None:
    fixture = completing()
    fixture.sync("s-1", assignments={"s-1": b"all"})
    assert fixture.state() is GroupState.COMPLETING_REBALANCE
    fixture.sync("a-1", assignments={"s-1": b"part"})
    assert fixture.synced(fixture.sync("s-1")).assignment == b"part"


def test_the_leaders_first_assignment_is_stored() -> None:
    fixture = completing()
    fixture.durable = False
    given_up = fixture.sync("a-1", assignments={"a-1": b"first"})
    again = fixture.sync("a-1", assignments={"a-1": b"second"})
    assert fixture.synced(given_up).error is REBALANCE
    assert len(fixture.stores) == 1
    fixture.write()
    assert fixture.synced(again).assignment == b"first"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"protocol_type": "consumer", "protocol": "range"}, NONE),
        ({"protocol_type": "connect", "protocol": "range"}, INCONSISTENT),
        ({"protocol_type": "consumer", "protocol": "sticky"}, INCONSISTENT),
        ({"protocol_type": "connect"}, INCONSISTENT),
    ],
)
def test_a_sync_must_name_the_protocol_of_the_generation(fields: dict[str, Any], error: ErrorCode) -> None:
    fixture = stable()
    assert fixture.synced(fixture.sync("a-1", **fields)).error is error


# LeaveGroup


@pytest.mark.parametrize(
    ("leaving", "error"),
    [
        (LeavingMember("a-1"), NONE),
        (LeavingMember("s-1"), NONE),
        (LeavingMember("s-1", "s"), NONE),
        (LeavingMember("", "s"), NONE),
        (LeavingMember("x-1"), UNKNOWN),
        (LeavingMember(""), UNKNOWN),
        (LeavingMember("", "no such"), UNKNOWN),
        (LeavingMember("a-1", "no such"), UNKNOWN),
        (LeavingMember("a-1", "s"), FENCED),
    ],
)
def test_leave(leaving: LeavingMember, error: ErrorCode) -> None:
    fixture = stable()
    answer = fixture.leave(leaving)
    assert (answer.error, answer.members) == (NONE, ((leaving, error),))
    assert (fixture.state() is GroupState.PREPARING_REBALANCE) == (error is NONE)


def test_many_leave_at_once() -> None:
    fixture = stable()
    answer = fixture.leave("a-1", "x-1", LeavingMember("", "s"))
    assert [error for _, error in answer.members] == [NONE, UNKNOWN, NONE]
    assert fixture.state() is GroupState.EMPTY and fixture.group.generation == 2


def test_leaving_a_dead_group() -> None:
    assert dead().leave("a-1").error is UNAVAILABLE


def test_the_owner_of_a_pending_id_can_leave() -> None:
    fixture = GroupFixture()
    fixture.join("a", require_known_member_id=True)
    assert fixture.leave("a-1").members[0][1] is NONE
    assert fixture.joined(fixture.join("a", "a-1")).error is UNKNOWN


def test_the_waiting_request_of_a_leaving_member_is_answered() -> None:
    fixture = completing()
    waiting = fixture.sync("s-1")
    fixture.leave("s-1")
    assert fixture.synced(waiting).error is UNKNOWN
    fixture = GroupFixture()
    joining = fixture.join("a", instance_id="i")
    fixture.leave(LeavingMember("", "i"))
    assert fixture.joined(joining).error is UNKNOWN


def test_the_rebalance_ends_when_the_last_missing_member_leaves() -> None:
    fixture = stable()
    old = fixture.join("s", "s-1", instance_id="s", protocols=(("range", b"other"),))
    assert old not in fixture.answers
    fixture.leave("a-1")
    assert (fixture.joined(old).generation, fixture.joined(old).leader) == (2, "s-1")


def test_a_late_sync_extends_the_session() -> None:
    fixture = GroupFixture()
    fixture.stable("a")
    fixture.advance(8.0)
    fixture.sync("a-1")
    fixture.advance(8.0)
    assert fixture.state() is GroupState.STABLE


def test_a_members_commit_extends_its_session() -> None:
    fixture = GroupFixture()
    fixture.stable("a")
    for _ in range(3):
        fixture.advance(8.0)
        assert fixture.commit("a-1", 1) is NONE
    assert fixture.state() is GroupState.STABLE
