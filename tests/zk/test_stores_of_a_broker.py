"""What a broker tells the controller through ZooKeeper outlives a lost connection."""

from __future__ import annotations

import random

from kafkalite.common.tasks import deferred
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZooKeeper
from kafkalite.zk.stores.paths import ensure_paths
from kafkalite.zk.stores.stores import Stores


def test_a_lost_connection_delays_the_word_of_a_failed_log_directory() -> None:
    """Without it the controller would leave this broker the leader of replicas that it cannot serve."""
    clock, server = ManualClock(), MemoryZooKeeper()
    client = server.client()
    stores = Stores(client, clock, 6.0, random.Random(1))
    deferred(ensure_paths(client))
    client.lose_connection()
    stores.tell_log_dir_event(3)
    clock.advance(5)
    client.reconnect()
    clock.advance(2)
    (notice,) = server.paths("/log_dir_event_notification/")
    assert b'"broker":3' in server.data(notice)
    clock.advance(5)
    assert server.paths("/log_dir_event_notification/") == [notice], "once"
