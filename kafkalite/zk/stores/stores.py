"""All of ZooKeeper that a broker reads and writes, on one client.

Answers to: ``kafka.zk.KafkaZkClient``, cut by subtree. Deterministic.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass

from kafkalite.common.clock import Clock
from kafkalite.common.tasks import sleep, spawn
from kafkalite.zk.stores.admin import AdminStore
from kafkalite.zk.stores.brokers import BrokerStore
from kafkalite.zk.stores.claims import ClaimStore
from kafkalite.zk.stores.config import ConfigStore
from kafkalite.zk.stores.controller import ControllerStore
from kafkalite.zk.stores.isr import IsrStore
from kafkalite.zk.stores.notifications import NotificationStore
from kafkalite.zk.stores.paths import ensure_paths
from kafkalite.zk.stores.producer_ids import ProducerIdStore
from kafkalite.zk.stores.topics import TopicStore
from kafkalite.zk.zk_client import ConnectionLostError, SessionExpiredError, ZkClient
from kafkalite.zk.znodes.claims import CONTROLLER_CLAIM

log = logging.getLogger(__name__)

_RETRY = 1.0
"""Seconds until a notification that a lost connection held up is tried again."""

CONFLICT_GRACE = 2.0
"""Seconds past the session timeout that a registration waits for the znode of a dead incarnation to go."""


@dataclass(frozen=True, slots=True)
class Stores:
    """One store a subtree."""

    client: ZkClient
    brokers: BrokerStore
    topics: TopicStore
    isr: IsrStore
    controller: ControllerStore
    controller_claims: ClaimStore
    config: ConfigStore
    admin: AdminStore
    notifications: NotificationStore
    producer_ids: ProducerIdStore

    @classmethod
    def on(cls, client: ZkClient, clock: Clock, session_timeout: float, rng: random.Random) -> Stores:
        """Stores on ``client``; ``session_timeout`` in seconds."""
        return cls(
            client,
            BrokerStore(client, clock, session_timeout + CONFLICT_GRACE, rng),
            TopicStore(client),
            IsrStore(client),
            ControllerStore(client),
            ClaimStore(client, clock, CONTROLLER_CLAIM),
            ConfigStore(client, clock.time_ms),
            AdminStore(client),
            NotificationStore(client),
            ProducerIdStore(client),
        )

    async def prepare(self) -> None:
        """Create the persistent paths that every broker relies on."""
        await ensure_paths(self.client)

    def tell_log_dir_event(self, broker_id: int, clock: Clock) -> None:
        """Let the controller know, by a notification, that ``broker_id`` has other replicas than it was told to have.

        A lost connection only delays it: else the broker would stay leader of replicas that it cannot serve.
        """
        spawn(self._tell_log_dir_event(broker_id, clock), "notifying of log directories")

    async def _tell_log_dir_event(self, broker_id: int, clock: Clock) -> None:
        while True:
            try:
                await self.notifications.create_log_dir_event(broker_id)
                return
            except (ConnectionLostError, SessionExpiredError) as error:
                log.info("notifying of log directories is tried again: %s", error)
            await sleep(clock, _RETRY)
