"""The ZooKeeper session and open transactions, against what the test says happened."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from kafkalite.common.recent_times import RecentTimes
from kafkalite.metrics.transaction_metrics import TransactionMetricsCollector
from kafkalite.metrics.zookeeper_metrics import ZooKeeperMetricsCollector
from kafkalite.testing.clock import ManualClock
from kafkalite.zk.session_stats import SessionStats
from kafkalite.zk.zk_client import SessionState
from tests.metrics.test_collectors import values


def test_lost_connections_and_sessions_are_counted() -> None:
    session, latency = SessionStats(), RecentTimes()
    collector = ZooKeeperMetricsCollector(session, latency)
    prefix = "kafka_server_sessionexpirelistener_"
    assert values(collector)[(prefix + "zookeeperdisconnects",)] == 0
    for state in (SessionState.SUSPENDED, SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.EXPIRED):
        session.changed(state)
    latency.add(0.004)
    found = values(collector)
    assert {key[0].removeprefix(prefix): value for key, value in found.items() if len(key) == 1} == {
        "zookeeperdisconnects": 2,
        "zookeeperexpires": 1,
        "zookeepersyncconnects": 2,
        "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms": 1,
    }
    assert [key[1] for key, value in found.items() if key[0] == prefix + "sessionstate" and value] == ["EXPIRED"]
    assert found[("kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms", "0.99")] == 4


def test_the_age_of_the_oldest_transaction() -> None:
    clock = ManualClock()
    open_since: list[int] = []
    coordinator = SimpleNamespace(starts_of_open=lambda: iter(open_since))
    collector = TransactionMetricsCollector(cast("Any", coordinator), clock)
    prefix = "kafkalite_transaction_coordinator_"
    assert values(collector) == {(prefix + "open_transactions",): 0, (prefix + "oldest_transaction_age_seconds",): 0}
    open_since += [clock.time_ms() - 500, clock.time_ms() - 90_000]
    assert values(collector) == {(prefix + "open_transactions",): 2, (prefix + "oldest_transaction_age_seconds",): 90}
