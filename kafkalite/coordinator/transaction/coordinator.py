"""The coordinator of transactions: requests in, answers out.

Answers to: ``kafka.coordinator.transaction.TransactionCoordinator``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafkalite.common.clock import Clock
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.transaction.ports import Outside
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch, TransactionListing
from kafkalite.zk.port import SessionState
from kafkalite.zk.stores.claims import ClaimStore
from kafkalite.zk.stores.transactions import TransactionStore
from kafkalite.zk.znodes.transactions import TransactionMetadata


class TransactionCoordinator:
    """All transactional ids whose state partitions this broker has claimed. ``config`` gives the values in force."""

    def __init__(
        self,
        broker_id: int,
        claims: ClaimStore,
        store: TransactionStore,
        outside: Outside,
        clock: Clock,
        config: Mapping[str, Any],
    ) -> None:
        raise NotImplementedError

    def start(self) -> None:
        """Begin: orphaned state partitions are looked for, timeouts run."""

    async def stop(self) -> None:
        """Give every claim up, so that others can take over at once."""

    def on_session(self, state: SessionState) -> None:
        """The ZooKeeper session's state changed."""

    def brokers_changed(self) -> None:
        """The set of live brokers changed: there may be orphans."""

    async def find(self, transactional_id: str) -> int | None:
        """Who coordinates it: the holder of the claim, else the broker that should claim it; ``None``: nobody."""
        raise NotImplementedError

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None = None
    ) -> ProducerIdAndEpoch:
        """Fence whoever has the id, abort what is open. Raises ``ApiError``."""
        raise NotImplementedError

    async def add_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> None:
        """Make partitions part of the transaction, which begins with the first. Raises ``ApiError``."""
        raise NotImplementedError

    async def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Which of ``partitions`` are part of the transaction that is open. Raises ``ApiError``."""
        raise NotImplementedError

    async def add_offsets(self, transactional_id: str, producer: ProducerIdAndEpoch, group: str) -> None:
        """Offsets of ``group`` will be part of the transaction. Raises ``ApiError``."""
        raise NotImplementedError

    async def end(self, transactional_id: str, producer: ProducerIdAndEpoch, *, commit: bool) -> None:
        """Returns once the decision is durable. Raises ``ApiError``."""
        raise NotImplementedError

    async def describe(self, transactional_id: str) -> TransactionMetadata:
        """Raises ``ApiError``."""
        raise NotImplementedError

    def list(
        self, states: Sequence[str] = (), producer_ids: Sequence[int] = (), duration_ms: int = -1
    ) -> tuple[list[TransactionListing], list[str]]:
        """What this broker coordinates, filtered; and filters of ``states`` that are unknown. Raises ``ApiError``."""
        raise NotImplementedError
