"""The coordinator of a group or a transactional id, and a connection for its requests only.

Answers to: ``TransactionManager.FindCoordinatorHandler`` and ``AbstractCoordinator.lookupCoordinator``. Deterministic.
"""

from __future__ import annotations

from typing import Any

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import Future, deferred
from kafkalite.network.client import ConnectionLost
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.testing.simulation.clients.cluster import ClusterClient
from kafkalite.testing.simulation.clients.host import Link

GROUP, TRANSACTION = 0, 1
"""Types of coordinators in FindCoordinator."""
_VERSION = 4


class CoordinatorLookup:
    """The coordinator of one ``key``; looked up when it is needed, and again after :meth:`forget`.

    ``broker`` is the host of the broker that gave the last answer, for the caller that has just received it.
    """

    def __init__(self, cluster: ClusterClient, kind: int, key: str) -> None:
        self._cluster = cluster
        self._kind = kind
        self._key = key
        self._address: tuple[str, int] | None = None
        self._link: Link | None = None
        self._linked_to = ""
        self.broker = ""
        self._sent: Future[None] | None = None
        """Done once the last request was sent, or failed before."""
        self._closed = False

    async def ask(self, key: ApiKey, version: int, timeout: float | None = None, /, **fields: object) -> Any:
        """Send one request to it. Raises :class:`ConnectionLost`, and ``ApiError`` while it cannot be found."""
        # Send the requests that wait for the coordinator in order, like Java's client, because a later commit must not
        # overtake an earlier one.
        before, sent = self._sent, Future[None]()
        self._sent = sent
        if before is not None:
            await before
        try:
            link = await self._connected()
            asked = self._linked_to
            answering = deferred(self._cluster.ask(link, key, version, timeout, **fields))
        finally:
            sent.callback(None)
        try:
            answer = await answering
        except ConnectionLost:
            self.forget()
            raise
        self.broker = asked
        return answer

    async def _connected(self) -> Link:
        cluster = self._cluster
        if self._address is None:
            self._address = await self._find()
        if self._link is None or not self._link.connected:
            host, port = self._address
            link = cluster.host.connect(host, port, cluster.name)
            try:
                await link.connect(cluster.patience.connect)
            except ConnectionLost:
                self.forget()
                raise
            self._link, self._linked_to = link, host
            if self._closed:
                link.close()
        return self._link

    def forget(self) -> None:
        """Look the coordinator up again, because it may have moved."""
        self._address = None
        if self._link is not None:
            self._link.close()
            self._link = None

    def close(self) -> None:
        """Close the connection, for good."""
        self._closed = True
        self.forget()

    async def _find(self) -> tuple[str, int]:
        answer = await self._cluster.ask_any(
            ApiKey.FIND_COORDINATOR, _VERSION, key_type=self._kind, coordinator_keys=[self._key]
        )
        (found,) = answer.coordinators
        code = ErrorCode(found.error_code)
        if not code:
            return found.host, found.port
        if code is not ErrorCode.COORDINATOR_NOT_AVAILABLE:
            self._cluster.host.unexpected(self._cluster.name, f"FindCoordinator of {self._key}", code)
        raise ApiError(code)
