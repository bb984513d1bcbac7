"""Reads the offsets that transactions have staged for a group, and how each transaction was decided.

Answers to: ``GroupMetadata.pendingTransactionalOffsetCommits``. Reactor shell.

A staged offset is committed by the one write that decides its transaction, before it is copied to the group's offsets.
So a reader must look at the staged offsets and at the znodes of their transactions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from kafkalite.common.tasks import gather
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.offsets.values import OffsetAndMetadata, TxnProducer
from kafkalite.zk.stores.offsets import OffsetStore
from kafkalite.zk.stores.paths import children_or_watch, read_or_watch
from kafkalite.zk.stores.transactions import TransactionStore
from kafkalite.zk.stores.watched_reads import WatchedReads
from kafkalite.zk.zk_client import Watch
from kafkalite.zk.znodes import offsets, transactions
from kafkalite.zk.znodes.codec import MalformedZnodeError
from kafkalite.zk.znodes.offsets import StagedOffsets
from kafkalite.zk.znodes.transactions import TransactionMetadata, TransactionState

log = logging.getLogger(__name__)

Decided = tuple[int, OffsetAndMetadata]
"""The mzxid of the decision, and the offset that it commits."""
_Found = tuple[TransactionMetadata, int] | None


@dataclass(slots=True)
class StagedOffsetsView:
    """The staged offsets of one group. ``paths``: the znodes that were read for it."""

    decided: dict[TopicPartition, Decided] = field(default_factory=dict)
    undecided: set[TopicPartition] = field(default_factory=set)
    paths: list[str] = field(default_factory=list)


class StagedOffsetsReader:
    """Reads ``/consumers/<group>/staged`` and the transactions behind it, under watches."""

    def __init__(self, store: OffsetStore, reads: WatchedReads, transactions: TransactionStore) -> None:
        self._client = store.client
        self._reads = reads
        self._transactions = transactions

    async def view(self, group: str) -> StagedOffsetsView:
        """The staged offsets of ``group`` now."""
        view = StagedOffsetsView()
        above = offsets.staged_path(group)
        names = await self._reads.get(above, partial(children_or_watch, self._client, above))
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

    async def _chunk(self, path: str, watch: Watch) -> StagedOffsets | None:
        found = await read_or_watch(self._client, path, watch)
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
                before: _Found = self._reads.known(path)
                mzxid = found[1].mzxid
                # The server of a new session may lag behind the former session's server.
                return before if before is not None and before[1] > mzxid else (found[0], mzxid)
            if await self._client.exists(path, watch) is None:
                return None


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
