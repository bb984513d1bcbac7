"""The tracker of the job *activity*: events of a web site's visitors, into a topic for each kind.

Answers to: nothing in Kafka; tracking activity is what its authors built it for ("Kafka: a distributed messaging system
for log processing", 2011). Blocking shell around :func:`check_event`, which is pure.

It is part of a web server: the handler of the pages' POSTs calls :meth:`Tracker.track` with their bodies.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

PAGE_VIEW, CLICK, SEARCH = "page_view", "click", "search"
_COMMON = {"kind": str, "visitor": str, "at": str, "page": str}
_FIELDS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    PAGE_VIEW: {**_COMMON, "referrer": (str, type(None))},
    CLICK: {**_COMMON, "element": str},
    SEARCH: {**_COMMON, "query": str, "hits": int},
}
MAX_BYTES = 8192
"""Bytes of one event."""
AHEAD = timedelta(minutes=1)
"""How far a visitor's clock may be ahead of ours. One event of next year would end the sessions of all visitors."""
TIMEOUT = 30.0
"""Seconds for a record to be acknowledged."""


class BadEventError(ValueError):
    """No event, or an invalid one; the text says why."""


class TrackingError(Exception):
    """The cluster did not take an event."""


class Event(NamedTuple):
    """One event of a page; ``value`` is its content."""

    kind: str
    visitor: str
    value: bytes


@dataclass(frozen=True)
class TrackerTopics:
    """The topics of events."""

    page_views: str = "page-views"
    clicks: str = "clicks"
    searches: str = "searches"

    def of(self, kind: str) -> str:
        """The topic of one of the three kinds."""
        return {PAGE_VIEW: self.page_views, CLICK: self.clicks, SEARCH: self.searches}[kind]


def check_event(body: bytes, now: datetime) -> Event:
    """The event in the body of a request, a JSON object: ``kind`` (``page_view``, ``click``, ``search``), ``visitor``,
    ``at`` (ISO 8601 with its offset), ``page``; ``referrer``, a page or null; ``element``; ``query`` and ``hits``.

    Raises :class:`BadEventError`.
    """
    if len(body) > MAX_BYTES:
        raise BadEventError(f"an event has at most {MAX_BYTES} bytes")
    try:
        given = json.loads(body)
    except ValueError:
        raise BadEventError("this is not JSON") from None
    fields = _FIELDS.get(str(given.get("kind"))) if isinstance(given, dict) else None
    if fields is None:
        raise BadEventError(f"an event has a kind: {', '.join(_FIELDS)}")
    if given.keys() != fields.keys():
        raise BadEventError(f"a {given['kind']} has {', '.join(fields)}")
    for name, type_ in fields.items():
        if not isinstance(given[name], type_) or isinstance(given[name], bool):
            raise BadEventError(f"'{name}' cannot be {json.dumps(given[name])}")
    if not given["visitor"]:
        raise BadEventError("there is no visitor")
    _check_time(given["at"], now)
    return Event(given["kind"], given["visitor"], json.dumps(given, ensure_ascii=False).encode())


def _check_time(text: str, now: datetime) -> None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise BadEventError(f"'at' cannot be {json.dumps(text)}: a time of ISO 8601 with its offset is meant")
    if at > now + AHEAD:
        raise BadEventError(f"'at' cannot be {text}: that is to come")


class Tracker:
    """Sends events, each with its visitor as the key, so that a visitor's events of a kind stay in order.

    ``settings`` are librdkafka's. Threads may share it.
    """

    def __init__(self, settings: Mapping[str, object], topics: TrackerTopics | None = None) -> None:
        from confluent_kafka import Producer

        self._topics = topics or TrackerTopics()
        self._producer = Producer({"enable.idempotence": True, "linger.ms": 5, "log_level": 0, **settings})
        self._closing = threading.Event()
        self._poller = threading.Thread(target=self._poll, name="tracker", daemon=True)
        self._poller.start()

    def track(self, body: bytes) -> None:
        """Returns when the event is acknowledged. Raises :class:`BadEventError` and :class:`TrackingError`."""
        event = check_event(body, datetime.now(UTC))
        done, failures = threading.Event(), []

        def delivered(error: object, _message: object) -> None:
            if error is not None:
                failures.append(str(error))
            done.set()

        try:
            self._producer.produce(self._topics.of(event.kind), event.value, event.visitor, on_delivery=delivered)
        except BufferError:
            raise TrackingError("too many events wait already") from None
        if not done.wait(TIMEOUT) or failures:
            raise TrackingError(failures[0] if failures else f"no answer within {TIMEOUT:g} s")

    def close(self) -> None:
        """Wait for the events being sent."""
        self._closing.set()
        self._poller.join()
        self._producer.flush(TIMEOUT)

    def _poll(self) -> None:
        """Passes acknowledgements to the threads that wait for them."""
        while not self._closing.is_set():
            self._producer.poll(1.0)
