"""How many connections clients opened, and how many logins succeeded, by listener, since the broker's start.

Answers to: ``connection-creation-total``, ``successful-authentication-total`` and their like of
``org.apache.kafka.common.network.Selector.SelectorMetrics``. Pure.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class ConnectionTotals:
    """Counts by listener. Each is added to once a connection, never once a request."""

    created: Counter[str] = field(default_factory=Counter)
    """Connections that were accepted; what is not open any more of them is closed."""
    authenticated: Counter[str] = field(default_factory=Counter)
    """First logins by SASL."""
    reauthenticated: Counter[str] = field(default_factory=Counter)
    """Later logins on a connection whose session is limited (KIP-368)."""
