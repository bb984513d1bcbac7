"""The active controller: its settings, and its state during one controller epoch, from the claim to the resignation.

Answers to: the state of ``kafka.controller.KafkaController`` that ``onControllerResignation`` clears, and the
controller's keys of ``kafka.server.KafkaConfig``. Reactor shell.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafkalite.common.events import EventRecorder, ignore_event
from kafkalite.controller.channel_manager import ControllerChannelManager
from kafkalite.controller.controller_context import ControllerContext
from kafkalite.controller.events import Event, PartitionModifications, ReassignmentProgress
from kafkalite.controller.request_batch import ControllerBrokerRequestBatch
from kafkalite.zk.stores.claims import Claim, ClaimLostError, write_claimed, write_each_claimed
from kafkalite.zk.stores.fenced_write import OpResult
from kafkalite.zk.stores.stores import Stores
from kafkalite.zk.zk_client import EventType, Op, Watch, WatchEvent, ZkError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """The controller's settings; times in seconds.

    ``unclean_leader_election`` is the broker's default (``unclean.leader.election.enable``), which a topic may
    override; the others are Kafka's ``auto.leader.rebalance.enable``, ``leader.imbalance.check.interval.seconds``,
    ``leader.imbalance.per.broker.percentage``, ``delete.topic.enable`` and ``controlled.shutdown.enable``'s
    counterpart. ``retry_backoff`` is the pause before a request to a live broker is sent again.
    """

    unclean_leader_election: bool = False
    auto_leader_rebalance: bool = True
    leader_imbalance_check_interval: float = 300.0
    leader_imbalance_per_broker_percentage: int = 10
    delete_topic: bool = True
    retry_backoff: float = 0.1


class ActiveController:
    """Claim, context, stores, request batch and channels of one controller epoch.

    ``put`` queues an event for the controller's lane.
    """

    def __init__(
        self,
        broker_id: int,
        claim: Claim,
        stores: Stores,
        config: ControllerConfig,
        channels: ControllerChannelManager,
        put: Callable[[Event], None],
        rng: random.Random,
        record: EventRecorder = ignore_event,
    ) -> None:
        self.broker_id = broker_id
        self.claim = claim
        self.stores = stores
        self.config = config
        self.channels = channels
        self.rng = rng
        self.record = record
        self.context = ControllerContext()
        self.batch = ControllerBrokerRequestBatch(self.context, broker_id, claim.epoch)
        self.over = False
        self.unclean_elections = 0
        self._put = put
        self._watches: dict[Event, Watch] = {}

    @property
    def epoch(self) -> int:
        """The controller epoch."""
        return self.claim.epoch

    def check(self) -> None:
        """Raise :class:`ClaimLostError` once this broker has resigned: it must not write or send any more."""
        if self.over:
            raise ClaimLostError("/controller", f"the term of controller epoch {self.claim.epoch} is over")

    def end(self) -> None:
        """Resign: the event that is being handled fails at its next write, and nothing more is sent."""
        self.over = True
        self.channels.close()

    def put(self, event: Event) -> None:
        """Queue an event, unless this broker has resigned."""
        if not self.over:
            self._put(event)

    async def commit(self, groups: Sequence[Sequence[Op]]) -> list[list[OpResult] | ZkError]:
        """Write under the claim; refused groups are errors in their place. Raises ``ClaimLostError``."""
        self.check()
        results = await write_claimed(self.stores.client, self.claim, groups)
        self.check()
        return results

    async def commit_each(self, ops: Sequence[Op]) -> None:
        """Write ``ops``, each by itself; operations on znodes that do not exist (any more) are skipped."""
        self.check()
        await write_each_claimed(self.stores.client, self.claim, ops)
        self.check()

    def flush(self) -> None:
        """Send the requests that the batch holds."""
        for broker, request in self.batch.take():
            self.channels.send(broker, request)

    # Watches: their callbacks only queue events.

    def watch(self, event: Event) -> Watch:
        """A watch that queues ``event``. A lost connection queues nothing, because all is read again after it."""
        known = self._watches.get(event)
        if known is not None:
            return known

        def fired(seen: WatchEvent) -> None:
            if seen.type is not EventType.LOST:
                self.put(event)

        # The same callable for the same event, because a second watch would fire beside the first.
        return self._watches.setdefault(event, fired)

    def on_topic(self, seen: WatchEvent) -> None:
        """Watch of an assignment znode."""
        if seen.type is EventType.CHANGED or seen.type is EventType.DELETED:
            self.put(PartitionModifications(seen.path.rpartition("/")[2]))

    def on_state(self, seen: WatchEvent) -> None:
        """Watch of the state znode of a partition that is being reassigned."""
        if seen.type is EventType.CHANGED:
            parts = seen.path.split("/")
            self.put(ReassignmentProgress(parts[-4], int(parts[-2])))
