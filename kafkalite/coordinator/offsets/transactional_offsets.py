"""The offsets of transactions: staged until the decision, then copied to the group's offsets or discarded.

Answers to: ``GroupMetadata.{prepareTxnOffsetCommit,completePendingTxnOffsetCommit}``. Reactor shell.

The group's coordinator stages under its claim, in a write that checks the version of the transaction's znode, so that
nothing is staged after the decision. The transaction's coordinator copies them under its own claim after the
decision. It does not overwrite an offset that was written after the decision; so copying is idempotent.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import partial

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import gather, gather_in_parts
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.offsets.committed_offset_reader import merged
from kafkalite.zk.stores.claims import Claim, write_claimed, write_each_claimed
from kafkalite.zk.stores.controller import AdminStore
from kafkalite.zk.stores.fenced_write import FencedError, FencedWrite, OpResult, write_fenced
from kafkalite.zk.stores.offset_layout import create_container
from kafkalite.zk.stores.offsets import AT_ONCE, OffsetStore, Standing
from kafkalite.zk.stores.paths import children, read
from kafkalite.zk.stores.transactions import TransactionStore
from kafkalite.zk.zk_client import (
    BadVersionError,
    Check,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    Op,
    SetData,
    ZkClient,
    ZkError,
)
from kafkalite.zk.znodes import consumers, offsets, transactions
from kafkalite.zk.znodes.codec import MalformedZnodeError
from kafkalite.zk.znodes.offsets import OffsetAndMetadata, StagedOffsets, TxnProducer
from kafkalite.zk.znodes.transactions import TransactionMetadata, TransactionState

log = logging.getLogger(__name__)

CHUNK_BYTES = 100_000
"""The approximate size of one znode of staged offsets."""

_OVERHEAD = 150
_TRIES = 10

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class TransactionalOffsets:
    """Writes and removes ``/consumers/<group>/staged``."""

    def __init__(self, store: OffsetStore, transactions: TransactionStore) -> None:
        self._client: ZkClient = store.client
        self._store = store
        self._transactions = transactions
        self._admin = AdminStore(store.client)

    async def stage(self, group: str, claim: Claim, producer: TxnProducer, staged: Offsets) -> ErrorCode:
        """Store ``staged`` aside until the producer's transaction is decided; durable when this returns NONE.

        Returns INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING or INVALID_PRODUCER_EPOCH if this producer has no ongoing
        transaction. Raises ``ClaimLostError``.
        """
        for attempt in range(_TRIES):
            found = await self._transactions.read(producer.transactional_id)
            error = _refusal(None if found is None else found[0], producer, group)
            if error is not ErrorCode.NONE and attempt:
                return error
            if found is None or error is not ErrorCode.NONE:
                # This ZooKeeper server may lag behind the one that took the transaction's write. Our own write brings
                # it up to date, so read again behind it.
                await write_claimed(self._client, claim, [[claim.check()]])
                continue
            number = await self._transactions.partition_for(producer.transactional_id)
            check = Check(transactions.id_path(number, producer.transactional_id), found[1].version)
            ops = await self._ops_stage(group, producer, staged)
            writes = [[check, op] for op in ops]
            results = await write_claimed(self._client, claim, writes)
            if not await self._again(group, claim, results):
                return ErrorCode.NONE
        return ErrorCode.COORDINATOR_NOT_AVAILABLE

    async def apply(self, group: str, producer: TxnProducer, claim: Claim, decision_mzxid: int) -> None:
        """Copy the offsets that ``producer`` staged to the group's offsets, then remove them. Idempotent.

        ``claim``: that of the transaction's state partition. An offset that was written after the decision
        (``decision_mzxid``) stays. Raises ``ClaimLostError`` and ``ZkError``.
        """
        paths = await self._paths(group, producer)
        chunks = [(path.rpartition("/")[2], await self._chunk(path)) for path in paths]
        left = dict(merged(chunks).get(producer, {}))
        existing = await self._existing_topics({tp.topic for tp in left})
        left = {tp: value for tp, value in left.items() if tp.topic in existing}
        for _ in range(_TRIES):
            if not left:
                break
            left = await self._copy(group, left, claim, decision_mzxid)
        if left:
            raise ZkError(offsets.staged_path(group), f"{len(left)} offsets change faster than they are copied:")
        await write_each_claimed(self._client, claim, map(Delete, paths))

    async def discard(self, group: str, producer: TxnProducer, claim: Claim) -> None:
        """Remove the offsets that ``producer`` staged. Idempotent. Raises ``ClaimLostError`` and ``ZkError``."""
        await write_each_claimed(self._client, claim, map(Delete, await self._paths(group, producer)))

    # Staging

    async def _ops_stage(self, group: str, producer: TxnProducer, staged: Offsets) -> list[Op]:
        """The operations that add ``staged`` to the last chunk if it has room, else to new chunks."""
        paths = await self._paths(group, producer)
        ops: list[Op] = []
        if paths:
            found = await read(self._client, paths[-1])
            before = None if found is None else _decoded(paths[-1], found[0])
            if found is not None and before is not None and len(found[0]) + _size(staged) <= CHUNK_BYTES:
                data = offsets.encode_staged(StagedOffsets(producer, {**before.offsets, **staged}))
                return [SetData(paths[-1], data, found[1].version)]
        last = offsets.staged_chunk(paths[-1].rpartition("/")[2], producer) if paths else None
        chunk = 0 if last is None else last + 1
        for piece in _pieces(staged):
            path = f"{offsets.staged_path(group)}/{offsets.staged_name(producer, chunk)}"
            ops.append(Create(path, offsets.encode_staged(StagedOffsets(producer, piece))))
            chunk += 1
        return ops

    async def _again(self, group: str, claim: Claim, results: list[list[OpResult] | ZkError]) -> bool:
        """Whether to write again. Raises errors that a retry cannot mend."""
        errors = [result for result in results if isinstance(result, ZkError)]
        for error in errors:
            if not isinstance(error, NoNodeError | NodeExistsError | BadVersionError):
                raise error
        if any(isinstance(error, NoNodeError) for error in errors):
            above = consumers.group_path(group), offsets.staged_path(group)
            await write_fenced(self._client, [FencedWrite(claim.fence(), [Create(path)]) for path in above])
        return bool(errors)

    # Copying

    async def _copy(
        self, group: str, staged: Offsets, claim: Claim, decision_mzxid: int
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Write each offset unless a later one exists; returns those that other writers changed meanwhile."""
        wanted = list(staged)
        writes: list[tuple[TopicPartition, FencedWrite]] = []
        standings = await gather_in_parts(partial(self._store.standing, group), wanted, AT_ONCE)
        for tp, standing in zip(wanted, standings, strict=True):
            if standing.order < decision_mzxid:
                ops = _ops_copy(group, tp, staged[tp], standing, decision_mzxid)
                writes.append((tp, FencedWrite(claim.fence(), ops)))
        left: dict[TopicPartition, OffsetAndMetadata] = {}
        results = await write_fenced(self._client, [write for _, write in writes])
        for (tp, _), result in zip(writes, results, strict=True):
            if isinstance(result, NoNodeError):
                await self._create_containers(group, tp, claim)
            if isinstance(result, NoNodeError | NodeExistsError | BadVersionError):
                left[tp] = staged[tp]
            elif isinstance(result, FencedError):
                raise claim.lost()
            elif isinstance(result, ZkError):
                raise result
        return left

    async def _create_containers(self, group: str, tp: TopicPartition, claim: Claim) -> None:
        for path in (consumers.offset_path(group, tp), offsets.commit_path(group, tp)):
            await create_container(self._client, path.rpartition("/")[0], claim.fence())

    async def _existing_topics(self, names: set[str]) -> set[str]:
        """The topics that exist and are not being deleted, by ZooKeeper, because a stale cache would lose offsets."""
        listed = sorted(names)
        deleted = await gather(map(self._admin.is_being_deleted, listed))
        return {name for name, is_deleted in zip(listed, deleted, strict=True) if not is_deleted}

    # Reading

    async def _paths(self, group: str, producer: TxnProducer) -> list[str]:
        """The chunks of ``producer``, in order."""
        above = offsets.staged_path(group)
        names = await children(self._client, above)
        chunks = sorted((chunk, name) for name in names if (chunk := offsets.staged_chunk(name, producer)) is not None)
        return [f"{above}/{name}" for _, name in chunks]

    async def _chunk(self, path: str) -> StagedOffsets | None:
        found = await read(self._client, path)
        return None if found is None else _decoded(path, found[0])


def _decoded(path: str, data: bytes) -> StagedOffsets | None:
    try:
        return offsets.decode_staged(path, data)
    except MalformedZnodeError as error:
        log.error("cannot be applied: %s", error)
        return None


def _ops_copy(
    group: str, tp: TopicPartition, value: OffsetAndMetadata, standing: Standing, decision_mzxid: int
) -> list[Op]:
    """Write against the version that was read, so that a concurrent write makes this fail."""
    path, beside = consumers.offset_path(group, tp), offsets.commit_path(group, tp)
    number, rest = consumers.encode_offset(value.offset), offsets.encode_commit(value, decision_mzxid)
    version = standing.version
    return [
        Create(path, number) if version is None else SetData(path, number, version),
        SetData(beside, rest) if standing.has_commit else Create(beside, rest),
    ]


def _refusal(transaction: TransactionMetadata | None, producer: TxnProducer, group: str) -> ErrorCode:
    if transaction is None or transaction.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != producer.producer_epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if transaction.state is not TransactionState.ONGOING or group not in transaction.groups:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.NONE


def _size(staged: Offsets) -> int:
    return sum(_OVERHEAD + len(tp.topic) + 6 * len(value.metadata) for tp, value in staged.items())


def _pieces(staged: Offsets) -> Iterator[dict[TopicPartition, OffsetAndMetadata]]:
    """``staged`` in parts of about :data:`CHUNK_BYTES`."""
    piece: dict[TopicPartition, OffsetAndMetadata] = {}
    size = 0
    for tp, value in staged.items():
        own = _size({tp: value})
        if piece and size + own > CHUNK_BYTES:
            yield piece
            piece, size = {}, 0
        piece[tp] = value
        size += own
    if piece:
        yield piece
