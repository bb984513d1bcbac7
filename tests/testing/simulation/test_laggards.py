"""A follower that stays behind in the ISR is told of where its leader could have taken it out."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from kafkalite.cluster.model import LeaderAndIsr, PartitionAssignment
from kafkalite.common.types import TopicPartition
from kafkalite.replication.partition import Role
from kafkalite.testing.simulation.laggards import Laggards
from tests.testing.simulation.connected import Connected

TP = TopicPartition("t", 0)
STATES = {TP: LeaderAndIsr("t", 0, leader=1, leader_epoch=3, isr=(1, 2), assignment=PartitionAssignment((1, 2, 3)))}
TOLD = "t-0: 2 of the ISR [1, 2] has not fetched up to 10 from the leader 1 for 4 s"


class LaggardsFixture(Connected):
    """Broker 1 leads and ends at 10; broker 2 of the ISR and broker 3 outside of it have fetched up to 7."""

    def __init__(self) -> None:
        super().__init__()
        self.followers = {broker: SimpleNamespace(log_end_offset=7) for broker in (2, 3)}
        leader = SimpleNamespace(
            role=Role.LEADER, leader_epoch=3, log=SimpleNamespace(log_end_offset=10), followers=self.followers
        )
        self.machine.last_partition = lambda _tp: leader
        self.laggards = Laggards(self.cluster, 2.0, self.cut.__contains__, self.told.append)

    def look(self, seconds: float, states: Mapping[TopicPartition, LeaderAndIsr] = STATES) -> None:
        """Look after so many seconds more."""
        self.world.now += seconds
        self.laggards.look(states)


def test_a_follower_that_stays_behind() -> None:
    fixture = LaggardsFixture()
    fixture.look(1)
    fixture.look(4)
    assert fixture.told == []
    fixture.look(0.1)
    assert fixture.told == [TOLD]


def test_a_follower_that_comes_on_is_not_behind() -> None:
    fixture = LaggardsFixture()
    fixture.look(1)
    fixture.look(4)
    fixture.followers[2].log_end_offset = 10
    fixture.look(1)
    fixture.look(1)
    assert fixture.told == []


def test_a_topic_that_is_made_again_is_another_one() -> None:
    """The new topic has a leader of the same id and leader epoch (seed 60477)."""
    fixture = LaggardsFixture()
    fixture.look(1)
    fixture.look(4)
    made_again = {TP: STATES[TP].with_(topic_id=uuid.UUID(int=2))}
    fixture.look(1, made_again)
    fixture.look(4, made_again)
    assert fixture.told == []
    fixture.look(0.1, made_again)
    assert fixture.told == [TOLD]


@pytest.mark.parametrize("fault", ["cut off", "suspended", "paused", "stops", "no leader of ZooKeeper", "lag"])
def test_a_leader_that_may_not_reach_zookeeper_is_excused(fault: str) -> None:
    fixture = LaggardsFixture()
    fixture.look(1)
    fixture.look(4)
    fixture.befall(fault)
    fixture.look(3)
    assert fixture.told == []
