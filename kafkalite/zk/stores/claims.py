"""Claims: one broker coordinates a group, or a part of the transactions, and only its writes are taken.

Answers to: ``kafka.coordinator.group.GroupMetadataManager.ownedPartitions`` and the coordinator epochs that real Kafka
takes from the leaders of its internal topics. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkalite.common.clock import Clock
from kafkalite.zk.stores.fenced_write import OpResult, WriteFence, commit_groups
from kafkalite.zk.stores.paths import ensure, read
from kafkalite.zk.zk_client import (
    Check,
    Create,
    Delete,
    MultiError,
    NodeExistsError,
    NoNodeError,
    Op,
    SessionExpiredError,
    SetData,
    Watch,
    ZkClient,
    ZkError,
    ZnodeStat,
)
from kafkalite.zk.znodes import claims


class ClaimLostError(ZkError):
    """Somebody else has claimed it since: forget what is known of it and answer NOT_COORDINATOR."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Proof of coordinating what lies below ``base``: every write checks ``epoch_version`` of its epoch znode."""

    base: str
    broker_id: int
    epoch: int
    epoch_version: int
    session: int

    def check(self) -> Check:
        """The operation that makes a transaction fail once the claim is lost."""
        return Check(claims.epoch_path(self.base), self.epoch_version)

    def fence(self) -> WriteFence:
        """The check, in the session of the claim."""
        return WriteFence(self.check(), self.session)


class ClaimStore:
    """``<base>/coordinator``, ``<base>/coordinator_epoch``, and whatever is written under their protection."""

    def __init__(self, client: ZkClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def holder(self, base: str, watch: Watch | None = None) -> int | None:
        """Id of the broker that coordinates ``base`` or ``None``; ``watch`` sees the next change either way."""
        path = claims.coordinator_path(base)
        while True:
            found = await read(self._client, path, watch)
            if found is not None:
                return claims.decode_claim(path, found[0])
            if watch is None or await self._client.exists(path, watch) is None:
                return None

    async def claim(self, base: str, broker_id: int) -> Claim | None:
        """Try to coordinate ``base``, which is created where it is missing; ``None`` where somebody else does.

        Read what there is below ``base`` only after this, in the same session.
        """
        session = self._client.session
        while True:
            epoch, version = await self._epoch(base)
            ops: list[Op] = [
                Create(
                    claims.coordinator_path(base), claims.encode_claim(broker_id, self._clock.time_ms()), ephemeral=True
                ),
                SetData(claims.epoch_path(base), claims.encode_epoch(epoch + 1), version),
            ]
            try:
                results = await self._client.multi(ops, session=session)
            except MultiError as error:
                if isinstance(error.cause, NoNodeError):
                    continue  # the whole of it was removed meanwhile
                # somebody was faster, or an earlier attempt of ours succeeded and its answer was lost
                return await self._own_claim(base, broker_id, session)
            stat = results[1]
            assert isinstance(stat, ZnodeStat)
            return Claim(base, broker_id, epoch + 1, stat.version, session)

    async def release(self, claim: Claim) -> None:
        """Give the claim up; nothing happens where it is lost already."""
        ops: list[Op] = [claim.check(), Delete(claims.coordinator_path(claim.base))]
        try:
            await self._client.multi(ops, session=claim.session)
        except (MultiError, SessionExpiredError):
            return

    async def commit_groups(self, claim: Claim, groups: Sequence[Sequence[Op]]) -> list[list[OpResult] | ZkError]:
        """Write ``groups`` of operations in order, each atomic by itself, in bounded pipelined transactions.

        A refused group is an error in its place and spoils no other. Raises :class:`ClaimLostError`;
        ``ConnectionLostError`` or ``SessionExpiredError`` (then re-read: the outcome is unknown).
        """
        return await commit_groups(self._client, claim.fence(), groups, claim_lost(claim))

    async def _epoch(self, base: str) -> tuple[int, int]:
        """Epoch and znode version, both 0 where ``base`` was never claimed."""
        path = claims.epoch_path(base)
        while True:
            found = await read(self._client, path)
            if found is not None:
                return claims.decode_epoch(path, found[0]), found[1].version
            try:
                await self._client.create(path, claims.encode_epoch(claims.INITIAL_EPOCH))
            except NodeExistsError:
                continue
            except NoNodeError:
                await ensure(self._client, base)

    async def _own_claim(self, base: str, broker_id: int, session: int) -> Claim | None:
        path = claims.coordinator_path(base)
        found = await read(self._client, path)
        if found is None or found[1].ephemeral_owner != session or claims.decode_claim(path, found[0]) != broker_id:
            return None
        epoch, version = await self._epoch(base)
        return Claim(base, broker_id, epoch, version, session)


def claim_lost(claim: Claim) -> ClaimLostError:
    """The error for a write that came after the end of ``claim``."""
    return ClaimLostError(claim.base, f"epoch {claim.epoch} of broker {claim.broker_id} is over:")
