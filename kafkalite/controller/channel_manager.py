"""The controller's channels: for each broker one queue of requests, and what the broker's responses mean.

Answers to: ``kafka.controller.{ControllerChannelManager,ControllerBrokerStateInfo,RequestSendThread}`` and
``KafkaController.{processLeaderAndIsrResponseReceived,processTopicDeletionStopReplicaResponseReceived}`` (how it
reads the response). Reactor shell.

A broker that does not answer holds up no other broker. What waits for it is merged, where Kafka's queue grows without
bound: a later value for a partition replaces the one that waits, so at most three requests wait, LeaderAndIsr,
UpdateMetadata and StopReplica; a long one is sent in several. Topic ids are part of the keys: a value for a deleted
topic is not replaced by one for a later topic of the same name.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final, Protocol, TypeVar

from kafkalite.cluster.control import (
    EPOCH_DURING_DELETE,
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkalite.cluster.metadata import LEADER_DURING_DELETE
from kafkalite.cluster.model import Broker, LeaderAndIsr
from kafkalite.common.clock import Clock
from kafkalite.common.errors import ErrorCode
from kafkalite.common.recent_times import RecentTimes
from kafkalite.common.tasks import sleep, spawn
from kafkalite.common.types import TopicPartition
from kafkalite.controller.events import LeaderAndIsrAnswered, StopReplicaAnswered

log = logging.getLogger(__name__)
T = TypeVar("T")
MOST_PARTITIONS: Final = 5_000
"""Partitions in one request, which then has 700 KB: a broker serves no client while it reads one."""
OnResponse = Callable[[Broker, ControlRequest, ControlResponse], None]
_Key = tuple[TopicPartition, uuid.UUID]
_GONE = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_FENCED = (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH)


class BrokerChannel(Protocol):
    """The connection to the control-plane listeners of all brokers, this one included."""

    def send(self, broker: Broker, request: ControlRequest) -> Awaitable[ControlResponse]:
        """Deliver ``request``. Fails with any exception when the broker cannot be reached or does not answer."""


class ControllerChannelManager:
    """Delivers requests to each broker in order, and repeats each until the broker (of the same epoch) has answered.

    One request at a time is outstanding to a broker; those that wait behind it are merged. ``on_response`` is called
    once for each request that was answered; after :meth:`close` for none.
    """

    def __init__(self, channel: BrokerChannel, clock: Clock, backoff: float, on_response: OnResponse) -> None:
        self._channel = channel
        self._clock = clock
        self._backoff = backoff
        self._on_response = on_response
        self._queues: dict[int, _BrokerQueue] = {}
        self._closed = False

    def add_broker(self, broker: Broker) -> None:
        """A broker registered: requests for its former incarnation are dropped."""
        self.remove_broker(broker.id)
        if not self._closed:
            self._queues[broker.id] = _BrokerQueue(broker, self._channel, self._clock, self._backoff, self._on_response)

    def update_broker(self, broker: Broker) -> None:
        """The same incarnation of a broker has other endpoints from now on."""
        queue = self._queues.get(broker.id)
        if queue is not None:
            queue.broker = broker

    def remove_broker(self, broker_id: int) -> None:
        """The broker's registration is gone: drop the requests that wait for it."""
        queue = self._queues.pop(broker_id, None)
        if queue is not None:
            queue.close()

    def send(self, broker: Broker, request: ControlRequest) -> None:
        """Queue ``request``; it is dropped if this incarnation of the broker is no longer registered."""
        queue = self._queues.get(broker.id)
        if queue is not None and queue.broker.epoch == broker.epoch:
            queue.put(request)

    @property
    def waiting(self) -> dict[int, int]:
        """How many requests wait for each broker, the outstanding one not counted."""
        return {broker_id: queue.waiting for broker_id, queue in self._queues.items()}

    @property
    def queue_times(self) -> dict[int, RecentTimes]:
        """How long the requests to each broker waited until they were sent."""
        return {broker_id: queue.times for broker_id, queue in self._queues.items()}

    def close(self) -> None:
        """This broker is no longer the controller: drop every request."""
        self._closed = True
        for broker_id in list(self._queues):
            self.remove_broker(broker_id)


class _BrokerQueue:
    def __init__(
        self, broker: Broker, channel: BrokerChannel, clock: Clock, backoff: float, on_response: OnResponse
    ) -> None:
        self.broker = broker
        self.times = RecentTimes()
        self._since: dict[type[ControlRequest], float] = {}
        """Since when a request of each kind waits, the first of those that are merged."""
        self._pending = PendingRequests()
        self._channel = channel
        self._clock = clock
        self._backoff = backoff
        self._on_response = on_response
        self._running = False
        self._closed = False

    @property
    def waiting(self) -> int:
        return len(self._pending)

    def put(self, request: ControlRequest) -> None:
        self._since.setdefault(type(request), self._clock.monotonic())
        self._pending.put(request)
        if not self._running:
            self._running = True
            spawn(self._drain(), f"requests to broker {self.broker.id}")

    def close(self) -> None:
        self._closed = True
        self._pending.clear()

    async def _drain(self) -> None:
        while (request := self._pending.take()) is not None:
            began = self._clock.monotonic()
            # The further parts of a long request have no time: the first one stands for them.
            self.times.add(began - self._since.pop(type(request), began))
            response = await self._deliver(request)
            if response is None:
                break
            self._on_response(self.broker, request, response)
        self._running = False

    async def _deliver(self, request: ControlRequest) -> ControlResponse | None:
        """The broker's response; retries until it comes. ``None`` if the queue was closed meanwhile."""
        failures = 0
        while True:
            try:
                response = await self._channel.send(self.broker, request)
            except Exception as error:
                failures += 1
                level = logging.WARNING if failures == 1 else logging.DEBUG
                if not self._closed:
                    log.log(level, "%s to broker %d failed: %s", type(request).__name__, self.broker.id, error)
            else:
                # A broker that refuses the epoch has registered again, and this queue is about to be closed; or it does
                # not know its own registration yet, because the controller's watch was faster than its answer.
                if self._closed or response.error is not ErrorCode.STALE_BROKER_EPOCH:
                    return None if self._closed else response
            if not await self._pause():
                return None

    async def _pause(self) -> bool:
        """Wait before the next attempt. Returns ``False`` if the queue was closed meanwhile."""
        if not self._closed:
            await sleep(self._clock, self._backoff)
        return not self._closed


class PendingRequests:
    """The requests of one controller epoch that wait for one incarnation of a broker, merged."""

    def __init__(self) -> None:
        self._states: dict[_Key, LeaderAndIsr] = {}
        self._metadata: dict[_Key, LeaderAndIsr] = {}
        self._stops: dict[_Key, StopReplicaPartitionState] = {}
        self._leader_and_isr: LeaderAndIsrRequest | None = None
        self._update_metadata: UpdateMetadataRequest | None = None
        self._stop_replica: StopReplicaRequest | None = None

    def __len__(self) -> int:
        return sum(request is not None for request in (self._leader_and_isr, self._update_metadata, self._stop_replica))

    def put(self, request: ControlRequest) -> None:
        """Merge ``request``: for each replica the later of LeaderAndIsr and StopReplica counts."""
        if isinstance(request, LeaderAndIsrRequest):
            self._leader_and_isr = request
            for state in request.states:
                key = (state.topic_partition, state.topic_id)
                self._stops.pop(key, None)
                _put_last(self._states, key, state)
        elif isinstance(request, UpdateMetadataRequest):
            self._update_metadata = request
            for state in request.states:
                if state.leader == LEADER_DURING_DELETE:
                    for key in [key for key in self._metadata if key[1] == state.topic_id]:
                        del self._metadata[key]
                _put_last(self._metadata, (state.topic_partition, state.topic_id), state)
        elif isinstance(request, StopReplicaRequest):
            self._stop_replica = request
            for stop in request.partitions:
                key = (stop.topic_partition, stop.topic_id)
                self._states.pop(key, None)
                _put_last(self._stops, key, stop)
        else:
            raise TypeError(f"{type(request).__name__} is not for a broker's queue")

    def take(self) -> ControlRequest | None:
        """The next request, ``None`` if no request waits. It is about :data:`MOST_PARTITIONS` at most."""
        request: ControlRequest | None = None
        if self._leader_and_isr is not None:
            request = replace(self._leader_and_isr, states=_take_first(self._states))
            self._leader_and_isr = self._leader_and_isr if self._states else None
        elif self._update_metadata is not None:
            request = replace(self._update_metadata, states=_take_first(self._metadata))
            self._update_metadata = self._update_metadata if self._metadata else None
        elif self._stop_replica is not None:
            request = replace(self._stop_replica, partitions=_take_first(self._stops))
            self._stop_replica = self._stop_replica if self._stops else None
        return request

    def clear(self) -> None:
        """Drop the requests that wait."""
        while self.take() is not None:
            pass


def _take_first(values: dict[_Key, T]) -> tuple[T, ...]:
    """Remove the first :data:`MOST_PARTITIONS` values."""
    return tuple(values.pop(key) for key in list(islice(values, MOST_PARTITIONS)))


def _put_last(values: dict[_Key, T], key: _Key, value: T) -> None:
    """Put ``value`` at the end, in place of an earlier value of ``key``."""
    values.pop(key, None)
    values[key] = value


def leader_and_isr_answer(
    broker: Broker,
    request: LeaderAndIsrRequest,
    response: ControlResponse,
    offline_dirs: Mapping[int, Collection[TopicPartition]],
) -> LeaderAndIsrAnswered | None:
    """The replicas of ``request`` that are newly offline, or online again; ``None`` if there are none."""
    if response.error is not ErrorCode.NONE:
        return None
    errors = dict(response.partitions)
    known = offline_dirs.get(broker.id, ())
    offline = tuple(tp for tp, error in errors.items() if error is ErrorCode.KAFKA_STORAGE_ERROR and tp not in known)
    online: tuple[TopicPartition, ...] = ()
    if known:
        asked = (state.topic_partition for state in request.states)
        online = tuple(tp for tp in asked if tp in known and errors.get(tp, ErrorCode.NONE) is ErrorCode.NONE)
    if not offline and not online:
        return None
    return LeaderAndIsrAnswered(broker.id, broker.epoch, offline, online)


def stop_replica_answer(
    broker: Broker, request: StopReplicaRequest, response: ControlResponse
) -> StopReplicaAnswered | None:
    """The deleted logs of topics that are being deleted; ``None`` if the request deletes no such log.

    The response to a fenced request is ignored: the broker registered again, or this is no longer the controller,
    and either is an event of its own.
    """
    dying = [p.topic_partition for p in request.partitions if p.delete and p.leader_epoch == EPOCH_DURING_DELETE]
    if not dying or response.error in _FENCED:
        return None
    errors = dict(response.partitions)
    deleted = tuple(tp for tp in dying if errors.get(tp, response.error) in _GONE)
    failed = tuple(tp for tp in dying if errors.get(tp, response.error) not in _GONE)
    return StopReplicaAnswered(broker.id, broker.epoch, deleted, failed)
