"""Bounds on connections, and on the requests and answers that they may have in memory.

Answers to: ``org.apache.kafka.network.SocketServerConfigs``. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """Bounds. Bytes, counts and seconds.

    ``max_inflight_bytes`` bounds the requests of all connections together. A single connection is read no further while
    it has ``max_inflight_requests`` without an answer, ``max_unsent_bytes`` of answers to be sent, or
    ``max_unsent_memory`` of them that are not file regions. Buffer sizes of -1 leave the choice to the system.
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
