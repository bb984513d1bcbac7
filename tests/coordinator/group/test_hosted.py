"""What a heartbeat costs, and that a group's one timer does the work of many."""

from __future__ import annotations

from typing import Any

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.states import GroupState
from kafkalite.testing.clock import ManualClock
from tests.coordinator.group.house import G, House


def counted(clock: ManualClock) -> list[float]:
    """The delays of the timers that are armed from now on."""
    armed: list[float] = []
    arm = clock.call_later

    def call_later(delay: float, *args: Any) -> Any:
        armed.append(delay)
        return arm(delay, *args)

    clock.call_later = call_later  # type: ignore[assignment, method-assign]
    return armed


def test_heartbeats_ask_no_zookeeper_and_arm_no_timer() -> None:
    house = House()
    broker = house.preferred()
    ids = house.stable("a", "b")
    requests, armed = broker.client.requests, counted(house.clock)
    for _ in range(1000):
        for member_id in ids.values():
            assert broker.heartbeat(member_id, 1) is ErrorCode.NONE
    assert broker.client.requests == requests
    assert armed == []


def test_requests_that_bring_no_earlier_deadline_leave_the_timer_alone() -> None:
    house = House()
    broker = house.preferred()
    ids = house.stable("a", "b")
    armed = counted(house.clock)
    for _ in range(100):
        house.clock.advance(0.01)
        assert broker.sync(ids["b"], 1).result.error is ErrorCode.NONE
    assert armed == []


def test_one_timer_finds_the_member_that_is_silent() -> None:
    house = House()
    broker = house.preferred()
    ids = house.stable("a", "b")
    armed = counted(house.clock)
    for _ in range(10):
        house.clock.advance(3.0)
        broker.heartbeat(ids["a"], 1)
        broker.heartbeat(ids["b"], 1)
    assert len(armed) <= 10
    house.clock.advance(9.0)
    broker.heartbeat(ids["a"], 1)
    house.clock.advance(1.5)
    assert broker.heartbeat(ids["b"], 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.heartbeat(ids["a"], 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_that_is_let_go_has_no_timer() -> None:
    house = House()
    broker = house.preferred()
    house.stable("a")
    hosted = broker.hosted[G]
    broker.client.expire_session()
    armed = counted(house.clock)
    house.clock.advance(100.0)
    assert hosted.core.state is GroupState.DEAD and armed == []


def test_who_is_answered_may_ask_again_at_once() -> None:
    """An answer runs its waiter's code, which finds the group as it is after the step, not in the middle of it."""
    house = House()
    broker = house.preferred()
    first, second = broker.join("a"), broker.join("b")
    hosted = broker.hosted[G]
    seen: list[tuple[int, GroupState]] = []

    def look(answer: Any) -> Any:
        seen.append((hosted.core.generation, hosted.core.state))
        return answer

    for waiting in hosted._waiting.values():
        waiting.addCallback(look)
    house.clock.advance(6.0)
    assert first.done and second.done
    assert seen == [(1, GroupState.COMPLETING_REBALANCE)] * 2
