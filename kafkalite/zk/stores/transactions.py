"""Reading and writing the states of transactional ids, under a claim.

Answers to: ``kafka.coordinator.transaction.TransactionStateManager`` (``loadTransactionMetadata``,
``appendTransactionToLog``). Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from kafkalite.common.tasks import gather
from kafkalite.zk.stores.claims import Claim, write_claimed
from kafkalite.zk.stores.paths import children, ensure, read
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
from kafkalite.zk.znodes.codec import MalformedZnodeError
from kafkalite.zk.znodes.transactions import TransactionMetadata

NEW = -1
"""Version of a transactional id that has no znode yet."""
_AT_ONCE = 500
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stored:
    """A transactional id as its znode has it: ``version`` for the next write, ``mzxid`` of the last one."""

    metadata: TransactionMetadata
    version: int
    mzxid: int


class TransactionStore:
    """``/transactions`` and everything below but the claims themselves.

    ``partitions`` is how many state partitions are made where ``/transactions`` does not exist yet.
    """

    def __init__(self, client: ZkClient, partitions: int) -> None:
        self._client = client
        self._new_count = partitions
        self._count = 0

    async def count(self) -> int:
        """The number of state partitions; the first broker that asks decides it for good."""
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
        """Whether any transactional id is remembered in the state partition."""
        return bool(await children(self._client, transactions.ids_path(number)))

    async def prepare(self, number: int) -> None:
        """Make the paths of a state partition, before its first claim."""
        await self.count()
        await ensure(self._client, transactions.ids_path(number))

    async def read(
        self, transactional_id: str, watch: Watch | None = None
    ) -> tuple[TransactionMetadata, ZnodeStat] | None:
        """What is remembered of ``transactional_id``; any broker may ask. Raises ``MalformedZnodeError``."""
        path = transactions.id_path(await self.partition_for(transactional_id), transactional_id)
        found = await read(self._client, path, watch)
        if found is None:
            return None
        return transactions.decode_transaction(path, found[0], transactional_id), found[1]

    async def read_current(self, transactional_id: str) -> TransactionMetadata | None:
        """As :meth:`read`, but never what the server that is asked had before others wrote: takes a write's time."""
        while True:
            found = await self.read(transactional_id)
            if found is None:
                # A transaction, even one that changes nothing, is answered when the server has caught up.
                await self._client.multi([Check(transactions.TRANSACTIONS, -1)])
                found = await self.read(transactional_id)
                return None if found is None else found[0]
            path = transactions.id_path(await self.partition_for(transactional_id), transactional_id)
            try:
                await self._client.multi([Check(path, found[1].version)])
            except MultiError:
                continue
            return found[0]

    async def load(self, number: int) -> dict[str, Stored]:
        """Every transactional id of a state partition that can be understood.

        Call it after the claim, in the same session.
        """
        names = await children(self._client, transactions.ids_path(number))

        async def one(transactional_id: str) -> tuple[TransactionMetadata, ZnodeStat] | None:
            try:
                return await self.read(transactional_id)
            except MalformedZnodeError as error:
                log.error("a transactional id is left out: %s", error)
                return None

        loaded: dict[str, Stored] = {}
        for start in range(0, len(names), _AT_ONCE):
            some = [transactions.id_of(name) for name in names[start : start + _AT_ONCE]]
            for transactional_id, found in zip(some, await gather(map(one, some)), strict=True):
                if found is not None:
                    loaded[transactional_id] = Stored(found[0], found[1].version, found[1].mzxid)
        return loaded

    async def write(self, claim: Claim, metadata: TransactionMetadata, version: int) -> Stored:
        """Make ``metadata`` durable, against the znode's ``version`` (:data:`NEW` creates it).

        Raises ``ClaimLostError``; ``BadVersionError``, ``NodeExistsError`` or ``NoNodeError`` where the znode is not as
        expected; ``ConnectionLostError`` or ``SessionExpiredError`` (then re-read: the outcome is unknown).
        """
        number = await self.partition_for(metadata.transactional_id)
        path = transactions.id_path(number, metadata.transactional_id)
        data = transactions.encode_transaction(metadata)
        if version == NEW:
            # The stat, which a multi does not give for a creation, comes with the write that follows it.
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
        """Forget transactional ids; which of them were still as given, and are gone. Raises as :meth:`write`."""
        stored = list(expired)
        number = [await self.partition_for(each.metadata.transactional_id) for each in stored]
        groups = [
            [Delete(transactions.id_path(at, each.metadata.transactional_id), each.version)]
            for at, each in zip(number, stored, strict=True)
        ]
        results = await write_claimed(self._client, claim, groups)
        return [not isinstance(result, ZkError) for result in results]

    async def topic_exists(self, topic: str) -> bool:
        """Whether ZooKeeper has the topic; what a cache does not know may only be too new for it."""
        return await self._client.exists(topics.topic_path(topic)) is not None
