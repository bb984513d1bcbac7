"""One term of office: what belongs to a controller from its claim to its resignation.

Answers to: the state of ``kafka.controller.KafkaController`` that ``onControllerResignation`` clears. Reactor shell.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence

from kafkalite.controller.channel_manager import ControllerChannelManager
from kafkalite.controller.controller_context import ControllerContext
from kafkalite.controller.events import Event, PartitionModifications, ReassignmentProgress
from kafkalite.controller.ports import ControllerConfig
from kafkalite.controller.request_batch import ControllerBrokerRequestBatch
from kafkalite.zk.stores.claims import Claim, ClaimLostError, write_claimed
from kafkalite.zk.stores.fenced_write import OpResult
from kafkalite.zk.stores.stores import Stores
from kafkalite.zk.zk_client import EventType, NoNodeError, Op, Watch, WatchEvent, ZkError

log = logging.getLogger(__name__)


class ActiveController:
    """Claim, context, stores, batch and sender of one term. ``put`` queues an event for the controller's lane."""

    def __init__(
        self,
        broker_id: int,
        claim: Claim,
        stores: Stores,
        config: ControllerConfig,
        sender: ControllerChannelManager,
        put: Callable[[Event], None],
        rng: random.Random,
    ) -> None:
        self.broker_id = broker_id
        self.claim = claim
        self.stores = stores
        self.config = config
        self.sender = sender
        self.rng = rng
        self.context = ControllerContext()
        self.batch = ControllerBrokerRequestBatch(self.context, broker_id, claim.epoch)
        self.over = False
        self._put = put
        self._watches: dict[Event, Watch] = {}

    @property
    def epoch(self) -> int:
        """The controller epoch."""
        return self.claim.epoch

    def check(self) -> None:
        """Raise :class:`ClaimLostError` where the term is over: nothing may be written or sent any more."""
        if self.over:
            raise ClaimLostError("/controller", f"the term of controller epoch {self.claim.epoch} is over")

    def end(self) -> None:
        """Resign: what is under way fails at its next write, and nothing more is sent."""
        self.over = True
        self.sender.close()

    def put(self, event: Event) -> None:
        """Queue an event, unless the term is over."""
        if not self.over:
            self._put(event)

    async def commit(self, groups: Sequence[Sequence[Op]]) -> list[list[OpResult] | ZkError]:
        """Write, fenced by the claim; refused groups are errors in their place. Raises ``ClaimLostError``."""
        self.check()
        results = await write_claimed(self.stores.client, self.claim, groups)
        self.check()
        return results

    async def commit_all(self, ops: Sequence[Op]) -> None:
        """Write ``ops``, each for itself; znodes that are not there (any more) do not matter."""
        for result in await self.commit([[op] for op in ops]):
            if isinstance(result, ZkError) and not isinstance(result, NoNodeError):
                raise result

    def flush(self) -> None:
        """Send what the batch holds."""
        for broker, request in self.batch.take():
            self.sender.send(broker, request)

    # Watches: a callback only queues.

    def watch(self, event: Event) -> Watch:
        """A watch that queues ``event``. A lost connection queues nothing: the whole term begins anew after it."""

        known = self._watches.get(event)
        if known is not None:
            return known

        def fired(seen: WatchEvent) -> None:
            if seen.type is not EventType.LOST:
                self.put(event)

        # Always the same callable for the same event, so that watching twice is watching once.
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
