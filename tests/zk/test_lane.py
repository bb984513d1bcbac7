"""The lane keeps the order of calls from all threads, and loses none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkalite.zk.kazoo_session import ReactorLane


class Reactor:
    """Keeps the calls until the test runs them."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], Any]] = []

    def call_from_thread(self, call: Callable[[], Any]) -> None:
        self.calls.append(call)

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


def test_a_burst_costs_one_call_of_the_reactor_and_keeps_its_order() -> None:
    reactor, seen = Reactor(), list[int]()
    lane = ReactorLane(reactor.call_from_thread)
    for number in range(100):
        lane.put(seen.append, number)
    assert len(reactor.calls) == 1 and seen == []
    reactor.turn()
    assert seen == list(range(100)) and reactor.calls == []


def test_a_large_burst_leaves_room_for_others() -> None:
    reactor, seen = Reactor(), list[int]()
    lane = ReactorLane(reactor.call_from_thread)
    for number in range(1200):
        lane.put(seen.append, number)
    turns = 0
    while reactor.calls:
        reactor.turn()
        turns += 1
    assert seen == list(range(1200)) and turns == 3


def test_what_is_put_by_a_call_comes_after_and_a_failure_stops_nothing() -> None:
    reactor, seen = Reactor(), list[str]()
    lane = ReactorLane(reactor.call_from_thread)

    def first() -> None:
        lane.put(seen.append, "third")
        raise ValueError("told to the log")

    lane.put(first)
    lane.put(seen.append, "second")
    while reactor.calls:
        reactor.turn()
    assert seen == ["second", "third"]
