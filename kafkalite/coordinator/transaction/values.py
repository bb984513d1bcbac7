"""What the transaction coordinator, its clients and the partition leaders exchange, and what the coordinator needs.

Answers to: ``kafka.coordinator.transaction.{InitProducerIdResult,TransactionConfig,ProducerIdManager}`` and the network
client of ``TransactionMarkerChannelManager``. Pure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import Broker
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.offsets.transactional_offsets import TransactionalOffsets
from kafkalite.zk.znodes.transactions import TransactionState


class ProducerIdAndEpoch(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """The transaction coordinator's configuration (Kafka's class of this name); times in milliseconds."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * 24 * 3600 * 1000
    abort_timed_out_transactions_interval_ms: int = 10_000
    remove_expired_transactional_ids_interval_ms: int = 3_600_000
    two_phase_commit_enable: bool = False


class TransactionMarker(NamedTuple):
    """The commit or abort marker that the leaders append to the partitions of a transaction."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]


MarkerResults = Mapping[tuple[int, TopicPartition], ErrorCode]
"""The leaders' answers by producer id and partition."""


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """One transaction in ListTransactions."""

    transactional_id: str
    producer_id: int
    state: TransactionState


class MarkerChannel(Protocol):
    """Sends markers to the leaders of partitions."""

    def send(self, broker: Broker, markers: Sequence[TransactionMarker]) -> Awaitable[MarkerResults]:
        """Send WriteTxnMarkers. Raises any exception if the broker cannot be reached or does not answer."""


@dataclass(frozen=True, slots=True)
class CoordinatorDependencies:
    """The collaborators of the transaction coordinator.

    ``new_producer_id`` gives an id that no other producer has, and raises ``ApiError``. ``offsets`` applies or discards
    the offsets that TxnOffsetCommit staged.
    """

    new_producer_id: Callable[[], Awaitable[int]]
    offsets: TransactionalOffsets
    cluster: MetadataCache
    markers: MarkerChannel
