"""What the transaction coordinator needs: producer ids, staged offsets, cluster metadata, a channel to the leaders.

Answers to: ``kafka.coordinator.transaction.TransactionMarkerChannelManager`` (its network client) and
``ProducerIdManager``. Pure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kafkalite.cluster.model import Broker, LeaderAndIsr
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.transaction.values import MarkerResults, TransactionMarker
from kafkalite.zk.stores.claims import Claim
from kafkalite.zk.znodes.offsets import TxnProducer


class ProducerIds(Protocol):
    """``kafkalite.admin.producer_ids.ProducerIdManager``."""

    def generate(self) -> Awaitable[int]:
        """A producer id that no other producer has. Raises ``ApiError``."""


class StagedOffsetStore(Protocol):
    """``TransactionalOffsets``: applies or discards the offsets that TxnOffsetCommit staged."""

    def apply(self, group: str, producer: TxnProducer, claim: Claim, decision_mzxid: int) -> Awaitable[None]:
        """Copy the staged offsets to the group's own, except where a commit came after the decision."""

    def discard(self, group: str, producer: TxnProducer, claim: Claim) -> Awaitable[None]:
        """Remove the staged offsets."""


class LeaderLookup(Protocol):
    """The part of ``kafkalite.cluster.metadata.MetadataCache`` that the transaction coordinator uses."""

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """The live brokers by id."""

    def state(self, topic_partition: TopicPartition) -> LeaderAndIsr | None:
        """The partition's leader and ISR; ``None`` if the cache does not know the partition."""


class MarkerChannel(Protocol):
    """Sends markers to the leaders of partitions."""

    def send(self, broker: Broker, markers: Sequence[TransactionMarker]) -> Awaitable[MarkerResults]:
        """Send WriteTxnMarkers. Raises any exception if the broker cannot be reached or does not answer."""


@dataclass(frozen=True, slots=True)
class CoordinatorDependencies:
    """The collaborators of the transaction coordinator."""

    producer_ids: ProducerIds
    offsets: StagedOffsetStore
    cluster: LeaderLookup
    markers: MarkerChannel
