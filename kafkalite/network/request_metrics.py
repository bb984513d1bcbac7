"""How many requests of each API came, and how long each part of their handling took.

Answers to: ``kafka.network.RequestMetrics``, ``RequestChannel.Metrics`` and its histograms. Deterministic.

Every request is counted. Of many, only some are timed, because reading clocks would cost more than the rest: a request
that is timed carries :class:`RequestTimes`, and the connection writes the times of answer and sending there.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kafkalite.network.request import Request, RequestHandler, RequestTimes

FETCH: Final = 1
"""The API key whose requests of followers are counted apart: Kafka's ``FetchFollower``."""
WINDOW: Final = 1024
"""How many of the latest timed requests of an API the percentiles describe."""
SELDOM: Final = 0.01
"""Requests of an API that come at least so many seconds apart are all timed."""
MAX_STRIDE: Final = 127
"""Of the busiest API, one request of so many is timed."""


class RequestMetrics:
    """Of one API: the number of requests by version, its errors, and the times of some requests.

    ``stride``: one request of so many is timed; ``left`` of them come before the next such one.
    """

    __slots__ = ("errors", "failed", "latest", "left", "stride", "timed_at", "versions")

    def __init__(self, newest: int) -> None:
        self.versions = [0] * (newest + 1)
        """How many requests came, by version."""
        self.errors: dict[int, int] = {}
        """Error code → how often it was answered."""
        self.failed = 0
        """How many requests were answered with an error."""
        self.latest: deque[RequestTimes] = deque(maxlen=WINDOW)
        self.stride = self.left = 1
        self.timed_at = -math.inf

    @property
    def count(self) -> int:
        """How many requests came."""
        return sum(self.versions)

    def adapt(self, now: float) -> None:
        """A request is timed: choose when the next one is. Strides are odd, because patterns of clients are even."""
        self.stride = min(MAX_STRIDE, 2 * self.stride + 1) if now - self.timed_at < SELDOM else max(1, self.stride // 2)
        self.left = self.stride
        self.timed_at = now

    def time_next(self) -> None:
        """Time the next request, however many came lately: a scrape finds at least one since the last scrape."""
        self.left = 1


class RequestChannelMetrics:
    """The metrics of every API, for a broker that serves ``served``: API keys with their newest versions."""

    def __init__(self, served: Iterable[tuple[int, int]]) -> None:
        self.apis = {int(key): RequestMetrics(newest) for key, newest in served}
        """Of each API key; Fetch without the fetches of followers."""
        self.followers = RequestMetrics(len(self.apis[FETCH].versions) - 1 if FETCH in self.apis else 0)
        """Of Fetch by followers."""

    def failed(self, request: Request, codes: Sequence[int]) -> None:
        """``request`` is answered with the errors ``codes``, at least one; for its partitions it may have several."""
        metrics = self.followers if request.is_of_follower else self.apis.get(request.header.api_key)
        if metrics is not None:
            metrics.failed += 1
            for code in codes:
                metrics.errors[int(code)] = metrics.errors.get(code, 0) + 1


class MeasuredHandler:
    """Counts and times the requests that it hands to ``handler``. A broker without a metrics listener has none."""

    def __init__(self, handler: RequestHandler, metrics: RequestChannelMetrics, now: Callable[[], float]) -> None:
        self._handle = handler.handle
        self._apis = metrics.apis
        self._followers = metrics.followers
        self._now = now

    def handle(self, request: Request) -> None:
        """See :class:`kafkalite.network.request.RequestHandler`."""
        header = request.header
        metrics = self._apis.get(header.api_key)
        if metrics is None:
            self._handle(request)
            return
        metrics.left -= 1
        if metrics.left:
            self._handle(request)
        else:
            self._time(metrics, request)
        if request.is_of_follower:
            metrics = self._followers
        try:
            metrics.versions[header.api_version & 0x7FFF] += 1
        except IndexError:
            return  # a version that is not served

    def _time(self, metrics: RequestMetrics, request: Request) -> None:
        now = self._now()
        metrics.adapt(now)
        times = request.times = RequestTimes(request.received, now, request.size, metrics.latest)
        self._handle(request)
        if request.is_of_follower:
            times.latest = self._followers.latest
        times.processed = times.answered if request.answered else self._now()
