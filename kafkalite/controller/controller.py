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
from kafkalite.common.events import EventKind, EventRecorder, ignore_event
from kafkalite.common.recent_times import RecentTimes
from kafkalite.common.tasks import Future, Lane
from kafkalite.common.types import TopicPartition
from kafkalite.controller import events
from kafkalite.controller.active_controller import ActiveController, ControllerConfig
from kafkalite.controller.channel_manager import (
    BrokerChannel,
    ControllerChannelManager,
    leader_and_isr_answer,
    stop_replica_answer,
)
from kafkalite.controller.controller_context import ControllerContext
from kafkalite.controller.controller_stats import ControllerStats
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
"""Seconds until the controller reads everything again after a ZooKeeper operation of an event failed."""
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
        record: EventRecorder = ignore_event,
    ) -> None:
        self.broker_id = broker_id
        self._record = record
        self._on_change = on_change
        self._stores = stores
        self._channel = channel
        self._clock = clock
        self._config = config
        self._rng = rng or random.Random()
        self._lane = Lane("controller", self._handle)
        self._queued: dict[events.Event, float] = {}
        """The events that wait, and since when."""
        self.stats = ControllerStats()
        self.handling: events.Event | None = None
        """The event that is being handled."""
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

    @property
    def context(self) -> ControllerContext | None:
        """The cluster as this broker knows it as the controller; ``None`` where it is not active."""
        return None if self._processor is None else self._processor.active.context

    @property
    def queued(self) -> int:
        """How many events wait."""
        return self._lane.depth

    def start(self) -> None:
        """Begin the election; returns at once."""
        self._put(events.Elect())

    async def stop(self) -> None:
        """Stop; an active controller releases its claim."""
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
            # The watches were lost with the connection, and events may have failed, so read everything again.
            self._put(events.Reload() if self._processor is not None else events.Elect())

    def reconfigure(self, config: ControllerConfig) -> None:
        """Use changed settings; if unclean elections become allowed, elect leaders for leaderless partitions."""
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
            # Kafka throws ControllerMovedException here, whose code this is.
            moved = error.code is ErrorCode.NOT_CONTROLLER
            return ControlResponse(ErrorCode.STALE_CONTROLLER_EPOCH if moved else error.code)

    async def elect_leaders(
        self, election: ElectionType, partitions: Sequence[TopicPartition] | None
    ) -> dict[TopicPartition, Answer]:
        """Elect leaders; ``partitions`` ``None``: of all partitions that need it, and only these are in the answer.

        Raises ``ApiError`` NOT_CONTROLLER if another broker is the controller.
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
        """The running reassignments. Raises ``ApiError`` NOT_CONTROLLER elsewhere."""
        if self._processor is None:
            raise _not_controller()
        context = self._processor.active.context
        wanted = sorted(context.reassigning if partitions is None else context.reassigning & set(partitions))
        found = ((tp, context.assignment(tp)) for tp in wanted)
        return {tp: assignment for tp, assignment in found if assignment is not None}

    async def _call(self, name: str, run: Callable[[ControllerEventProcessor], Awaitable[T]]) -> T:
        if self._processor is None or self._stopped:
            raise _not_controller()
        result: Future[T] = Future()

        async def serve() -> None:
            if self._processor is None:
                raise _not_controller()
            result.callback(await self._processor.handle(run(self._processor)))

        call = events.Call(name, serve, result.errback)
        self._calls[call] = None
        self._put(call)
        try:
            return await result
        finally:
            self._calls.pop(call, None)

    # Events

    def _put(self, event: events.Event) -> None:
        if not self._stopped and event not in self._queued:
            self._queued[event] = self._clock.monotonic()
            self._lane.put(event)

    async def _handle(self, event: events.Event) -> None:
        began = self._clock.monotonic()
        waited = began - self._queued.pop(event, began)
        self.handling = event
        try:
            if isinstance(event, events.Elect):
                await self._elect()
            elif isinstance(event, events.Reload):
                await self._reload()
            elif isinstance(event, events.Call):
                await event.run()
            elif self._processor is not None:
                await self._processor.handle(self._processor.work_for(event))
        except Exception as error:
            if isinstance(event, events.Call) and event in self._calls:
                event.fail(_answerable(error))
            self._failed(event, error)
        finally:
            self.handling = None
            self.stats.handled(event, waited, self._clock.monotonic() - began)

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
            log.warning("%r failed, everything is read again: %s", event, error)
            self._clock.call_later(_RETRY, self._recover)
        elif not isinstance(error, ApiError):
            # A defect of the controller: its context may be half updated, so it reads everything again.
            self._clock.call_later(_RETRY_AFTER_BUG, self._recover)
            raise error

    def _malformed(self, event: events.Event, why: str) -> None:
        """An operator wrote a malformed znode. Retry an election until the znodes of the claim are mended."""
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
            self._resign("another broker is the controller")
            self._put(events.Elect())
            return
        # A write that was sent before the connection was lost may still arrive. If it took effect after the states were
        # read, the context would be outdated.
        claim = await self._stores.controller_claims.renew(processor.active.claim)
        if processor is not self._processor:
            return
        log.info("controller epoch %d goes on after a lost connection", processor.active.epoch)
        self._end(processor.active)
        await self._begin(claim, processor.active.context.shutting_down)

    async def _begin(self, claim: Claim, shutting_down: Mapping[int, int]) -> None:
        channels = ControllerChannelManager(self._channel, self._clock, self._config.retry_backoff, self._on_response)
        active = ActiveController(
            self.broker_id, claim, self._stores, self._config, channels, self._put, self._rng, self._record
        )
        processor = self._processor = ControllerEventProcessor(active)
        self._epoch = claim.epoch
        self._complaint = ""
        log.info("broker %d is the controller, epoch %d", self.broker_id, claim.epoch)
        self._record(
            EventKind.CONTROLLER,
            f"broker {self.broker_id} is the controller",
            controller_epoch=claim.epoch,
            zxid=claim.zxid,
        )
        self._announce(self.broker_id)
        if self._config.auto_leader_rebalance and self._rebalance_timer is None:
            self._rebalance_timer = self._clock.call_later(_FIRST_REBALANCE, self._rebalance_due)
        await processor.take_over(shutting_down)

    def _resign(self, reason: str) -> None:
        processor = self._processor
        if processor is None:
            return
        log.info("broker %d is no longer the controller (epoch %d): %s", self.broker_id, processor.active.epoch, reason)
        self._record(
            EventKind.CONTROLLER,
            f"broker {self.broker_id} is no longer the controller",
            controller_epoch=processor.active.epoch,
            why=reason,
        )
        self._processor = None
        self._end(processor.active)
        if self._rebalance_timer is not None:
            self._rebalance_timer.cancel()
            self._rebalance_timer = None
        self._announce(-1)

    def _end(self, active: ActiveController) -> None:
        active.end()
        self.stats.unclean_elections += active.unclean_elections
        active.unclean_elections = 0

    @property
    def unclean_elections(self) -> int:
        """Partitions that this controller gave a leader which may lack records, since the broker's start."""
        current = 0 if self._processor is None else self._processor.active.unclean_elections
        return self.stats.unclean_elections + current

    @property
    def waiting_requests(self) -> dict[int, int]:
        """How many requests wait for each broker; none where this broker is not the controller."""
        return {} if self._processor is None else self._processor.active.channels.waiting

    @property
    def request_queue_times(self) -> dict[int, RecentTimes]:
        """How long requests to each broker waited to be sent; none where this broker is not the controller."""
        return {} if self._processor is None else self._processor.active.channels.queue_times

    def _announce(self, controller_id: int) -> None:
        if controller_id != self._active_id:
            self._active_id = controller_id
            self._on_change(controller_id)

    # Callbacks: they only queue events.

    def _on_controller(self, seen: WatchEvent) -> None:
        if seen.type is EventType.LOST:
            return
        if seen.type is EventType.DELETED and self._processor is None:
            self._record(
                EventKind.SESSION, f"{CONTROLLER} of broker {self._active_id} is gone, because its session closed"
            )
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
