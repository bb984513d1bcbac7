"""Shares the reactor between handshakes and everything else.

Answers to: nothing in Kafka, where a handshake costs only the threads of its listener. Deterministic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from kafkalite.network.reactor import ReactorTime

BUDGET: Final = 0.005
"""Seconds of handshakes in one turn of the reactor. The signature of an RSA key takes a millisecond."""


class HandshakeTurns:
    """Runs steps of handshakes, and no more in a turn of the reactor once :data:`BUDGET` is spent.

    Without it, the clients that connect again after a restart would keep the others waiting for all of them. Handshakes
    that have begun go on before others begin, because they hold memory; of those, one begins in each turn nevertheless.
    """

    def __init__(self, reactor: ReactorTime, now: Callable[[], float]) -> None:
        self._reactor = reactor
        self._now = now
        self._left = BUDGET
        self._begun: deque[Callable[[], object]] = deque()
        self._new: deque[Callable[[], object]] = deque()
        self._is_planned = False

    def run(self, step: Callable[[], object], *, is_begun: bool) -> bool:
        """Run ``step`` now, or in a later turn; whether it was now. ``is_begun``: its handshake has begun."""
        if self._begun or self._new or self._left <= 0:
            (self._begun if is_begun else self._new).append(step)
            return False
        self._spend(step)
        return True

    def _spend(self, step: Callable[[], object]) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._reactor.callLater(0, self._turn)
        began = self._now()
        try:
            step()
        finally:
            self._left -= self._now() - began

    def _turn(self) -> None:
        self._is_planned = False
        self._left = BUDGET
        if self._new:
            self._spend(self._new.popleft())
        while self._left > 0 and (self._begun or self._new):
            self._spend((self._begun or self._new).popleft())
