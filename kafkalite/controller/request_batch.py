"""The requests to brokers that one event causes, gathered into as few as possible.

Answers to: ``kafka.controller.AbstractControllerBrokerRequestBatch``. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkalite.cluster.control import (
    ControlRequest,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkalite.cluster.metadata import LEADER_DURING_DELETE
from kafkalite.cluster.model import Broker, LeaderAndIsr
from kafkalite.common.types import TopicPartition
from kafkalite.controller.controller_context import ControllerContext


class ControllerBrokerRequestBatch:
    """At most one LeaderAndIsr, one UpdateMetadata and one StopReplica for each broker, sent in this order.

    For each replica the later of LeaderAndIsr and StopReplica counts and replaces the other.
    """

    def __init__(self, context: ControllerContext, controller_id: int, controller_epoch: int) -> None:
        self._context = context
        self._controller_id = controller_id
        self._controller_epoch = controller_epoch
        self._clear()

    def _clear(self) -> None:
        self._leader_and_isr: dict[int, dict[TopicPartition, LeaderAndIsr]] = {}
        self._stops: dict[int, dict[TopicPartition, StopReplicaPartitionState]] = {}
        self._metadata: dict[TopicPartition, LeaderAndIsr] = {}
        self._metadata_to: set[int] = set()
        self._all_metadata_to: set[int] = set()

    def add_partition(self, state: LeaderAndIsr) -> None:
        """LeaderAndIsr to every reachable replica, and UpdateMetadata to every broker."""
        tp = state.topic_partition
        for broker_id in state.replicas:
            if self._context.is_reachable(broker_id, tp):
                self.add_leader_and_isr(broker_id, state)
        self.add_update_metadata(state)

    def add_leader_and_isr(self, broker_id: int, state: LeaderAndIsr) -> None:
        """LeaderAndIsr to one broker."""
        tp = state.topic_partition
        self._leader_and_isr.setdefault(broker_id, {})[tp] = state
        if broker_id in self._stops:
            self._stops[broker_id].pop(tp, None)

    def add_update_metadata(self, state: LeaderAndIsr) -> None:
        """UpdateMetadata to every broker."""
        self._metadata[state.topic_partition] = state
        self._metadata_to.update(self._context.brokers)

    def add_live_brokers(self) -> None:
        """UpdateMetadata, with the live brokers, to every broker."""
        self._metadata_to.update(self._context.brokers)

    def add_all_metadata(self, broker_ids: Iterable[int]) -> None:
        """UpdateMetadata with every partition to these brokers, which have just registered."""
        self._all_metadata_to.update(broker_ids)
        self._metadata_to.update(broker_ids)

    def add_stop_replica(self, broker_id: int, tp: TopicPartition, leader_epoch: int, delete: bool) -> None:
        """StopReplica to one broker, if it is registered."""
        if broker_id not in self._context.brokers:
            return
        stop = StopReplicaPartitionState(tp, leader_epoch, delete, self._context.topic_id(tp.topic))
        self._stops.setdefault(broker_id, {})[tp] = stop
        if broker_id in self._leader_and_isr:
            self._leader_and_isr[broker_id].pop(tp, None)

    def add_topic_deletion(self, topic: str) -> None:
        """UpdateMetadata with the deletion of ``topic``; its topic id keeps a later topic of the same name safe."""
        deletion = LeaderAndIsr(topic, 0, self._context.topic_id(topic), LEADER_DURING_DELETE)
        for tp in [tp for tp in self._metadata if tp.topic == topic]:
            del self._metadata[tp]
        self.add_update_metadata(deletion)

    def take(self) -> list[tuple[Broker, ControlRequest]]:
        """The requests, in the order in which each broker is to get them; the batch is empty afterwards."""
        context = self._context
        requests: list[tuple[Broker, ControlRequest]] = []
        alive = tuple(context.brokers[broker_id] for broker_id in sorted(context.brokers))
        version = context.brokers_version
        fence = (self._controller_id, self._controller_epoch)
        changed = tuple(self._metadata.values())
        full: tuple[LeaderAndIsr, ...] | None = None
        for broker in alive:
            states = self._leader_and_isr.get(broker.id)
            if states:
                requests.append((broker, LeaderAndIsrRequest(*fence, broker.epoch, tuple(states.values()), alive)))
            if broker.id in self._all_metadata_to:
                if full is None:
                    gone = tuple(s for s in changed if s.leader == LEADER_DURING_DELETE)
                    full = tuple(s for s in context.states.values() if s.topic not in context.deleting) + gone
                requests.append((broker, UpdateMetadataRequest(*fence, broker.epoch, full, alive, version)))
            elif broker.id in self._metadata_to:
                requests.append((broker, UpdateMetadataRequest(*fence, broker.epoch, changed, alive, version)))
            stops = self._stops.get(broker.id)
            if stops:
                requests.append((broker, StopReplicaRequest(*fence, broker.epoch, tuple(stops.values()))))
        self._clear()
        return requests
