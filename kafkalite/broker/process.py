"""The broker as a process: logging, signals, the exit code.

Answers to: ``kafka.Kafka``. Reactor shell.
"""

from __future__ import annotations

import fcntl
import gc
import logging
import os
import resource
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.threads import blockingCallFromThread

from kafkalite.broker.config import BrokerConfig
from kafkalite.broker.log_format import TEXT, hold_log_back, use_format
from kafkalite.common.errors import ConfigError, StartupError
from kafkalite.common.tasks import deferred
from kafkalite.zk.zk_client import NoIdentityError, NotAuthorizedError

if TYPE_CHECKING:
    from kafkalite.broker.edges import ProcessReactor
    from kafkalite.broker.server import BrokerServer
    from kafkalite.metrics.endpoint import MetricsEndpoint

log = logging.getLogger(__name__)

_DESCRIPTORS = 1 << 16
"""Descriptors that the kernel has room for from the start; each takes 8 bytes of the kernel's memory."""
_GENERATION_0 = 1_000
"""Objects more than at the last garbage collection that lead to the next one, which takes a fifth of a millisecond.

Requests make no reference cycles, and lead to few. With more objects a collection takes longer, and the p99 of a client
beside thousands of others that connect becomes that much longer.
"""
_GENERATION_1 = 1_000
"""Collections of new objects before one of those that survived them, which takes longer."""


def run(path: Path, overrides: Mapping[str, str]) -> int:
    """Serve until SIGTERM or SIGINT. Returns 0 after a controlled shutdown, 1 if the broker did not start or go on."""
    held = hold_log_back()
    try:
        config = BrokerConfig.load(path, overrides)
    except ConfigError as error:
        use_format(held, TEXT)
        log.critical("%s", error)
        return 1
    use_format(held, config.values["log.format"])
    # Collect no garbage during the start, because its objects stay: collections would cost a seventh of the start.
    gc.disable()
    _raise_descriptor_limit()
    _make_room_for_descriptors()
    from twisted.internet import reactor

    try:
        process = _Process(cast("ProcessReactor", reactor), config)
    except (ConfigError, StartupError) as error:
        log.critical("%s", error)
        return 1
    return process.run()


def _raise_descriptor_limit() -> None:
    """Raise the soft limit of file descriptors to the hard one, because segments and connections need many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _make_room_for_descriptors() -> None:
    """Let the kernel's table of this process's descriptors grow now, before there are threads.

    Later each doubling of the table would stop the reactor for 10 to 30 ms, because the kernel waits until no thread
    reads the old table (``expand_files`` in Linux's ``fs/file.c``).
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull, "rb") as any_file, suppress(OSError):
        os.close(fcntl.fcntl(any_file, fcntl.F_DUPFD_CLOEXEC, min(soft, _DESCRIPTORS) - 1))


class _Process:
    def __init__(self, reactor: ProcessReactor, config: BrokerConfig) -> None:
        from kafkalite.broker.edges import Edges
        from kafkalite.broker.server import BrokerServer

        self._reactor = reactor
        self._connect = partial(BrokerServer.connect, config, Edges.real(reactor, config), self._fatal)
        self._metrics_listener = config.values["metrics.listener"]
        self._serving: BrokerServer | None = None
        self._status = 0

    def run(self) -> int:
        self._reactor.callWhenRunning(lambda: deferred(self._start()))
        self._reactor.addSystemEventTrigger("before", "shutdown", lambda: deferred(self._stop()))
        self._reactor.run()
        return self._status

    async def _start(self) -> None:
        try:
            server = await self._connect()
            # Before the start, because a port in use is to end it while the logs are closed, and because the
            # registration names the page: its readers may come at once.
            endpoint = self._metrics_endpoint()
            await server.start()
            if endpoint is not None:
                self._serve_metrics(endpoint, server)
        except (StartupError, ConfigError) as error:
            self._fatal(error)
        except NoIdentityError as error:
            self._fatal(
                StartupError(
                    f"zookeeper.set.acl=true, but ZooKeeper knows no identity of this broker ({error.path}): does the "
                    "ensemble ask for certificates (ssl.clientAuth=need), or for a login (authProvider.sasl)?"
                )
            )
        except NotAuthorizedError as error:
            self._fatal(
                StartupError(
                    f"ZooKeeper does not let this broker write {error.path}, because another identity owns the tree: "
                    "give all brokers the same one (zookeeper.auth.digest, zookeeper.ssl.keystore.location or "
                    "java.security.auth.login.config)"
                )
            )
        except Exception as error:
            log.critical("the broker could not start: %s", error, exc_info=error)
            self._fatal(None)
        else:
            self._serving = server
            gc.collect()
            gc.freeze()
            gc.set_threshold(_GENERATION_0, _GENERATION_1, 100)
            gc.enable()

    def _metrics_endpoint(self) -> MetricsEndpoint | None:
        if not self._metrics_listener:
            return None
        # Here, because a broker without a listener for metrics need not load a web server.
        from kafkalite.metrics.endpoint import MetricsEndpoint

        address = urlsplit(self._metrics_listener)
        return MetricsEndpoint(address.hostname or "", address.port or 0)

    def _serve_metrics(self, endpoint: MetricsEndpoint, server: BrokerServer) -> None:
        from kafkalite.metrics.events_page import EVENTS_PATH, events_page
        from kafkalite.metrics.exposition import metrics_app
        from kafkalite.metrics.trace_page import TRACE_PATH, trace_page

        reactor = cast("IReactorFromThreads", self._reactor)
        metrics = metrics_app(server.collectors(), partial(blockingCallFromThread, reactor))
        wait_for_reactor: Callable[[Callable[[], object]], object] = partial(blockingCallFromThread, reactor)
        prepare = partial(wait_for_reactor, lambda: deferred(server.prepare_metrics()))
        allowed: Callable[[Callable[[], bool]], bool] = partial(blockingCallFromThread, reactor)
        encrypted = urlsplit(self._metrics_listener).scheme == "https"
        security = server.page_security(endpoint.host, endpoint.port, allowed) if encrypted else None
        events = events_page(lambda: blockingCallFromThread(reactor, server.events.snapshot))
        traces = server.traces
        trace = trace_page(
            lambda tp, seconds: blockingCallFromThread(reactor, traces.arm, tp, seconds),
            # The clock alone is read here, because waiting for the reactor would make the comparison less exact.
            lambda tp: traces.frames() if tp is None else blockingCallFromThread(reactor, traces.frames, tp),
        )
        endpoint.serve(metrics, prepare, security, {EVENTS_PATH: events, TRACE_PATH: trace})

    async def _stop(self) -> None:
        if self._serving is not None:
            await self._serving.stop()

    def _fatal(self, error: Exception | None) -> None:
        if error is not None:
            log.critical("%s", error)
        self._status = 1
        if self._reactor.running:
            self._reactor.stop()
