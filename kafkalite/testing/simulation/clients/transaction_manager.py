"""The requests of a transactional producer to its coordinators, each repeated until its answer is final.

Answers to: the handlers in ``org.apache.kafka.clients.producer.internals.TransactionManager``. Deterministic.

One rule is stricter than Java's: after a lost connection with an outstanding request, the next transaction has a new
epoch, because the request may arrive late, and the protocol before KIP-890's second part takes it for one of the next
transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.network.client import ConnectionLost
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.testing.simulation.clients.cluster import ClusterClient
from kafkalite.testing.simulation.clients.coordinator_lookup import GROUP, TRANSACTION, CoordinatorLookup
from kafkalite.testing.simulation.clients.errors import COORDINATOR_MOVED, FENCED, RETRIABLE
from kafkalite.testing.simulation.clients.sequences import NO_PRODUCER_ID, ProducerId

E = ErrorCode
_ABORTABLE = frozenset(
    (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION, E.FENCED_INSTANCE_ID, E.TRANSACTION_ABORTABLE, E.REBALANCE_IN_PROGRESS)
)
_FIRST_PAUSE = 0.02
"""Seconds before AddPartitionsToTxn is repeated while the coordinator completes the transaction before."""
_OffsetsTopic: TypeAlias = messages.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic


class ProducerFencedError(Exception):
    """Another instance has the transactional id, or the coordinator aborted the transaction: the producer ends."""


class AbortableError(Exception):
    """The transaction must be aborted; the producer continues."""


class StoppedError(Exception):
    """The client was killed, or has no time left."""


@dataclass(frozen=True)
class GroupMembership:
    """The group member that commits the offsets (KIP-447); by default no member of the group."""

    group: str
    member_id: str = ""
    generation: int = -1
    instance: str | None = None


class TransactionManager:
    """The requests of one transactional producer to its coordinators. All raise :class:`ProducerFencedError`,
    :class:`AbortableError` and :class:`StoppedError`."""

    def __init__(self, cluster: ClusterClient, transactional_id: str, timeout_ms: int) -> None:
        self.producer = NO_PRODUCER_ID
        self.doubtful = False
        """Whether a request of this epoch may arrive late."""
        self.transactional_id = transactional_id
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._coordinator = CoordinatorLookup(cluster, TRANSACTION, transactional_id)
        self._groups: dict[str, CoordinatorLookup] = {}
        self._closed = False

    def close(self) -> None:
        """Send no more requests; outstanding ones raise :class:`StoppedError`."""
        self._closed = True
        self._coordinator.close()
        for coordinator in self._groups.values():
            coordinator.close()

    async def init(self) -> ProducerId:
        """Get a new epoch: the first one fences other instances, later ones (KIP-360) replace this instance's own."""

        async def attempt() -> ErrorCode:
            answer = await self._coordinator.ask(
                ApiKey.INIT_PRODUCER_ID,
                4,
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self._timeout_ms,
                producer_id=self.producer.id,
                producer_epoch=self.producer.epoch,
            )
            if not answer.error_code:
                self.producer = ProducerId(answer.producer_id, answer.producer_epoch)
            return ErrorCode(answer.error_code)

        await self._persist("InitProducerId", attempt)
        # Harmless: a late InitProducerId raises the epoch again, and so fences this producer.
        self.doubtful = False
        return self.producer

    async def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Add partitions to the transaction, which begins with the first one."""
        make = messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        topics: dict[str, list[int]] = {}
        for topic, number in sorted(partitions):
            topics.setdefault(topic, []).append(number)

        async def attempt() -> ErrorCode:
            answer = await self._coordinator.ask(
                ApiKey.ADD_PARTITIONS_TO_TXN,
                3,
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer.id,
                v3_and_below_producer_epoch=self.producer.epoch,
                v3_and_below_topics=[make(version=3, name=name, partitions=found) for name, found in topics.items()],
            )
            codes = [
                ErrorCode(found.partition_error_code)
                for topic in answer.results_by_topic_v3_and_below
                for found in topic.results_by_partition
            ]
            # Skip the valid partitions, which are not attempted if another one is refused.
            return next((code for code in codes if code and code is not E.OPERATION_NOT_ATTEMPTED), E.NONE)

        await self._persist("AddPartitionsToTxn", attempt)

    async def add_offsets(self, group: str) -> None:
        """Add the offsets of a group to the transaction."""

        async def attempt() -> ErrorCode:
            answer = await self._coordinator.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, **self._head(), group_id=group)
            return ErrorCode(answer.error_code)

        await self._persist("AddOffsetsToTxn", attempt)

    async def commit_offsets(self, member: GroupMembership, offsets: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Stage offsets (and the leader epochs before them) at the group's coordinator."""
        kind = _OffsetsTopic
        topics: dict[str, list[_OffsetsTopic.TxnOffsetCommitRequestPartition]] = {}
        for (topic, number), (offset, epoch) in sorted(offsets.items()):
            topics.setdefault(topic, []).append(
                kind.TxnOffsetCommitRequestPartition(
                    version=3,
                    partition_index=number,
                    committed_offset=offset,
                    committed_leader_epoch=epoch,
                    committed_metadata="",
                )
            )
        coordinator = self._groups.get(member.group)
        if coordinator is None:
            coordinator = self._groups[member.group] = CoordinatorLookup(self._cluster, GROUP, member.group)

        async def attempt() -> ErrorCode:
            answer = await coordinator.ask(
                ApiKey.TXN_OFFSET_COMMIT,
                3,
                **self._head(),
                group_id=member.group,
                generation_id=member.generation,
                member_id=member.member_id,
                group_instance_id=member.instance,
                topics=[kind(version=3, name=name, partitions=found) for name, found in topics.items()],
            )
            codes = [ErrorCode(found.error_code) for topic in answer.topics for found in topic.partitions]
            return next((code for code in codes if code), E.NONE)

        await self._persist("TxnOffsetCommit", attempt, coordinator)

    async def end(self, *, commit: bool) -> None:
        """Commit or abort; returns when the decision is durable.

        A :class:`ProducerFencedError` whose ``args[0]`` is true is the answer to the first attempt that may have taken
        effect, so the transaction was not ended by this call.
        """

        async def attempt() -> ErrorCode:
            answer = await self._coordinator.ask(ApiKey.END_TXN, 3, **self._head(), committed=commit)
            return ErrorCode(answer.error_code)

        await self._persist("EndTxn", attempt)

    def _head(self) -> dict[str, object]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer.id,
            "producer_epoch": self.producer.epoch,
        }

    async def _persist(
        self, what: str, attempt: Callable[[], Awaitable[ErrorCode]], coordinator: CoordinatorLookup | None = None
    ) -> None:
        """Repeat ``attempt`` until its answer is final."""
        patience, host = self._cluster.patience, self._cluster.host
        asked = coordinator or self._coordinator
        pause, first = patience.retry, True
        while not self._closed:
            wait = pause
            try:
                code = await attempt()
            except ConnectionLost:
                self.doubtful = True
                first = False
            except ApiError:
                pass  # the coordinator cannot be found now
            else:
                if code is E.NONE:
                    return
                if code in FENCED:
                    raise ProducerFencedError(first)
                if code in _ABORTABLE:
                    raise AbortableError(code.name)
                if code in (E.COORDINATOR_NOT_AVAILABLE, E.REQUEST_TIMED_OUT):
                    # The coordinator lost ZooKeeper during its write, so the request may have taken effect.
                    first = False
                if code in COORDINATOR_MOVED or code is E.REQUEST_TIMED_OUT:
                    asked.forget()
                elif code is E.CONCURRENT_TRANSACTIONS:
                    wait = _FIRST_PAUSE
                elif code not in RETRIABLE:
                    host.unexpected(self._cluster.name, what, code)
                    raise ProducerFencedError(False)
            await host.sleep(wait * (0.8 + 0.4 * host.rng.random()))
            pause = min(pause * 2, patience.retry_max)
        raise StoppedError
