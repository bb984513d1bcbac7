"""All of ZooKeeper that a broker reads and writes, on one client.

Answers to: ``kafka.zk.KafkaZkClient``, cut by subtree. Deterministic.
"""

from __future__ import annotations

import logging
import random

from kafkalite.common.clock import Clock
from kafkalite.common.tasks import sleep, spawn
from kafkalite.zk.stores.brokers import BrokerStore, ProducerIdStore
from kafkalite.zk.stores.claims import ClaimStore
from kafkalite.zk.stores.config import ConfigStore
from kafkalite.zk.stores.controller import AdminStore, ControllerStore, NotificationStore
from kafkalite.zk.stores.tokens import TokenStore
from kafkalite.zk.stores.topics import IsrStore, TopicStore
from kafkalite.zk.zk_client import ConnectionLostError, SessionExpiredError, ZkClient
from kafkalite.zk.znode_acls import ZnodeAcls
from kafkalite.zk.znodes.claims import CONTROLLER_CLAIM

log = logging.getLogger(__name__)

_RETRY = 1.0
"""Seconds until a notification that a lost connection held up is tried again."""

CONFLICT_GRACE = 2.0
"""Seconds past the session timeout that a registration waits for the znode of a dead incarnation to go."""


class Stores:
    """One store for each subtree, all on ``client``. ``session_timeout`` in seconds; ``acls`` where brokers protect the
    tree (``zookeeper.set.acl``).
    """

    def __init__(
        self,
        client: ZkClient,
        clock: Clock,
        session_timeout: float,
        rng: random.Random,
        acls: ZnodeAcls | None = None,
    ) -> None:
        self.client = client
        self.znode_acls = acls
        self.brokers = BrokerStore(client, clock, session_timeout + CONFLICT_GRACE, rng)
        self.topics = TopicStore(client)
        self.isr = IsrStore(client)
        self.controller = ControllerStore(client)
        self.controller_claims = ClaimStore(client, clock, CONTROLLER_CLAIM)
        self.config = ConfigStore(client, clock.time_ms)
        self.admin = AdminStore(client)
        self.notifications = NotificationStore(client)
        self.producer_ids = ProducerIdStore(client)
        self.tokens = TokenStore(client, clock.time_ms)
        self._clock = clock

    def tell_log_dir_event(self, broker_id: int) -> None:
        """Notify the controller that log directories of ``broker_id`` failed or came back.

        A lost connection only delays this, because otherwise the broker would stay leader of replicas that it cannot
        serve.
        """
        spawn(self._tell_log_dir_event(broker_id), "notifying of log directories")

    async def _tell_log_dir_event(self, broker_id: int) -> None:
        while True:
            try:
                await self.notifications.create_log_dir_event(broker_id)
                return
            except (ConnectionLostError, SessionExpiredError) as error:
                log.info("notifying of log directories is tried again: %s", error)
            await sleep(self._clock, _RETRY)
