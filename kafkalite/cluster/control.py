"""The messages between the controller and the brokers, as plain frozen values.

Answers to: Kafka's ``LeaderAndIsr``, ``UpdateMetadata``, ``StopReplica`` and ``ControlledShutdown`` messages. Pure.
``network/control_codec.py`` writes and reads them as Kafka's requests.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from kafkalite.cluster.model import Broker, LeaderAndIsr
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import ZERO_UUID, TopicPartition

EPOCH_DURING_DELETE = -2
"""Leader epoch in a :class:`StopReplicaPartitionState`: stop at any epoch, because the topic is being deleted."""


@dataclass(frozen=True, slots=True)
class LeaderAndIsrRequest:
    """Lead or follow these partitions. Fenced by ``controller_epoch`` and by the receiver's ``broker_epoch``."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    states: tuple[LeaderAndIsr, ...]
    brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True)
class UpdateMetadataRequest:
    """Metadata for the answers to clients.

    The state of partition 0 with leader ``LEADER_DURING_DELETE`` says that the topic with its id is being deleted.
    ``brokers_version`` is that of ``MetadataCache.update_brokers``; a controller of Kafka sends none.
    """

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    states: tuple[LeaderAndIsr, ...]
    brokers: tuple[Broker, ...]
    brokers_version: int = -1


@dataclass(frozen=True, slots=True)
class StopReplicaPartitionState:
    """One partition to stop, and whether its log is to be deleted."""

    topic_partition: TopicPartition
    leader_epoch: int
    delete: bool
    topic_id: uuid.UUID = ZERO_UUID


@dataclass(frozen=True, slots=True)
class StopReplicaRequest:
    """Stop fetching and serving these partitions, and delete the logs of those that are marked so."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: tuple[StopReplicaPartitionState, ...]


@dataclass(frozen=True, slots=True)
class ControlledShutdownRequest:
    """A broker asks the controller to move its leaderships away before it stops."""

    broker_id: int
    broker_epoch: int


ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest | ControlledShutdownRequest


@dataclass(frozen=True, slots=True)
class ControlResponse:
    """The answer to each of these requests: an error for the whole, and one for each partition that has one.

    For :class:`ControlledShutdownRequest`, ``partitions`` are those that the broker still leads.
    """

    error: ErrorCode
    partitions: tuple[tuple[TopicPartition, ErrorCode], ...] = ()
