"""The leader and every member of the ISR must have the acknowledged records, unless its machine lost data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import cast

import pytest

from kafkalite.cluster.model import Broker, LeaderAndIsr, PartitionAssignment
from kafkalite.common.types import TopicPartition
from kafkalite.replication.partition import Role
from kafkalite.testing.history.events import Acked, RecordId
from kafkalite.testing.simulation.cluster import SimCluster
from kafkalite.testing.simulation.keepers import Keepers

TP = TopicPartition("t", 0)
ACKED = Acked(RecordId("p", 1), "t-0", 9)


@dataclass
class Replica:
    log_end_offset: int
    role: Role = Role.FOLLOWER
    leader_epoch: int = 3
    high_watermark: int = 0

    @property
    def state(self) -> LeaderAndIsr:
        return STATES[TP]

    @property
    def log(self) -> Replica:
        return self


@dataclass
class FakeBroker:
    replica: Replica
    is_alive: bool = True
    disk: None = None

    def last_partition(self, _tp: TopicPartition) -> Replica:
        return self.replica


@dataclass
class FakeBrokers:
    """Broker 1 leads, 2 and 3 follow; all have what was acknowledged."""

    brokers: dict[int, FakeBroker] = field(
        default_factory=lambda: {
            1: FakeBroker(Replica(12, Role.LEADER)),
            2: FakeBroker(Replica(10)),
            3: FakeBroker(Replica(10)),
        }
    )


def state(isr: tuple[int, ...], leader: int = 1, leader_epoch: int = 3) -> dict[TopicPartition, LeaderAndIsr]:
    assignment = PartitionAssignment((1, 2, 3))
    return {TP: LeaderAndIsr("t", 0, leader=leader, leader_epoch=leader_epoch, isr=isr, assignment=assignment)}


STATES = state((1, 2, 3))


class KeepersFixture:
    def __init__(self) -> None:
        self.machines = FakeBrokers()
        self.losses: Counter[int] = Counter()
        self.told: list[str] = []
        self.synced = 10
        self.keepers = Keepers(
            cast("SimCluster", self.machines),
            self.losses.__getitem__,
            lambda _disk, _log: self.synced,
            self.told.append,
        )
        self.keepers.states_changed(state((1, 2, 3)))


def test_all_have_it() -> None:
    setting = KeepersFixture()
    setting.keepers.acked(ACKED)
    assert setting.told == []


@pytest.mark.parametrize(
    ("broker", "isr", "told"),
    [
        (2, (1, 2, 3), "2 of the ISR [1, 2, 3]"),
        (2, (1, 3), ""),
        (1, (1, 2, 3), "the leader 1"),
    ],
)
def test_a_member_without_an_acknowledged_record_is_reported(broker: int, isr: tuple[int, ...], told: str) -> None:
    setting = KeepersFixture()
    setting.keepers.states_changed(state(isr))
    setting.machines.brokers[broker].replica.log_end_offset = 9
    setting.keepers.acked(ACKED)
    expected = f"t-0: acknowledged up to offset 9, but the log of {told} ends at 9 in leader epoch 3"
    assert setting.told == ([expected] if told else [])


def test_a_member_that_joins_without_an_acknowledged_record_is_reported() -> None:
    setting = KeepersFixture()
    setting.keepers.states_changed(state((1, 2)))
    setting.machines.brokers[3].replica.log_end_offset = 4
    setting.keepers.acked(ACKED)
    assert setting.told == []
    setting.keepers.states_changed(state((1, 2, 3)))
    assert len(setting.told) == 1


def test_a_process_that_is_down_is_looked_at_when_it_is_back() -> None:
    setting = KeepersFixture()
    machine = setting.machines.brokers[2]
    machine.replica.log_end_offset = 0
    machine.is_alive = False
    setting.keepers.acked(ACKED)
    assert setting.told == []
    machine.is_alive = True
    setting.keepers.look()
    assert len(setting.told) == 1


def test_a_member_that_lost_power_is_exempt_until_it_has_left_the_isr() -> None:
    setting = KeepersFixture()
    setting.losses[2] = 1
    setting.machines.brokers[2].replica.log_end_offset = 3
    setting.keepers.acked(ACKED)
    assert setting.told == []
    setting.keepers.states_changed(state((1, 3)))
    setting.keepers.states_changed(state((1, 2, 3)))
    assert len(setting.told) == 1


@pytest.mark.parametrize(("life", "told"), [(7, 0), (8, 1)])
def test_member_that_joins_as_the_life_before_the_loss_is_excused(life: int, told: int) -> None:
    """A fetch of the former process was outstanding at the power loss."""
    setting = KeepersFixture()

    def isr(members: tuple[int, ...], life: int) -> dict[TopicPartition, LeaderAndIsr]:
        return {TP: state(members)[TP].with_(unclean_start_epochs=tuple((n, life) for n in members))}

    setting.keepers.states_changed(isr((1, 2, 3), 7))
    setting.losses[2] = 1
    setting.keepers.states_changed(isr((1, 3), 7))
    setting.machines.brokers[2].replica.log_end_offset = 3
    setting.keepers.acked(ACKED)
    setting.keepers.states_changed(isr((1, 2, 3), life))
    assert len(setting.told) == told


@pytest.mark.parametrize(("is_registered", "told"), [(True, 0), (False, 1)])
def test_a_member_whose_first_isr_is_written_after_its_power_loss_is_excused(is_registered: bool, told: int) -> None:
    """It had registered before, and the leader had proposed the ISR."""
    setting = KeepersFixture()
    setting.keepers.states_changed(state((1, 3)))
    if is_registered:
        setting.keepers.registered(Broker(2, (), epoch=7, unclean_start_epoch=7))
    setting.losses[2] = 1
    setting.keepers.states_changed(state((1, 3)))
    setting.machines.brokers[2].replica.log_end_offset = 3
    setting.keepers.acked(ACKED)
    setting.keepers.states_changed({TP: state((1, 2, 3))[TP].with_(unclean_start_epochs=((2, 7),))})
    assert len(setting.told) == told


def test_a_member_that_lost_power_must_not_lead() -> None:
    setting = KeepersFixture()
    setting.keepers.acked(ACKED)
    setting.losses[2] = 1
    setting.machines.brokers[2].replica = Replica(3, Role.LEADER, 4)
    setting.keepers.states_changed(state((2, 3), leader=2, leader_epoch=4))
    assert setting.told == ["t-0: acknowledged up to offset 9, but the log of the leader 2 ends at 3 in leader epoch 4"]


@pytest.mark.parametrize(("isr", "is_told"), [((1, 2, 3), True), ((1, 3), False)])
def test_a_high_watermark_above_the_end_of_a_member(isr: tuple[int, ...], is_told: bool) -> None:
    setting = KeepersFixture()
    setting.machines.brokers[1].replica.high_watermark = 11
    setting.machines.brokers[3].replica.log_end_offset = 11
    setting.keepers.states_changed(state(isr))
    told = "t-0: the high watermark of the leader 1 is 11, but the log of 2 of the ISR [1, 2, 3] ends at 10"
    assert setting.told == ([told] if is_told else [])


NOT_SYNCED = (
    "t-0: acknowledged up to offset 9, but the disk of broker 1, which took the last follower out of the ISR, has only "
    "what is below 9"
)


@pytest.mark.parametrize(("synced", "told"), [(9, [NOT_SYNCED]), (10, [])])
def test_a_leader_that_leaves_itself_alone_without_a_sync_is_reported(synced: int, told: list[str]) -> None:
    setting = KeepersFixture()
    setting.synced = synced
    setting.keepers.acked(ACKED)
    setting.keepers.states_changed(state((1, 2)))
    assert setting.told == [], "broker 2 has the records, too"
    setting.keepers.states_changed(state((1,)))
    assert setting.told == told


def test_a_record_that_a_lone_leader_acknowledges_without_a_sync_is_reported() -> None:
    setting = KeepersFixture()
    setting.keepers.states_changed(state((1,)))
    setting.synced = 9
    setting.keepers.acked(ACKED)
    assert setting.told == [NOT_SYNCED]


def test_a_controller_may_leave_one_member_because_the_others_lack_records() -> None:
    setting = KeepersFixture()
    setting.synced = 9
    setting.keepers.acked(ACKED)
    setting.machines.brokers[1].replica.leader_epoch = 4
    setting.keepers.states_changed(state((1,), leader_epoch=4))
    assert setting.told == []
