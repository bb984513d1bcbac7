"""How many clients failed to authenticate: for each listener, as one line of the log in each period that had some.

Answers to: ``failed-authentication-total`` of ``org.apache.kafka.common.network.Selector.SelectorMetrics``.
Deterministic.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from kafkalite.common.events import EventKind, EventRecorder, ignore_event


class FailedAuthentications:
    """Counts them. The lines about single clients are limited in number, so that these lines alone show a guesser."""

    def __init__(
        self,
        log: logging.Logger,
        now: Callable[[], float],
        interval: float = 60.0,
        record: EventRecorder = ignore_event,
    ) -> None:
        self._record = record
        self._log = log
        self._now = now
        self._interval = interval
        self._since = now()
        self._told: Counter[str] = Counter()
        self.totals: Counter[str] = Counter()
        """Failures since the start, by listener."""

    def add(self, listener: str, client: str, why: str) -> None:
        """The client at the address ``client`` failed on ``listener``."""
        self.totals[listener] += 1
        self._record(EventKind.AUTHENTICATION, f"the client at {client} failed to authenticate on {listener}", why=why)

    def report(self) -> None:
        """Log the failures since the last report, unless that was less than ``interval`` seconds ago."""
        now = self._now()
        elapsed = now - self._since
        if elapsed < self._interval:
            return
        for listener, count in sorted((self.totals - self._told).items()):
            self._log.warning(
                "%d clients failed to authenticate on listener %s in %.0f s, %d since the start",
                count,
                listener,
                elapsed,
                self.totals[listener],
            )
        self._since, self._told = now, self.totals.copy()
