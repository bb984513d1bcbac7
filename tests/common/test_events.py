"""The events that a broker keeps, and the frames in which it answers them."""

from __future__ import annotations

from itertools import count

import pytest

from kafkalite.common.events import EventKind, EventLog, decode_frames


def log(kept: int = 3) -> EventLog:
    return EventLog(7, count(1000).__next__, kept)


def test_events_come_back_from_frames_with_the_facts_that_are_known() -> None:
    events = log()
    events.record(EventKind.CONTROLLER, "broker 7 is the controller", controller_epoch=2, zxid=99)
    events.record(EventKind.ISR, "t-0: ISR 7", topic="t", partition=0, leader_epoch=0, why="broker 8 is gone")
    found = decode_frames(events.snapshot().encode(0))
    assert (found.broker, found.started_ms, found.now_ms) == (7, 1000, 1003)
    assert found.events == events.snapshot().events
    first, second = found.events
    assert (first.sequence, first.time_ms, first.kind, first.zxid, first.leader_epoch) == (
        1,
        1001,
        "controller",
        99,
        -1,
    )
    assert second.facts() == {
        "broker": 7,
        "sequence": 2,
        "time_ms": 1002,
        "kind": "isr",
        "text": "t-0: ISR 7",
        "topic": "t",
        "partition": 0,
        "leader_epoch": 0,
        "why": "broker 8 is gone",
    }


def test_many_events_of_one_kind_take_no_room_from_the_others() -> None:
    events = log(kept=3)
    events.record(EventKind.SESSION, "connected")
    for number in range(10):
        events.record(EventKind.TRANSACTION, f"decision {number}")
    assert [event.text for event in decode_frames(events.snapshot().encode(0)).events] == [
        "connected",
        "decision 7",
        "decision 8",
        "decision 9",
    ]


def test_a_client_gets_only_what_it_does_not_know() -> None:
    events = log()
    for text in ("a", "b", "c"):
        events.record(EventKind.SESSION, text)
    assert [event.text for event in decode_frames(events.snapshot().encode(2)).events] == ["c"]
    assert decode_frames(events.snapshot().encode(3)).events == ()


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x01", b"<html>"])
def test_what_is_no_answer_of_a_broker_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not the events"):
        decode_frames(data)
