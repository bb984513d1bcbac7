"""The in-sync replicas of a partition that this broker leads, and their one pending change.

Answers to: ``kafka.cluster.{PartitionState,CommittedPartitionState,PendingExpandIsr,PendingShrinkIsr}``. Pure.

::

    COMMITTED --expand--> PENDING_EXPAND --committed--> COMMITTED
    COMMITTED --shrink--> PENDING_SHRINK --committed--> COMMITTED

``committed`` is what ZooKeeper is known to hold. While a change is pending its outcome is unknown, and any member
of either set may be elected: the *maximal* set counts for the high watermark. So a replica being added counts at
once, and one being removed counts until ZooKeeper has acknowledged. For ``min.insync.replicas`` the smaller set counts
(:attr:`IsrState.certain_size`), because ZooKeeper may have either. A pending change ends only by an acknowledged write
or by reading again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class IsrStatus(Enum):
    COMMITTED = "committed"
    PENDING_EXPAND = "pending expand"
    PENDING_SHRINK = "pending shrink"


TRANSITIONS: dict[IsrStatus, frozenset[IsrStatus]] = {
    IsrStatus.COMMITTED: frozenset({IsrStatus.PENDING_EXPAND, IsrStatus.PENDING_SHRINK, IsrStatus.COMMITTED}),
    IsrStatus.PENDING_EXPAND: frozenset({IsrStatus.COMMITTED}),
    IsrStatus.PENDING_SHRINK: frozenset({IsrStatus.COMMITTED}),
}


class IllegalIsrTransitionError(Exception):
    """A second change was begun while one is pending."""


@dataclass(frozen=True, slots=True)
class IsrState:
    """``committed`` with the version of its znode, ``proposed`` what is being written, ``maximal`` the widest of
    both.
    """

    committed: tuple[int, ...]
    zk_version: int
    status: IsrStatus = IsrStatus.COMMITTED
    proposed: tuple[int, ...] = ()
    maximal: tuple[int, ...] = ()

    @property
    def is_pending(self) -> bool:
        return self.status is not IsrStatus.COMMITTED

    @property
    def certain_size(self) -> int:
        """The number of members that the ISR in ZooKeeper has at least.

        Kafka compares ``min.insync.replicas`` with the maximal ISR when it acknowledges, and so counts a member that
        may be no member any more, or not yet.
        """
        return min(len(self.committed), len(self.proposed))

    def _to(self, status: IsrStatus) -> None:
        if status not in TRANSITIONS[self.status]:
            raise IllegalIsrTransitionError(f"{self.status.value} -> {status.value}")

    def expand(self, replica: int) -> IsrState:
        """Begin to add ``replica``."""
        self._to(IsrStatus.PENDING_EXPAND)
        if replica in self.committed:
            raise IllegalIsrTransitionError(f"replica {replica} is in sync already")
        wider = (*self.committed, replica)
        return IsrState(self.committed, self.zk_version, IsrStatus.PENDING_EXPAND, wider, wider)

    def shrink(self, out: frozenset[int]) -> IsrState:
        """Begin to take the replicas ``out`` away."""
        self._to(IsrStatus.PENDING_SHRINK)
        rest = tuple(replica for replica in self.committed if replica not in out)
        if not rest or len(rest) == len(self.committed):
            raise IllegalIsrTransitionError(f"cannot take {sorted(out)} out of {self.committed}")
        return IsrState(self.committed, self.zk_version, IsrStatus.PENDING_SHRINK, rest, self.committed)


def committed(isr: tuple[int, ...], zk_version: int) -> IsrState:
    """The state where ZooKeeper is known to hold ``isr`` at ``zk_version``."""
    return IsrState(isr, zk_version, IsrStatus.COMMITTED, isr, isr)
