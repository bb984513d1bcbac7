"""Claims: one broker controls the cluster, coordinates a group or a part of the transactions; only its writes count.

Answers to: ``kafka.zk.KafkaZkClient`` (``registerControllerAndIncrementControllerEpoch``), and for coordinators
``kafka.coordinator.group.GroupMetadataManager.ownedPartitions`` and the
leader epochs of the internal topics. Reactor shell.

An ephemeral claim proves nothing by itself (made again, its version starts at 0), and a broker that was paused does not
know that it lost its claim. So each claim also raises a persistent epoch, in the same transaction; every write under
the claim checks the version of the epoch znode, and is sent in the session of the claim or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from kafkalite.common.clock import Clock
from kafkalite.zk.stores.fenced_write import FencedError, FencedWrite, OpResult, WriteFence, write_fenced
from kafkalite.zk.stores.paths import ensure, read, read_or_watch
from kafkalite.zk.zk_client import (
    BadVersionError,
    Check,
    ConnectionLostError,
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
from kafkalite.zk.znodes.claims import COORDINATOR_CLAIM, ClaimZnodes


class ClaimLostError(ZkError):
    """The claim is over, because another broker has claimed since (Kafka: ``ControllerMovedException``).

    The controller resigns; a coordinator forgets what it knows and answers NOT_COORDINATOR.
    """


@dataclass(frozen=True, slots=True)
class Claim:
    """Proof of a claim on ``base``. ``epoch_version`` is the version of the epoch znode that every write checks.

    ``zxid`` is that of the claim's transaction, -1 where its answer was lost; the claim is the same one then.
    """

    base: str
    broker_id: int
    epoch: int
    epoch_version: int
    session: int
    znodes: ClaimZnodes = COORDINATOR_CLAIM
    zxid: int = field(default=-1, compare=False)

    def check(self) -> Check:
        """The operation that makes a transaction fail once the claim is lost."""
        return Check(self.znodes.epoch_path(self.base), self.epoch_version)

    def fence(self) -> WriteFence:
        """The check, in the session of the claim."""
        return WriteFence(self.check(), self.session)

    def lost(self) -> ClaimLostError:
        """The error for a write that came after the end of this claim."""
        return ClaimLostError(self.znodes.epoch_path(self.base), f"{self.znodes.name} epoch {self.epoch} is over")


async def write_claimed(
    client: ZkClient, claim: Claim, groups: Sequence[Sequence[Op]]
) -> list[list[OpResult] | ZkError]:
    """Write ``groups`` of operations in order, each atomic by itself, in bounded pipelined transactions.

    A refused group is an error in its place; the others are written. Raises :class:`ClaimLostError`;
    ``ConnectionLostError`` or ``SessionExpiredError`` (then re-read: the outcome is unknown).
    """
    fence = claim.fence()
    results = await write_fenced(client, [FencedWrite(fence, group) for group in groups])
    for result in results:
        if isinstance(result, FencedError):
            raise claim.lost()
        if isinstance(result, ConnectionLostError | SessionExpiredError):
            raise result
    return results


async def write_each_claimed(client: ZkClient, claim: Claim, ops: Iterable[Op]) -> None:
    """Write ``ops``, each by itself; those on znodes that do not exist (any more) are skipped.

    Raises as :func:`write_claimed`, and any other ``ZkError``.
    """
    for result in await write_claimed(client, claim, [[op] for op in ops]):
        if isinstance(result, ZkError) and not isinstance(result, NoNodeError):
            raise result


class ClaimStore:
    """Claims of one kind: the controller's (on ``znodes.CLUSTER``), or the coordinators'."""

    def __init__(self, client: ZkClient, clock: Clock, znodes: ClaimZnodes = COORDINATOR_CLAIM) -> None:
        self._client = client
        self._clock = clock
        self._znodes = znodes

    async def holder(self, base: str, watch: Watch | None = None) -> int | None:
        """Id of the broker that has claimed ``base``, or ``None``; ``watch`` sees the next change either way."""
        path = self._znodes.claim_path(base)
        found = await read_or_watch(self._client, path, watch)
        return None if found is None else claims.decode_claim(path, found[0])

    async def claim(self, base: str, broker_id: int) -> Claim | None:
        """Try to claim ``base``, which is created if it is missing; ``None`` if another broker has claimed it.

        Read what the claim protects only after this, in the same session.
        """
        session = self._client.session
        while True:
            epoch, version = await self._epoch(base)
            content = self._znodes.encode_claim(broker_id, self._clock.time_ms())
            ops: list[Op] = [
                Create(self._znodes.claim_path(base), content, ephemeral=True),
                SetData(self._znodes.epoch_path(base), claims.encode_epoch(epoch + 1), version),
            ]
            try:
                results = await self._client.multi(ops, session=session)
            except MultiError as error:
                if isinstance(error.cause, NoNodeError):
                    continue  # The base or its epoch was removed after the epoch was read.
                # Another broker was faster, or an earlier attempt of ours succeeded and its answer was lost.
                return await self._own_claim(base, broker_id, session)
            stat = results[1]
            assert isinstance(stat, ZnodeStat)
            return Claim(base, broker_id, epoch + 1, stat.version, session, self._znodes, stat.mzxid)

    async def renew(self, claim: Claim) -> Claim:
        """Renew a claim after a lost connection, so that no write that was sent before can take effect any more.

        Later reads see every write that took effect. Raises :class:`ClaimLostError`, ``SessionExpiredError``, or
        ``ConnectionLostError``: then the claim may be renewed although this client does not know it, so claim again.
        """
        path = self._znodes.epoch_path(claim.base)
        data = claims.encode_epoch(claim.epoch)
        try:
            stat = await self._client.set(path, data, claim.epoch_version, session=claim.session)
        except BadVersionError:
            raise claim.lost() from None
        return replace(claim, epoch_version=stat.version)

    async def confirm(self, claim: Claim) -> None:
        """Raise :class:`ClaimLostError` unless the claim holds; ``ConnectionLostError``, ``SessionExpiredError``."""
        await write_claimed(self._client, claim, [[claim.check()]])

    async def release(self, claim: Claim) -> None:
        """Release the claim; has no effect if it is lost already."""
        ops: list[Op] = [claim.check(), Delete(self._znodes.claim_path(claim.base))]
        try:
            await self._client.multi(ops, session=claim.session)
        except (MultiError, SessionExpiredError):
            return

    async def _epoch(self, base: str) -> tuple[int, int]:
        """Epoch and znode version, both 0 if ``base`` was never claimed."""
        path = self._znodes.epoch_path(base)
        while True:
            found = await read(self._client, path)
            if found is not None:
                # Kafka's ZkSecurityMigrator makes an empty /controller_epoch where no broker has run yet.
                epoch = claims.decode_epoch(path, found[0]) if found[0] else claims.INITIAL_EPOCH
                return epoch, found[1].version
            try:
                await self._client.create(path, claims.encode_epoch(claims.INITIAL_EPOCH))
            except NodeExistsError:
                continue
            except NoNodeError:
                await ensure(self._client, base)

    async def _own_claim(self, base: str, broker_id: int, session: int) -> Claim | None:
        path = self._znodes.claim_path(base)
        found = await read(self._client, path)
        if found is None or found[1].ephemeral_owner != session or claims.decode_claim(path, found[0]) != broker_id:
            return None
        epoch, version = await self._epoch(base)
        return Claim(base, broker_id, epoch, version, session, self._znodes)
