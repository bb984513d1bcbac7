"""The page that arms traces, as a WSGI application."""

from __future__ import annotations

from wsgiref.util import setup_testing_defaults

import pytest

from kafkalite.common.trace_points import TraceFrames, TracePoint, decode_trace
from kafkalite.common.types import TopicPartition
from kafkalite.metrics.trace_page import trace_page


class Page:
    """The page over a broker that remembers what it was asked."""

    def __init__(self) -> None:
        self.armed: list[tuple[TopicPartition, float]] = []
        self._application = trace_page(lambda tp, seconds: self.armed.append((tp, seconds)), self._frames)

    def _frames(self, tp: TopicPartition | None) -> TraceFrames:
        return TraceFrames(7, 1, 2.5, () if tp is None else (TracePoint(7, "appended", 2.0, 0, 1),))

    def ask(self, method: str, query: str) -> tuple[str, bytes]:
        environ: dict[str, object] = {"QUERY_STRING": query, "REQUEST_METHOD": method}
        setup_testing_defaults(environ)
        statuses: list[str] = []

        def start(status: str, headers: list[tuple[str, str]], failed: object = None, /) -> object:  # noqa: ARG001
            statuses.append(status)
            return None

        body = b"".join(self._application(environ, start))  # type: ignore[arg-type]
        return statuses[0], body


def test_a_post_arms_and_a_get_reads() -> None:
    page = Page()
    assert page.ask("POST", "topic=t&partition=3&seconds=60")[0] == "200 OK"
    assert page.armed == [(TopicPartition("t", 3), 60.0)]
    assert len(decode_trace(page.ask("GET", "topic=t&partition=3")[1]).points) == 1
    assert decode_trace(page.ask("GET", "")[1]) == TraceFrames(7, 1, 2.5)
    assert len(page.armed) == 1


@pytest.mark.parametrize(
    ("method", "query"),
    [
        ("POST", ""),
        ("POST", "topic=t&partition=0"),
        ("POST", "topic=t&partition=0&seconds=-1"),
        ("GET", "topic=t"),
        ("GET", "topic=t&partition=x"),
        ("GET", "partition=0"),
    ],
)
def test_a_question_without_what_it_needs_is_refused(method: str, query: str) -> None:
    page = Page()
    assert page.ask(method, query)[0] == "400 Bad Request"
    assert page.armed == []
