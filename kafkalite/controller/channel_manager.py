"""One queue a broker, so that a broker that does not answer holds up nobody else.

Answers to: ``kafka.controller.{ControllerChannelManager,RequestSendThread}``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkalite.cluster.control import ControlRequest, ControlResponse
from kafkalite.cluster.model import Broker
from kafkalite.common.clock import Clock
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future, spawn
from kafkalite.controller.pending_requests import PendingRequests
from kafkalite.controller.ports import BrokerChannel

log = logging.getLogger(__name__)
OnResponse = Callable[[Broker, ControlRequest, ControlResponse], None]


class ControllerChannelManager:
    """Delivers requests in order to each broker, again and again while that broker (of the same epoch) is there and
    has not taken them.

    One request at a time is under way to a broker; those that wait behind it are merged. ``on_response`` is called
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
        """A broker came, or came back: what was meant for its former incarnation is dropped."""
        self.remove_broker(broker.id)
        if not self._closed:
            self._queues[broker.id] = _BrokerQueue(broker, self._channel, self._clock, self._backoff, self._on_response)

    def update_broker(self, broker: Broker) -> None:
        """The same incarnation of a broker is reached elsewhere from now on."""
        queue = self._queues.get(broker.id)
        if queue is not None:
            queue.broker = broker

    def remove_broker(self, broker_id: int) -> None:
        """The broker went: drop what waits for it."""
        queue = self._queues.pop(broker_id, None)
        if queue is not None:
            queue.close()

    def send(self, broker: Broker, request: ControlRequest) -> None:
        """Queue ``request``; dropped where the broker is no longer there."""
        queue = self._queues.get(broker.id)
        if queue is not None and queue.broker.epoch == broker.epoch:
            queue.put(request)

    def depth(self, broker_id: int) -> int:
        """How many requests a broker has not answered yet."""
        queue = self._queues.get(broker_id)
        return 0 if queue is None else queue.depth

    def close(self) -> None:
        """We are not the controller any more: drop everything."""
        self._closed = True
        for broker_id in list(self._queues):
            self.remove_broker(broker_id)


class _BrokerQueue:
    def __init__(
        self, broker: Broker, channel: BrokerChannel, clock: Clock, backoff: float, on_response: OnResponse
    ) -> None:
        self.broker = broker
        self._outbox = PendingRequests()
        self._channel = channel
        self._clock = clock
        self._backoff = backoff
        self._on_response = on_response
        self._running = False
        self._closed = False

    @property
    def depth(self) -> int:
        return len(self._outbox) + self._running

    def put(self, request: ControlRequest) -> None:
        self._outbox.put(request)
        if not self._running:
            self._running = True
            spawn(self._drain(), f"requests to broker {self.broker.id}")

    def close(self) -> None:
        self._closed = True
        self._outbox.clear()

    async def _drain(self) -> None:
        while (request := self._outbox.take()) is not None:
            response = await self._deliver(request)
            if response is None:
                break
            self._on_response(self.broker, request, response)
        self._running = False

    async def _deliver(self, request: ControlRequest) -> ControlResponse | None:
        """The broker's answer, however many attempts it takes; ``None`` where the queue was closed meanwhile."""
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
                # Where the broker refuses the epoch, it has registered anew, and this queue is about to be closed; or
                # it has not heard of its registration yet, because the controller's watch was faster.
                if self._closed or response.error is not ErrorCode.STALE_BROKER_EPOCH:
                    return None if self._closed else response
            if not await self._pause():
                return None

    async def _pause(self) -> bool:
        """Wait before the next attempt; whether there is to be one."""
        if not self._closed:
            over: Future[None] = Future()
            self._clock.call_later(self._backoff, over.callback, None)
            await over
        return not self._closed
