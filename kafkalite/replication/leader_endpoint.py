"""A leader over a connection.

Answers to: ``kafka.server.RemoteLeaderEndPoint``. Deterministic (the connection is a port).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.fetch import FetchRequest, FetchResponse, decode_fetch_response, encode_fetch_request

if TYPE_CHECKING:
    from kafkalite.replication.ports import LeaderConnection


class RemoteLeaderEndPoint:
    """Speaks Fetch over a connection, which is opened at the first request."""

    def __init__(self, open_connection: Callable[[], LeaderConnection], timeout: float) -> None:
        self._open = open_connection
        self._timeout = timeout
        self._connection: LeaderConnection | None = None

    async def fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        """Raises whatever the connection raises when it fails."""
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
