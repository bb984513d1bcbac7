"""Completes decided transactions: applies the offsets, then sends the markers, then writes the Complete state.

Answers to: ``TransactionMarkerChannelManager.addTxnMarkersToSend`` and ``TransactionMarkerRequestCompletionHandler``.
Reactor shell.

Every step is idempotent: a coordinator that loads a decision begins with the first step, because it does not know how
far the former coordinator came.
"""

from __future__ import annotations

import logging
from typing import Final

from kafkalite.common.clock import Clock
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import gather, sleep, spawn
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.transaction import transitions
from kafkalite.coordinator.transaction.marker_channel_manager import TransactionMarkerChannelManager
from kafkalite.coordinator.transaction.states import DECIDED
from kafkalite.coordinator.transaction.transaction_state_manager import (
    StatePartition,
    TransactionalIdEntry,
    TransactionStateManager,
)
from kafkalite.coordinator.transaction.values import CoordinatorDependencies, TransactionMarker
from kafkalite.zk.stores.claims import ClaimLostError
from kafkalite.zk.zk_client import SessionExpiredError, ZkError
from kafkalite.zk.znodes.transactions import TransactionState

log = logging.getLogger(__name__)

FIRST_BACKOFF: Final = 0.02
LAST_BACKOFF: Final = 0.5
AFTER_FAILURE: Final = 5.0
"""Seconds between attempts: the first delay, the longest one, and the one after an unexpected error."""

_MARKED: Final = frozenset(
    {
        ErrorCode.NONE,
        # A newer producer has written to the partition, so this transaction was ended there before.
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class _Progress:
    """The steps that this coordinator has done for one decision, so that a retry after a ZooKeeper error skips them.

    ``decided_at`` is the zxid of the decision; the decision on the producer's next transaction has another one.
    ``without_leader``: how many partitions had no leader at the latest attempt to send the markers. ``is_repeated``:
    all markers are written, but the Complete state was not at the first attempt.
    """

    __slots__ = ("decided_at", "has_offsets", "is_repeated", "unmarked", "without_leader")

    def __init__(self, entry: TransactionalIdEntry) -> None:
        self.decided_at = entry.mzxid
        self.has_offsets = False
        self.unmarked = set(entry.metadata.partitions)
        self.without_leader = 0
        self.is_repeated = False

    def failed(self) -> None:
        """A step failed, and is done again."""
        self.is_repeated = self.has_offsets and not self.unmarked


class TransactionCompletion:
    """Completes every decided transaction, and retries until that has succeeded."""

    def __init__(
        self, state_manager: TransactionStateManager, dependencies: CoordinatorDependencies, clock: Clock
    ) -> None:
        self._state_manager = state_manager
        self._dependencies = dependencies
        self._clock = clock
        self._sender = TransactionMarkerChannelManager(dependencies.cluster, dependencies.markers)
        self._progress: dict[TransactionalIdEntry, _Progress] = {}

    @property
    def without_leader(self) -> int:
        """How many transactions wait because a partition of theirs has no leader."""
        return sum(progress.without_leader > 0 for progress in self._progress.values())

    @property
    def repeated(self) -> int:
        """How many transactions have all their markers, but their Complete state could not be written yet."""
        return sum(progress.is_repeated for progress in self._progress.values())

    def begin(self, partition: StatePartition, entry: TransactionalIdEntry) -> None:
        """Start to complete the transaction, unless it is not decided or its completion runs."""
        if entry.metadata.state in DECIDED and not entry.is_ending:
            entry.is_ending = True
            spawn(self._run(partition, entry), "ending a transaction")

    def begin_all(self, partition: StatePartition) -> None:
        """Start to complete every transaction that the former coordinator decided and did not complete."""
        for entry in list(partition.entries.values()):
            self.begin(partition, entry)

    async def _run(self, partition: StatePartition, entry: TransactionalIdEntry) -> None:
        progress = self._progress[entry] = _Progress(entry)
        backoff = FIRST_BACKOFF
        try:
            while partition.knows(entry) and entry.metadata.state in DECIDED:
                if progress.decided_at != entry.mzxid:
                    # A request has read meanwhile that the former decision is complete, and the next one was made.
                    progress, backoff = _Progress(entry), FIRST_BACKOFF
                    self._progress[entry] = progress
                try:
                    await self._next_step(partition, entry, progress)
                except (ClaimLostError, SessionExpiredError):
                    self._state_manager.drop(partition)
                except (ApiError, ZkError) as error:
                    progress.failed()
                    log.info("%s: not ended yet: %s", entry.metadata.transactional_id, error)
                    await sleep(self._clock, backoff)
                    backoff = min(LAST_BACKOFF, backoff * 2)
                except Exception:
                    # A durable decision must be completed, so unexpected errors are retried, too.
                    progress.failed()
                    log.exception("%s: not ended yet", entry.metadata.transactional_id)
                    await sleep(self._clock, AFTER_FAILURE)
        finally:
            entry.is_ending = False
            del self._progress[entry]

    async def _next_step(self, partition: StatePartition, entry: TransactionalIdEntry, progress: _Progress) -> None:
        """Do the next step. Raises ``ApiError``, ``ZkError``."""
        if entry.is_unknown:
            await self._state_manager.resolve(partition, entry)
        elif not progress.has_offsets:
            await self._offsets(partition, entry)
            progress.has_offsets = True
        elif progress.unmarked:
            await self._markers(partition, entry, progress)
        else:
            await self._state_manager.write(
                partition, entry, transitions.complete(entry.metadata, self._clock.time_ms())
            )

    async def _offsets(self, partition: StatePartition, entry: TransactionalIdEntry) -> None:
        metadata, offsets, claim = entry.metadata, self._dependencies.offsets, partition.claim
        stagers = transitions.stagers(metadata)
        if metadata.state is TransactionState.PREPARE_COMMIT:
            await gather(offsets.apply(group, stagers[0], claim, entry.mzxid) for group in sorted(metadata.groups))
        else:
            await gather(
                offsets.discard(group, stager, claim) for group in sorted(metadata.groups) for stager in stagers
            )

    async def _markers(self, partition: StatePartition, entry: TransactionalIdEntry, progress: _Progress) -> None:
        """Returns once each partition has acknowledged its marker or is deleted. Raises ``ZkError``."""
        backoff = FIRST_BACKOFF
        while progress.unmarked and partition.alive:
            progress.unmarked -= await self._attempt(partition, entry, progress)
            if progress.unmarked and partition.alive:
                await sleep(self._clock, backoff)
                backoff = min(LAST_BACKOFF, backoff * 2)

    async def _attempt(
        self, partition: StatePartition, entry: TransactionalIdEntry, progress: _Progress
    ) -> set[TopicPartition]:
        """Send one round of markers; returns the partitions of ``progress.unmarked`` that need no other."""
        metadata = entry.metadata
        leaders: dict[int, list[TopicPartition]] = {}
        unknown = []
        leaderless = 0
        for tp in sorted(progress.unmarked):
            state = self._dependencies.cluster.state(tp)
            if state is None:
                unknown.append(tp)
            elif state.leader in self._dependencies.cluster.brokers:
                leaders.setdefault(state.leader, []).append(tp)
            else:
                leaderless += 1
        progress.without_leader = leaderless + len(unknown)
        marked = metadata.producer_id, metadata.producer_epoch
        commit = metadata.state is TransactionState.PREPARE_COMMIT
        answers = await gather(
            self._sender.send(leader, TransactionMarker(*marked, partition.claim.epoch, commit, tuple(partitions)))
            for leader, partitions in leaders.items()
        )
        done = await self._gone(unknown)
        progress.without_leader -= len(done)
        for tp, error in (each for answer in answers for each in answer.items()):
            if error in _MARKED:
                done.add(tp)
            elif error is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                # A newer coordinator has claimed this state partition and has sent its marker to that partition.
                log.warning("%s: %s has heard of a newer coordinator", metadata.transactional_id, tp)
                self._state_manager.drop(partition)
            elif error not in _RETRIABLE:
                log.error("%s: the marker for %s was refused: %s", metadata.transactional_id, tp, error.name)
        return done

    async def _gone(self, unknown: list[TopicPartition]) -> set[TopicPartition]:
        """The partitions of deleted topics, by ZooKeeper, because the cache may not know a new topic yet."""
        topics = sorted({tp.topic for tp in unknown})
        exist = dict(zip(topics, await gather(map(self._state_manager.store.topic_exists, topics)), strict=True))
        return {tp for tp in unknown if not exist[tp.topic]}
