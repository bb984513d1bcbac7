"""Users of a secured cluster in ZooKeeper: who is added, and who hears of it."""

from __future__ import annotations

import json

from kafkalite.common.tasks import deferred
from kafkalite.embedded.users import add_users
from kafkalite.testing.zookeeper import MemoryZooKeeper
from kafkalite.zk.stores.config import ConfigStore

ALICE = {"SCRAM-SHA-512": "salt=eA==,stored_key=eA==,server_key=eA==,iterations=4096"}
CHANGED = {"SCRAM-SHA-512": "salt=eQ==,stored_key=eQ==,server_key=eQ==,iterations=4096"}


def test_running_brokers_hear_of_users_that_are_added() -> None:
    zookeeper = MemoryZooKeeper()
    heard: list[tuple[str, str]] = []
    store = ConfigStore(zookeeper.client(), lambda: 0)
    deferred(add_users(zookeeper.client(), {}))
    deferred(store.watch_changes(heard.append))
    deferred(add_users(zookeeper.client(), {"alice": ALICE, "b@c": ALICE}))
    assert json.loads(zookeeper.data("/config/users/alice"))["config"] == ALICE
    assert [change for change in heard if change[0] == "users"] == [("users", "alice"), ("users", "b%40c")]


def test_a_password_that_was_changed_since_stays() -> None:
    zookeeper = MemoryZooKeeper()
    deferred(add_users(zookeeper.client(), {"alice": CHANGED}))
    written = zookeeper.paths("/config/changes")
    deferred(add_users(zookeeper.client(), {"alice": ALICE}))
    assert json.loads(zookeeper.data("/config/users/alice"))["config"] == CHANGED
    assert zookeeper.paths("/config/changes") == written
