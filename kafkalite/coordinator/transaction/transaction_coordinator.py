"""The transaction coordinator of one broker: serves the requests of producers and of tools.

Answers to: ``kafka.coordinator.transaction.TransactionCoordinator``. Reactor shell.

Each request takes five steps: find the state partition, ask ``transitions`` for the next state, write it, answer, and
start to complete the transaction if the write was a decision.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence

from kafkalite.common.clock import Clock
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.events import EventRecorder, ignore_event
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.transaction import transitions
from kafkalite.coordinator.transaction.transaction_completion import TransactionCompletion
from kafkalite.coordinator.transaction.transaction_expiration import TransactionExpiration
from kafkalite.coordinator.transaction.transaction_state_manager import (
    StatePartition,
    TransactionalIdEntry,
    TransactionStateManager,
)
from kafkalite.coordinator.transaction.transaction_verifier import TransactionVerifier
from kafkalite.coordinator.transaction.values import (
    CoordinatorDependencies,
    ProducerIdAndEpoch,
    TransactionConfig,
    TransactionListing,
)
from kafkalite.zk.stores.claims import ClaimStore
from kafkalite.zk.stores.transactions import TransactionStore
from kafkalite.zk.zk_client import SessionState, ZkError
from kafkalite.zk.znodes.transactions import TransactionMetadata, TransactionState

log = logging.getLogger(__name__)
_OPEN = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


class TransactionCoordinator:
    """Serves the transactional ids whose state partitions this broker has claimed."""

    def __init__(
        self,
        broker_id: int,
        claims: ClaimStore,
        store: TransactionStore,
        dependencies: CoordinatorDependencies,
        clock: Clock,
        config: TransactionConfig,
        record: EventRecorder = ignore_event,
    ) -> None:
        self._dependencies = dependencies
        self._clock = clock
        self.config = config
        self._state_manager = TransactionStateManager(
            broker_id, claims, store, dependencies.cluster, self._loaded, clock, record
        )
        self._completion = TransactionCompletion(self._state_manager, dependencies, clock)
        self._expiration = TransactionExpiration(self._state_manager, self._completion, clock, config)
        self.verifier = TransactionVerifier(store)
        """Used by the partition leaders on this broker; it needs no claim."""

    def start(self) -> None:
        """Start to take over orphaned state partitions and to abort transactions that time out."""
        self._state_manager.open()

    async def stop(self) -> None:
        """Release every claim, so that other brokers can take over at once."""
        self._expiration.stop()
        await self._state_manager.close()

    def on_session(self, state: SessionState) -> None:
        """The ZooKeeper session's state changed."""
        if state is SessionState.EXPIRED:
            self._state_manager.drop_all()
        elif state is SessionState.CONNECTED:
            self._state_manager.look_for_orphans()

    def brokers_changed(self) -> None:
        """The set of live brokers changed, so some state partitions may have no coordinator now."""
        self._state_manager.look_for_orphans()

    async def find(self, transactional_id: str) -> int | None:
        """The broker that holds the claim, else the broker that should take it; ``None`` if no broker is known.

        Raises ``ApiError`` (COORDINATOR_NOT_AVAILABLE) while ZooKeeper is unreachable.
        """
        try:
            return await self._state_manager.find(transactional_id)
        except ZkError as error:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"ZooKeeper: {error}") from None

    def _loaded(self, partition: StatePartition) -> None:
        self._completion.begin_all(partition)
        self._expiration.start()

    # Requests of producers

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None = None
    ) -> ProducerIdAndEpoch:
        """Give the caller a new epoch; this fences the former producer and aborts its transaction.

        Raises ``ApiError``.
        """
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        config = self.config
        if not transitions.timeout_is_legal(
            timeout_ms, config.transaction_max_timeout_ms, config.two_phase_commit_enable
        ):
            raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        partition = await self._state_manager.owner(transactional_id)
        # Loop, because an entry whose write had an unknown outcome may prove not to exist, and because another request
        # may create the entry while this one waits for the producer id.
        while (entry := await self._find(partition, transactional_id)) is None:
            producer_id = await self._dependencies.new_producer_id()
            begun = transitions.begin_id(transactional_id, producer_id, timeout_ms, self._clock.time_ms())
            partition.entries.setdefault(transactional_id, TransactionalIdEntry(begun))
        new_id = -1
        if transitions.wants_producer_id(entry.metadata, expected):
            new_id = await self._dependencies.new_producer_id()
            entry = await self._find(partition, transactional_id)
            if entry is None or not transitions.wants_producer_id(entry.metadata, expected):
                raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        decision = transitions.init_producer_id(entry.metadata, timeout_ms, expected, new_id, self._clock.time_ms())
        await self._carry_out(partition, entry, decision)
        return ProducerIdAndEpoch(entry.metadata.producer_id, entry.metadata.producer_epoch)

    async def add_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> None:
        """Add partitions to the transaction; the first ones begin it. Raises ``ApiError``."""
        partition, entry = await self._entry(transactional_id)
        decision = transitions.add(entry.metadata, producer, partitions, (), self._clock.time_ms())
        await self._carry_out(partition, entry, decision)

    async def add_offsets(self, transactional_id: str, producer: ProducerIdAndEpoch, group: str) -> None:
        """Add the offsets of ``group`` to the transaction. Raises ``ApiError``."""
        partition, entry = await self._entry(transactional_id)
        decision = transitions.add(entry.metadata, producer, (), (group,), self._clock.time_ms())
        await self._carry_out(partition, entry, decision)

    async def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """An error for each of ``partitions``: NONE if the open transaction contains it. Raises ``ApiError``."""
        _, entry = await self._entry(transactional_id, may_be_busy=True)
        return transitions.verify(entry.metadata, producer, partitions)

    async def end(self, transactional_id: str, producer: ProducerIdAndEpoch, *, commit: bool) -> None:
        """Commit or abort; returns once the decision is durable. Raises ``ApiError``."""
        partition, entry = await self._entry(transactional_id)
        decision = transitions.end(entry.metadata, producer, commit, self._clock.time_ms())
        await self._carry_out(partition, entry, decision)

    # Requests of tools

    async def describe(self, transactional_id: str) -> TransactionMetadata:
        """The metadata of one id. Raises ``ApiError`` (TRANSACTIONAL_ID_NOT_FOUND and others)."""
        try:
            _, entry = await self._entry(transactional_id, may_be_busy=True)
        except ApiError as error:
            if error.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
                raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND) from None
            raise
        if entry.metadata.state is TransactionState.DEAD:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return entry.metadata

    @property
    def loads(self) -> Sequence[tuple[float, float]]:
        """See :attr:`TransactionStateManager.loads`."""
        return self._state_manager.loads

    @property
    def without_leader(self) -> int:
        """See :attr:`TransactionCompletion.without_leader`."""
        return self._completion.without_leader

    @property
    def repeated_completions(self) -> int:
        """See :attr:`TransactionCompletion.repeated`."""
        return self._completion.repeated

    def starts_of_open(self) -> Iterator[int]:
        """The times, in ms since the epoch, at which the open transactions of this coordinator began."""
        for partition in self._state_manager:
            for entry in partition.entries.values():
                if entry.metadata.state in _OPEN:
                    yield entry.metadata.start_ms

    def list(
        self, states: Sequence[str] = (), producer_ids: Sequence[int] = (), duration_ms: int = -1
    ) -> tuple[list[TransactionListing], list[str]]:
        """The ids that this broker coordinates and that pass the filters, and the unknown states of ``states``.

        ``duration_ms``: only transactions that began longer ago than that; -1 for all. Raises ``ApiError``.
        """
        if self._state_manager.is_loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        names = {state.value for state in TransactionState}
        now_ms = self._clock.time_ms()
        found = [
            TransactionListing(name, entry.metadata.producer_id, entry.metadata.state)
            for partition in self._state_manager
            for name, entry in partition.entries.items()
            if entry.metadata.producer_epoch >= 0
            and entry.metadata.state is not TransactionState.DEAD
            and (not states or entry.metadata.state.value in states)
            and (not producer_ids or entry.metadata.producer_id in producer_ids)
            and (duration_ms < 0 or now_ms - entry.metadata.start_ms > duration_ms)
        ]
        return found, [state for state in states if state not in names]

    # Inside

    async def _entry(
        self, transactional_id: str, *, may_be_busy: bool = False
    ) -> tuple[StatePartition, TransactionalIdEntry]:
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        partition = await self._state_manager.owner(transactional_id)
        return partition, await self._usable(partition, transactional_id, may_be_busy=may_be_busy)

    async def _usable(
        self, partition: StatePartition, transactional_id: str, *, may_be_busy: bool = False
    ) -> TransactionalIdEntry:
        """The id's entry, read again if its last write had an unknown outcome. Raises ``ApiError``."""
        entry = await self._find(partition, transactional_id, may_be_busy=may_be_busy)
        if entry is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return entry

    async def _find(
        self, partition: StatePartition, transactional_id: str, *, may_be_busy: bool = False
    ) -> TransactionalIdEntry | None:
        """As :meth:`_usable`, but ``None`` if the id does not exist. Raises ``ApiError``."""
        entry = partition.entries.get(transactional_id)
        if entry is not None and entry.is_unknown and not entry.busy:
            await self._state_manager.resolve(partition, entry)
            self._completion.begin(partition, entry)
            entry = partition.entries.get(transactional_id)
        if not partition.alive:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        if entry is not None and entry.busy and not may_be_busy:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return entry

    async def _carry_out(
        self, partition: StatePartition, entry: TransactionalIdEntry, decision: transitions.Transition
    ) -> None:
        if decision.write is not None:
            await self._state_manager.write(partition, entry, decision.write)
            self._completion.begin(partition, entry)
        if decision.error is not ErrorCode.NONE:
            raise ApiError(decision.error)
