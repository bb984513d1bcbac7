"""What this broker does with the controller's requests.

Answers to: ``kafka.server.KafkaApis`` (``handleLeaderAndIsrRequest`` and its like). Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from kafkalite.cluster.control import (
    ControlledShutdownRequest,
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import Broker
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future, Lane
from kafkalite.controller.controller import Controller
from kafkalite.network.rate_limited_log import RateLimitedLog
from kafkalite.network.request import ConnectionInfo
from kafkalite.replication.broker_epoch import BrokerEpoch
from kafkalite.replication.replica_manager import ReplicaManager

log = logging.getLogger(__name__)
_OLD_LISTENER = "CONTROLPLANE"
"""Earlier brokers of kafkalite registered this listener, for control requests in a format of their own."""
_Asked = tuple[ControlRequest, ConnectionInfo, Future[ControlResponse]]


class ControlPlane:
    """Fences and carries out control requests.

    A request of an older controller, or one meant for an earlier incarnation of this broker, is refused with
    STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH and changes nothing. Kafka lets requests without a broker epoch pass,
    and those with a greater one than the broker knows; here the epochs must be equal, because a replica that acts on a
    request meant for another life of its log loses records, and the controller repeats what was refused.
    ``on_request`` is called before any other request is carried out.
    """

    def __init__(
        self,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        controller: Controller,
        on_metadata: Callable[[Sequence[str]], None],
        broker_epoch: BrokerEpoch,
        now: Callable[[], float],
        on_request: Callable[[], object],
        inter_broker_listener: str,
        control_listener: str | None = None,
    ) -> None:
        self._control_listener = control_listener
        self._reported: set[int] = set()
        """Epochs of the brokers of earlier releases that the log names already."""
        self.inter_broker_listener = inter_broker_listener
        self._broker_epoch = broker_epoch
        self._on_request = on_request
        self._metadata = metadata
        self._replicas = replicas
        self._controller = controller
        self._on_metadata = on_metadata
        self._complaints = RateLimitedLog(log, now)
        self._lanes: dict[int, Lane[_Asked]] = {}

    def carry_out(self, request: ControlRequest, connection: ConnectionInfo) -> Future[ControlResponse]:
        """:meth:`handle`, after the requests that came before on ``connection``; dropped if that is closed first."""
        lane = self._lanes.get(connection.id)
        if lane is None:
            lane = self._lanes[connection.id] = Lane("control plane", self._serve)
            connection.on_close(partial(self._closed, connection.id))
        answer: Future[ControlResponse] = Future()
        lane.put((request, connection, answer))
        return answer

    async def _serve(self, asked: _Asked) -> None:
        request, connection, answer = asked
        try:
            response = await self.handle(request)
        except Exception as error:
            answer.errback(error)
        else:
            if response.error is ErrorCode.NONE and not isinstance(request, ControlledShutdownRequest):
                connection.is_of_controller = True
            answer.callback(response)

    def _closed(self, connection_id: int) -> None:
        self._lanes.pop(connection_id).close()

    async def handle(self, request: ControlRequest) -> ControlResponse:
        """Carry ``request`` out; the answer says what went wrong."""
        if isinstance(request, ControlledShutdownRequest):
            return await self._controller.controlled_shutdown(request)
        stale = self._broker_epoch.check(request.controller_epoch, request.broker_epoch)
        if stale:
            self._complain(request, stale)
            return ControlResponse(stale)
        self._on_request()
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
        live = {broker.id: self._with_epochs(broker) for broker in request.brokers}
        self._metadata.update_brokers(live, request.brokers_version)
        news = {state.topic for state in self._metadata.apply(request.states)}
        if news:
            self._on_metadata(sorted(news))
        return ControlResponse(ErrorCode.NONE)

    def _with_epochs(self, broker: Broker) -> Broker:
        """A request of Kafka's controller names no broker epochs: those that ZooKeeper named stay."""
        known = self._metadata.broker(broker.id)
        if broker.epoch >= 0 or known is None:
            return broker
        return replace(broker, epoch=known.epoch, unclean_start_epoch=known.unclean_start_epoch)

    def brokers_changed(self) -> None:
        """Log an error for each live broker of an earlier release, because its control requests have another format."""
        for broker in self._metadata.brokers.values():
            if (
                broker.endpoint(_OLD_LISTENER) is not None
                and self._control_listener != _OLD_LISTENER
                and broker.epoch not in self._reported
            ):
                self._reported.add(broker.epoch)
                log.error(
                    "broker %d runs an earlier kafkalite, which takes control requests in another format (it "
                    "registered a listener %s): stop all brokers, then start them with one release (docs/deploy.md)",
                    broker.id, _OLD_LISTENER,
                )  # fmt: skip
