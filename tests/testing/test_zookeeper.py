"""The ZooKeeper twin behaves as the port says, in order and under every failure."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZooKeeper
from kafkalite.zk.zk_client import (
    BadVersionError,
    Check,
    ConnectionLostError,
    Create,
    Delete,
    EventType,
    MultiError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    SessionState,
    SetData,
    WatchEvent,
)


def outcome(deferred: Any) -> Any:
    """The result, the exception, or ``"pending"``."""
    found: list[Any] = ["pending"]
    deferred.addCallbacks(found.append, lambda failure: found.append(failure.value))
    return found[-1]


def test_errors_are_those_of_zookeeper() -> None:
    client = MemoryZooKeeper().client()
    outcome(client.create("/a"))
    outcome(client.create("/a/b"))
    for work, error in (
        (client.get("/x"), NoNodeError),
        (client.create("/a"), NodeExistsError),
        (client.create("/x/y"), NoNodeError),
        (client.delete("/a"), NotEmptyError),
        (client.set("/a", b"", 3), BadVersionError),
        (client.get_children("/x"), NoNodeError),
    ):
        assert isinstance(outcome(work), error)


def test_a_refused_multi_leaves_no_trace() -> None:
    server = MemoryZooKeeper()
    client = server.client()
    outcome(client.create("/a", b"1"))
    outcome(client.create("/gone"))
    events: list[WatchEvent] = []
    outcome(client.get("/a", events.append))
    before = {path: (node.data, node.stat(), set(node.children)) for path, node in server.tree.nodes.items()}
    error = outcome(
        client.multi([SetData("/a", b"2"), Create("/a/b"), Delete("/gone"), Create("/a/b/c"), Check("/a", 0)])
    )
    assert isinstance(error, MultiError) and error.index == 4 and isinstance(error.cause, BadVersionError)
    assert {path: (node.data, node.stat(), set(node.children)) for path, node in server.tree.nodes.items()} == before
    assert events == []


def test_watches_fire_once_and_before_the_answer() -> None:
    client = MemoryZooKeeper().client()
    order: list[object] = []
    outcome(client.create("/a"))
    outcome(client.get_children("/a", order.append))
    outcome(client.exists("/a/b", order.append))
    client.create("/a/b").addCallback(lambda _: order.append("answer"))
    outcome(client.set("/a/b", b""))
    assert order == [WatchEvent(EventType.CREATED, "/a/b"), WatchEvent(EventType.CHILD, "/a"), "answer"]


def test_answers_take_their_time_on_a_clock_and_keep_their_order() -> None:
    clock = ManualClock()
    client = MemoryZooKeeper(clock, latency=0.01).client()
    order: list[str] = []
    client.create("/a").addCallback(lambda _: order.append("create"))
    client.get("/a").addCallback(lambda _: order.append("get"))
    clock.advance(0.009)
    assert order == []
    clock.advance(0.002)
    assert order == ["create", "get"]


@pytest.mark.parametrize("applied", [True, False])
def test_a_lost_connection_leaves_the_outcome_unknown(applied: bool) -> None:
    server = MemoryZooKeeper()
    client = server.client()
    states: list[SessionState] = []
    events: list[WatchEvent] = []
    client.add_listener(states.append)
    outcome(client.exists("/b", events.append))
    client.black_hole(apply=applied)
    work = client.create("/a")
    assert outcome(work) == "pending"
    client.lose_connection()
    assert isinstance(outcome(client.get("/")), ConnectionLostError)
    assert ("/a" in server.paths()) is applied
    assert events == [WatchEvent(EventType.LOST, "/b")]
    session = client.session
    client.reconnect()
    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED] and client.session == session


def test_an_expired_session_takes_its_ephemerals_and_fences_its_writes() -> None:
    server = MemoryZooKeeper()
    client, other = server.client(), server.client()
    states: list[SessionState] = []
    events: list[WatchEvent] = []
    client.add_listener(states.append)
    outcome(client.create("/e", ephemeral=True))
    outcome(other.exists("/e", events.append))
    old = client.session
    client.expire_session()
    assert states == [SessionState.SUSPENDED, SessionState.EXPIRED, SessionState.CONNECTED]
    assert events == [WatchEvent(EventType.DELETED, "/e")]
    assert isinstance(outcome(client.create("/e", session=old)), SessionExpiredError)
    assert outcome(client.exists("/e")) is None


def test_sequences_never_repeat() -> None:
    client = MemoryZooKeeper().client()
    outcome(client.create("/q"))
    first = outcome(client.create("/q/n-", sequence=True))[0]
    outcome(client.delete(first))
    assert outcome(client.create("/q/n-", sequence=True))[0] == "/q/n-0000000001"


def test_a_closed_client_loses_its_watches_without_events_for_its_own_ephemerals() -> None:
    server = MemoryZooKeeper()
    client, other = server.client(), server.client()
    mine: list[WatchEvent] = []
    theirs: list[WatchEvent] = []
    outcome(client.create("/e", ephemeral=True))
    outcome(client.get("/e", mine.append))
    outcome(client.exists("/x", mine.append))
    outcome(other.get("/e", theirs.append))
    client.close()
    assert mine == [WatchEvent(EventType.LOST, "/x")]
    assert theirs == [WatchEvent(EventType.DELETED, "/e")]
