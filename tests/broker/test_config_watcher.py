"""Configurations in ZooKeeper are obeyed, also those whose reading a lost connection cuts short."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest
from twisted.python.failure import Failure

from kafkalite.admin.dynamic_config import DynamicConfig
from kafkalite.broker.config_keys import BROKER_CONFIGS
from kafkalite.broker.config_watcher import ConfigWatcher
from kafkalite.common.tasks import deferred
from kafkalite.log.log_manager import LogManager
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZooKeeper
from kafkalite.zk.stores.config import ConfigStore
from kafkalite.zk.stores.paths import ensure_paths
from kafkalite.zk.zk_client import ConnectionLostError


class Logs:
    """No logs, but defaults for them."""

    def __init__(self) -> None:
        self.logs: dict[Any, Any] = {}

    def update_defaults(self, values: Any) -> None:
        """Nobody asks."""


def test_a_lost_connection_delays_a_change_only(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    server = MemoryZooKeeper()
    ours, theirs = server.client(), server.client()
    deferred(ensure_paths(ours))
    dynamic = DynamicConfig(BROKER_CONFIGS, {"zookeeper.connect": "zk"})
    watcher = ConfigWatcher(1, ConfigStore(ours, clock.time_ms), dynamic, cast(LogManager, Logs()))
    deferred(watcher.start())
    store = ConfigStore(theirs, clock.time_ms)

    cuts: list[str] = []

    def cut(name: str, path: str) -> None:
        if name == "get" and path == "/config/brokers/<default>" and not cuts:
            cuts.append(path)
            ours.lose_connection()

    ours.before = cut
    with caplog.at_level(logging.WARNING):
        deferred(store.set_broker("<default>", {"message.max.bytes": "1234"}))
        assert cuts, "it was asked"
        assert dynamic.values["message.max.bytes"] != 1234
        ours.reconnect()
        assert dynamic.values["message.max.bytes"] == 1234
        ours.lose_connection()
        deferred(store.set_broker("<default>", {"message.max.bytes": "2345"}))
        server.expire(ours.session)
        ours.reconnect()
        assert dynamic.values["message.max.bytes"] == 2345
    assert caplog.records == []


def test_a_start_that_a_lost_connection_cut_short_is_made_good_by_another() -> None:
    """Changes are handled once all the same: the second start makes no second feed."""
    server = MemoryZooKeeper()
    ours, theirs = server.client(), server.client()
    deferred(ensure_paths(ours))
    dynamic = DynamicConfig(BROKER_CONFIGS, {"zookeeper.connect": "zk"})
    watcher = ConfigWatcher(1, ConfigStore(ours, lambda: 0), dynamic, cast(LogManager, Logs()))

    def cut(_name: str, path: str) -> None:
        if path == "/config/brokers/<default>":
            ours.before = None
            ours.lose_connection()

    ours.before = cut
    failures: list[Failure] = []
    deferred(watcher.start()).addErrback(failures.append)
    assert isinstance(failures[0].value, ConnectionLostError)
    ours.reconnect()
    deferred(watcher.start())
    reads: list[str] = []
    ours.before = lambda _name, path: reads.append(path)
    deferred(ConfigStore(theirs, lambda: 0).set_broker("<default>", {"message.max.bytes": "1234"}))
    assert dynamic.values["message.max.bytes"] == 1234
    assert reads.count("/config/brokers/<default>") == 1
