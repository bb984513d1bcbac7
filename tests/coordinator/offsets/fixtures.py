"""The offset managers of two brokers, with one ZooKeeper in memory."""

from __future__ import annotations

from typing import Any

from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.offsets.offset_manager import OffsetConfig, OffsetManager
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.stores.claims import Claim, ClaimStore
from kafkalite.zk.stores.paths import ensure_paths, set_or_create
from kafkalite.zk.stores.transactions import TransactionStore
from kafkalite.zk.znodes.consumers import group_path, offset_path
from tests.support import run

G = "g"
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Broker:
    """One broker's client, claims and offsets."""

    def __init__(self, fixture: OffsetManagerFixture, broker_id: int) -> None:
        self.id = broker_id
        self.client: MemoryZkClient = fixture.server.client()
        self.claims = ClaimStore(self.client, fixture.clock)
        self.transactions = TransactionStore(self.client, 50)
        self.offsets = OffsetManager(
            self.client, fixture.clock, fixture.config, lambda tp: tp in fixture.partitions, self.transactions
        )

    def claim(self, group: str = G) -> Claim:
        claim = run(self.claims.claim(group_path(group), self.id))
        assert isinstance(claim, Claim)
        return claim

    def fetch(self, *partitions: TopicPartition, group: str = G, stable: bool = False) -> Any:
        return run(self.offsets.fetch(group, partitions or None, require_stable=stable))

    def number(self, tp: TopicPartition = T0, group: str = G) -> int | None:
        """The offset that this broker answers."""
        found = self.fetch(tp, group=group).get(tp)
        return None if found is None else int(found.offset)


class OffsetManagerFixture:
    """ZooKeeper, a clock, two brokers, and ``hand``, the client of an administrator."""

    def __init__(self, latency: float | None = None) -> None:
        self.clock = ManualClock()
        self.server = MemoryZooKeeper() if latency is None else MemoryZooKeeper(self.clock, latency)
        self.config = OffsetConfig()
        self.partitions = {T0, T1, U0}
        self.hand = MemoryZooKeeper.client(self.server)
        if latency is None:
            run(ensure_paths(self.hand))
        self.first, self.second = Broker(self, 1), Broker(self, 2)

    def edit(self, text: str | int, tp: TopicPartition = T0, group: str = G) -> None:
        run(set_or_create(self.hand, offset_path(group, tp), str(text).encode()))
