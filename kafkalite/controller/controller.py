"""The controller: one broker of the cluster elects the leaders of all partitions.

Answers to: ``kafka.controller.KafkaController`` (election, event loop) and ``ControllerEventManager``. Reactor shell.

Every broker has a Controller; the one that creates ``/controller`` (and raises ``/controller_epoch`` in the same
transaction) is active. Callbacks of watches, timers and brokers only queue events; one lane handles one event
completely before the next. The controller resigns as soon as its ZooKeeper session ends, and at the first write whose
check of the epoch fails.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from kafkalite.cluster.control import (
    ControlledShutdownRequest,
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
)
from kafkalite.cluster.model import Broker, PartitionAssignment
from kafkalite.common.clock import Clock, Timer
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import Future, Lane
from kafkalite.common.types import TopicPartition
from kafkalite.controller import events
from kafkalite.controller.active_controller import ActiveController
from kafkalite.controller.channel_manager import (
    BrokerChannel,
    ControllerChannelManager,
    leader_and_isr_answer,
    stop_replica_answer,
)
from kafkalite.controller.controller_config import ControllerConfig
from kafkalite.controller.event_processor import ControllerEventProcessor
from kafkalite.controller.replica_leader_elections import Answer, ElectionType
from kafkalite.zk.stores.claims import Claim, ClaimLostError
from kafkalite.zk.stores.stores import Stores
from kafkalite.zk.zk_client import EventType, SessionExpiredError, SessionState, WatchEvent, ZkError
from kafkalite.zk.znodes.claims import CLUSTER, CONTROLLER, CONTROLLER_EPOCH
from kafkalite.zk.znodes.codec import MalformedZnodeError

log = logging.getLogger(__name__)
T = TypeVar("T")

_RETRY = 1.0
"""Seconds until everything is read anew after an event whose ZooKeeper operation failed."""
_RETRY_AFTER_BUG = 30.0
_MEND_CLAIM = f"delete {CONTROLLER}: the brokers elect at once"
_MEND_EPOCH = (
    f"write into {CONTROLLER_EPOCH} a number not below the highest controller epoch in the brokers' logs (do not "
    "delete it: brokers refuse a controller whose epoch is lower than before)"
)
_FIRST_REBALANCE = 5.0
"""Seconds from becoming controller to the first check of the balance of leaderships."""


class Controller:
    """Runs in every broker, active in one. ``on_change`` is called with the active controller's id, -1 without one."""

    def __init__(
        self,
        broker_id: int,
        stores: Stores,
        channel: BrokerChannel,
        clock: Clock,
        config: ControllerConfig,
        on_change: Callable[[int], None],
        rng: random.Random | None = None,
    ) -> None:
        self.broker_id = broker_id
        self._on_change = on_change
        self._stores = stores
        self._channel = channel
        self._clock = clock
        self._config = config
        self._rng = rng or random.Random()
        self._lane = Lane("controller", self._handle)
        self._queued: set[events.Event] = set()
        self._calls: dict[events.Call, None] = {}
        self._processor: ControllerEventProcessor | None = None
        self._epoch = 0
        self._active_id = -1
        self._sessions = 0
        self._complaint = ""
        self._rebalance_timer: Timer | None = None
        self._stopped = False

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        return self._processor is not None

    @property
    def epoch(self) -> int:
        """The controller epoch of our last claim, 0 before the first."""
        return self._epoch

    def start(self) -> None:
        """Begin the election; returns at once."""
        self._put(events.Elect())

    async def stop(self) -> None:
        """Stop; an active controller gives its claim up."""
        self._stopped = True
        processor = self._processor
        self._resign("this broker stops")
        self._lane.close()
        for call in list(self._calls):
            call.fail(_not_controller())
        if processor is not None:
            try:
                await self._stores.controller_claims.release(processor.active.claim)
            except ZkError as error:
                log.info("controllership is not given up, it ends with the session: %s", error)

    def on_session(self, state: SessionState) -> None:
        """The ZooKeeper client's session changed."""
        if state is SessionState.EXPIRED:
            self._sessions += 1
            self._resign("our ZooKeeper session expired")
            self._announce(-1)
        elif state is SessionState.CONNECTED:
            # The connection took its watches with it, and events may have failed: read everything anew.
            self._put(events.Reload() if self._processor is not None else events.Elect())

    def reconfigure(self, config: ControllerConfig) -> None:
        """Take over changed settings; where unclean elections become allowed, leaderless partitions are elected."""
        allowed = config.unclean_leader_election and not self._config.unclean_leader_election
        self._config = config
        if self._processor is not None:
            self._processor.active.config = config
        if allowed:
            self.unclean_election_allowed()

    def unclean_election_allowed(self) -> None:
        """A topic's configuration, or the brokers', allows unclean elections: elect for leaderless partitions."""
        self._put(events.UncleanElectionAllowed())

    # Requests of APIs and brokers

    async def controlled_shutdown(self, request: ControlledShutdownRequest) -> ControlResponse:
        """Move leaderships off a broker that shuts down; the answer lists the partitions that it still leads."""
        try:
            return await self._call(
                "controlled shutdown", lambda processor: processor.brokers.controlled_shutdown(request)
            )
        except ApiError as error:
            return ControlResponse(error.code)

    async def elect_leaders(
        self, election: ElectionType, partitions: Sequence[TopicPartition] | None
    ) -> dict[TopicPartition, Answer]:
        """Elect leaders, everywhere where ``partitions`` is ``None`` (the answer then names those that needed it).

        Raises ``ApiError`` NOT_CONTROLLER where another broker is the controller.
        """
        return await self._call("leader election", lambda processor: processor.leadership.elect(election, partitions))

    async def alter_reassignments(
        self, reassignments: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, Answer]:
        """Begin, change or (``None``) cancel reassignments. Raises ``ApiError`` NOT_CONTROLLER elsewhere."""
        return await self._call("reassignment", lambda processor: processor.reassignments.alter(reassignments))

    def list_reassignments(
        self, partitions: Sequence[TopicPartition] | None
    ) -> dict[TopicPartition, PartitionAssignment]:
        """The reassignments under way. Raises ``ApiError`` NOT_CONTROLLER elsewhere."""
        if self._processor is None:
            raise _not_controller()
        context = self._processor.active.context
        wanted = sorted(context.reassigning if partitions is None else context.reassigning & set(partitions))
        found = ((topic_partition, context.assignment(topic_partition)) for topic_partition in wanted)
        return {topic_partition: assignment for topic_partition, assignment in found if assignment is not None}

    async def _call(self, name: str, run: Callable[[ControllerEventProcessor], Awaitable[T]]) -> T:
        if self._processor is None or self._stopped:
            raise _not_controller()
        result: Future[T] = Future()
        call = events.Call(name, run, result.callback, result.errback)
        self._calls[call] = None
        self._put(call)
        try:
            return await result
        finally:
            self._calls.pop(call, None)

    # Events

    def _put(self, event: events.Event) -> None:
        if not self._stopped and event not in self._queued:
            self._queued.add(event)
            self._lane.put(event)

    async def _handle(self, event: events.Event) -> None:
        self._queued.discard(event)
        try:
            if isinstance(event, events.Elect):
                await self._elect()
            elif isinstance(event, events.Reload):
                await self._reload()
            elif self._processor is not None:
                result = await self._processor.handle(event)
                if isinstance(event, events.Call):
                    event.done(result)
            elif isinstance(event, events.Call):
                event.fail(_not_controller())
        except Exception as error:
            if isinstance(event, events.Call) and event in self._calls:
                event.fail(_answerable(error))
            self._failed(event, error)

    def _failed(self, event: events.Event, error: Exception) -> None:
        if isinstance(error, ClaimLostError):
            self._resign(str(error))
            self._put(events.Elect())
        elif isinstance(error, SessionExpiredError):
            # The next session begins with an election.
            self._resign(str(error))
        elif isinstance(error, MalformedZnodeError):
            self._malformed(event, str(error))
        elif isinstance(error, ZkError):
            log.warning("%r failed, everything is read anew: %s", event, error)
            self._clock.call_later(_RETRY, self._recover)
        elif not isinstance(error, ApiError):
            # A defect of the controller: its context may be half updated, so it reads everything again.
            self._clock.call_later(_RETRY_AFTER_BUG, self._recover)
            raise error

    def _malformed(self, event: events.Event, why: str) -> None:
        """A malformed znode, written by hand. An election is tried again until the znodes of the claim are mended."""
        if not isinstance(event, (events.Elect, events.Reload)):
            log.error("%r is ignored until the znode is mended: %s", event, why)
            return
        if why != self._complaint:
            self._complaint = why
            mend = _MEND_EPOCH if why.startswith(CONTROLLER_EPOCH) else _MEND_CLAIM
            log.error("no controller can be elected until this znode is mended: %s; %s", why, mend)
        self._clock.call_later(_RETRY, self._recover)

    def _recover(self) -> None:
        self._put(events.Reload() if self._processor is not None else events.Elect())

    async def _elect(self) -> None:
        sessions = self._sessions
        while not self._stopped:
            current = await self._stores.controller_claims.holder(CLUSTER, self._on_controller)
            if sessions != self._sessions:
                return
            if self._processor is not None:
                if current == self.broker_id:
                    return
                self._resign("the claim is gone from ZooKeeper")
            if current is not None and current != self.broker_id:
                self._announce(current)
                return
            claim = await self._stores.controller_claims.claim(CLUSTER, self.broker_id)
            if sessions != self._sessions or self._stopped:
                # The claim ended with its session; a broker that stops is about to end its session.
                return
            if claim is not None:
                await self._begin(claim, {})
                return
            if current is not None:
                # It is the claim of our own former session: the watch sees its deletion.
                log.info("the claim of our former session still stands")
                return

    async def _reload(self) -> None:
        processor = self._processor
        if processor is None:
            await self._elect()
            return
        current = await self._stores.controller_claims.holder(CLUSTER, self._on_controller)
        if processor is not self._processor:
            return
        if current != self.broker_id:
            self._resign("somebody else is the controller")
            self._put(events.Elect())
            return
        # A write that was sent before the connection was lost may still arrive. If it took effect after the states were
        # read, the context would be outdated.
        claim = await self._stores.controller_claims.renew(processor.active.claim)
        if processor is not self._processor:
            return
        log.info("controller epoch %d goes on after a lost connection", processor.active.epoch)
        processor.active.end()
        await self._begin(claim, processor.active.context.shutting_down)

    async def _begin(self, claim: Claim, shutting_down: Mapping[int, int]) -> None:
        channels = ControllerChannelManager(self._channel, self._clock, self._config.retry_backoff, self._on_response)
        active = ActiveController(self.broker_id, claim, self._stores, self._config, channels, self._put, self._rng)
        processor = self._processor = ControllerEventProcessor(active)
        self._epoch = claim.epoch
        self._complaint = ""
        log.info("broker %d is the controller, epoch %d", self.broker_id, claim.epoch)
        self._announce(self.broker_id)
        if self._config.auto_leader_rebalance and self._rebalance_timer is None:
            self._rebalance_timer = self._clock.call_later(_FIRST_REBALANCE, self._rebalance_due)
        await processor.take_over(shutting_down)

    def _resign(self, reason: str) -> None:
        processor = self._processor
        if processor is None:
            return
        log.info("broker %d is no longer the controller (epoch %d): %s", self.broker_id, processor.active.epoch, reason)
        self._processor = None
        processor.active.end()
        if self._rebalance_timer is not None:
            self._rebalance_timer.cancel()
            self._rebalance_timer = None
        self._announce(-1)

    def _announce(self, controller_id: int) -> None:
        if controller_id != self._active_id:
            self._active_id = controller_id
            self._on_change(controller_id)

    # Callbacks: they only queue events.

    def _on_controller(self, seen: WatchEvent) -> None:
        if seen.type is EventType.LOST:
            return
        if seen.type is EventType.DELETED and self._processor is None:
            self._announce(-1)
        self._put(events.Elect())

    def _rebalance_due(self) -> None:
        self._rebalance_timer = self._clock.call_later(
            self._config.leader_imbalance_check_interval, self._rebalance_due
        )
        self._put(events.AutoRebalance())

    def _on_response(self, broker: Broker, request: ControlRequest, response: ControlResponse) -> None:
        processor = self._processor
        if processor is None:
            return
        if response.error is not ErrorCode.NONE:
            log.warning("broker %d answers %s with %s", broker.id, type(request).__name__, response.error.name)
        if response.error is ErrorCode.STALE_CONTROLLER_EPOCH:
            self._put(events.Elect())
        answer: events.Event | None = None
        if isinstance(request, LeaderAndIsrRequest):
            answer = leader_and_isr_answer(broker, request, response, processor.active.context.offline_dirs)
        elif isinstance(request, StopReplicaRequest):
            answer = stop_replica_answer(broker, request, response)
        if answer is not None:
            self._put(answer)


def _not_controller() -> ApiError:
    return ApiError(ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")


def _answerable(error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, (ClaimLostError, SessionExpiredError)):
        return _not_controller()
    if isinstance(error, ZkError):
        return ApiError(ErrorCode.REQUEST_TIMED_OUT, f"The outcome is unknown: {error}")
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
