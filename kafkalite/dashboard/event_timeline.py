"""Asks the brokers once a second what they decided, and shows it as one timeline in causal order.

Answers to: nothing in Kafka. Reactor shell: it is handed the way to fetch a page.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, cast

from kafkalite.cluster.timeline import merge
from kafkalite.common.clock import Clock
from kafkalite.common.events import BrokerEvent, decode_frames
from kafkalite.common.tasks import gather, sleep
from kafkalite.dashboard.live_state import LiveState

log = logging.getLogger(__name__)

INTERVAL: Final = 1.0
"""Seconds between two rounds."""
SHOWN: Final = 200
"""Events on the page; as many are kept of each broker, also of one that has died."""
KEY: Final = "timeline/newest"

Fetch = Callable[[str], Awaitable[bytes]]
"""The content of the page at an address; fails with any exception."""


@dataclass(slots=True)
class _Broker:
    """What is known of one life of a broker. ``ahead_ms``: how far its clock is ahead of this one."""

    started_ms: int = -1
    last: int = 0
    ahead_ms: int = 0
    events: deque[BrokerEvent] = field(default_factory=lambda: deque(maxlen=SHOWN))


class EventTimeline:
    """Puts the newest events of all brokers into the ``state`` while a page is open."""

    def __init__(self, state: LiveState, fetch: Fetch, clock: Clock) -> None:
        self._state = state
        self._fetch = fetch
        self._clock = clock
        self._brokers: dict[int, _Broker] = {}

    async def run(self) -> None:
        """Ask without end."""
        while True:
            if self._state.is_watched:
                await self._round()
            await sleep(self._clock, INTERVAL)

    async def _round(self) -> None:
        pages = {cast("int", broker["id"]): broker["events"] for broker in self._state.brokers() if "id" in broker}
        await gather(self._ask(number, str(page)) for number, page in pages.items() if page)
        ahead = {number: broker.ahead_ms for number, broker in self._brokers.items()}
        events = merge((event for broker in self._brokers.values() for event in broker.events), ahead)[-SHOWN:]
        shown = [{**event.facts(), "time_ms": event.time_ms - ahead[event.broker]} for event in events]
        self._state.put({KEY: {"events": shown}})

    async def _ask(self, number: int, page: str) -> None:
        broker = self._brokers.setdefault(number, _Broker())
        sent = self._clock.time_ms()
        try:
            found = decode_frames(await self._fetch(f"{page}?after={broker.last}"))
            if found.started_ms != broker.started_ms:
                broker = self._brokers[number] = _Broker(found.started_ms)
                found = decode_frames(await self._fetch(f"{page}?after=0"))
        except Exception as error:
            log.debug("broker %d does not tell its events at %s: %s", number, page, error)
            return
        if found.events:
            broker.last = found.events[-1].sequence
            # An unchanged offset keeps an unchanged timeline: no message to the pages.
            broker.ahead_ms = found.now_ms - (sent + self._clock.time_ms()) // 2
            broker.events.extend(found.events)
