"""An ensemble on a clock moved by hand, and clients of it whose events and states are recorded."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

from kafkalite.testing.clock import ManualClock
from kafkalite.testing.ensemble import Ensemble, EnsembleClient, NodeTransaction, Timing
from kafkalite.zk.zk_client import SessionState, WatchEvent
from tests.support import Started

TICK = 1.0
SESSION = 4.0
"""Seconds; with this tick ZooKeeper grants it."""


class RecordedClient:
    """A client, and its session's states and its watch events in order."""

    def __init__(self, client: EnsembleClient) -> None:
        self.client = client
        self.states: list[SessionState] = []
        self.events: list[WatchEvent] = []
        client.add_listener(self.states.append)


class EnsembleFixture:
    """An ensemble, its clock, and what it committed."""

    def __init__(self, seed: int = 1, servers: int = 3) -> None:
        self.clock = ManualClock()
        self.ensemble = Ensemble(self.clock, random.Random(seed), servers, Timing(tick=TICK))
        self.committed: list[NodeTransaction] = []
        self.ensemble.on_commit(self.committed.append)

    def connect(self, name: str = "", *, only: int | None = None) -> RecordedClient:
        """A connected client; ``only``: it can reach no other server than that."""
        client = self.ensemble.client(name=name, session_timeout_ms=round(SESSION * 1000))
        if only is not None:
            self.reach(client, only)
        noted = RecordedClient(client)
        started = Started(client.start())
        self.clock.advance(5.0)
        assert started.value is None, started.value
        return noted

    def reach(self, client: EnsembleClient, only: int) -> None:
        """Cut ``client`` off from all servers except ``only``."""
        self.ensemble.heal(client)
        others = [server.number for server in self.ensemble.servers if server.number != only]
        self.ensemble.cut(client, servers=others)

    def run(self, work: Awaitable[Any], seconds: float = 0.1) -> Any:
        """The outcome of ``work`` after ``seconds``."""
        outcome = Started(work)
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
