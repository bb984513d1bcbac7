"""The page ``/events``: the broker's kept events as msgpack frames, beside the metrics.

Answers to: nothing in Kafka. Reactor shell: it sees no reactor, but is handed a way to call on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import parse_qs
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from kafkalite.common.events import EventFrames

EVENTS_PATH: Final = "/events"


def events_page(snapshot: Callable[[], EventFrames]) -> WSGIApplication:
    """Serves what a snapshot has behind the number in the query ``?after=N``, everything without one.

    ``snapshot`` is called in the thread that serves the page, which also sorts and encodes.
    """

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        after = parse_qs(environ.get("QUERY_STRING", "")).get("after", ["0"])[-1]
        if not after.isdecimal():
            start_response("400 Bad Request", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"after: expected the number of an event\n"]
        body = snapshot().encode(int(after))
        start_response("200 OK", [("Content-Type", "application/msgpack"), ("Content-Length", str(len(body)))])
        return [body]

    return application
