"""How the broker's ZooKeeper session fares: its state, and how often the connection and the session were lost.

Answers to: ``kafka.zookeeper.ZooKeeperClient``'s ``SessionState`` and its meters by state. Pure.
"""

from __future__ import annotations

from kafkalite.zk.zk_client import SessionState


class SessionStats:
    """Counts the changes of a session that is connected when this is made."""

    def __init__(self) -> None:
        self.state = SessionState.CONNECTED
        self.changes = {state: int(state is SessionState.CONNECTED) for state in SessionState}

    def changed(self, state: SessionState) -> None:
        """A listener of the session."""
        self.state = state
        self.changes[state] += 1
