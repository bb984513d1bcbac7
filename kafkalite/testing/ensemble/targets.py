"""The ZooKeeper twins as targets of scripts. Deterministic.

Answers to: nothing in ZooKeeper; see ``scripts``.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

from kafkalite.common.tasks import deferred
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.ensemble.client import EnsembleClient
from kafkalite.testing.ensemble.quorum import Ensemble
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.zk_client import SessionState, ZkClient

_STEP = 0.05
_LIMIT = 60.0


class EnsembleTarget:
    """An :class:`Ensemble` on its own clock."""

    def __init__(self, seed: int, servers: int) -> None:
        self._clock = ManualClock()
        self._ensemble = Ensemble(self._clock, random.Random(seed), servers)

    def connect(self) -> EnsembleClient:
        """See :class:`kafkalite.testing.ensemble.scripts.Target`."""
        client = self._ensemble.client()
        self.run([client.start()])
        return client

    def run(self, works: Sequence[Awaitable[object]]) -> None:
        """See :class:`kafkalite.testing.ensemble.scripts.Target`."""
        outcomes: list[object] = []
        for work in works:
            deferred(work).addBoth(outcomes.append)
        self._until(lambda: len(outcomes) == len(works))
        self._clock.advance(_STEP)

    def expire(self, client: ZkClient) -> None:
        """See :class:`kafkalite.testing.ensemble.scripts.Target`."""
        assert isinstance(client, EnsembleClient)
        former = client.session
        self._ensemble.expire(former)
        self._until(lambda: client.session != former and client.state is SessionState.CONNECTED)

    def close(self, client: ZkClient) -> None:
        """See :class:`kafkalite.testing.ensemble.scripts.Target`."""
        assert isinstance(client, EnsembleClient)
        self.run([client.close()])

    def _until(self, condition: Callable[[], bool]) -> None:
        end = self._clock.monotonic() + _LIMIT
        while not condition():
            if self._clock.monotonic() > end:
                raise TimeoutError(f"not within {_LIMIT:g} virtual s")
            self._clock.advance(_STEP)


class MemoryTarget:
    """A :class:`MemoryZooKeeper`, which answers at once."""

    def __init__(self) -> None:
        self._server = MemoryZooKeeper()

    def connect(self) -> MemoryZkClient:
        """See :class:`kafkalite.testing.ensemble.scripts.Target`."""
        return self._server.client()

    def run(self, works: Sequence[Awaitable[object]]) -> None:
        """See :class:`kafkalite.testing.ensemble.scripts.Target`."""

    def expire(self, client: ZkClient) -> None:
        """See :class:`kafkalite.testing.ensemble.scripts.Target`."""
        self._server.expire(client.session)

    def close(self, client: ZkClient) -> None:
        """See :class:`kafkalite.testing.ensemble.scripts.Target`."""
        assert isinstance(client, MemoryZkClient)
        client.close()
