"""A leader as its followers reach it, over a connection.

Answers to: ``kafka.server.{LeaderEndPoint,RemoteLeaderEndPoint}``. Deterministic (the connection is a port).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from kafkalite.cluster.model import Broker
from kafkalite.common.types import Part
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.fetch import FetchRequest, FetchResponse, decode_fetch_response, encode_fetch_request


class LeaderEndPoint(Protocol):
    """A leader as its followers reach it: :class:`RemoteLeaderEndPoint`, or a simulated network in tests."""

    def fetch(self, request: FetchRequest, version: int) -> Awaitable[FetchResponse]:
        """The leader's response. Raises any exception if there is none."""

    def close(self) -> None:
        """Drop the connection; what is outstanding fails."""


LeaderConnector = Callable[[Broker, int], LeaderEndPoint]
"""Makes the end point to reach ``broker`` with, for the fetcher of the given number."""


class LeaderConnection(Protocol):
    """``kafkalite.network.client.BrokerConnection``, as far as brokers ask one another over it."""

    def connect(self) -> Awaitable[None]: ...
    def send(self, api_key: int, version: int, body: list[Part] | bytes, timeout: float) -> Awaitable[memoryview]: ...
    def close(self) -> None: ...


class RemoteLeaderEndPoint:
    """Speaks Fetch over a connection, which is opened at the first request."""

    def __init__(self, open_connection: Callable[[], LeaderConnection], timeout: float) -> None:
        self._open = open_connection
        self._timeout = timeout
        self._connection: LeaderConnection | None = None

    async def fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        """The leader's response. Raises any exception of the connection."""
        connection = self._connection
        if connection is None:
            connection = self._open()
            self._connection = connection
            await connection.connect()
        body = encode_fetch_request(version, request)
        answer = await connection.send(int(ApiKey.FETCH), version, body, self._timeout)
        return decode_fetch_response(version, answer)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
