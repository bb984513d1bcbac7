"""The coordinators of a broker, put together: claims, offsets, groups, transactions.

Answers to: the part of ``kafka.server.KafkaServer.startup`` that makes ``GroupCoordinator`` and
``TransactionCoordinator``. Reactor shell.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from kafkalite.admin.producer_ids import ProducerIdManager
from kafkalite.broker.marker_channel import BrokerMarkerChannel
from kafkalite.broker.settings import group_config, offset_config, transaction_config
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import Broker
from kafkalite.common.clock import Clock
from kafkalite.common.config import ConfigValues
from kafkalite.common.events import EventRecorder, ignore_event
from kafkalite.coordinator.group.group_coordinator import GroupCoordinator
from kafkalite.coordinator.offsets.offset_manager import OffsetManager
from kafkalite.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from kafkalite.coordinator.transaction.values import CoordinatorDependencies
from kafkalite.replication.leader_endpoint import LeaderConnection
from kafkalite.zk.stores.claims import ClaimStore
from kafkalite.zk.stores.groups import GroupStore
from kafkalite.zk.stores.stores import Stores
from kafkalite.zk.stores.transactions import TransactionStore
from kafkalite.zk.zk_client import SessionState


class Coordinators:
    """``groups`` and ``transactions`` of one broker, started and stopped together."""

    def __init__(
        self,
        broker_id: int,
        stores: Stores,
        metadata: MetadataCache,
        producer_ids: ProducerIdManager,
        open_connection: Callable[[Broker], LeaderConnection],
        clock: Clock,
        values: ConfigValues,
        rng: random.Random,
        record: EventRecorder = ignore_event,
    ) -> None:
        claims = ClaimStore(stores.client, clock)
        transactions = TransactionStore(stores.client, values["transaction.state.log.num.partitions"])
        self.offsets = offsets = OffsetManager(
            stores.client,
            clock,
            offset_config(values),
            lambda tp: metadata.state(tp) is not None,
            transactions,
            record,
        )
        self._markers = BrokerMarkerChannel(open_connection, values["request.timeout.ms"] / 1000)
        self.groups = GroupCoordinator(
            broker_id,
            claims,
            GroupStore(stores.client, stores.znode_acls),
            offsets,
            metadata,
            clock,
            group_config(values),
            values["zookeeper.session.timeout.ms"] / 1000,
            rng,
            record,
        )
        self.transactions = TransactionCoordinator(
            broker_id,
            claims,
            transactions,
            CoordinatorDependencies(producer_ids.generate, offsets.transactional, metadata, self._markers),
            clock,
            transaction_config(values),
            record,
        )

    def start(self) -> None:
        """Start to coordinate."""
        self.groups.start()
        self.transactions.start()

    def on_session(self, state: SessionState) -> None:
        """The ZooKeeper session changed: claims of an old session are lost."""
        self.groups.on_session(state)
        self.transactions.on_session(state)

    def brokers_changed(self) -> None:
        """The set of live brokers changed, so some transactions may have no coordinator now."""
        self.transactions.brokers_changed()

    async def stop(self) -> None:
        """Release all claims, so that other brokers need not wait for the end of the session."""
        await self.groups.stop()
        await self.transactions.stop()
        self._markers.close()
