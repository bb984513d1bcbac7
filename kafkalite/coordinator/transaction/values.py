"""What the coordinator of transactions answers.

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
    """Who a producer says it is."""

    producer_id: int
    producer_epoch: int


class TransactionMarker(NamedTuple):
    """The end of a transaction as the leaders of its partitions are told of it; written into each of them."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]


MarkerResults = Mapping[tuple[int, TopicPartition], ErrorCode]
"""What the leaders said, by producer id and partition."""


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A line of ListTransactions."""

    transactional_id: str
    producer_id: int
    state: TransactionState
