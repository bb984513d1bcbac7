"""Bounds on connections, and on the requests and answers that they may have in memory.

Answers to: ``org.apache.kafka.network.SocketServerConfigs``. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kafkalite.common.quota_rates import QuotaWindows

UNLIMITED: Final = 2_147_483_647
_WINDOWS: Final = QuotaWindows()


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """Bounds of the connections of one listener: how many, and how many new ones a second."""

    max_connections: int = UNLIMITED
    max_connection_rate: int = UNLIMITED


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """Bounds. Bytes, counts and seconds.

    ``max_inflight_bytes`` bounds the requests of all connections together. A single connection is read no further while
    it has ``max_inflight_requests`` without an answer, ``max_unsent_bytes`` of answers to be sent, or
    ``max_unsent_memory`` of them that are not file regions. Buffer sizes of -1 leave the choice to the system.
    A failed authentication is answered after ``failed_authentication_delay``. ``max_connection_rate`` bounds the new
    connections a second, measured over ``rate_windows``. ``listeners`` are the bounds of each listener by name;
    ``brokers_listeners`` those on which brokers and the controller connect.
    """

    max_request_bytes: int = 104_857_600
    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_connection_rate: int = UNLIMITED
    rate_windows: QuotaWindows = _WINDOWS
    listeners: Mapping[str, ListenerLimits] = field(default_factory=dict)
    brokers_listeners: frozenset[str] = frozenset()
    idle_timeout: float = 600.0
    max_inflight_bytes: int = 268_435_456
    max_inflight_requests: int = 1000
    max_unsent_bytes: int = 67_108_864
    max_unsent_memory: int = 1_048_576
    backlog: int = 512
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    failed_authentication_delay: float = 0.1
