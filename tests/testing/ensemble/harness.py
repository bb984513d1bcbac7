"""An ensemble on a clock moved by hand, and clients of it whose futures, events and states are noted."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

from kafkalite.common.tasks import deferred
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.ensemble import Ensemble, EnsembleClient, NodeTransaction, Timing
from kafkalite.zk.zk_client import SessionState, WatchEvent

PENDING = "pending"
TICK = 1.0
SESSION = 4.0
"""Seconds; with this tick ZooKeeper grants it."""


class Outcome:
    """What became of an operation: ``value`` is the result, the exception, or :data:`PENDING`."""

    def __init__(self, work: Awaitable[Any]) -> None:
        self.value: Any = PENDING
        deferred(work).addCallbacks(self._set, lambda failure: self._set(failure.value))

    def _set(self, value: Any) -> None:
        self.value = value


class Noted:
    """A client and what it has been told, in order."""

    def __init__(self, client: EnsembleClient) -> None:
        self.client = client
        self.states: list[SessionState] = []
        self.events: list[WatchEvent] = []
        client.add_listener(self.states.append)


class Fixture:
    """An ensemble, its clock, and what it committed."""

    def __init__(self, seed: int = 1, servers: int = 3) -> None:
        self.clock = ManualClock()
        self.ensemble = Ensemble(self.clock, random.Random(seed), servers, Timing(tick=TICK))
        self.committed: list[NodeTransaction] = []
        self.ensemble.on_commit(self.committed.append)

    def connect(self, name: str = "", *, only: int | None = None) -> Noted:
        """A connected client; ``only``: it can reach no other server than that."""
        client = self.ensemble.client(name=name, session_timeout_ms=round(SESSION * 1000))
        if only is not None:
            self.reach(client, only)
        noted = Noted(client)
        started = Outcome(client.start())
        self.clock.advance(5.0)
        assert started.value is None, started.value
        return noted

    def reach(self, client: EnsembleClient, only: int) -> None:
        """From now on ``client`` reaches server ``only`` and no other."""
        self.ensemble.heal(client)
        others = [server.number for server in self.ensemble.servers if server.number != only]
        self.ensemble.cut(client, servers=others)

    def run(self, work: Awaitable[Any], seconds: float = 0.1) -> Any:
        """The outcome of ``work`` after ``seconds``."""
        outcome = Outcome(work)
        self.clock.advance(seconds)
        return outcome.value

    def until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Let time pass until ``condition()``; fail after ``seconds``."""
        end = self.clock.monotonic() + seconds
        while not condition():
            assert self.clock.monotonic() < end, f"not within {seconds:g} s"
            self.clock.advance(0.01)

    def follower(self) -> int:
        """The number of a server that does not lead."""
        return next(s.number for s in self.ensemble.servers if s is not self.ensemble.leader)

    def leader(self) -> int:
        """The number of the leader."""
        assert self.ensemble.leader is not None
        return self.ensemble.leader.number
