"""Bounds on connections and on what they may have under way. Pure.

Answers to: ``org.apache.kafka.network.SocketServerConfigs``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """Bounds. Bytes, counts and seconds.

    ``max_inflight_bytes`` bounds the requests of all connections that are in memory at once, ``max_inflight_requests``,
    ``max_unsent_bytes`` and, of those, ``max_unsent_memory`` that are not in files, what one connection may have under
    way before it is read no further. Buffer sizes of -1 leave the choice to the system.
    """

    max_request_bytes: int = 104_857_600
    max_connections: int = 2_147_483_647
    max_connections_per_ip: int = 2_147_483_647
    idle_timeout: float = 600.0
    max_inflight_bytes: int = 268_435_456
    max_inflight_requests: int = 1000
    max_unsent_bytes: int = 67_108_864
    max_unsent_memory: int = 1_048_576
    backlog: int = 512
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
