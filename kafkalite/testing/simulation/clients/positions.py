"""The positions of a reader: next offset, validation, leader and preferred replica of each partition.

Answers to: ``org.apache.kafka.clients.consumer.internals.SubscriptionState``. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from kafkalite.common.types import TopicPartition
from kafkalite.testing.simulation.clients.cluster import NO_LEADER, Leader


class Stage(Enum):
    """The next step of a reader's partition."""

    RESET = auto()
    """An offset to begin at."""
    VALIDATE = auto()
    """The new leader's confirmation that its log contains the records that were read (KIP-320)."""
    FETCH = auto()
    """Records."""


@dataclass(slots=True)
class Position:
    """One partition of a reader: the next offset, and the leader epoch of the batch before it (-1: not known)."""

    partition: TopicPartition
    offset: int = -1
    epoch: int = -1
    leader: Leader = NO_LEADER
    stage: Stage = Stage.RESET
    not_before: float = 0.0
    replica: int = -1
    """The preferred read replica that the leader named; -1: the leader itself."""
    replica_until: float = 0.0
    busy: bool = False
    """Whether a request about the position is outstanding."""
    end: int = -1
    """The last known end offset for readers with its isolation level."""

    def seek(self, offset: int, epoch: int = -1) -> None:
        """Continue at ``offset``."""
        self.offset, self.epoch, self.stage, self.replica = offset, epoch, Stage.FETCH, -1

    def led_by(self, leader: Leader) -> None:
        """The metadata has a leader; if it is a new one, or has a newer epoch, the position must be validated."""
        if leader == self.leader or leader.epoch < self.leader.epoch:
            return
        self.leader, self.replica = leader, -1
        if self.stage is Stage.FETCH and self.epoch >= 0:
            self.stage = Stage.VALIDATE
