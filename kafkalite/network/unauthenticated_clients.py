"""Bounds what the connections of clients that have not authenticated take from the others.

Answers to: nothing in Kafka, where only ``max.connections`` and ``connections.max.idle.ms`` bound them. Deterministic.

A client that stalls in the middle of its handshake or of its login keeps memory. If all such clients together hold too
much, the one that has held memory for longest is disconnected, because a client that is well needs only as long as its
answers travel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

MEMORY: Final = 1 << 25
"""Most bytes for the handshakes and incomplete requests of all such clients."""
SMALL: Final = 1 << 11
"""Bytes up to which a client holds memory that does not count: the first message of a handshake, a cut request."""
PATIENCE: Final = 10.0
"""Seconds for which a client stays, even if there are too many."""


class UnauthenticatedClient(Protocol):
    """The connection of a client that has not authenticated."""

    def expel(self, why: str) -> None:
        """Close, in favour of another connection, and say ``why`` in the log."""


class UnauthenticatedClients:
    """Those of one broker, at most ``most``, because the logs need descriptors, too. ``now`` is in seconds."""

    def __init__(self, now: Callable[[], float], most: int) -> None:
        self._most = most
        self._now = now
        self._since: dict[UnauthenticatedClient, float] = {}
        self._held: dict[UnauthenticatedClient, int] = {}
        """In the order in which they began to hold more than :data:`SMALL`."""
        self._total = 0

    def add(self, client: UnauthenticatedClient) -> None:
        """A client has connected."""
        now = self._now()
        self._since[client] = now
        if len(self._since) > self._most:
            oldest, since = next(iter(self._since.items()))
            if now - since > PATIENCE:
                oldest.expel(f"{self._most} clients have not authenticated, and this one for longest")

    def holds(self, client: UnauthenticatedClient, size: int) -> None:
        """``client`` takes ``size`` bytes of memory now. Others may be expelled for it."""
        if client not in self._since:
            return
        if size <= SMALL and client not in self._held:
            return
        self._total += size - self._held.get(client, 0)
        self._held[client] = size
        while self._total > MEMORY:
            oldest = next((each for each in self._held if each is not client), None)
            if oldest is None:
                return
            oldest.expel("clients that have not authenticated hold too much memory, and this one for longest")

    def remove(self, client: UnauthenticatedClient) -> None:
        """The client has authenticated, or its connection is closed."""
        if self._since.pop(client, None) is not None:
            self._total -= self._held.pop(client, 0)
