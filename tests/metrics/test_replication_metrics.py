"""ISRs, fetchers and waiting requests of a simulated cluster, against what the test did to it."""

from __future__ import annotations

from pathlib import Path

from kafkalite.metrics.replication_metrics import ReplicationMetricsCollector
from tests.metrics.test_collectors import Values, values
from tests.replication.simulation import SimCluster

MANAGER = "kafka_server_replicamanager_"
FETCHERS = "kafka_server_replicafetchermanager_"
LAG = "kafka_server_fetcherlagmetrics_consumerlag"
DELAYED = "kafka_server_delayedoperationpurgatory_numdelayedoperations"


def test_a_follower_that_is_cut_off_and_comes_back(tmp_path: Path) -> None:
    cluster = SimCluster(tmp_path, replica_lag_time_max_ms=10_000)
    cluster.create(min_insync_replicas="2")
    collectors = {broker: ReplicationMetricsCollector(cluster[broker].manager) for broker in (1, 3)}

    def isr_changes() -> list[float]:
        found = values(collectors[1])
        return [found[(MANAGER + name,)] for name in ("isrshrinks", "isrexpands", "failedisrupdates")]

    assert isr_changes() == [0, 0, 0]
    cluster.network.cut.add((3, 1))
    cluster[1].produce("a")
    cluster.run(1)
    assert values(collectors[1])[(DELAYED, "Produce")] == 1
    cluster.run(19)
    assert isr_changes() == [1, 0, 0]
    assert values(collectors[1])[(DELAYED, "Produce")] == 0
    cluster.network.cut.clear()
    cluster.run(3)
    cluster[1].produce("b")
    cluster.run(1)
    assert isr_changes() == [1, 1, 0]

    found: Values = values(collectors[3])
    lags = [(key, value) for key, value in found.items() if key[0] == LAG]
    assert [(key[2:], value) for key, value in lags] == [(("t", "0"), 0)]
    assert found[(FETCHERS + "maxlag", "Replica")] == found[(FETCHERS + "failedpartitionscount", "Replica")] == 0
    answers = [value for key, value in found.items() if key[0] == "kafka_server_fetcherstats_requests"]
    taken = [value for key, value in found.items() if key[0] == "kafka_server_fetcherstats_bytes"]
    assert answers[0] >= 2
    assert taken == [cluster[3].manager.partitions[next(iter(cluster[3].manager.partitions))].log.size]


def test_the_slowest_fetcher_is_measured_between_two_scrapes(tmp_path: Path) -> None:
    cluster = SimCluster(tmp_path)
    cluster.create()
    collector = ReplicationMetricsCollector(cluster[2].manager)
    rate = (FETCHERS + "minfetchrate", "Replica")
    assert values(collector)[rate] == 0
    before = next(iter(cluster[2].manager.fetchers.fetchers.values())).requests
    cluster.run(10)
    made = next(iter(cluster[2].manager.fetchers.fetchers.values())).requests - before
    assert values(collector)[rate] == made / 10 > 0
