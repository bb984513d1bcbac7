"""The page ``/trace``: arms a trace of one partition's records, and serves what was seen of them as msgpack frames.

Answers to: nothing in Kafka. Reactor shell: it sees no reactor, but is handed functions that call on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import parse_qs
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from kafkalite.common.trace_points import TraceFrames
from kafkalite.common.types import TopicPartition

TRACE_PATH: Final = "/trace"


def trace_page(
    arm: Callable[[TopicPartition, float], object], frames: Callable[[TopicPartition | None], TraceFrames]
) -> WSGIApplication:
    """POST ``?topic=T&partition=P&seconds=S`` arms; GET ``?topic=T&partition=P`` answers with what was seen since.

    GET without a topic answers with the broker's clock only, which lets a client compare it with its own.
    """

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        query = {name: values[-1] for name, values in parse_qs(environ.get("QUERY_STRING", "")).items()}
        tp: TopicPartition | None = None
        is_post = environ["REQUEST_METHOD"] == "POST"
        partition, seconds = query.get("partition", ""), query.get("seconds", "")
        if "topic" in query and partition.isdecimal():
            tp = TopicPartition(query["topic"], int(partition))
        if (tp is None and (query or is_post)) or (is_post and not seconds.isdecimal()):
            start_response("400 Bad Request", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"expected topic and partition, and seconds if the method is POST\n"]
        if tp is not None and is_post:
            arm(tp, float(seconds))
        body = frames(tp).encode()
        start_response("200 OK", [("Content-Type", "application/msgpack"), ("Content-Length", str(len(body)))])
        return [body]

    return application
