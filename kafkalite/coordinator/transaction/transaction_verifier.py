"""Checks for a partition's leader, before the first batch, that the open transaction contains the partition (KIP-890).

Answers to: ``kafka.server.AddPartitionsToTxnManager``. Reactor shell.

A leader reads the transaction's znode itself instead of asking the coordinator. Its ZooKeeper server may lag behind the
coordinator's, so the verifier reads again, behind a write, before it refuses, and before it accepts on the evidence of
a transaction that may have ended since.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.transaction import transitions
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch
from kafkalite.zk.stores.transactions import TransactionStore
from kafkalite.zk.zk_client import ZkError
from kafkalite.zk.znodes.codec import MalformedZnodeError
from kafkalite.zk.znodes.transactions import TransactionMetadata

_REMEMBERED: Final = 10_000
_Errors = dict[TopicPartition, ErrorCode]


class TransactionVerifier:
    """Verifies partitions; remembers the last transaction of each producer, to recognise an outdated read."""

    def __init__(self, store: TransactionStore) -> None:
        self.is_enabled = True
        """Whether leaders are to verify: ``transaction.partition.verification.enable``, which may change."""
        self._store = store
        self._seen: dict[tuple[TopicPartition, int], int] = {}
        """Partition and producer id → start (ms) of the last transaction that was verified."""

    async def verify(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        ended: Collection[TopicPartition],
    ) -> _Errors:
        """An error for each of ``partitions``. ``ended``: those where the log has seen this epoch end a transaction.

        COORDINATOR_NOT_AVAILABLE while ZooKeeper is unreachable.
        """
        try:
            found = await self._store.read(transactional_id)
            start_ms = -1 if found is None else found[0].start_ms
            errors = self._judge(found[0] if found is not None else None, producer, partitions)
            may_have_ended = any(self._seen.get((tp, producer.producer_id), start_ms) == start_ms for tp in ended)
            if may_have_ended or any(errors.values()):
                current = await self._store.read_current(transactional_id)
                start_ms = -1 if current is None else current.start_ms
                errors = self._judge(current, producer, partitions)
        except (ZkError, MalformedZnodeError):
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        for tp, error in errors.items():
            if error is ErrorCode.NONE:
                self._remember((tp, producer.producer_id), start_ms)
        return errors

    @staticmethod
    def _judge(
        metadata: TransactionMetadata | None, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> _Errors:
        if metadata is None:
            return dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return transitions.verify(metadata, producer, partitions)

    def _remember(self, key: tuple[TopicPartition, int], start_ms: int) -> None:
        # Insert at the end, so that the first key is always the one that was seen longest ago.
        self._seen.pop(key, None)
        if len(self._seen) >= _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = start_ms
