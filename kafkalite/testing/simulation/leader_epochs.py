"""A replica never goes back to an earlier leader epoch of its topic.

Answers to: nothing in Kafka. Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.replication.delayed_operations import Completed
from kafkalite.replication.partition import Partition


@contextmanager
def checked_leader_epochs(tell: Callable[[str], object]) -> Iterator[None]:
    """Inside the context every state that a replica applies is checked; ``tell`` gets each lowered leader epoch."""
    make_leader, make_follower = Partition.make_leader, Partition.make_follower

    def check(partition: Partition, state: LeaderAndIsr) -> None:
        known = partition.state
        if state.leader_epoch < partition.leader_epoch and state.topic_id == known.topic_id:
            tell(
                f"broker {partition.broker_id} went from leader epoch {partition.leader_epoch} of "
                f"{partition.topic_partition} to {state.leader_epoch}"
            )

    def checked_leader(self: Partition, state: LeaderAndIsr, now: float) -> Completed:
        check(self, state)
        return make_leader(self, state, now)

    def checked_follower(self: Partition, state: LeaderAndIsr) -> Completed | None:
        check(self, state)
        return make_follower(self, state)

    with patch.multiple(Partition, make_leader=checked_leader, make_follower=checked_follower):
        yield
