"""The timeline of the page, from brokers that the test plays."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from urllib.parse import parse_qs, urlsplit

from kafkalite.common.events import EventKind, EventLog
from kafkalite.common.tasks import Future, deferred
from kafkalite.dashboard.event_timeline import INTERVAL, KEY, EventTimeline
from kafkalite.dashboard.live_state import LiveState
from kafkalite.testing.clock import ManualClock


class Cluster:
    """Brokers 1 and 2; the clock of the second is three seconds ahead."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.state = LiveState(self.clock)
        self.logs = {number: self.log(number) for number in (1, 2)}
        self.asked: list[str] = []
        self.state.put(
            {f"broker/{number}": {"id": number, "events": f"http://{number}/events"} for number in self.logs}
        )
        self.messages: list[bytes] = []
        self.state.subscribe(self.messages.append)
        deferred(EventTimeline(self.state, self.fetch, self.clock).run())

    def log(self, number: int) -> EventLog:
        ahead = 3000 if number == 2 else 0
        return EventLog(number, lambda: self.clock.time_ms() + ahead)

    def fetch(self, address: str) -> Awaitable[bytes]:
        self.asked.append(address)
        url = urlsplit(address)
        future: Future[bytes] = Future()
        log = self.logs.get(int(str(url.hostname)))
        if log is None:
            future.errback(OSError("refused"))
        else:
            future.callback(log.snapshot().encode(int(parse_qs(url.query)["after"][0])))
        return future

    def texts(self) -> list[str]:
        self.clock.advance(INTERVAL)
        return [event["text"] for event in json.loads(self.state.message())[KEY]["events"]]


def test_the_events_of_all_brokers_are_in_causal_order() -> None:
    cluster = Cluster()
    cluster.logs[1].record(EventKind.LEADERSHIP, "elected", topic="t", partition=0, leader_epoch=4, zxid=9)
    cluster.logs[2].record(EventKind.LEADERSHIP, "leads", topic="t", partition=0, leader_epoch=4)
    cluster.clock.advance(1.5)
    cluster.logs[1].record(EventKind.SESSION, "later")
    assert cluster.texts() == ["elected", "leads", "later"]
    first, second, _ = json.loads(cluster.state.message())[KEY]["events"]
    assert first["time_ms"] == second["time_ms"], "times are those of one clock"


def test_only_new_events_are_asked_for_and_an_unchanged_timeline_is_not_told() -> None:
    cluster = Cluster()
    cluster.logs[1].record(EventKind.SESSION, "one")
    assert cluster.texts() == ["one"]
    cluster.messages.clear()
    cluster.asked.clear()
    assert cluster.texts() == ["one"]
    assert cluster.asked == ["http://1/events?after=1", "http://2/events?after=0"]
    assert cluster.messages == []


def test_the_events_of_a_dead_broker_stay_and_its_next_life_is_read_whole() -> None:
    cluster = Cluster()
    cluster.logs[1].record(EventKind.SESSION, "one")
    cluster.logs[2].record(EventKind.SESSION, "two")
    assert cluster.texts() == ["one", "two"]
    log = cluster.logs.pop(1)
    assert cluster.texts() == ["one", "two"]
    cluster.logs[1] = cluster.log(1)
    assert cluster.logs[1].started_ms != log.started_ms
    cluster.logs[1].record(EventKind.REGISTRATION, "again")
    assert cluster.texts() == ["two", "again"]


def test_no_broker_is_asked_while_no_page_is_open() -> None:
    clock = ManualClock()
    state = LiveState(clock)
    state.put({"broker/1": {"id": 1, "events": "http://1/events"}})
    asked: list[str] = []
    deferred(EventTimeline(state, asked.append, clock).run())  # type: ignore[arg-type]
    clock.advance(5 * INTERVAL)
    assert asked == []
