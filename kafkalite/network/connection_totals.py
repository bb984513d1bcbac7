"""How many connections clients opened, how many logins succeeded, and what was read and written, by listener.

Answers to: ``connection-creation-total``, ``successful-authentication-total``, ``incoming-byte-total`` and their like
of ``org.apache.kafka.common.network.Selector.SelectorMetrics``. Pure. All counts begin with the broker.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True)
class ListenerTraffic:
    """What all connections of a listener carried; each connection adds to it. Bytes are those inside of TLS."""

    bytes_in: int = 0
    bytes_out: int = 0
    requests: int = 0
    """Requests that were handed to the broker: those of logins by SASL are none."""
    answers: int = 0
    """Answers to them."""


@dataclass(slots=True)
class ConnectionTotals:
    """Counts by listener. Each is added to once a connection, those of ``traffic`` once a request, read or write."""

    created: Counter[str] = field(default_factory=Counter)
    """Connections that were accepted; what is not open any more of them is closed."""
    authenticated: Counter[str] = field(default_factory=Counter)
    """First logins by SASL."""
    reauthenticated: Counter[str] = field(default_factory=Counter)
    """Later logins on a connection whose session is limited (KIP-368)."""
    expired: Counter[str] = field(default_factory=Counter)
    """Connections that were closed because their session was over, and they had not logged in again (KIP-368)."""
    traffic: defaultdict[str, ListenerTraffic] = field(default_factory=lambda: defaultdict(ListenerTraffic))
