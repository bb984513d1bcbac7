"""Configurations in ZooKeeper are obeyed, also those whose reading a lost connection cuts short."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest
from twisted.python.failure import Failure

from kafkalite.admin.dynamic_config import DynamicConfig
from kafkalite.broker.config import BrokerConfig
from kafkalite.broker.config_keys import BROKER_CONFIGS
from kafkalite.broker.config_watcher import ConfigWatcher
from kafkalite.common.errors import ConfigError
from kafkalite.common.tasks import deferred
from kafkalite.log.log_manager import LogManager
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.stores.config import ConfigStore
from kafkalite.zk.stores.paths import ensure_paths
from kafkalite.zk.zk_client import ConnectionLostError


class Logs:
    """No logs, but defaults for them."""

    def __init__(self) -> None:
        self.logs: dict[Any, Any] = {}

    def update_defaults(self, values: Any) -> None:
        """Does nothing, because these tests change no default."""


def test_a_lost_connection_delays_a_change_only(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    server = MemoryZooKeeper()
    ours, theirs = server.client(), server.client()
    deferred(ensure_paths(ours))
    dynamic = DynamicConfig(BROKER_CONFIGS, {"zookeeper.connect": "zk"})
    watcher = ConfigWatcher(1, ConfigStore(ours, clock.time_ms), dynamic, cast(LogManager, Logs()), lambda: None)
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


def test_a_start_that_a_lost_connection_interrupted_is_repeated() -> None:
    """Changes are handled once all the same: the second start makes no second feed."""
    server = MemoryZooKeeper()
    ours, theirs = server.client(), server.client()
    deferred(ensure_paths(ours))
    dynamic = DynamicConfig(BROKER_CONFIGS, {"zookeeper.connect": "zk"})
    watcher = ConfigWatcher(1, ConfigStore(ours, lambda: 0), dynamic, cast(LogManager, Logs()), lambda: None)

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


@pytest.mark.parametrize("name", ["<default>", "1"])
def test_a_malformed_configuration_of_brokers_is_an_error_in_one_line(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = MemoryZooKeeper()
    ours, theirs = server.client(), server.client()
    deferred(ensure_paths(ours))
    dynamic = DynamicConfig(BROKER_CONFIGS, {"zookeeper.connect": "zk"})
    deferred(ours.create(f"/config/brokers/{name}", b'{"version":1,"config":{"message.max.bytes":'))
    watcher = ConfigWatcher(1, ConfigStore(ours, lambda: 0), dynamic, cast(LogManager, Logs()), lambda: None)
    failures: list[Failure] = []
    with caplog.at_level(logging.WARNING):
        deferred(watcher.start()).addErrback(failures.append)
    assert failures == []
    (record,) = caplog.records
    assert f"/config/brokers/{name}" in record.getMessage()
    assert record.exc_info is None
    deferred(ConfigStore(theirs, lambda: 0).set_broker(name, {"message.max.bytes": "1234"}))
    assert dynamic.values["message.max.bytes"] == 1234


@pytest.mark.parametrize(
    ("kind", "name", "config"),
    [
        ("users", "alice", {"SCRAM-SHA-256": "salt=aHVzaA==,stored_key=aHVzaA==,server_key=aHVzaA==,iterations=4096"}),
        ("users", "alice/clients/c1", {"producer_byte_rate": "1000"}),
        ("clients", "<default>", {"consumer_byte_rate": "1000"}),
        ("ips", "10.0.0.1", {"connection_creation_rate": "1"}),
    ],
)
def test_listeners_of_a_kind_are_told_of_its_entities_at_the_start_and_of_every_change(
    kind: str, name: str, config: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """The log has no values, because they may be credentials."""
    server = MemoryZooKeeper()
    ours, theirs = server.client(), server.client()
    deferred(ensure_paths(ours))
    store = ConfigStore(theirs, lambda: 0)
    deferred(store.set_entity(kind, name, config))
    watcher = _watcher(ours)
    told: list[tuple[str, str, dict[str, str]]] = []
    for each in ("users", "clients", "ips"):
        watcher.entities.follow(each, lambda name, config, each=each: told.append((each, name, dict(config))))  # type: ignore[misc]
    with caplog.at_level(logging.DEBUG):
        deferred(watcher.start())
        assert told == [(kind, name, config)]
        deferred(store.set_entity(kind, name, {**config, "more": "1"}))
        assert told[1:] == [(kind, name, {**config, "more": "1"})]
        deferred(store.set_entity(kind, name, {}))
        assert told[2:] == [(kind, name, {})]
    assert not any(value in caplog.text for value in config.values())


def test_changes_of_entities_that_a_lost_session_hid_are_told_after_it(caplog: pytest.LogCaptureFixture) -> None:
    """Also the removal of one; a malformed one stays as it was."""
    server = MemoryZooKeeper()
    ours, theirs = server.client(), server.client()
    deferred(ensure_paths(ours))
    store = ConfigStore(theirs, lambda: 0)
    for name in ("alice", "bob", "carol", "dave/clients/<default>"):
        deferred(store.set_entity("users", name, {"producer_byte_rate": "1"}))
    watcher = _watcher(ours)
    rates: dict[str, str | None] = {}
    watcher.entities.follow("users", lambda name, config: rates.update({name: config.get("producer_byte_rate")}))
    deferred(watcher.start())
    assert rates == {"alice": "1", "bob": "1", "carol": "1", "dave/clients/<default>": "1"}
    ours.lose_connection()
    deferred(theirs.delete("/config/users/alice"))
    deferred(theirs.set("/config/users/carol", b"{"))
    deferred(store.set_entity("users", "dave/clients/<default>", {"producer_byte_rate": "2"}))
    server.expire(ours.session)
    with caplog.at_level(logging.ERROR):
        ours.reconnect()
    assert rates == {"alice": None, "bob": "1", "carol": "1", "dave/clients/<default>": "2"}
    (message,) = caplog.messages
    assert "/config/users/carol" in message


def _watcher(client: MemoryZkClient) -> ConfigWatcher:
    dynamic = DynamicConfig(BROKER_CONFIGS, {"zookeeper.connect": "zk"})
    return ConfigWatcher(1, ConfigStore(client, lambda: 0), dynamic, cast(LogManager, Logs()), lambda: None)


def test_passwords_are_encrypted_by_the_new_secret_at_the_start() -> None:
    """Those that the former secret decrypts; others stay, and nothing is written where there is none."""
    clock, server = ManualClock(), MemoryZooKeeper()
    client = server.client()
    deferred(ensure_paths(client))
    store = ConfigStore(client, clock.time_ms)
    former, present = secrets_of("former"), secrets_of("present", "former")
    name, other = "listener.name.external.ssl.key.password", "listener.name.external.ssl.keystore.password"
    stored = {**former.concealed({name: "hidden-word"}), other: "damaged", "log.retention.ms": "5"}
    deferred(store.set_broker(1, stored))
    watcher = ConfigWatcher(1, store, present, cast(LogManager, Logs()), lambda: None)
    deferred(watcher.start())
    found: list[dict[str, str]] = []
    deferred(store.broker(1)).addCallback(found.append)
    assert found[0] == {**stored, name: found[0][name]}
    assert "hidden-word" not in str(found)
    assert secrets_of("present").revealed(found[0])[name] == present.text(name) == "hidden-word"
    assert present.encrypted_again(found[0]) is None
    assert secrets_of("present").encrypted_again(stored) is None


def test_a_former_secret_needs_a_present_one() -> None:
    with pytest.raises(ConfigError, match=r"old\.secret: has no effect without password\.encoder\.secret"):
        BrokerConfig.parse({"zookeeper.connect": "zk", "password.encoder.old.secret": "x"})


def secrets_of(present: str, former: str = "") -> DynamicConfig:
    """The configuration of a broker with these secrets."""
    texts = {"zookeeper.connect": "zk", "password.encoder.secret": present, "password.encoder.old.secret": former}
    return BrokerConfig.parse({name: text for name, text in texts.items() if text}).dynamic
