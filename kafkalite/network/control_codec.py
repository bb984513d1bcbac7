"""Requests and responses of the control plane as msgpack.

Answers to: the generated messages of LeaderAndIsr, UpdateMetadata, StopReplica and ControlledShutdown. Pure.

Partition states are plain arrays, grouped by topic so that its name and id stand there once: a thousand states
take some 40 KB. A frame is ``[correlation id, kind, fields]``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

import msgpack  # type: ignore[import-untyped]

from kafkalite.cluster.control import (
    ControlledShutdownRequest,
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol.errors import ProtocolError

RESPONSE = 0
LEADER_AND_ISR = 1
UPDATE_METADATA = 2
STOP_REPLICA = 3
CONTROLLED_SHUTDOWN = 4

MAX_FRAME = 1 << 26
"""Longest frame that is accepted, in bytes."""


def encode(correlation_id: int, value: ControlRequest | ControlResponse) -> bytes:
    """A frame, preceded by its length in 4 bytes."""
    kind, fields = _fields(value)
    body: bytes = msgpack.packb((correlation_id, kind, fields))
    return len(body).to_bytes(4, "big") + body


def decode(frame: bytes | bytearray | memoryview) -> tuple[int, ControlRequest | ControlResponse]:
    """The correlation id and the message of a frame without its length. Raises :class:`ProtocolError`."""
    try:
        correlation_id, kind, fields = msgpack.unpackb(frame, use_list=False, strict_map_key=True)
        value = _READERS[kind](*fields)
        _check_head(value)
    except ProtocolError:
        raise
    except Exception as error:
        # msgpack raises several kinds of exceptions for damaged frames, and the readers do for damaged values.
        raise ProtocolError(f"a control message cannot be decoded: {error}") from None
    if not isinstance(correlation_id, int):
        raise ProtocolError("a control message has no correlation id")
    return correlation_id, value


def _check_head(value: ControlRequest | ControlResponse) -> None:
    """Epochs must be numbers, because the receiver compares them before anything else."""
    if isinstance(value, ControlResponse):
        return
    if isinstance(value, ControlledShutdownRequest):
        head: tuple[object, ...] = (value.broker_id, value.broker_epoch)
    else:
        head = (value.controller_id, value.controller_epoch, value.broker_epoch)
    if any(type(number) is not int for number in head):
        raise ProtocolError(f"a control message is headed by {head}")


def _fields(value: ControlRequest | ControlResponse) -> tuple[int, tuple[Any, ...]]:
    if isinstance(value, ControlResponse):
        return RESPONSE, (int(value.error), _group(value.partitions, lambda entry: (entry[0].topic,), _write_error))
    if isinstance(value, ControlledShutdownRequest):
        return CONTROLLED_SHUTDOWN, (value.broker_id, value.broker_epoch)
    head = (value.controller_id, value.controller_epoch, value.broker_epoch)
    if isinstance(value, StopReplicaRequest):
        stops = _group(value.partitions, lambda stop: (stop.topic_partition.topic, stop.topic_id.bytes), _write_stop)
        return STOP_REPLICA, (*head, stops)
    states = _group(value.states, lambda state: (state.topic, state.topic_id.bytes), _write_state)
    brokers = [_write_broker(broker) for broker in value.brokers]
    kind = LEADER_AND_ISR if isinstance(value, LeaderAndIsrRequest) else UPDATE_METADATA
    return kind, (*head, states, brokers)


def _group(
    values: Iterable[Any], key: Callable[[Any], tuple[Any, ...]], write: Callable[[Any], tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    return [(*head, [write(value) for value in group]) for head, group in groupby(values, key)]


def _write_error(entry: tuple[TopicPartition, ErrorCode]) -> tuple[Any, ...]:
    return entry[0].partition, int(entry[1])


def _write_stop(stop: StopReplicaPartitionState) -> tuple[Any, ...]:
    return stop.topic_partition.partition, stop.leader_epoch, stop.delete


def _write_state(state: LeaderAndIsr) -> tuple[Any, ...]:
    assignment = state.assignment
    return (
        state.partition,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.controller_epoch,
        state.zk_version,
        state.mzxid,
        assignment.replicas,
        assignment.adding,
        assignment.removing,
        state.unclean_start_epochs,
    )


def _write_broker(broker: Broker) -> tuple[Any, ...]:
    endpoints = [(e.listener, e.security_protocol, e.host, e.port) for e in broker.endpoints]
    return broker.id, endpoints, broker.rack, broker.epoch, broker.unclean_start_epoch


def _read_states(topics: tuple[Any, ...]) -> tuple[LeaderAndIsr, ...]:
    states = []
    for topic, raw_id, entries in topics:
        topic_id = uuid.UUID(bytes=raw_id)
        for entry in entries:
            partition, leader, epoch, isr, controller_epoch, version, mzxid, replicas, adding, removing, started = entry
            assignment = PartitionAssignment(replicas, adding, removing)
            states.append(
                LeaderAndIsr(
                    topic,
                    partition,
                    topic_id,
                    leader,
                    epoch,
                    isr,
                    controller_epoch,
                    version,
                    mzxid,
                    assignment,
                    started,
                )
            )
    return tuple(states)


def _read_brokers(brokers: tuple[Any, ...]) -> tuple[Broker, ...]:
    return tuple(
        Broker(number, tuple(Endpoint(*endpoint) for endpoint in endpoints), rack, epoch, unclean_start_epoch)
        for number, endpoints, rack, epoch, unclean_start_epoch in brokers
    )


def _read_response(error: int, topics: tuple[Any, ...]) -> ControlResponse:
    return ControlResponse(
        ErrorCode(error),
        tuple(
            (TopicPartition(topic, partition), ErrorCode(code))
            for topic, entries in topics
            for partition, code in entries
        ),
    )


def _read_leader_and_isr(
    controller: int, epoch: int, broker_epoch: int, states: tuple[Any, ...], brokers: tuple[Any, ...]
) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(controller, epoch, broker_epoch, _read_states(states), _read_brokers(brokers))


def _read_update_metadata(
    controller: int, epoch: int, broker_epoch: int, states: tuple[Any, ...], brokers: tuple[Any, ...]
) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(controller, epoch, broker_epoch, _read_states(states), _read_brokers(brokers))


def _read_stop_replica(controller: int, epoch: int, broker_epoch: int, topics: tuple[Any, ...]) -> StopReplicaRequest:
    stops = tuple(
        StopReplicaPartitionState(TopicPartition(topic, partition), leader_epoch, delete, uuid.UUID(bytes=raw_id))
        for topic, raw_id, entries in topics
        for partition, leader_epoch, delete in entries
    )
    return StopReplicaRequest(controller, epoch, broker_epoch, stops)


_READERS: dict[int, Callable[..., ControlRequest | ControlResponse]] = {
    RESPONSE: _read_response,
    LEADER_AND_ISR: _read_leader_and_isr,
    UPDATE_METADATA: _read_update_metadata,
    STOP_REPLICA: _read_stop_replica,
    CONTROLLED_SHUTDOWN: ControlledShutdownRequest,
}
