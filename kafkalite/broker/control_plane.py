"""What this broker does with the controller's requests, and how it sends its own.

Answers to: ``kafka.server.KafkaApis`` (``handleLeaderAndIsrRequest`` and its like) and
``kafka.server.BrokerToControllerChannelManager``. Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable

from kafkalite.cluster.control import (
    ControlledShutdownRequest,
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import CONTROL_PLANE_LISTENER, Broker
from kafkalite.common.errors import ErrorCode
from kafkalite.controller.controller import Controller
from kafkalite.network.client import ConnectionLost
from kafkalite.network.control import ControlClient
from kafkalite.network.rate_limited_log import RateLimitedLog
from kafkalite.replication.broker_epoch import BrokerEpoch
from kafkalite.replication.replica_manager import ReplicaManager

log = logging.getLogger(__name__)


class ControlPlane:
    """Fences and carries out control requests.

    A request of an older controller, or one meant for an earlier incarnation of this broker, is refused with
    STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH and changes nothing. ``on_request`` is called before any other is
    carried out.
    """

    def __init__(
        self,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        controller: Controller,
        on_metadata: Callable[[Iterable[str]], None],
        broker_epoch: BrokerEpoch,
        now: Callable[[], float],
    ) -> None:
        self._broker_epoch = broker_epoch
        self.on_request: Callable[[], None] = lambda: None
        self._metadata = metadata
        self._replicas = replicas
        self._controller = controller
        self._on_metadata = on_metadata
        self._complaints = RateLimitedLog(log, now)

    async def handle(self, request: ControlRequest) -> ControlResponse:
        """Carry ``request`` out; the answer says what went wrong."""
        if isinstance(request, ControlledShutdownRequest):
            return await self._controller.controlled_shutdown(request)
        stale = self._broker_epoch.check(request.controller_epoch, request.broker_epoch)
        if stale:
            self._complain(request, stale)
            return ControlResponse(stale)
        self.on_request()
        if isinstance(request, LeaderAndIsrRequest):
            return await self._replicas.become_leader_or_follower(request)
        if isinstance(request, StopReplicaRequest):
            return await self._replicas.stop_replicas(request)
        return self._update_metadata(request)

    def _complain(
        self, request: LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest, stale: ErrorCode
    ) -> None:
        what, known = type(request).__name__, self._broker_epoch
        if stale is ErrorCode.STALE_CONTROLLER_EPOCH:
            self._complaints.warning(
                "%s of controller %d refused: its epoch %d is older than %d",
                what, request.controller_id, request.controller_epoch, known.controller_epoch,
            )  # fmt: skip
        else:
            self._complaints.warning(
                "%s of controller %d refused: it was meant for broker epoch %d, ours is %d",
                what, request.controller_id, request.broker_epoch, known.epoch,
            )  # fmt: skip

    def _update_metadata(self, request: UpdateMetadataRequest) -> ControlResponse:
        self._metadata.update_brokers({broker.id: broker for broker in request.brokers})
        news = {state.topic for state in self._metadata.apply(request.states)}
        if news:
            self._on_metadata(sorted(news))
        return ControlResponse(ErrorCode.NONE)


class ControllerChannel:
    """A controller's way to the brokers: the port :class:`kafkalite.controller.channel_manager.BrokerChannel`."""

    def __init__(self, client: ControlClient, timeout: float) -> None:
        self._client = client
        self._timeout = timeout

    def send(self, broker: Broker, request: ControlRequest) -> Awaitable[ControlResponse]:
        """Deliver ``request`` to the broker's control-plane listener. Raises :class:`ConnectionLost`."""
        endpoint = broker.endpoint(CONTROL_PLANE_LISTENER)
        if endpoint is None:
            raise ConnectionLost(f"broker {broker.id} has no listener {CONTROL_PLANE_LISTENER}")
        return self._client.send(endpoint, request, self._timeout)
