"""Steps of a broker's start that need ZooKeeper, repeated while the connection is lost.

Answers to: ``kafka.zookeeper.ZooKeeperClient.waitUntilConnected`` as ``KafkaZkClient`` uses it. Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kafkalite.common.clock import Clock
from kafkalite.common.errors import StartupError
from kafkalite.common.tasks import sleep
from kafkalite.zk.zk_client import ConnectionLostError, SessionExpiredError

log = logging.getLogger(__name__)
T = TypeVar("T")

_PAUSE = 0.5
"""Seconds between two attempts of a step."""


class StartSteps:
    """Runs one step after the other. Each has ``timeout`` seconds (``zookeeper.connection.timeout.ms``) from its first
    lost connection on. Kafka waits without end; here the start fails, so that the operator learns of it.
    """

    def __init__(self, clock: Clock, timeout: float) -> None:
        self._clock = clock
        self._timeout = timeout

    async def run(self, what: str, step: Callable[[], Awaitable[T]]) -> T:
        """The result of ``step``, which is called again after a lost connection or session.

        Raises :class:`StartupError` when the time is over, and any other error of the step.
        """
        deadline: float | None = None
        while True:
            try:
                return await step()
            except (ConnectionLostError, SessionExpiredError) as error:
                now = self._clock.monotonic()
                if deadline is None:
                    deadline = now + self._timeout
                    log.warning(
                        "%s: the connection to ZooKeeper was lost (%s); trying again for %g s",
                        what,
                        error,
                        self._timeout,
                    )
                if now >= deadline:
                    raise StartupError(
                        f"{what}: the connection to ZooKeeper was lost and did not come back within "
                        f"{self._timeout:g} s; see whether ZooKeeper is running, then start this broker again"
                    ) from error
            await sleep(self._clock, _PAUSE)
