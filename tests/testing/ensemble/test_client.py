"""A client of the ensemble behaves as kazoo does: order of events, pings, pauses, deaths."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kazoo import security
from kazoo.protocol import serialization

from kafkalite.common.errors import StartupError
from kafkalite.testing.clock import ManualClock, ManualTimer
from kafkalite.testing.ensemble import Ensemble, Timing
from kafkalite.testing.ensemble.wire import CloseSession, Ping, ReadKind, ReadRequest, Request, WriteRequest, frame_size
from kafkalite.zk.zk_client import (
    Check,
    ConnectionLostError,
    Create,
    Delete,
    EventType,
    Op,
    SessionExpiredError,
    SessionState,
    SetData,
    WatchEvent,
)
from tests.support import PENDING, Started
from tests.testing.ensemble.fixtures import SESSION, TICK, EnsembleFixture

SUSPENDED, CONNECTED, EXPIRED = SessionState.SUSPENDED, SessionState.CONNECTED, SessionState.EXPIRED


class PausableClock:
    """The clock of a node, whose calls are held while the node is paused and dropped once it is dead."""

    def __init__(self, clock: ManualClock) -> None:
        self.monotonic = clock.monotonic
        self.time_ms = clock.time_ms
        self._clock = clock
        self.paused = False
        self._held: list[ManualTimer] = []

    def call_later(self, delay: float, call: Any, *args: Any) -> ManualTimer:
        timer = ManualTimer(call, args)
        self._clock.call_later(delay, self._due, timer)
        return timer

    def resume(self) -> None:
        self.paused = False
        held, self._held = self._held, []
        for timer in held:
            self._due(timer)

    def _due(self, timer: ManualTimer) -> None:
        if self.paused:
            self._held.append(timer)
        elif not timer.cancelled:
            timer.call(*timer.args)


def test_a_lost_connection_fails_requests_then_says_suspended_then_loses_the_watches() -> None:
    fixture = EnsembleFixture()
    client = fixture.connect().client
    order: list[object] = []
    client.add_listener(order.append)
    fixture.run(client.exists("/a", order.append))
    fixture.ensemble.cut(client)
    client.create("/a").addErrback(lambda failure: order.append(type(failure.value)))
    fixture.clock.advance(SESSION)
    assert order == [ConnectionLostError, SUSPENDED, WatchEvent(EventType.LOST, "/a")]


def test_a_client_that_keeps_sending_notices_that_no_answer_comes() -> None:
    fixture = EnsembleFixture()
    noted = fixture.connect()
    fixture.ensemble.cut(noted.client)
    for _ in range(10):
        noted.client.exists("/").addErrback(lambda _: None)
        fixture.clock.advance(SESSION / 12)
    assert noted.states == [CONNECTED, SUSPENDED]


def test_a_watch_event_comes_before_later_answers() -> None:
    fixture = EnsembleFixture()
    client, other = fixture.connect(only=0).client, fixture.connect(only=0).client
    order: list[object] = []
    fixture.run(client.exists("/a", order.append))
    other.create("/a")
    while not order:
        client.exists("/a").addCallback(lambda stat: order.append("old" if stat is None else "new"))
        fixture.clock.advance(0.0003)
    fixture.clock.advance(0.1)
    assert order.index(WatchEvent(EventType.CREATED, "/a")) < order.index("new")
    assert order == sorted(order, key=("old", WatchEvent(EventType.CREATED, "/a"), "new").index)


def test_a_paused_client_learns_after_the_pause_that_its_session_expired() -> None:
    fixture = EnsembleFixture()
    node = PausableClock(fixture.clock)
    client = fixture.ensemble.client(node, session_timeout_ms=round(SESSION * 1000))
    states: list[SessionState] = []
    client.add_listener(states.append)
    fixture.run(client.start(), 1.0)
    fixture.run(client.create("/e", ephemeral=True))
    session = client.session
    node.paused = True
    fixture.clock.advance(SESSION + 2 * TICK)
    assert fixture.ensemble.paths() == ["/"] and states == [CONNECTED]
    node.resume()
    late = Started(client.create("/late", session=session))
    fixture.clock.advance(2.0)
    assert isinstance(late.value, ConnectionLostError | SessionExpiredError)
    assert states == [CONNECTED, SUSPENDED, EXPIRED, CONNECTED] and client.session != session
    assert fixture.ensemble.paths() == ["/"]


def test_a_client_whose_reactor_hangs_keeps_its_session_by_the_pings_of_the_other_thread() -> None:
    fixture = EnsembleFixture()
    node = PausableClock(fixture.clock)
    timeout_ms = round(SESSION * 1000)
    client = fixture.ensemble.client(node, session_timeout_ms=timeout_ms, io_clock=fixture.clock)
    fixture.run(client.start(), 1.0)
    seen: list[WatchEvent] = []
    fixture.run(client.exists("/a", seen.append))
    node.paused = True
    fixture.run(fixture.connect().client.create("/a"))
    fixture.clock.advance(10 * SESSION)
    assert seen == [] and client.session in fixture.ensemble.sessions
    node.resume()
    assert seen == [WatchEvent(EventType.CREATED, "/a")]


@pytest.mark.parametrize("silent", [True, False])
def test_a_killed_client_leaves_its_session_to_the_timeout_or_to_the_guardian(silent: bool) -> None:
    fixture = EnsembleFixture()
    noted = fixture.connect()
    fixture.run(noted.client.create("/e", ephemeral=True))
    fixture.run(noted.client.exists("/a", noted.events.append))
    session = noted.client.session
    noted.client.kill(silent)
    fixture.clock.advance(1.0)
    watches = sum(server.watches.count() for server in fixture.ensemble.servers)
    assert watches == (1 if silent else 0), "only a process that dies closes its connection"
    assert session in fixture.ensemble.sessions
    if silent:
        fixture.clock.advance(SESSION + TICK)
    else:
        fixture.ensemble.expire(session)
        fixture.clock.advance(0.1)
    assert fixture.ensemble.paths() == ["/"] and session not in fixture.ensemble.sessions
    assert sum(server.watches.count() for server in fixture.ensemble.servers) == 0
    assert noted.states == [CONNECTED] and noted.events == []


def test_closing_ends_the_session_at_once() -> None:
    fixture = EnsembleFixture()
    noted = fixture.connect()
    fixture.run(noted.client.create("/e", ephemeral=True))
    assert fixture.run(noted.client.close()) is None
    assert fixture.ensemble.paths() == ["/"] and fixture.ensemble.sessions == {}
    assert noted.states == [CONNECTED]


def test_a_client_that_reaches_no_server_fails_to_start() -> None:
    fixture = EnsembleFixture()
    client = fixture.ensemble.client(connection_timeout_ms=3000)
    fixture.ensemble.cut(client)
    assert isinstance(fixture.run(client.start(), 4.0), StartupError)
    events = len(fixture.clock._calls)
    fixture.clock.advance(30.0)
    assert len(fixture.clock._calls) <= events, "it goes on trying"


@pytest.mark.parametrize("seed", range(6))
def test_a_reset_connection_is_made_again_and_requests_on_their_way_took_effect_or_not(seed: int) -> None:
    fixture = EnsembleFixture(seed)
    noted = fixture.connect()
    session = noted.client.session
    work = Started(noted.client.create("/a"))
    fixture.ensemble.drop_connection(noted.client)
    fixture.clock.advance(2.0)
    assert isinstance(work.value, ConnectionLostError)
    assert noted.states == [CONNECTED, SUSPENDED, CONNECTED] and noted.client.session == session
    found = fixture.run(noted.client.exists("/a"))
    assert (found is not None) is ("/a" in fixture.ensemble.paths())


def test_requests_in_flight_at_a_reset_take_effect_in_some_histories_and_not_in_others() -> None:
    outcomes = set()
    for seed in range(20):
        fixture = EnsembleFixture(seed)
        noted = fixture.connect()
        noted.client.create("/a").addErrback(lambda _: None)
        fixture.ensemble.drop_connection(noted.client)
        fixture.clock.advance(1.0)
        outcomes.add("/a" in fixture.ensemble.paths())
    assert outcomes == {True, False}


def test_a_delayed_client_waits_so_much_longer_both_ways() -> None:
    fixture = EnsembleFixture()
    noted = fixture.connect()
    fixture.ensemble.delay(noted.client, 0.3)
    work = Started(noted.client.create("/a"))
    fixture.clock.advance(0.29)
    assert fixture.ensemble.paths() == ["/"]
    fixture.clock.advance(0.2)
    assert fixture.ensemble.paths() == ["/", "/a"] and work.value == PENDING
    fixture.clock.advance(0.2)
    assert work.value[0] == "/a" and noted.states == [CONNECTED]


def test_a_session_timeout_is_negotiated() -> None:
    for asked, granted in ((100, 2), (5000, 5), (60_000, 20)):
        clock = ManualClock()
        ensemble = Ensemble(clock, random.Random(1), timing=Timing(tick=TICK))
        client = ensemble.client(session_timeout_ms=asked)
        Started(client.start())
        clock.advance(2.0)
        assert client.session_timeout_ms == granted * TICK * 1000


_ACL = security.OPEN_ACL_UNSAFE
_OPS: list[Op] = [Create("/a/é", b"123", True), SetData("/b", b"4", 2), Delete("/c"), Check("/dd", 3)]
_KAZOO = [
    serialization.Create("/a/é", b"123", _ACL, 1),
    serialization.SetData("/b", b"4", 2),
    serialization.Delete("/c", -1),
    serialization.CheckVersion("/dd", 3),
]


@pytest.mark.parametrize(
    ("request_", "kazoo"),
    [
        (ReadRequest(ReadKind.GET, "/é", True), serialization.GetData("/é", lambda _: None)),
        (ReadRequest(ReadKind.EXISTS, "/a", False), serialization.Exists("/a", None)),
        (ReadRequest(ReadKind.GET_CHILDREN, "/a", False), serialization.GetChildren("/a", None)),
        (WriteRequest((Create("/a", b"12"),), False), serialization.Create2("/a", b"12", _ACL, 0)),
        (WriteRequest((_OPS[1],), False), _KAZOO[1]),
        (WriteRequest((_OPS[2],), False), _KAZOO[2]),
        (WriteRequest(tuple(_OPS), True), serialization.Transaction(_KAZOO)),
        (WriteRequest((), True), serialization.Transaction([])),
        (Ping(), None),
        (CloseSession(), None),
    ],
)
def test_requests_have_the_size_that_they_have_on_the_wire(request_: Request, kazoo: Any) -> None:
    xid_and_type = 8
    assert frame_size(request_) == xid_and_type + (len(kazoo.serialize()) if kazoo is not None else 0)
