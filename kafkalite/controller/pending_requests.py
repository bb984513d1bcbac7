"""What waits for one broker, each thing said once: however long the broker hangs, no more than the cluster is large.

Answers to: the message queue of ``kafka.controller.ControllerBrokerStateInfo``, which grows without bound. Pure.

What came later about a partition replaces what waited, so three requests at most wait: roles, metadata, stops. Topic
ids are part of the keys: word of a topic that was deleted is not lost to a later topic of its name.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TypeVar

from kafkalite.cluster.control import (
    ControlRequest,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkalite.cluster.metadata import LEADER_DURING_DELETE
from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.types import TopicPartition

T = TypeVar("T")
Key = tuple[TopicPartition, uuid.UUID]


class PendingRequests:
    """Requests of one term to one incarnation of a broker: put in, merged while they wait, and taken out."""

    def __init__(self) -> None:
        self._orders: dict[Key, LeaderAndIsr] = {}
        self._metadata: dict[Key, LeaderAndIsr] = {}
        self._stops: dict[Key, StopReplicaPartitionState] = {}
        self._order: LeaderAndIsrRequest | None = None
        self._update: UpdateMetadataRequest | None = None
        self._stop: StopReplicaRequest | None = None

    def __len__(self) -> int:
        return sum(request is not None for request in (self._order, self._update, self._stop))

    def put(self, request: ControlRequest) -> None:
        """Add what ``request`` says; the last word on a replica counts, to lead or follow as well as to stop."""
        if isinstance(request, LeaderAndIsrRequest):
            self._order = request
            for state in request.states:
                key = (state.topic_partition, state.topic_id)
                self._stops.pop(key, None)
                _put_last(self._orders, key, state)
        elif isinstance(request, UpdateMetadataRequest):
            self._update = request
            for state in request.states:
                if state.leader == LEADER_DURING_DELETE:
                    for key in [key for key in self._metadata if key[1] == state.topic_id]:
                        del self._metadata[key]
                _put_last(self._metadata, (state.topic_partition, state.topic_id), state)
        elif isinstance(request, StopReplicaRequest):
            self._stop = request
            for stop in request.partitions:
                key = (stop.topic_partition, stop.topic_id)
                self._orders.pop(key, None)
                _put_last(self._stops, key, stop)
        else:
            raise TypeError(f"{type(request).__name__} is not for a broker's queue")

    def take(self) -> ControlRequest | None:
        """The next request, ``None`` where nothing waits."""
        request: ControlRequest | None = None
        if self._order is not None:
            request = replace(self._order, states=tuple(self._orders.values()))
            self._order, self._orders = None, {}
        elif self._update is not None:
            request = replace(self._update, states=tuple(self._metadata.values()))
            self._update, self._metadata = None, {}
        elif self._stop is not None:
            request = replace(self._stop, partitions=tuple(self._stops.values()))
            self._stop, self._stops = None, {}
        return request

    def clear(self) -> None:
        """Forget what waits."""
        while self.take() is not None:
            pass


def _put_last(values: dict[Key, T], key: Key, value: T) -> None:
    """What is said anew is said in its new place."""
    values.pop(key, None)
    values[key] = value
