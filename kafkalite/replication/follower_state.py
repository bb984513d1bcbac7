"""What a leader knows of one of its followers.

Answers to: ``kafka.cluster.Replica``. Deterministic.
"""

from __future__ import annotations

UNKNOWN = -1


class FollowerState:
    """A remote replica. Times are the clock's monotonic seconds; offsets are -1 until the follower has fetched.

    ``broker_epoch`` is the one that its last fetch carried (KIP-903), -1 where it carried none.
    """

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "last_caught_up",
        "last_fetch",
        "last_fetch_leader_end",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.reset(float("-inf"))

    def reset(self, caught_up_at: float) -> None:
        """A new leader epoch begins: nothing is known of the follower's log."""
        self.broker_epoch = -1
        self.log_start_offset = UNKNOWN
        self.log_end_offset = UNKNOWN
        self.last_caught_up = caught_up_at
        self.last_fetch = float("-inf")
        self.last_fetch_leader_end = 0

    def fetched(self, offset: int, log_start_offset: int, leader_end: int, now: float) -> None:
        """The follower asked for ``offset``: all below it is in its log.

        It was caught up at this moment where it asks for the leader's end, and at its previous fetch where it asks for
        the end as of then, so that a follower one fetch behind a busy leader is not taken for a slow one.
        """
        if offset >= leader_end:
            self.last_caught_up = now
        elif offset >= self.last_fetch_leader_end and self.last_fetch > self.last_caught_up:
            self.last_caught_up = self.last_fetch
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_end = leader_end
        self.last_fetch = now
