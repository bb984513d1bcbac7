"""A broker that reaches ZooKeeper and does not register is told of."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from kafkalite.testing.ensemble.server import Role
from kafkalite.testing.simulation.cluster import SimCluster, Status
from kafkalite.testing.simulation.registrations import Registrations
from kafkalite.testing.simulation.world import LifeState
from kafkalite.zk.port import SessionState

ZNODE = "/brokers/ids/1"


@dataclass
class Setting:
    """Broker 1 is connected in session 7, and has no znode."""

    cut: set[int] = field(default_factory=set)
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = SimpleNamespace(now=0.0)
        self.servers = [SimpleNamespace(role=Role.LEADING, lag=0.0)]
        self.nodes: dict[str, object] = {}
        self.machine = SimpleNamespace(
            status=Status.SERVING,
            life=SimpleNamespace(state=LifeState.RUNNING),
            zk=SimpleNamespace(state=SessionState.CONNECTED, session=7),
        )
        zookeeper = SimpleNamespace(servers=self.servers, tree=SimpleNamespace(nodes=self.nodes))
        cluster = SimpleNamespace(world=self.world, zookeeper=zookeeper, brokers={1: self.machine})
        self.registrations = Registrations(cast("SimCluster", cluster), self.cut.__contains__, self.told.append)

    def look(self, seconds: float) -> None:
        """Look after so many seconds more."""
        self.world.now += seconds
        self.registrations.look()


def test_a_broker_that_does_not_register() -> None:
    setting = Setting()
    setting.look(1)
    setting.look(4)
    assert setting.told == []
    setting.look(0.1)
    assert setting.told == ["broker 1 has been connected to ZooKeeper, and not registered, for 4 s"]


@pytest.mark.parametrize("event", ["registers", "another session", "cut off", "suspended", "paused", "starts", "lag"])
def test_a_broker_that_could_not_register_for_so_long_is_excused(event: str) -> None:
    setting = Setting()
    setting.look(1)
    if event == "registers":
        setting.nodes[ZNODE] = object()
    elif event == "another session":
        setting.machine.zk.session = 8
    elif event == "cut off":
        setting.cut.add(1)
    elif event == "suspended":
        setting.machine.zk.state = SessionState.SUSPENDED
    elif event == "paused":
        setting.machine.life.state = LifeState.PAUSED
    elif event == "starts":
        setting.machine.status = Status.STARTING
    else:
        setting.servers[0].lag = 0.5
    setting.look(4)
    setting.look(0.1)
    assert setting.told == []
