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
    coordinator = SimpleNamespace(
        starts_of_open=lambda: iter(open_since), loads=[], without_leader=0, repeated_completions=0
    )
    collector = TransactionMetricsCollector(cast("Any", coordinator), clock)
    prefix = "kafkalite_transaction_coordinator_"

    def shown() -> list[float]:
        found = values(collector)
        return [found[(prefix + name,)] for name in ("open_transactions", "oldest_transaction_age_seconds")]

    assert shown() == [0, 0]
    open_since += [clock.time_ms() - 500, clock.time_ms() - 90_000]
    assert shown() == [2, 90]


def test_loads_of_state_partitions_are_shown_for_half_a_minute() -> None:
    clock = ManualClock()
    loads: list[tuple[float, float]] = []
    coordinator = SimpleNamespace(
        starts_of_open=lambda: iter(()), loads=loads, without_leader=3, repeated_completions=1
    )
    collector = TransactionMetricsCollector(cast("Any", coordinator), clock)
    queues = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
    prefix = "kafka_server_transaction_coordinator_metrics_partition_load_time_"

    def times() -> list[float]:
        found = values(collector)
        return [found[(prefix + name,)] for name in ("max", "avg")]

    assert times() == [0, 0]
    clock.advance(100)
    loads += [(60.0, 9.0), (75.0, 0.5), (100.0, 0.25)]
    assert times() == [500, 375]
    clock.advance(10)
    assert times() == [250, 250]
    found = values(collector)
    assert found[(queues + "unknowndestinationqueuesize",)] == 3
    assert found[(queues + "logappendretryqueuesize",)] == 1
