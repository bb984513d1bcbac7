"""What a broker's answer means for the controller.

Answers to: ``KafkaController.{processLeaderAndIsrResponseReceived,processTopicDeletionStopReplicaResponseReceived}``
(the reading of the response). Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafkalite.cluster.control import EPOCH_DURING_DELETE, ControlResponse, LeaderAndIsrRequest, StopReplicaRequest
from kafkalite.cluster.model import Broker
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.controller.events import LeaderAndIsrAnswered, StopReplicaAnswered

_GONE = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_FENCED = (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH)


def leader_and_isr_answer(
    broker: Broker,
    request: LeaderAndIsrRequest,
    response: ControlResponse,
    offline_dirs: Mapping[int, Collection[TopicPartition]],
) -> LeaderAndIsrAnswered | None:
    """Which replicas of ``request`` turn out to be offline, or online again; ``None`` where there is no news."""
    if response.error is not ErrorCode.NONE:
        return None
    errors = dict(response.partitions)
    known = offline_dirs.get(broker.id, ())
    offline = tuple(tp for tp, error in errors.items() if error is ErrorCode.KAFKA_STORAGE_ERROR and tp not in known)
    online: tuple[TopicPartition, ...] = ()
    if known:
        asked = (state.topic_partition for state in request.states)
        online = tuple(tp for tp in asked if tp in known and errors.get(tp, ErrorCode.NONE) is ErrorCode.NONE)
    if not offline and not online:
        return None
    return LeaderAndIsrAnswered(broker.id, broker.epoch, offline, online)


def stop_replica_answer(
    broker: Broker, request: StopReplicaRequest, response: ControlResponse
) -> StopReplicaAnswered | None:
    """Which logs of topics that are being deleted are gone; ``None`` where the request was about something else.

    A fenced request says nothing: the broker came back, or we are not the controller any more, and either is an event
    of its own.
    """
    dying = [p.topic_partition for p in request.partitions if p.delete and p.leader_epoch == EPOCH_DURING_DELETE]
    if not dying or response.error in _FENCED:
        return None
    errors = dict(response.partitions)
    deleted = tuple(tp for tp in dying if errors.get(tp, response.error) in _GONE)
    failed = tuple(tp for tp in dying if errors.get(tp, response.error) not in _GONE)
    return StopReplicaAnswered(broker.id, broker.epoch, deleted, failed)
