"""The values that the transaction coordinator, its clients and the partition leaders exchange.

Answers to: ``kafka.coordinator.transaction.{InitProducerIdResult,TransactionConfig}``. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.zk.znodes.transactions import TransactionState


class ProducerIdAndEpoch(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    producer_epoch: int


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
