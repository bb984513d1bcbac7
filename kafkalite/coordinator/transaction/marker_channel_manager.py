"""Sends transaction markers: collects those of all ending transactions into few requests to each leader.

Answers to: ``kafka.coordinator.transaction.TransactionMarkerChannelManager``. Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from kafkalite.cluster.metadata import MetadataCache
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future, spawn
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.transaction.values import MarkerChannel, TransactionMarker

log = logging.getLogger(__name__)

MAX_MARKERS: Final = 1000
"""The largest number of markers in one request."""
IN_FLIGHT: Final = 3
"""Requests in flight to one broker: several, so that one that waits for a slow replica does not delay the others."""

_Answer = Mapping[TopicPartition, ErrorCode]
_Waiting = tuple[TransactionMarker, "Future[_Answer]"]


class TransactionMarkerChannelManager:
    """Queues markers by broker; each request takes all markers that are queued when it is sent."""

    def __init__(self, cluster: MetadataCache, channel: MarkerChannel) -> None:
        self._cluster = cluster
        self._channel = channel
        self._waiting: dict[int, list[_Waiting]] = {}
        self._in_flight: dict[int, int] = {}

    def send(self, broker_id: int, marker: TransactionMarker) -> Future[_Answer]:
        """The broker's answer for each partition; NETWORK_EXCEPTION if the broker did not answer for it."""
        answer: Future[_Answer] = Future()
        self._waiting.setdefault(broker_id, []).append((marker, answer))
        if self._in_flight.get(broker_id, 0) < IN_FLIGHT:
            self._in_flight[broker_id] = self._in_flight.get(broker_id, 0) + 1
            spawn(self._drain(broker_id), "sending markers")
        return answer

    async def _drain(self, broker_id: int) -> None:
        try:
            while waiting := self._waiting.pop(broker_id, None):
                now, later = waiting[:MAX_MARKERS], waiting[MAX_MARKERS:]
                if later:
                    self._waiting[broker_id] = later
                await self._send(broker_id, now)
        finally:
            self._in_flight[broker_id] -= 1
            if not self._in_flight[broker_id]:
                del self._in_flight[broker_id]

    async def _send(self, broker_id: int, batch: list[_Waiting]) -> None:
        broker = self._cluster.brokers.get(broker_id)
        said: Mapping[tuple[int, TopicPartition], ErrorCode] = {}
        if broker is not None:
            try:
                said = await self._channel.send(broker, [marker for marker, _ in batch])
            except Exception as error:
                log.info("broker %d was not told of the end of transactions: %s", broker_id, error)
        for marker, answer in batch:
            answer.callback(
                {tp: said.get((marker.producer_id, tp), ErrorCode.NETWORK_EXCEPTION) for tp in marker.partitions}
            )
