"""The cost of a heartbeat, and the one timer of a group."""

from __future__ import annotations

from typing import Any

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.group.states import GroupState
from kafkalite.testing.clock import ManualClock
from tests.coordinator.group.fixtures import G, GroupCoordinatorFixture


def counted(clock: ManualClock) -> list[float]:
    """The delays of the timers that are set from now on."""
    armed: list[float] = []
    arm = clock.call_later

    def call_later(delay: float, *args: Any) -> Any:
        armed.append(delay)
        return arm(delay, *args)

    clock.call_later = call_later  # type: ignore[assignment, method-assign]
    return armed


def test_heartbeats_need_no_zookeeper_request_and_no_timer() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    ids = fixture.stable("a", "b")
    requests, armed = broker.client.requests, counted(fixture.clock)
    for _ in range(1000):
        for member_id in ids.values():
            assert broker.heartbeat(member_id, 1) is ErrorCode.NONE
    assert broker.client.requests == requests
    assert armed == []


def test_requests_without_an_earlier_deadline_do_not_change_the_timer() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    ids = fixture.stable("a", "b")
    armed = counted(fixture.clock)
    for _ in range(100):
        fixture.clock.advance(0.01)
        assert broker.sync(ids["b"], 1).result.error is ErrorCode.NONE
    assert armed == []


def test_one_timer_finds_the_member_that_is_silent() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    ids = fixture.stable("a", "b")
    armed = counted(fixture.clock)
    for _ in range(10):
        fixture.clock.advance(3.0)
        broker.heartbeat(ids["a"], 1)
        broker.heartbeat(ids["b"], 1)
    assert len(armed) <= 10
    fixture.clock.advance(9.0)
    broker.heartbeat(ids["a"], 1)
    fixture.clock.advance(1.5)
    assert broker.heartbeat(ids["b"], 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.heartbeat(ids["a"], 1) is ErrorCode.REBALANCE_IN_PROGRESS


def sleep(clock: ManualClock, seconds: float) -> None:
    """The process is paused, so that timers fire late."""
    clock._now += seconds
    clock.advance(0.0)


# trap: kafkalite/coordinator/group/group_metadata.py: A coordinator that was stopped would expire its members for
# heartbeats that it could not receive.
def test_a_paused_coordinator_removes_no_member_for_that_time() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    ids = fixture.stable("a", "b")
    given = broker.join("c", require_known_member_id=True).result.member_id
    fixture.clock.advance(9.0)
    broker.heartbeat(ids["a"], 1)
    sleep(fixture.clock, 60.0)
    # The heartbeats that were sent meanwhile are read now, after the timer.
    assert [broker.heartbeat(each, 1) for each in ids.values()] == [ErrorCode.NONE] * 2
    assert not broker.join("c", given).done
    joins = [broker.join(name, member_id) for name, member_id in ids.items()]
    assert [join.result.generation for join in joins] == [2, 2]


def test_a_member_that_stays_silent_after_the_pause_is_removed() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    ids = fixture.stable("a", "b")
    fixture.clock.advance(9.0)
    sleep(fixture.clock, 60.0)
    fixture.clock.advance(9.0)
    assert broker.heartbeat(ids["a"], 1) is ErrorCode.NONE
    fixture.clock.advance(1.1)
    assert broker.heartbeat(ids["b"], 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_continues_after_a_pause() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    join = broker.join("a")
    fixture.clock.advance(2.0)
    sleep(fixture.clock, 60.0)
    assert not join.done
    fixture.clock.advance(1.0)
    assert join.result.generation == 1


def test_a_released_group_has_no_timer() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    fixture.stable("a")
    coordinated = broker.coordinated[G]
    broker.client.expire_session()
    armed = counted(fixture.clock)
    fixture.clock.advance(100.0)
    assert coordinated.core.state is GroupState.DEAD and armed == []


# trap: kafkalite/coordinator/group/coordinated_group.py: A member that is answered sends its next request at once,
# inside the step that answered it.
def test_an_answered_client_may_send_a_request_at_once() -> None:
    """The code behind an answer runs after the step, so that it finds a consistent group."""
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    first, second = broker.join("a"), broker.join("b")
    coordinated = broker.coordinated[G]
    seen: list[tuple[int, GroupState]] = []

    def look(answer: Any) -> Any:
        seen.append((coordinated.core.generation, coordinated.core.state))
        return answer

    for waiting in coordinated._waiting.values():
        waiting.addCallback(look)
    fixture.clock.advance(6.0)
    assert first.done and second.done
    assert seen == [(1, GroupState.COMPLETING_REBALANCE)] * 2


def test_an_unexpected_error_in_a_store_is_answered_to_the_members() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    join = broker.join("a")
    fixture.clock.advance(3.0)
    member_id = join.result.member_id

    def fail(name: str, _: str) -> None:
        broker.client.before = None
        raise ValueError(f"a bug in {name}")

    broker.client.before = fail
    sync = broker.sync(member_id, 1, assignments={member_id: b"x"})
    assert sync.result.error is ErrorCode.UNKNOWN_SERVER_ERROR
