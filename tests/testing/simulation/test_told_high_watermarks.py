"""A follower of a quiet partition that is answered, and not told the high watermark, is told of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafkalite.cluster.model import LeaderAndIsr, PartitionAssignment
from kafkalite.common.types import TopicPartition
from kafkalite.log.log import Log
from kafkalite.replication.broker_epoch import BrokerEpoch
from kafkalite.replication.broker_topic_stats import BrokerTopicMetrics
from kafkalite.replication.partition import Partition, Role
from kafkalite.replication.replica_fetcher import ReplicaFetcher
from kafkalite.replication.replication_config import ReplicationConfig
from kafkalite.replication.replication_quotas import ReplicationQuotaManager
from kafkalite.testing.simulation.cluster import SimCluster
from kafkalite.testing.simulation.told_high_watermarks import ToldHighWatermarks

TP = TopicPartition("t", 0)
STATE = LeaderAndIsr("t", 0, leader=1, leader_epoch=3, isr=(1, 2), assignment=PartitionAssignment((1, 2)))
TOLD = "t-0: the leader 1 has the high watermark 9 and did not tell 2, which has all of the log and 7"


def _partition(broker: int, high_watermark: int) -> Partition:
    log = SimpleNamespace(
        log_end_offset=10, high_watermark=high_watermark, latest_epoch=3, assign_epoch_start=lambda *_: None
    )
    return Partition(STATE, broker, cast("Log", log), lambda _: True, BrokerTopicMetrics())


@pytest.mark.parametrize(
    ("answers", "seconds", "change", "told"),
    [
        pytest.param(5, 1.5, None, [TOLD], id="not told"),
        pytest.param(4, 1.5, None, [], id="few answers"),
        pytest.param(5, 1.4, None, [], id="not for long"),
        pytest.param(5, 1.5, "learns", [], id="the follower learns it"),
        pytest.param(5, 1.5, "more", [], id="records come"),
        pytest.param(5, 1.5, "moved", [], id="another leader epoch"),
    ],
)
def test_a_follower_that_does_not_get_the_high_watermark_is_reported(
    answers: int, seconds: float, change: str | None, told: list[str]
) -> None:
    leader, follower = _partition(1, 9), _partition(2, 7)
    leader.make_leader(STATE, 0.0)
    follower.make_follower(STATE)
    world = SimpleNamespace(now=0.0)
    brokers = {1: _machine(leader), 2: _machine(follower)}
    found: list[str] = []
    oracle = ToldHighWatermarks(cast("SimCluster", SimpleNamespace(world=world, brokers=brokers)), found.append)
    with oracle.counting():
        quota = cast("ReplicationQuotaManager", SimpleNamespace(limited=False))
        fetcher = ReplicaFetcher(
            ReplicationConfig(2),
            1,
            cast("Any", None),
            lambda _: None,
            quota,
            BrokerEpoch(),
            cast("Any", None),
            cast("Any", None),
        )
        fetcher.add(follower)
        oracle.look({TP: STATE})
        for _ in range(answers):
            fetcher.session.answered(7)
        world.now += seconds
        logs: list[Any] = [leader.log, follower.log]
        if change == "learns":
            logs[1].high_watermark = 9
        elif change == "more":
            logs[0].log_end_offset = 11
        elif change == "moved":
            leader.leader_epoch = 4
        oracle.look({TP: STATE})
    assert follower.role is Role.FOLLOWER
    assert found == told


def _machine(partition: Partition) -> SimpleNamespace:
    return SimpleNamespace(is_alive=True, last_partition=lambda _: partition)
