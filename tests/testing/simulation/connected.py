"""A stand-in for a cluster whose broker 1 reaches ZooKeeper, and what may come between the two."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from kafkalite.testing.ensemble.server import ServerRole
from kafkalite.testing.simulation.cluster import BrokerStatus, SimCluster
from kafkalite.testing.simulation.world import LifeState
from kafkalite.zk.zk_client import SessionState


class Connected:
    """``cut``: brokers that a fault cuts off from ZooKeeper; ``told``: what an oracle has told."""

    def __init__(self) -> None:
        self.cut: set[int] = set()
        self.told: list[str] = []
        self.world = SimpleNamespace(now=0.0)
        self.servers = [SimpleNamespace(role=ServerRole.LEADING, lag=0.0)]
        self.nodes: dict[str, object] = {}
        self.machine = SimpleNamespace(
            status=BrokerStatus.SERVING,
            life=SimpleNamespace(state=LifeState.RUNNING),
            zk=SimpleNamespace(state=SessionState.CONNECTED, session=7),
        )
        zookeeper = SimpleNamespace(servers=self.servers, tree=SimpleNamespace(nodes=self.nodes))
        stand_in = SimpleNamespace(world=self.world, zookeeper=zookeeper, brokers={1: self.machine})
        self.cluster = cast("SimCluster", stand_in)

    def befall(self, fault: str) -> None:
        """Something happens by which the broker cannot reach ZooKeeper, or may read what is old."""
        match fault:
            case "cut off":
                self.cut.add(1)
            case "suspended":
                self.machine.zk.state = SessionState.SUSPENDED
            case "paused":
                self.machine.life.state = LifeState.PAUSED
            case "starts":
                self.machine.status = BrokerStatus.STARTING
            case "stops":
                self.machine.status = BrokerStatus.STOPPING
            case "no leader of ZooKeeper":
                self.servers[0].role = ServerRole.LOOKING
            case "lag":
                self.servers[0].lag = 0.5
            case _:
                raise ValueError(fault)
