"""Each rule about what brokers believe sees the broker that breaks it, and passes the one that does not."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kafkalite.apis.services import BrokerServices
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import Broker, LeaderAndIsr, PartitionAssignment
from kafkalite.common.types import TopicPartition
from kafkalite.replication.partition import Role
from kafkalite.testing.simulation.beliefs import Beliefs
from kafkalite.testing.simulation.cluster import SimBroker
from kafkalite.testing.simulation.invariants import Kind, ZnodeChange
from kafkalite.zk.znodes import topics
from kafkalite.zk.znodes.topics import TopicAssignment

TP = TopicPartition("t", 0)
TOPIC_ID = uuid.UUID(int=7)
STATE = ZnodeChange(Kind.CHANGED, "/brokers/topics/t/partitions/0/state")
MADE = ZnodeChange(
    Kind.CREATED,
    "/brokers/topics/t",
    topics.encode_topic(TopicAssignment(TOPIC_ID, {0: PartitionAssignment((1, 2))})),
)
GONE = ZnodeChange(Kind.DELETED, "/brokers/topics/t")


def state(leader_epoch: int, zk_version: int = 0, topic_id: uuid.UUID = TOPIC_ID) -> LeaderAndIsr:
    return LeaderAndIsr("t", 0, topic_id, 1, leader_epoch, (1, 2), 1, zk_version, mzxid=leader_epoch)


@dataclass
class Replica:
    role: Role
    leader_epoch: int
    topic_partition: TopicPartition = TP
    state: LeaderAndIsr = field(default_factory=lambda: state(3))


class FakeBroker:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.zk = SimpleNamespace(session=0x11)
        self.partitions: dict[TopicPartition, Replica] = {}
        self.start()

    def start(self) -> None:
        self.metadata = MetadataCache()
        replicas = SimpleNamespace(replicas=SimpleNamespace(partitions=self.partitions))
        self.services = cast(BrokerServices, SimpleNamespace(metadata=self.metadata, replicas=replicas))

    def believe(self, known: LeaderAndIsr) -> None:
        """Take over any state, as a broker with a bug would."""
        self.metadata.topics.setdefault(known.topic, {})[known.partition] = known
        self.metadata.version += 1


class BeliefsFixture:
    def __init__(self, folder: Path) -> None:
        self.machines = {number: FakeBroker(folder / str(number)) for number in (1, 2)}
        self.epochs = {1: 100, 2: 100}
        self.power_losses: dict[int, int] = {}
        self.told: list[str] = []
        self.beliefs = Beliefs(
            cast("dict[int, SimBroker]", self.machines), self.registration, self.power_losses, self.told.append
        )

    def registration(self, broker: int, session: int) -> Broker | None:
        epoch = self.epochs.get(broker)
        return None if epoch is None or session != 0x11 else Broker(broker, (), epoch=epoch)


@pytest.fixture
def setting(tmp_path: Path) -> BeliefsFixture:
    return BeliefsFixture(tmp_path)


@pytest.mark.parametrize(
    ("later", "goes_back"),
    [
        (state(4, 3), True),
        (state(5, 1), True),
        (state(5, 2), False),
        (state(5, 3), False),
        (state(0, 0, uuid.UUID(int=8)), False),
    ],
    ids=["leader epoch", "version", "same", "newer", "another topic of the name"],
)
def test_metadata_that_go_back_are_reported(setting: BeliefsFixture, later: LeaderAndIsr, goes_back: bool) -> None:
    for known in (state(5, 2), later):
        setting.machines[1].believe(known)
        setting.beliefs.committed([])
    assert [line for line in setting.told if "the metadata of broker 1 went back" in line] == setting.told
    assert len(setting.told) == goes_back


def test_a_broker_that_starts_again_may_begin_with_older_metadata(setting: BeliefsFixture) -> None:
    machine = setting.machines[1]
    machine.believe(state(5))
    setting.beliefs.committed([])
    machine.start()
    machine.believe(state(4))
    setting.beliefs.committed([])
    assert not setting.told


@pytest.mark.parametrize(
    ("leader_epoch", "broker_epoch", "broken"),
    [(3, 100, False), (3, 101, True), (4, 101, False), (3, None, False)],
    ids=["same registration", "same leader epoch", "new leader epoch", "not registered"],
)
def test_a_leader_that_registered_again_needs_a_new_leader_epoch(
    setting: BeliefsFixture, leader_epoch: int, broker_epoch: int | None, broken: bool
) -> None:
    replica = setting.machines[1].partitions[TP] = Replica(Role.LEADER, 3)
    setting.machines[2].partitions[TP] = Replica(Role.FOLLOWER, 3)
    setting.beliefs.committed([STATE])
    replica.leader_epoch = leader_epoch
    if broker_epoch is None:
        del setting.epochs[1]
    else:
        setting.epochs[1] = broker_epoch
    setting.beliefs.committed([STATE])
    expected = "t-0: brokers 1 (broker epoch 100) and 1 (broker epoch 101) both lead in leader epoch 3"
    assert setting.told == ([expected] if broken else [])


def test_two_leaders_in_one_leader_epoch_are_seen(setting: BeliefsFixture) -> None:
    for machine in setting.machines.values():
        machine.partitions[TP] = Replica(Role.LEADER, 3)
    setting.beliefs.committed([STATE])
    assert setting.told == ["t-0: brokers 1 (broker epoch 100) and 2 (broker epoch 100) both lead in leader epoch 3"]


@pytest.mark.parametrize("lost_power", [False, True])
def test_a_topic_that_is_deleted_before_its_logs_is_reported(setting: BeliefsFixture, lost_power: bool) -> None:
    (setting.machines[2].folder / "logs" / "t-0").mkdir(parents=True)
    if lost_power:
        setting.power_losses[2] = 1
    setting.beliefs.committed([MADE])
    setting.beliefs.committed([GONE])
    assert setting.told == ([] if lost_power else ["topic t was deleted, and broker 2 still has t-0"])


def test_a_topic_that_is_deleted_after_its_logs_is_not_reported(setting: BeliefsFixture) -> None:
    (setting.machines[2].folder / "logs" / "t-0.0000-delete").mkdir(parents=True)
    setting.beliefs.committed([MADE])
    setting.beliefs.committed([GONE])
    assert not setting.told
