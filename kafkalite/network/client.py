"""A connection to another broker, for followers and tools.

Answers to: ``kafka.server.BrokerBlockingSender`` and ``org.apache.kafka.clients.NetworkClient``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from kafkalite.common.types import Part


class ConnectionLost(Exception):
    """The connection is not there or went away; whether the request was carried out is unknown."""


class BrokerConnection:
    """One connection; requests are pipelined. Once lost it stays lost: make another."""

    def __init__(
        self, reactor: Any, host: str, port: int, client_id: str | None, max_response_bytes: int = 1 << 30
    ) -> None:
        self.host = host
        self.port = port

    async def connect(self, timeout: float = 10.0) -> None:
        """Open it. Raises :class:`ConnectionLost`."""
        raise NotImplementedError

    @property
    def connected(self) -> bool:
        """Whether requests can be sent."""
        raise NotImplementedError

    def send(
        self, api_key: int, version: int, body: list[Part] | bytes, timeout: float = 30.0
    ) -> Awaitable[memoryview]:
        """Send a request; the response's body, writable, its own memory.

        Raises :class:`ConnectionLost`, also after ``timeout`` seconds without an answer, which closes the connection.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close; what is under way fails with :class:`ConnectionLost`."""
        raise NotImplementedError
