"""Reads the committed and staged offsets of groups, from values cached under ZooKeeper watches; any broker may read.

Answers to: ``GroupMetadataManager.getOffsets``, ``GroupMetadata.pendingTransactionalOffsetCommits`` and
``KafkaApis.fetchOffsetsFromZookeeper``. Reactor shell.

The committed offset of a partition is the staged one, if its transaction was decided after the number was written (or
after the decision of the transaction that wrote the number); else the number with the commit beside it, if both znodes
carry the same mzxid; else the bare number, which an old consumer or an administrator wrote.

A staged offset is committed by the one write that decides its transaction, before it is copied to the group's offsets.
So the reader looks at the staged offsets and at the znodes of their transactions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from kafkalite.common.errors import ErrorCode
from kafkalite.common.events import EventKind, EventRecorder, ignore_event
from kafkalite.common.tasks import gather, gather_in_parts
from kafkalite.common.types import TopicPartition
from kafkalite.zk.stores.offsets import AT_ONCE, OffsetStore, StoredOffset
from kafkalite.zk.stores.paths import children_or_watch, read_or_watch
from kafkalite.zk.stores.transactions import TransactionStore
from kafkalite.zk.stores.watched_reads import WatchedReads
from kafkalite.zk.zk_client import Watch
from kafkalite.zk.znodes import consumers, offsets, transactions
from kafkalite.zk.znodes.codec import MalformedZnodeError, decode_name
from kafkalite.zk.znodes.offsets import NO_TIMESTAMP, OffsetAndMetadata, StagedOffsets, TxnProducer
from kafkalite.zk.znodes.transactions import TransactionMetadata, TransactionState

log = logging.getLogger(__name__)

Fetched = dict[TopicPartition, OffsetAndMetadata | ErrorCode]
Stored = StoredOffset | ErrorCode | None

_TRIES = 5


Decided = tuple[int, OffsetAndMetadata]
"""The mzxid of the decision, and the offset that it commits."""
_Found = tuple[TransactionMetadata, int] | None


@dataclass(slots=True)
class StagedOffsetsView:
    """The staged offsets of one group. ``paths``: the znodes that were read for it."""

    decided: dict[TopicPartition, Decided] = field(default_factory=dict)
    undecided: set[TopicPartition] = field(default_factory=set)
    paths: list[str] = field(default_factory=list)


class CommittedOffsetReader:
    """Reads the offsets of groups through :class:`WatchedReads`."""

    def __init__(
        self,
        store: OffsetStore,
        reads: WatchedReads,
        transactions: TransactionStore,
        record: EventRecorder = ignore_event,
    ) -> None:
        self._record = record
        self._store = store
        self._reads = reads
        self._transactions = transactions

    async def fetch(self, group: str, partitions: Sequence[TopicPartition] | None, require_stable: bool) -> Fetched:
        """The committed offset or an error for each of ``partitions`` (``None``: for all); no key without an offset."""
        wanted: Sequence[TopicPartition] = ()
        for _ in range(_TRIES):
            # Read the staged offsets first: those that are applied meanwhile are then found among the stored ones.
            staged = await self.staged(group)
            wanted = await self.partitions(group) if partitions is None else partitions
            if partitions is None:
                only_staged = set(staged.decided) | (staged.undecided if require_stable else set())
                wanted = sorted(only_staged.union(wanted))
            stored = await self.stored(group, wanted)
            if self._reads.all_valid(staged.paths):
                return _combined(wanted, stored, staged, require_stable)
            # A transaction changed meanwhile, so some offsets may be from before its decision and others from after.
        if require_stable:
            return dict.fromkeys(wanted, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return _combined(wanted, stored, staged, require_stable)

    async def partitions(self, group: str) -> list[TopicPartition]:
        """All partitions for which ``group`` has an offset."""
        above = consumers.offsets_path(group)
        topics = await self._reads.get(above, partial(children_or_watch, self._store.client, above))
        listed = await gather(self._numbers(f"{above}/{topic}") for topic in topics)
        return sorted(
            TopicPartition(decode_name(topic), int(name))
            for topic, names in zip(topics, listed, strict=True)
            for name in names
            if name.isdecimal()
        )

    async def stored(self, group: str, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Stored]:
        """The offsets in the znodes of ``partitions``, without the staged ones."""
        found: dict[TopicPartition, Stored] = {}
        missing: list[TopicPartition] = []
        for tp in partitions:
            known, value = self._reads.peek(consumers.offset_path(group, tp))
            if known:
                found[tp] = cast("Stored", value)
            else:
                missing.append(tp)
        read = await gather_in_parts(partial(self._stored, group), missing, AT_ONCE)
        return found | dict(zip(missing, read, strict=True))

    async def staged(self, group: str) -> StagedOffsetsView:
        """The staged offsets of ``group`` now."""
        view = StagedOffsetsView()
        above = offsets.staged_path(group)
        names = await self._reads.get(above, partial(children_or_watch, self._store.client, above))
        view.paths.append(above)
        if not names:
            return view
        paths = [f"{above}/{name}" for name in names]
        chunks = await gather(self._reads.get(path, partial(self._chunk, path)) for path in paths)
        view.paths += paths
        for producer, staged in merged(zip(names, chunks, strict=True)).items():
            path = await self._transaction_path(producer.transactional_id)
            found = await self._reads.get(path, partial(self._state, path, producer.transactional_id))
            view.paths.append(path)
            _decide(view, producer, staged, found)
        return view

    async def _numbers(self, path: str) -> list[str]:
        return await self._reads.get(path, partial(children_or_watch, self._store.client, path))

    async def _stored(self, group: str, tp: TopicPartition) -> Stored:
        path = consumers.offset_path(group, tp)

        async def load(watch: Watch) -> Stored:
            before = self._reads.known(path)
            try:
                stored = await self._store.offset(group, tp, watch)
            except MalformedZnodeError as error:
                log.error("%s", error)
                return ErrorCode.UNKNOWN_SERVER_ERROR
            if stored is not None and isinstance(before, StoredOffset) and before.mzxid > stored.mzxid:
                return before  # the server of a new session lags behind; its watch will fire
            if stored is not None and isinstance(before, StoredOffset) and before.mzxid < stored.mzxid:
                self._look_for_edit(group, tp, before, stored)
            return stored

        return await self._reads.get(path, load)

    def _look_for_edit(self, group: str, tp: TopicPartition, before: StoredOffset, now: StoredOffset) -> None:
        # Every commit of a broker has a time, so this number was written without one.
        if now.value.commit_timestamp_ms == NO_TIMESTAMP:
            self._record(
                EventKind.OFFSET_EDIT,
                f"group {group}: the offset of {tp} is {now.value.offset} instead of {before.value.offset}",
                topic=tp.topic,
                partition=tp.partition,
                group=group,
                zxid=now.mzxid,
                why="an old consumer or an administrator wrote the number",
            )

    async def _chunk(self, path: str, watch: Watch) -> StagedOffsets | None:
        found = await read_or_watch(self._store.client, path, watch)
        try:
            return None if found is None else offsets.decode_staged(path, found[0])
        except MalformedZnodeError as error:
            log.error("ignored until it is mended: %s", error)
            return None

    async def _transaction_path(self, transactional_id: str) -> str:
        return transactions.id_path(await self._transactions.partition_for(transactional_id), transactional_id)

    async def _state(self, path: str, transactional_id: str, watch: Watch) -> _Found:
        """The transaction, with the mzxid of its last write."""
        while True:
            try:
                found = await self._transactions.read(transactional_id, watch)
            except MalformedZnodeError as error:
                log.error("ignored until it is mended: %s", error)
                return None
            if found is not None:
                before = cast("_Found", self._reads.known(path))
                mzxid = found[1].mzxid
                # The server of a new session may lag behind the former session's server.
                return before if before is not None and before[1] > mzxid else (found[0], mzxid)
            if await self._store.client.exists(path, watch) is None:
                return None


def _combined(
    wanted: Sequence[TopicPartition],
    stored: dict[TopicPartition, Stored],
    staged: StagedOffsetsView,
    require_stable: bool,
) -> Fetched:
    answer: Fetched = {}
    for tp in wanted:
        if require_stable and tp in staged.undecided:
            answer[tp] = ErrorCode.UNSTABLE_OFFSET_COMMIT
            continue
        value, decided = stored[tp], staged.decided.get(tp)
        if isinstance(value, ErrorCode):
            answer[tp] = value
        elif decided is not None and (value is None or decided[0] > value.order):
            answer[tp] = decided[1]
        elif value is not None:
            answer[tp] = value.value
    return answer


def merged(
    chunks: Iterable[tuple[str, StagedOffsets | None]],
) -> dict[TxnProducer, dict[TopicPartition, OffsetAndMetadata]]:
    """The staged offsets by producer; if two chunks have the same partition, the later chunk wins."""
    found = []
    for name, staged in chunks:
        chunk = None if staged is None else offsets.staged_chunk(name, staged.producer)
        if staged is not None and chunk is not None:
            found.append((chunk, staged))
    merged: dict[TxnProducer, dict[TopicPartition, OffsetAndMetadata]] = {}
    for _, staged in sorted(found, key=lambda pair: pair[0]):
        merged.setdefault(staged.producer, {}).update(staged.offsets)
    return merged


def _decide(
    view: StagedOffsetsView, producer: TxnProducer, staged: dict[TopicPartition, OffsetAndMetadata], found: _Found
) -> None:
    if found is None:
        return
    transaction, mzxid = found
    if (transaction.producer_id, transaction.producer_epoch) != (producer.producer_id, producer.producer_epoch):
        return  # left by an aborted transaction, until its coordinator removes it
    if transaction.state is TransactionState.ONGOING:
        view.undecided.update(staged)
    elif transaction.state is TransactionState.PREPARE_COMMIT:
        for tp, value in staged.items():
            if tp not in view.decided or view.decided[tp][0] < mzxid:
                view.decided[tp] = (mzxid, value)
