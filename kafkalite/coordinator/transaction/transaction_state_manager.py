"""The state partitions that this broker has claimed, with the transactional ids in them.

Answers to: ``kafka.coordinator.transaction.TransactionStateManager``. Reactor shell.

The broker that placement names takes a claim when a request needs it, or at once if the state partition has ids and no
coordinator. The metadata of an id was read after the claim in the same session, or written under it; if the outcome of
a write is unknown, the coordinator reads the id again before it does anything else with it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kafkalite.cluster.metadata import MetadataCache
from kafkalite.common.clock import Clock
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.events import EventKind, EventRecorder, ignore_event
from kafkalite.common.recent_times import WINDOW
from kafkalite.common.tasks import SharedOutcome, spawn
from kafkalite.coordinator.placement import preferred
from kafkalite.zk.stores.claims import Claim, ClaimLostError, ClaimStore
from kafkalite.zk.stores.transactions import NEW, Stored, TransactionStore
from kafkalite.zk.zk_client import ConnectionLostError, EventType, SessionExpiredError, WatchEvent, ZkError
from kafkalite.zk.znodes.codec import MalformedZnodeError
from kafkalite.zk.znodes.transactions import TransactionMetadata, TransactionState, partition_path

log = logging.getLogger(__name__)
_DECISIONS = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT, TransactionState.PREPARE_EPOCH_FENCE)


@dataclass(slots=True, eq=False)
class TransactionalIdEntry:
    """One transactional id as its coordinator knows it.

    ``busy``: a read or write of its znode is outstanding, so other requests are refused. ``is_unknown``: the outcome of
    its last write is unknown. ``is_ending``: its completion runs.
    """

    metadata: TransactionMetadata
    version: int = NEW
    mzxid: int = -1
    busy: bool = False
    is_unknown: bool = False
    is_ending: bool = False

    def take(self, stored: Stored) -> None:
        """Use what the znode contains now."""
        self.metadata, self.version, self.mzxid = stored.metadata, stored.version, stored.mzxid


@dataclass(slots=True, eq=False)
class StatePartition:
    """One claim and the ids under it. ``alive`` until the claim is lost or released."""

    number: int
    claim: Claim
    entries: dict[str, TransactionalIdEntry]
    alive: bool = True

    def knows(self, entry: TransactionalIdEntry) -> bool:
        """Whether this coordinator still owns ``entry``: the claim holds, and no administrator has removed the id."""
        return self.alive and self.entries.get(entry.metadata.transactional_id) is entry


class TransactionStateManager:
    """Claims, loads and writes state partitions. ``on_loaded`` is called with each state partition that was loaded."""

    def __init__(
        self,
        broker_id: int,
        claims: ClaimStore,
        store: TransactionStore,
        cluster: MetadataCache,
        on_loaded: Callable[[StatePartition], object],
        clock: Clock,
        record: EventRecorder = ignore_event,
    ) -> None:
        self._record = record
        self.store = store
        self._on_loaded = on_loaded
        self._broker_id = broker_id
        self._claims = claims
        self._cluster = cluster
        self._owned: dict[int, StatePartition] = {}
        self._loading: dict[int, SharedOutcome[StatePartition]] = {}
        self._monotonic = clock.monotonic
        self.loads: deque[tuple[float, float]] = deque(maxlen=WINDOW)
        """When the latest state partitions were loaded, by the monotonic clock, and how many seconds each took."""
        self._looking = False
        self._look_again = False
        self._closed = True

    def __iter__(self) -> Iterator[StatePartition]:
        return iter(list(self._owned.values()))

    @property
    def is_loading(self) -> bool:
        """Whether a state partition is being loaded."""
        return bool(self._loading)

    def open(self) -> None:
        """Start to claim state partitions."""
        self._closed = False
        self.look_for_orphans()

    async def close(self) -> None:
        """Release every claim."""
        self._closed = True
        for partition in self:
            self.drop(partition)
            await self._release(partition)

    def drop(self, partition: StatePartition) -> None:
        """Forget a state partition, because its claim is lost or about to be released."""
        partition.alive = False
        if self._owned.get(partition.number) is partition:
            del self._owned[partition.number]

    def drop_all(self) -> None:
        """The session has expired, and every claim with it."""
        for partition in self:
            self.drop(partition)

    # Ownership

    async def find(self, transactional_id: str) -> int | None:
        """The holder of the claim, else the broker that placement names; ``None`` if no broker is known."""
        base = partition_path(await self.store.partition_for(transactional_id))
        holder = await self._claims.holder(base)
        if holder is not None:
            return holder
        # A stopping broker leaves itself out, because it may still be registered.
        return preferred(base, (each for each in self._cluster.brokers if not self._closed or each != self._broker_id))

    async def owner(self, transactional_id: str) -> StatePartition:
        """The state partition of an id; claimed now if no broker holds it and placement names this broker.

        Raises ``ApiError``: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE.
        """
        try:
            number = await self.store.partition_for(transactional_id)
            return self._owned.get(number) or await self._acquire(number)
        except ZkError as error:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"ZooKeeper: {error}") from None

    async def _acquire(self, number: int) -> StatePartition:
        owned = self._owned.get(number)
        if owned is not None:
            # It was loaded while the caller read ZooKeeper. A second load would make a second set of entries, and each
            # set would lack what requests change in the other.
            return owned
        loading = self._loading.get(number)
        if loading is not None:
            return await loading.wait()
        loading = self._loading[number] = SharedOutcome()
        outcome = loading.wait()
        spawn(self._load_for_all(number, loading), "taking a state partition over")
        return await outcome

    async def _load_for_all(self, number: int, loading: SharedOutcome[StatePartition]) -> None:
        began = self._monotonic()
        try:
            partition = await self._load(number)
        except Exception as error:
            del self._loading[number]
            loading.fail(error)
            return
        del self._loading[number]
        now = self._monotonic()
        self.loads.append((now, now - began))
        self._owned[number] = partition
        if self._closed:
            self.drop(partition)
            spawn(self._release(partition), "releasing a state partition")
        self._on_loaded(partition)
        loading.succeed(partition)

    async def _load(self, number: int) -> StatePartition:
        base = partition_path(number)
        holder = await self._claims.holder(base)
        if self._closed or (holder != self._broker_id if holder is not None else not self._is_preferred(base)):
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        await self.store.prepare(number)
        claim = await self._claims.claim(base, self._broker_id)
        if claim is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        loaded = await self.store.load(number)
        # A write that only checks the claim proves that the claim held during the whole read.
        await self._claims.confirm(claim)
        entries = {name: TransactionalIdEntry(each.metadata, each.version, each.mzxid) for name, each in loaded.items()}
        log.info("coordinates transaction state partition %d, epoch %d, %d ids", number, claim.epoch, len(entries))
        return StatePartition(number, claim, entries)

    async def _release(self, partition: StatePartition) -> None:
        try:
            await self._claims.release(partition.claim)
        except ZkError as error:
            # The claim ends with the session.
            log.info("transaction state partition %d was not released: %s", partition.number, error)

    def _is_preferred(self, base: str) -> bool:
        return preferred(base, self._cluster.brokers) == self._broker_id

    # Orphans

    def look_for_orphans(self, event: WatchEvent | None = None) -> None:
        """Brokers or a watched claim changed: take over the orphans that placement gives to this broker."""
        if self._closed or (event is not None and event.type is EventType.LOST):
            # Every watch reports the lost connection; one search after the reconnect is enough.
            return
        self._look_again = True
        if not self._looking:
            self._looking = True
            spawn(self._look(), "looking for orphaned transactions")

    async def _look(self) -> None:
        try:
            while self._look_again and not self._closed:
                self._look_again = False
                for number in await self.store.existing():
                    try:
                        await self._look_at(number)
                    except MalformedZnodeError as error:
                        # Take over the other partitions nevertheless, because their open transactions block readers.
                        log.error("transaction state partition %d is left alone: %s", number, error)
        except (ConnectionLostError, SessionExpiredError) as error:
            log.info("looking for orphaned transactions was cut short: %s", error)
        finally:
            self._looking = False

    async def _look_at(self, number: int) -> None:
        base = partition_path(number)
        if number in self._owned:
            return
        holder = await self._claims.holder(base, self.look_for_orphans)
        # A lost connection interrupted the load under our own claim; no other broker can take it over.
        half_done = holder == self._broker_id
        if not half_done and (holder is not None or not self._is_preferred(base)):
            return
        if not await self.store.has_ids(number):
            return
        try:
            await self._acquire(number)
        except (ApiError, ZkError) as error:
            log.info("transaction state partition %d was not taken over: %s", number, error)

    # Writing

    @contextmanager
    def _using(self, partition: StatePartition, *entries: TransactionalIdEntry) -> Iterator[None]:
        """``entries`` are busy meanwhile, and unknown if ZooKeeper fails.

        Errors become ``ApiError`` (NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE).
        """
        for entry in entries:
            entry.busy = True
        try:
            yield
        except (ClaimLostError, SessionExpiredError):
            self.drop(partition)
            raise ApiError(ErrorCode.NOT_COORDINATOR) from None
        except ZkError as error:
            for entry in entries:
                entry.is_unknown = True
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"ZooKeeper: {error}") from None
        finally:
            for entry in entries:
                entry.busy = False

    async def write(
        self, partition: StatePartition, entry: TransactionalIdEntry, metadata: TransactionMetadata
    ) -> None:
        """Make ``metadata`` durable. Raises ``ApiError`` (NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE)."""
        with self._using(partition, entry):
            try:
                entry.take(await self.store.write(partition.claim, metadata, entry.version))
                if metadata.state in _DECISIONS:
                    self._record_decision(entry)
            except ZkError as error:
                if type(error) is not ZkError:
                    raise
                # Too large for ZooKeeper: it was never sent, and a retry would fail, too.
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None

    def _record_decision(self, entry: TransactionalIdEntry) -> None:
        decided = entry.metadata
        self._record(
            EventKind.TRANSACTION,
            f"{decided.transactional_id}: {decided.state.value}, {len(decided.partitions)} partitions",
            transactional_id=decided.transactional_id,
            zxid=entry.mzxid,
        )

    async def resolve(self, partition: StatePartition, entry: TransactionalIdEntry) -> None:
        """Read an id again after a write with an unknown outcome. Raises as :meth:`write`."""
        name = entry.metadata.transactional_id
        with self._using(partition, entry):
            found = await self.store.read(name)
        entry.is_unknown = False
        if found is None:
            partition.entries.pop(name, None)
        else:
            entry.take(Stored(found[0], found[1].version, found[1].mzxid))

    async def remove(self, partition: StatePartition, expired: list[TransactionalIdEntry]) -> None:
        """Remove those of ``expired`` whose znodes are unchanged. Raises as :meth:`write`."""
        stored = [Stored(entry.metadata, entry.version, entry.mzxid) for entry in expired]
        with self._using(partition, *expired):
            gone = await self.store.remove(partition.claim, stored)
        for entry, was_removed in zip(expired, gone, strict=True):
            if was_removed:
                partition.entries.pop(entry.metadata.transactional_id, None)
            else:
                entry.is_unknown = True
