"""Reading and writing the states of transactional ids, under a claim.

Answers to: ``kafka.coordinator.transaction.TransactionStateManager`` (``loadTransactionMetadata``,
``appendTransactionToLog``). Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from kafkalite.common.tasks import gather_in_parts
from kafkalite.zk.stores.claims import Claim, write_claimed
from kafkalite.zk.stores.paths import catch_up, children, ensure, read
from kafkalite.zk.zk_client import (
    Check,
    Create,
    Delete,
    MultiError,
    NodeExistsError,
    Op,
    SetData,
    Watch,
    ZkClient,
    ZkError,
    ZnodeStat,
)
from kafkalite.zk.znodes import topics, transactions
from kafkalite.zk.znodes.codec import MalformedZnodeError, decode_name
from kafkalite.zk.znodes.transactions import TransactionMetadata

NEW = -1
"""Version of a transactional id that has no znode yet."""
_AT_ONCE = 500
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stored:
    """The content of a transactional id's znode: ``version`` for the next write, ``mzxid`` of the last one."""

    metadata: TransactionMetadata
    version: int
    mzxid: int


class TransactionStore:
    """``/transactions`` and all znodes below it except the claims.

    ``partitions`` is how many state partitions are made where ``/transactions`` does not exist yet.
    """

    def __init__(self, client: ZkClient, partitions: int) -> None:
        self._client = client
        self._new_count = partitions
        self._count = 0

    async def count(self) -> int:
        """The number of state partitions; the first broker that calls this decides it for ever."""
        while not self._count:
            found = await read(self._client, transactions.TRANSACTIONS)
            if found is not None:
                self._count = transactions.decode_root(found[0])
                break
            try:
                await self._client.create(transactions.TRANSACTIONS, transactions.encode_root(self._new_count))
            except NodeExistsError:
                continue
        return self._count

    async def partition_for(self, transactional_id: str) -> int:
        """The state partition of ``transactional_id``."""
        return transactions.state_partition_for(transactional_id, await self.count())

    async def existing(self) -> list[int]:
        """State partitions that were ever claimed; none in a cluster without transactions."""
        return sorted(int(name) for name in await children(self._client, transactions.TRANSACTIONS))

    async def has_ids(self, number: int) -> bool:
        """Whether the state partition has any transactional id."""
        return bool(await children(self._client, transactions.ids_path(number)))

    async def prepare(self, number: int) -> None:
        """Make the paths of a state partition, before its first claim."""
        await self.count()
        await ensure(self._client, transactions.ids_path(number))

    async def read(
        self, transactional_id: str, watch: Watch | None = None
    ) -> tuple[TransactionMetadata, ZnodeStat] | None:
        """The metadata of ``transactional_id``; any broker may read it. Raises ``MalformedZnodeError``."""
        path = transactions.id_path(await self.partition_for(transactional_id), transactional_id)
        found = await read(self._client, path, watch)
        if found is None:
            return None
        return transactions.decode_transaction(path, found[0], transactional_id), found[1]

    async def read_current(self, transactional_id: str) -> TransactionMetadata | None:
        """As :meth:`read`, but never outdated, although ZooKeeper's server may lag behind; takes as long as a write."""
        while True:
            found = await self.read(transactional_id)
            if found is None:
                await catch_up(self._client, transactions.TRANSACTIONS)
                found = await self.read(transactional_id)
                return None if found is None else found[0]
            path = transactions.id_path(await self.partition_for(transactional_id), transactional_id)
            try:
                await self._client.multi([Check(path, found[1].version)])
            except MultiError:
                continue
            return found[0]

    async def load(self, number: int) -> dict[str, Stored]:
        """The transactional ids of a state partition; malformed ones are left out.

        Call it after the claim, in the same session.
        """
        names = await children(self._client, transactions.ids_path(number))

        async def one(transactional_id: str) -> tuple[TransactionMetadata, ZnodeStat] | None:
            try:
                return await self.read(transactional_id)
            except MalformedZnodeError as error:
                log.error("a transactional id is left out: %s", error)
                return None

        ids = [decode_name(name) for name in names]
        found = await gather_in_parts(one, ids, _AT_ONCE)
        return {
            name: Stored(each[0], each[1].version, each[1].mzxid) for name, each in zip(ids, found, strict=True) if each
        }

    async def write(self, claim: Claim, metadata: TransactionMetadata, version: int) -> Stored:
        """Make ``metadata`` durable, against the znode's ``version`` (:data:`NEW` creates it).

        Raises ``ClaimLostError``; ``BadVersionError``, ``NodeExistsError`` or ``NoNodeError`` where the znode is not as
        expected; ``ConnectionLostError`` or ``SessionExpiredError`` (then re-read: the outcome is unknown).
        """
        number = await self.partition_for(metadata.transactional_id)
        path = transactions.id_path(number, metadata.transactional_id)
        data = transactions.encode_transaction(metadata)
        if version == NEW:
            # A multi returns no stat for a creation, so a write follows it and returns the stat.
            return await self._write(claim, [Create(path), SetData(path, data, 0)], metadata)
        return await self._write(claim, [SetData(path, data, version)], metadata)

    async def _write(self, claim: Claim, ops: list[Op], metadata: TransactionMetadata) -> Stored:
        [result] = await write_claimed(self._client, claim, [ops])
        if isinstance(result, ZkError):
            raise result
        stat = result[-1]
        assert isinstance(stat, ZnodeStat)
        return Stored(metadata, stat.version, stat.mzxid)

    async def remove(self, claim: Claim, expired: Iterable[Stored]) -> list[bool]:
        """Remove ids whose znodes are unchanged; returns for each whether it was removed. Raises as :meth:`write`."""
        stored = list(expired)
        number = [await self.partition_for(each.metadata.transactional_id) for each in stored]
        groups = [
            [Delete(transactions.id_path(at, each.metadata.transactional_id), each.version)]
            for at, each in zip(number, stored, strict=True)
        ]
        results = await write_claimed(self._client, claim, groups)
        return [not isinstance(result, ZkError) for result in results]

    async def topic_exists(self, topic: str) -> bool:
        """Whether the topic exists by ZooKeeper, because a cache may not know a new topic yet."""
        return await self._client.exists(topics.topic_path(topic)) is not None
