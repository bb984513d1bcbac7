"""The page with the events, as a WSGI application."""

from __future__ import annotations

from wsgiref.types import WSGIApplication
from wsgiref.util import setup_testing_defaults

import pytest

from kafkalite.common.events import BrokerEvent, EventFrames, decode_frames
from kafkalite.metrics.events_page import events_page


def get(application: WSGIApplication, query: str) -> tuple[str, bytes]:
    environ: dict[str, object] = {"QUERY_STRING": query}
    setup_testing_defaults(environ)
    statuses: list[str] = []

    def start(status: str, headers: list[tuple[str, str]], failed: object = None, /) -> object:  # noqa: ARG001
        statuses.append(status)
        return None

    body = b"".join(application(environ, start))  # type: ignore[arg-type]
    return statuses[0], body


def snapshot() -> EventFrames:
    return EventFrames(7, 1, 2, tuple(BrokerEvent(7, number, number, "session", "x") for number in (9, 1, 5)))


@pytest.mark.parametrize(
    ("query", "numbers"), [("", [1, 5, 9]), ("after=1", [5, 9]), ("after=1&after=5", [9]), ("after=9", [])]
)
def test_the_page_answers_what_came_after_an_event(query: str, numbers: list[int]) -> None:
    status, body = get(events_page(snapshot), query)
    assert (status, [event.sequence for event in decode_frames(body).events]) == ("200 OK", numbers)


@pytest.mark.parametrize("query", ["after=-1", "after=x"])
def test_a_query_without_a_number_is_refused(query: str) -> None:
    assert get(events_page(snapshot), query)[0] == "400 Bad Request"
