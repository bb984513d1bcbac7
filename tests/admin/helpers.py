"""A cluster as administration sees it: ZooKeeper in memory, metadata by hand."""

from __future__ import annotations

import random
import uuid
from collections.abc import Awaitable
from typing import Any

from kafkalite.admin.config_admin import ConfigAdmin
from kafkalite.admin.dynamic_config import DynamicConfig
from kafkalite.admin.topic_admin import TopicAdmin
from kafkalite.broker.config_keys import KNOWN_CONFIGS
from kafkalite.broker.settings import topic_defaults
from kafkalite.broker.thread_counts import check_thread_counts
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.common.tasks import deferred
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZooKeeper
from kafkalite.zk.stores.config import ConfigStore
from kafkalite.zk.stores.controller import AdminStore
from kafkalite.zk.stores.paths import ensure_paths
from kafkalite.zk.stores.topics import TopicStore
from tests.support import run


def pending(work: Awaitable[Any]) -> list[Any]:
    """Start ``work``; the list gets its outcome when it ends."""
    outcomes: list[Any] = []
    deferred(work).addBoth(outcomes.append)
    return outcomes


class AdminCluster:
    """Three brokers and no topics."""

    def __init__(self, static: dict[str, str] | None = None, brokers: int = 3) -> None:
        self.clock = ManualClock()
        self.zookeeper = MemoryZooKeeper()
        self.client = client = self.zookeeper.client()
        run(ensure_paths(client))
        self.metadata = MetadataCache()
        self.metadata.update_brokers(
            {
                number: Broker(number, (Endpoint("PLAINTEXT", "PLAINTEXT", f"host{number}", 9092),), epoch=number)
                for number in range(1, brokers + 1)
            }
        )
        self.config = DynamicConfig(
            KNOWN_CONFIGS, {"zookeeper.connect": "zk", **(static or {})}, (check_thread_counts,)
        )
        self.topic_store = TopicStore(client)
        self.config_store = ConfigStore(client, self.clock.time_ms)
        self.admin_store = AdminStore(client)
        self.topics = TopicAdmin(
            self.topic_store,
            self.admin_store,
            self.metadata,
            self.config,
            topic_defaults(self.config.values),
            self.clock,
            random.Random(1),
        )
        self.configs = ConfigAdmin(1, self.config_store, self.metadata, self.config)

    def lead(self, topic: str) -> None:
        """What the controller does for a topic in ZooKeeper: every partition gets its first replica as leader."""
        found = run(self.topic_store.assignment(topic))
        assert found is not None
        self.add(topic, found[0].topic_id, dict(found[0].partitions))

    def add(self, topic: str, topic_id: uuid.UUID | None, partitions: dict[int, PartitionAssignment]) -> None:
        self.metadata.apply(
            LeaderAndIsr(
                topic,
                index,
                topic_id or uuid.UUID(int=7),
                assignment.replicas[0],
                0,
                assignment.replicas,
                1,
                0,
                assignment=assignment,
            )
            for index, assignment in partitions.items()
        )
        self.topics.metadata_changed([topic])
