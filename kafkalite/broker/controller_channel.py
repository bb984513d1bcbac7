"""The way of control requests to other brokers: one connection to each, requests in the order of the calls.

Answers to: ``kafka.controller.RequestSendThread`` and the network client that ``KafkaServer.controlledShutdown`` makes.
Deterministic (the connection is a port).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kafkalite.cluster.control import ControlledShutdownRequest, ControlRequest, ControlResponse
from kafkalite.cluster.model import Broker, Endpoint
from kafkalite.common.tasks import SharedOutcome, spawn
from kafkalite.network.client import ConnectionLost
from kafkalite.network.control_codec import ControlVersions, decode_control_response, encode_control_request
from kafkalite.replication.leader_endpoint import LeaderConnection


class ControlConnection(LeaderConnection, Protocol):
    """``kafkalite.network.client.BrokerConnection``."""

    @property
    def connected(self) -> bool: ...


class ControllerChannel:
    """Implements :class:`kafkalite.controller.channel_manager.BrokerChannel`.

    The controller's requests go to the other broker's ``control_listener``, a ControlledShutdownRequest to its
    ``inter_broker_listener``, as in Kafka. ``timeout`` in seconds.
    """

    def __init__(
        self,
        open_connection: Callable[[Broker, str], ControlConnection],
        versions: ControlVersions,
        control_listener: str,
        inter_broker_listener: str,
        timeout: float,
    ) -> None:
        self._open = open_connection
        self._versions = versions
        self._control_listener = control_listener
        self._inter_broker_listener = inter_broker_listener
        self._timeout = timeout
        self._links: dict[Endpoint, _Link] = {}

    async def send(self, broker: Broker, request: ControlRequest) -> ControlResponse:
        """Deliver ``request``; the broker handles those to one listener in the order of the calls.

        Raises :class:`ConnectionLost`, also when there is no answer in time, and :class:`ProtocolError` for an answer
        that cannot be read. Then the connection is closed and all requests without an answer fail, so that no later
        request overtakes one that the broker still handles.
        """
        to_controller = isinstance(request, ControlledShutdownRequest)
        listener = self._inter_broker_listener if to_controller else self._control_listener
        endpoint = broker.endpoint(listener)
        if endpoint is None:
            raise ConnectionLost(f"broker {broker.id} has no listener {listener}")
        key, version, body = encode_control_request(request, self._versions, self._inter_broker_listener)
        link = self._links.get(endpoint)
        if link is None or link.is_lost:
            link = self._links[endpoint] = _Link(self._open(broker, listener))
        try:
            await link.opened()
            answer = await link.connection.send(int(key), version, body, self._timeout)
            return decode_control_response(request, key, version, answer)
        except Exception:
            if self._links.get(endpoint) is link:
                del self._links[endpoint]
            link.connection.close()
            raise

    def close(self) -> None:
        """Close all connections; requests without an answer fail."""
        links, self._links = self._links, {}
        for link in links.values():
            link.connection.close()


class _Link:
    """A connection, opened by the first request; those that come meanwhile wait in their order."""

    def __init__(self, connection: ControlConnection) -> None:
        self.connection = connection
        self._waiting: SharedOutcome[None] | None = None
        self._is_open = False

    @property
    def is_lost(self) -> bool:
        """Whether the connection was open and is no more: the other broker closes connections that are idle."""
        return self._is_open and not self.connection.connected

    async def opened(self) -> None:
        """Wait until the connection is open. Raises what the connection raises that cannot be opened."""
        if self._is_open:
            return
        is_first = self._waiting is None
        if self._waiting is None:
            self._waiting = SharedOutcome()
        turn = self._waiting.wait()
        if is_first:
            spawn(self._open(self._waiting), "opening a connection for control requests")
        await turn

    async def _open(self, waiting: SharedOutcome[None]) -> None:
        try:
            await self.connection.connect()
        except Exception as error:
            waiting.fail(error)
        else:
            self._is_open = True
            waiting.succeed(None)
