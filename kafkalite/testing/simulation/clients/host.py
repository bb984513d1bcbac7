"""The surroundings of a simulated client: time, random numbers, connections, and the record of its actions.

Answers to: nothing in Kafka. Deterministic.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass
from typing import Protocol

from kafkalite.common.clock import Clock
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future, sleep
from kafkalite.common.types import Part
from kafkalite.testing.history.events import Event


class Link(Protocol):
    """One connection to a broker; :class:`kafkalite.network.client.BrokerConnection` is one."""

    @property
    def connected(self) -> bool:
        """Whether requests can be sent."""

    def connect(self, timeout: float = 10.0) -> Awaitable[None]:
        """Open the connection. Raises :class:`~kafkalite.network.client.ConnectionLost`."""

    def send(
        self, api_key: int, version: int, body: list[Part] | bytes, timeout: float = 30.0
    ) -> Awaitable[memoryview]:
        """Send a request; the response's body."""

    def post(self, api_key: int, version: int, body: list[Part] | bytes) -> None:
        """Send a request without an answer (Produce with acks=0)."""

    def close(self) -> None:
        """Close the connection; outstanding requests fail."""


@dataclass(frozen=True)
class ClientHost:
    """The machine of a client.

    ``note`` takes the events of the history, ``violation`` one line about a forbidden answer of a broker. ``tolerated``
    are the errors that the faults of this history explain so far (a flipped bit: CORRUPT_MESSAGE).
    """

    clock: Clock
    rng: random.Random
    connect: Callable[[str, int, str], Link]
    note: Callable[[Event], None]
    violation: Callable[[str], None]
    bootstrap: tuple[tuple[str, int], ...]
    tolerated: Set[ErrorCode] = frozenset()

    async def sleep(self, seconds: float) -> None:
        """Return ``seconds`` later."""
        await sleep(self.clock, seconds)

    def unexpected(self, who: str, what: str, code: int) -> None:
        """Report an answer that no broker may give here."""
        error = ErrorCode(code)
        if error not in self.tolerated:
            self.violation(f"{who}: {what} was answered with {error.name}")


class Wakeup:
    """Lets coroutines wait for :meth:`wake`, or until time has passed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[Future[None]] = []
        self._pending = False

    def wake(self) -> None:
        """Resume all waiting coroutines; if there is none, the next :meth:`wait` returns at once."""
        if not self._waiting:
            self._pending = True
            return
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            future.callback(None)

    async def wait(self, seconds: float) -> None:
        """Return at :meth:`wake`, or after ``seconds``."""
        if self._pending:
            self._pending = False
            return
        future: Future[None] = Future()
        self._waiting.append(future)
        timer = self._clock.call_later(max(seconds, 0.0), self._expire, future)
        await future
        timer.cancel()

    def _expire(self, future: Future[None]) -> None:
        if future in self._waiting:
            self._waiting.remove(future)
            future.callback(None)
