"""What one event has to say to the brokers, gathered so that each hears it in as few requests as can be.

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

    The last word on a replica counts: to stop it takes an earlier order to lead or follow back, and the reverse.
    """

    def __init__(self, context: ControllerContext, controller_id: int, controller_epoch: int) -> None:
        self._context = context
        self._controller_id = controller_id
        self._controller_epoch = controller_epoch
        self._clear()

    def _clear(self) -> None:
        self._orders: dict[int, dict[TopicPartition, LeaderAndIsr]] = {}
        self._stops: dict[int, dict[TopicPartition, StopReplicaPartitionState]] = {}
        self._metadata: dict[TopicPartition, LeaderAndIsr] = {}
        self._metadata_to: set[int] = set()
        self._everything_to: set[int] = set()

    def state(self, state: LeaderAndIsr) -> None:
        """Tell every replica that can be reached to lead or follow by ``state``, and every broker of it."""
        topic_partition = state.topic_partition
        for broker_id in state.replicas:
            if self._context.is_reachable(broker_id, topic_partition):
                self.order(broker_id, state)
        self.metadata(state)

    def order(self, broker_id: int, state: LeaderAndIsr) -> None:
        """Tell one broker to lead or follow by ``state``."""
        topic_partition = state.topic_partition
        self._orders.setdefault(broker_id, {})[topic_partition] = state
        if broker_id in self._stops:
            self._stops[broker_id].pop(topic_partition, None)

    def metadata(self, state: LeaderAndIsr) -> None:
        """Tell every broker of ``state``."""
        self._metadata[state.topic_partition] = state
        self._metadata_to.update(self._context.brokers)

    def brokers_changed(self) -> None:
        """Tell every broker who lives."""
        self._metadata_to.update(self._context.brokers)

    def everything(self, broker_ids: Iterable[int]) -> None:
        """Tell these brokers of every partition (they have just come)."""
        self._everything_to.update(broker_ids)
        self._metadata_to.update(broker_ids)

    def stop(self, broker_id: int, topic_partition: TopicPartition, leader_epoch: int, delete: bool) -> None:
        """Tell one broker to stop a replica; nothing is said to a broker that is not there."""
        if broker_id not in self._context.brokers:
            return
        stop = StopReplicaPartitionState(
            topic_partition, leader_epoch, delete, self._context.topic_id(topic_partition.topic)
        )
        self._stops.setdefault(broker_id, {})[topic_partition] = stop
        if broker_id in self._orders:
            self._orders[broker_id].pop(topic_partition, None)

    def deleted(self, topic: str) -> None:
        """Tell every broker that ``topic`` is going; fenced by its topic id, so that a later namesake is safe."""
        sign = LeaderAndIsr(topic, 0, self._context.topic_id(topic), LEADER_DURING_DELETE)
        for topic_partition in [tp for tp in self._metadata if tp.topic == topic]:
            del self._metadata[topic_partition]
        self.metadata(sign)

    def take(self) -> list[tuple[Broker, ControlRequest]]:
        """The requests, in the order in which each broker shall get them; the batch is empty afterwards."""
        context = self._context
        requests: list[tuple[Broker, ControlRequest]] = []
        alive = tuple(context.brokers[broker_id] for broker_id in sorted(context.brokers))
        fence = (self._controller_id, self._controller_epoch)
        changed = tuple(self._metadata.values())
        full: tuple[LeaderAndIsr, ...] | None = None
        for broker in alive:
            orders = self._orders.get(broker.id)
            if orders:
                requests.append((broker, LeaderAndIsrRequest(*fence, broker.epoch, tuple(orders.values()), alive)))
            if broker.id in self._everything_to:
                if full is None:
                    gone = tuple(s for s in changed if s.leader == LEADER_DURING_DELETE)
                    full = tuple(s for s in context.states.values() if s.topic not in context.deleting) + gone
                requests.append((broker, UpdateMetadataRequest(*fence, broker.epoch, full, alive)))
            elif broker.id in self._metadata_to:
                requests.append((broker, UpdateMetadataRequest(*fence, broker.epoch, changed, alive)))
            stops = self._stops.get(broker.id)
            if stops:
                requests.append((broker, StopReplicaRequest(*fence, broker.epoch, tuple(stops.values()))))
        self._clear()
        return requests
