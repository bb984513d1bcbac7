"""What the coordinator of transactions is handed: producer ids, offsets of groups, the cluster, the way to the leaders.

Answers to: ``kafka.coordinator.transaction.TransactionMarkerChannelManager`` (the part that is a wire) and
``ProducerIdManager``. Pure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kafkalite.cluster.model import Broker, LeaderAndIsr
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.offsets.values import TxnProducer
from kafkalite.coordinator.transaction.values import MarkerResults, TransactionMarker
from kafkalite.zk.stores.claims import Claim


class ProducerIds(Protocol):
    """``kafkalite.admin.producer_ids.ProducerIdManager``."""

    def generate(self) -> Awaitable[int]:
        """A producer id that nobody else has. Raises ``ApiError``."""


class StagedOffsetStore(Protocol):
    """The part of ``OffsetManager`` that ends what TxnOffsetCommit staged."""

    def apply_staged(self, group: str, producer: TxnProducer, txn_claim: Claim, decision_mzxid: int) -> Awaitable[None]:
        """Make the offsets that were staged the group's own, where nobody wrote later than the decision."""

    def discard_staged(self, group: str, producer: TxnProducer, txn_claim: Claim) -> Awaitable[None]:
        """Forget them."""


class LeaderLookup(Protocol):
    """The part of ``kafkalite.cluster.metadata.MetadataCache`` that is needed here."""

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """Who lives."""

    def state(self, topic_partition: TopicPartition) -> LeaderAndIsr | None:
        """What is known of a partition: its leader above all."""


class MarkerChannel(Protocol):
    """The way to the leaders."""

    def send(self, broker: Broker, markers: Sequence[TransactionMarker]) -> Awaitable[MarkerResults]:
        """WriteTxnMarkers. Fails with any exception where the broker cannot be reached or does not answer."""


@dataclass(frozen=True, slots=True)
class CoordinatorDependencies:
    """All of it."""

    producer_ids: ProducerIds
    offsets: StagedOffsetStore
    cluster: LeaderLookup
    markers: MarkerChannel
