"""The tracker accepts events and refuses other input."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from integration.blocks import blocks_of
from kafkalite.pipelines.feeders.tracker import BadEventError, TrackerTopics, check_event

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
VIEW: dict[str, Any] = {
    "kind": "page_view",
    "visitor": "v1",
    "at": "2026-03-01T12:00:00+00:00",
    "page": "/",
    "referrer": None,
}
CLICK = {**VIEW, "kind": "click", "element": "añadir"}
del CLICK["referrer"]
SEARCH = {**VIEW, "kind": "search", "query": "hats", "hits": 3}
del SEARCH["referrer"]


@pytest.mark.parametrize(
    "event", [VIEW, {**VIEW, "referrer": "/hats"}, CLICK, SEARCH, {**VIEW, "at": "2013-01-01T00Z"}]
)
def test_events(event: dict[str, Any]) -> None:
    found = check_event(json.dumps(event).encode(), NOW)
    assert (found.kind, found.visitor) == (event["kind"], "v1")
    assert json.loads(found.value) == event


def test_the_documented_events_are_accepted() -> None:
    [block] = blocks_of("docs/pipelines.md", __file__)
    events = block.text.splitlines()
    later = datetime(2026, 3, 1, 12, 1, tzinfo=UTC)
    found = [check_event(event.encode(), later) for event in events]
    assert {event.kind for event in found} == {"page_view", "click", "search"}
    assert [json.loads(event.value) for event in found] == [json.loads(event) for event in events]


# trap: kafkalite/pipelines/feeders/tracker.py: One visitor's clock that is ahead would end the session of every
# visitor.
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "this is not JSON"),
        (b"\xff", "this is not JSON"),
        (b"[]", "an event has a kind: page_view, click, search"),
        ({**VIEW, "kind": "purchase"}, "an event has a kind"),
        ({**VIEW, "kind": ["click"]}, "an event has a kind"),
        ({**VIEW, "element": "x"}, "a page_view has kind, visitor, at, page, referrer"),
        ({**VIEW, "kind": "search"}, "a search has kind, visitor, at, page, query, hits"),
        ({**VIEW, "page": None}, "'page' cannot be null"),
        ({**VIEW, "referrer": 7}, "'referrer' cannot be 7"),
        ({**SEARCH, "hits": True}, "'hits' cannot be true"),
        ({**VIEW, "visitor": ""}, "there is no visitor"),
        ({**VIEW, "at": "yesterday"}, "a time of ISO 8601 with its offset is meant"),
        ({**VIEW, "at": "2026-03-01T12:00:00"}, "a time of ISO 8601 with its offset is meant"),
        ({**VIEW, "at": "2026-03-01T12:01:01+00:00"}, "that is to come"),
        ({**VIEW, "page": "x" * 9000}, "at most 8192 bytes"),
    ],
)
def test_invalid_events_are_refused(body: bytes | dict[str, Any], why: str) -> None:
    with pytest.raises(BadEventError) as caught:
        check_event(body if isinstance(body, bytes) else json.dumps(body).encode(), NOW)
    assert why in str(caught.value)


def test_a_clock_may_be_a_little_ahead() -> None:
    check_event(json.dumps({**VIEW, "at": "2026-03-01T13:00:59+01:00"}).encode(), NOW)


def test_each_kind_has_its_topic() -> None:
    topics = TrackerTopics(clicks="taps")
    assert [topics.of(kind) for kind in ("page_view", "click", "search")] == ["page-views", "taps", "searches"]
