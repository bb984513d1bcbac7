"""The broker as a process: logging, signals, the exit code.

Answers to: ``kafka.Kafka``. Reactor shell.
"""

from __future__ import annotations

import gc
import logging
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafkalite.broker.config import BrokerConfig
from kafkalite.common.errors import ConfigError, StartupError
from kafkalite.common.tasks import deferred

log = logging.getLogger(__name__)

_GENERATION_0 = 50_000
"""Allocations between two garbage collections: rare, because requests make no reference cycles."""


def run(path: Path, overrides: Mapping[str, str]) -> int:
    """Serve until SIGTERM or SIGINT. Returns 0 after a controlled shutdown, 1 if the broker did not start or go on."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)"
    )
    try:
        config = BrokerConfig.load(path, overrides)
    except ConfigError as error:
        log.critical("%s", error)
        return 1
    # Collect no garbage during the start, because its objects stay: collections would cost a seventh of the start.
    gc.disable()
    _raise_descriptor_limit()
    from twisted.internet import reactor

    return _Process(reactor, config).run()


def _raise_descriptor_limit() -> None:
    """Raise the soft limit of file descriptors to the hard one, because segments and connections need many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class _Process:
    def __init__(self, reactor: Any, config: BrokerConfig) -> None:
        from kafkalite.broker.edges import Edges
        from kafkalite.broker.server import BrokerServer

        self._reactor = reactor
        self._server = BrokerServer(config, Edges.real(reactor, config))
        self._server.on_fatal = self._fatal
        self._serving = False
        self._status = 0

    def run(self) -> int:
        self._reactor.callWhenRunning(lambda: deferred(self._start()))
        self._reactor.addSystemEventTrigger("before", "shutdown", lambda: deferred(self._stop()))
        self._reactor.run()
        return self._status

    async def _start(self) -> None:
        try:
            await self._server.start()
        except (StartupError, ConfigError) as error:
            self._fatal(error)
        except Exception as error:
            log.critical("the broker could not start: %s", error, exc_info=error)
            self._fatal(None)
        else:
            self._serving = True
            gc.collect()
            gc.freeze()
            gc.set_threshold(_GENERATION_0, 20, 100)
            gc.enable()

    async def _stop(self) -> None:
        if self._serving:
            await self._server.stop()

    def _fatal(self, error: Exception | None) -> None:
        if error is not None:
            log.critical("%s", error)
        self._status = 1
        if self._reactor.running:
            self._reactor.stop()
