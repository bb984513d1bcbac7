"""The committed offsets of all groups: any broker reads them, the groups' coordinators write them.

Answers to: ``kafka.coordinator.group.GroupMetadataManager`` (its part for offsets). Reactor shell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kafkalite.common.clock import Clock
from kafkalite.common.errors import ErrorCode
from kafkalite.common.events import EventRecorder, ignore_event
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.offsets.committed_offset_reader import CommittedOffsetReader
from kafkalite.coordinator.offsets.offset_removal import ANY_VERSION, OffsetRemoval, past_retention
from kafkalite.coordinator.offsets.offset_writer import OffsetWriter
from kafkalite.coordinator.offsets.transactional_offsets import TransactionalOffsets
from kafkalite.zk.stores.claims import Claim
from kafkalite.zk.stores.offsets import OffsetStore
from kafkalite.zk.stores.transactions import TransactionStore
from kafkalite.zk.stores.watched_reads import WatchedReads
from kafkalite.zk.zk_client import ZkClient
from kafkalite.zk.znodes.consumers import group_path
from kafkalite.zk.znodes.offsets import NO_TIMESTAMP, OffsetAndMetadata, TxnProducer

_MOST_METADATA = 150_000
"""Metadata of this many characters fits into one znode, however JSON escapes it; a limit besides
:attr:`OffsetConfig.max_metadata_size`."""


@dataclass(frozen=True, slots=True)
class OffsetConfig:
    """Limits of committed offsets (Kafka's class of this name); times in milliseconds, sizes in characters."""

    max_metadata_size: int = 4096
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_check_interval_ms: int = 600_000


class OffsetManager:
    """Reads and writes ``/consumers/<group>/{offsets,commits,staged}``.

    ``topic_exists`` says whether this broker's metadata cache knows a partition. ``transactional``: applies and
    discards what :meth:`stage` has stored.
    """

    def __init__(
        self,
        client: ZkClient,
        clock: Clock,
        config: OffsetConfig,
        topic_exists: Callable[[TopicPartition], bool],
        transactions: TransactionStore,
        record: EventRecorder = ignore_event,
    ) -> None:
        self._clock = clock
        self.config = config
        self._topic_exists = topic_exists
        self._store = OffsetStore(client)
        self._reads = WatchedReads(client, clock)
        self._transactions = transactions
        self._reader = CommittedOffsetReader(self._store, self._reads, transactions, record)
        self._writer = OffsetWriter(client)
        self.transactional = TransactionalOffsets(self._store, transactions)
        self._removal = OffsetRemoval(client)

    async def fetch(
        self, group: str, partitions: Sequence[TopicPartition] | None, *, require_stable: bool = False
    ) -> dict[TopicPartition, OffsetAndMetadata | ErrorCode]:
        """The committed offsets of ``partitions`` (``None``: of all); no key for a partition without an offset.

        ``require_stable``: UNSTABLE_OFFSET_COMMIT for each partition where an undecided transaction has staged an
        offset. Raises ``ConnectionLostError`` and ``SessionExpiredError``.
        """
        if not self._reads.has(group_path(group)) and not await self._store.exists(group):
            # Set no watch for a group that does not exist, because that watch would never fire and stay for ever.
            return {}
        if partitions is not None:
            # Nor for a topic that does not exist. But this broker's cache may lag behind, so ask ZooKeeper, because a
            # consumer that finds no offset starts at one end of the log.
            unknown = {tp.topic for tp in partitions if not self._topic_exists(tp)}
            exists = {topic for topic in unknown if await self._transactions.topic_exists(topic)}
            partitions = [tp for tp in partitions if tp.topic not in unknown or tp.topic in exists]
        return await self._reader.fetch(group, partitions, require_stable)

    async def commit(
        self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], claim: Claim | None
    ) -> dict[TopicPartition, ErrorCode]:
        """Write ``offsets``; returns once they are durable. Without a ``claim``: the bare numbers only, unfenced.

        Raises ``ClaimLostError``, also if the claim's session has expired.
        """
        outcome = self.refused(offsets)
        now = self._clock.time_ms()
        accepted = {
            tp: value if value.commit_timestamp_ms != NO_TIMESTAMP else replace(value, commit_timestamp_ms=now)
            for tp, value in offsets.items()
            if tp not in outcome
        }
        outcome.update(await self._writer.write(group, accepted, claim))
        return outcome

    def refused(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> dict[TopicPartition, ErrorCode]:
        """The offsets that must not be committed, with the error: unknown partition or too much metadata."""
        refused: dict[TopicPartition, ErrorCode] = {}
        longest = self.config.max_metadata_size
        for tp, value in offsets.items():
            if not self._topic_exists(tp):
                refused[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif len(value.metadata) > longest:
                refused[tp] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            elif len(value.metadata) > _MOST_METADATA:
                refused[tp] = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        return refused

    async def delete(
        self, group: str, partitions: Sequence[TopicPartition], claim: Claim
    ) -> dict[TopicPartition, ErrorCode]:
        """Remove offsets; NONE for a partition without one, too. Raises ``ClaimLostError``."""
        removed = await self._removal.remove(group, dict.fromkeys(partitions, ANY_VERSION), claim)
        return {tp: error or ErrorCode.NONE for tp, error in removed.items()}

    async def stage(
        self, group: str, claim: Claim, producer: TxnProducer, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> ErrorCode:
        """Store ``offsets`` aside until the producer's transaction is decided; durable when this returns NONE.

        INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING or INVALID_PRODUCER_EPOCH if this producer has no ongoing
        transaction. Raises ``ClaimLostError``.
        """
        for error in self.refused(offsets).values():
            return error
        now = self._clock.time_ms()
        staged = {tp: replace(value, commit_timestamp_ms=now) for tp, value in offsets.items()}
        return await self.transactional.stage(group, claim, producer, staged)

    async def groups(self) -> list[str]:
        """All groups with a znode, those of old consumers included."""
        return await self._store.groups()

    async def has_any(self, group: str) -> bool:
        """Whether ``group`` has a committed or staged offset. Raises ``ZkError``."""
        # Not through the cache, as in expire().
        if await self._store.has_any(group):
            return True
        staged = await self._reader.staged(group)
        return bool(staged.decided or staged.undecided)

    async def delete_group(self, group: str, claim: Claim, *, with_offsets: bool = True) -> None:
        """Remove all znodes of ``group``, the claim last; without ``with_offsets`` only if it has no offsets.

        Raises ``ClaimLostError`` and ``ZkError`` (``NotEmptyError``: the group was not removed).
        """
        await self._removal.remove_group(group, claim, with_offsets=with_offsets)
        self.forget(group)

    async def expire(
        self,
        group: str,
        claim: Claim,
        is_subscribed: Callable[[str], bool],
        now_ms: int,
        empty_since_ms: int | None = None,
    ) -> list[TopicPartition]:
        """Remove offsets that exceed ``offsets.retention.minutes``; returns their partitions.

        Keeps the offsets of topics that ``is_subscribed``. ``empty_since_ms``: when the group lost its last member; the
        retention does not begin earlier. Raises ``ClaimLostError``.
        """
        staged = await self._reader.staged(group)
        busy = staged.undecided | staged.decided.keys()
        # Not through the cache, because a scan of every offset would evict the values that clients ask for.
        known = {
            tp: found
            for tp, found in (await self._store.offsets(group)).items()
            if tp not in busy and not is_subscribed(tp.topic)
        }
        gone = past_retention(known, now_ms, self.config.retention_ms, empty_since_ms)
        if not gone:
            return []
        removed = await self._removal.remove(group, {tp: known[tp].version for tp in gone}, claim)
        return [tp for tp in gone if removed[tp] is ErrorCode.NONE]

    def forget(self, group: str) -> None:
        """Drop the cached values of ``group``."""
        self._reads.forget(group_path(group))
        self._writer.layout.forget(group)
