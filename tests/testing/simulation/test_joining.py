"""A follower that joins an ISR without what its leader had when its epoch began is told of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafkalite.cluster.model import LeaderAndIsr, PartitionAssignment
from kafkalite.replication.broker_topic_stats import BrokerTopicMetrics
from kafkalite.replication.partition import Partition
from kafkalite.testing.simulation.cluster import SimCluster
from kafkalite.testing.simulation.joining import checked_joining
from kafkalite.testing.simulation.topology import Topology

STATE = LeaderAndIsr("t", 0, leader=1, leader_epoch=3, isr=(1,), assignment=PartitionAssignment((1, 2)))
EPOCH_STARTS, HIGH_WATERMARK = 10, 7


class Log:
    log_end_offset = EPOCH_STARTS
    high_watermark = HIGH_WATERMARK

    def assign_epoch_start(self, *_: Any) -> None:
        pass

    def update_high_watermark(self, _high_watermark: int) -> None:
        pass


@pytest.mark.parametrize(
    ("fetched", "has", "known_epoch", "written", "told"),
    [
        pytest.param(10, 10, 5, 3, "", id="has all"),
        pytest.param(7, 10, 5, 3, "fetched up to 7", id="above the high watermark, below the epoch's start"),
        pytest.param(10, 4, 5, 3, "has a log that ends at 4", id="a fetch of its earlier life"),
        pytest.param(10, 4, 2, 3, "", id="the leader cannot know yet that it started again"),
        pytest.param(10, 4, 5, 4, "", id="the leader was paused, and the follower truncates to another"),
    ],
)
def test_a_follower_that_joins(fetched: int, has: int, known_epoch: int, written: int, told: str) -> None:
    follower = SimpleNamespace(log=SimpleNamespace(log_end_offset=has), state=STATE)
    metadata = SimpleNamespace(broker=lambda _: SimpleNamespace(epoch=known_epoch))
    brokers = {
        1: SimpleNamespace(services=SimpleNamespace(metadata=metadata)),
        2: SimpleNamespace(is_alive=True, zk=SimpleNamespace(session=8), last_partition=lambda _: follower),
    }
    cluster = SimpleNamespace(brokers=brokers)
    topology = SimpleNamespace(registration=_registration, state=lambda _: STATE.with_(leader_epoch=written))
    found: list[str] = []
    with checked_joining(cast("SimCluster", cluster), cast("Topology", topology), found.append):
        partition = Partition(STATE, 1, cast("Any", Log()), lambda _: True, BrokerTopicMetrics())
        partition.make_leader(STATE, 0.0)
        partition.followers[2].log_end_offset = fetched
        partition.set_isr(partition.isr.expand(2))
    assert found == (
        [f"t-0: 2 {told} and joins the ISR [1] in leader epoch 3, for which it needs {EPOCH_STARTS}"] if told else []
    )


def _registration(_broker: int, _session: int) -> SimpleNamespace:
    return SimpleNamespace(epoch=5)
