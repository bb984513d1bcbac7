"""A replica that applies a state of an earlier leader epoch is reported, except for a recreated topic."""

from __future__ import annotations

import uuid
from typing import Any, cast

import pytest

from kafkalite.cluster.model import LeaderAndIsr, PartitionAssignment
from kafkalite.replication.broker_topic_stats import BrokerTopicMetrics
from kafkalite.replication.partition import Partition
from kafkalite.testing.simulation.leader_epochs import checked_leader_epochs

TOPIC, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)


def state(leader_epoch: int, topic_id: uuid.UUID = TOPIC) -> LeaderAndIsr:
    assignment = PartitionAssignment((1, 2))
    return LeaderAndIsr(
        "t", 0, leader=1, leader_epoch=leader_epoch, isr=(1, 2), assignment=assignment, topic_id=topic_id
    )


@pytest.mark.parametrize(
    ("later", "is_told"),
    [
        pytest.param(state(5), False, id="the same epoch"),
        pytest.param(state(6), False, id="a later epoch"),
        pytest.param(state(4), True, id="an earlier epoch"),
        pytest.param(state(0, OTHER), False, id="another topic of that name"),
    ],
)
@pytest.mark.parametrize("leads", [False, True])
def test_a_state_with_a_lower_leader_epoch_is_reported(later: LeaderAndIsr, is_told: bool, leads: bool) -> None:
    class Log:
        log_end_offset = 0
        high_watermark = 0

        def assign_epoch_start(self, *_: Any) -> None:
            pass

    told: list[str] = []
    with checked_leader_epochs(told.append):
        partition = Partition(state(5), 2, cast("Any", Log()), lambda _: True, BrokerTopicMetrics())
        partition.make_follower(state(5))
        if leads:
            partition.make_leader(later, 0.0)
        else:
            partition.make_follower(later)
    line = "broker 2 went from leader epoch 5 of t-0 to 4"
    assert told == ([line] if is_told else [])
    partition.make_follower(state(1))
    assert len(told) == is_told, "outside nothing is checked"
