"""Which replica a consumer should read from.

Answers to: ``org.apache.kafka.common.replica.{ReplicaSelector,RackAwareReplicaSelector}`` (KIP-392). Pure.
"""

from __future__ import annotations

from typing import Protocol

from kafkalite.replication.partition import Partition
from kafkalite.replication.ports import BrokerDirectory


class ReplicaSelector(Protocol):
    """``replica.selector.class``."""

    def select(self, partition: Partition, rack: str, offset: int) -> int:
        """The follower to send a consumer of ``rack`` to that wants to read at ``offset``; -1 for the leader itself."""


class RackAwareReplicaSelector:
    """A replica in the consumer's own rack: the leader if it is there, else the most caught-up follower in sync there.

    Who is not in sync may lag ever more, and the consumer with it.
    """

    def __init__(self, metadata: BrokerDirectory, own_rack: str | None) -> None:
        self._metadata = metadata
        self._own_rack = own_rack

    def select(self, partition: Partition, rack: str, offset: int) -> int:
        if rack == self._own_rack:
            return -1
        best = -1
        best_end = -1
        in_sync = partition.isr.committed
        for replica, follower in partition.followers.items():
            if replica not in in_sync:
                continue
            if follower.log_end_offset < offset or follower.log_start_offset > offset:
                continue
            broker = self._metadata.broker(replica)
            if broker is not None and broker.rack == rack and follower.log_end_offset > best_end:
                best, best_end = replica, follower.log_end_offset
        return best
