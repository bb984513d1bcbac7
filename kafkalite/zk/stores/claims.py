"""Claims: one broker coordinates a group, or a part of the transactions, and only its writes are taken.

Answers to: ``kafka.coordinator.group.GroupMetadataManager.ownedPartitions`` and the coordinator epochs that real Kafka
takes from the leaders of its internal topics. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkalite.common.clock import Clock
from kafkalite.zk.port import Check, Op, Watch, ZkClient, ZkError, ZnodeStat

OpResult = ZnodeStat | str | None


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
        return Check(f"{self.base}/coordinator_epoch", self.epoch_version)


class ClaimStore:
    """``<base>/coordinator``, ``<base>/coordinator_epoch``, and whatever is written under their protection."""

    def __init__(self, client: ZkClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def holder(self, base: str, watch: Watch | None = None) -> int | None:
        """Id of the broker that coordinates ``base`` or ``None``; ``watch`` sees the next change either way."""
        raise NotImplementedError

    async def claim(self, base: str, broker_id: int) -> Claim | None:
        """Try to coordinate ``base``, which is created where it is missing; ``None`` where somebody else does.

        Read what there is below ``base`` only after this, in the same session.
        """
        raise NotImplementedError

    async def release(self, claim: Claim) -> None:
        """Give the claim up; nothing happens where it is lost already."""
        raise NotImplementedError

    async def commit_groups(self, claim: Claim, groups: Sequence[Sequence[Op]]) -> list[list[OpResult] | ZkError]:
        """Write ``groups`` of operations in order, each atomic by itself, in bounded pipelined transactions.

        A refused group is an error in its place and spoils no other. Raises :class:`ClaimLostError`;
        ``ConnectionLostError`` or ``SessionExpiredError`` (then re-read: the outcome is unknown).
        """
        raise NotImplementedError
