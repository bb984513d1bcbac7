"""``/brokers/topics``: assignments and partition states.

Answers to: ``kafka.zk.{TopicZNode,TopicPartitionStateZNode}`` and ``TopicIdReplicaAssignment``. Pure.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from kafkalite.cluster.model import LeaderAndIsr, PartitionAssignment
from kafkalite.common.types import ZERO_UUID, TopicPartition, uuid_from_text, uuid_to_text
from kafkalite.zk.zk_client import ZnodeStat
from kafkalite.zk.znodes.codec import MalformedZnodeError, from_json, integer, integers, json_object, to_json

TOPICS = "/brokers/topics"
UNASSIGNED = PartitionAssignment(())
_UNCLEAN_START_EPOCHS = "unclean_start_epochs"


def topic_path(topic: str) -> str:
    """The assignment znode."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """The container of a topic's partitions."""
    return f"{TOPICS}/{topic}/partitions"


def partition_path(tp: TopicPartition) -> str:
    """The container of a partition's state."""
    return f"{TOPICS}/{tp.topic}/partitions/{tp.partition}"


def state_path(tp: TopicPartition) -> str:
    """The state znode of a partition."""
    return f"{TOPICS}/{tp.topic}/partitions/{tp.partition}/state"


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """Which brokers hold which partition. ``topic_id`` is ``None`` where tools before 2.8 made the topic."""

    topic_id: uuid.UUID | None
    partitions: Mapping[int, PartitionAssignment]


def encode_topic(assignment: TopicAssignment) -> bytes:
    """Version 3 with a topic id, version 2 without."""
    partitions = sorted(assignment.partitions.items())
    value: dict[str, object] = {"partitions": {str(index): list(p.replicas) for index, p in partitions}}
    if assignment.topic_id is not None:
        value["topic_id"] = uuid_to_text(assignment.topic_id)
    value["adding_replicas"] = {str(index): list(p.adding) for index, p in partitions if p.adding}
    value["removing_replicas"] = {str(index): list(p.removing) for index, p in partitions if p.removing}
    value["version"] = 3 if assignment.topic_id is not None else 2
    return to_json(value)


def decode_topic(topic: str, data: bytes) -> TopicAssignment:
    """The reverse, for versions 1 to 3. Raises :class:`MalformedZnodeError`."""
    what = topic_path(topic)
    value = from_json(data, what)
    listed = json_object(value.get("partitions"), f"{what}: partitions")
    adding = json_object(value.get("adding_replicas") or {}, f"{what}: adding_replicas")
    removing = json_object(value.get("removing_replicas") or {}, f"{what}: removing_replicas")
    text = value.get("topic_id")
    try:
        topic_id = None if text is None else uuid_from_text(str(text))
    except ValueError as error:
        raise MalformedZnodeError(f"{what}: topic_id: {error}") from None
    partitions = {
        integer(index, f"{what} partition"): PartitionAssignment(
            integers(replicas, f"{what} partition {index}"),
            integers(adding.get(index, []), f"{what} adding_replicas"),
            integers(removing.get(index, []), f"{what} removing_replicas"),
        )
        for index, replicas in listed.items()
    }
    return TopicAssignment(topic_id, dict(sorted(partitions.items())))


def encode_state(state: LeaderAndIsr) -> bytes:
    """The state znode (version 1): leader, leader epoch, ISR, and the epoch of the controller that chose them.

    Kafka's readers ignore ``unclean_start_epochs``, and its writers drop it.
    """
    value: dict[str, object] = {
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
    }
    if state.unclean_start_epochs:
        value[_UNCLEAN_START_EPOCHS] = {str(broker_id): epoch for broker_id, epoch in state.unclean_start_epochs}
    return to_json(value)


def decode_state(
    tp: TopicPartition,
    data: bytes,
    stat: ZnodeStat,
    topic_id: uuid.UUID | None = None,
    assignment: PartitionAssignment = UNASSIGNED,
) -> LeaderAndIsr:
    """The state of ``tp`` as read. Raises :class:`MalformedZnodeError`."""
    what = state_path(tp)
    value = from_json(data, what)
    epochs = json_object(value.get(_UNCLEAN_START_EPOCHS, {}), f"{what}: {_UNCLEAN_START_EPOCHS}")
    return LeaderAndIsr(
        tp.topic,
        tp.partition,
        topic_id or ZERO_UUID,
        integer(value.get("leader"), f"{what} leader"),
        integer(value.get("leader_epoch"), f"{what} leader_epoch"),
        integers(value.get("isr"), f"{what} isr"),
        integer(value.get("controller_epoch"), f"{what} controller_epoch"),
        stat.version,
        stat.mzxid,
        assignment,
        tuple(
            (integer(broker_id, f"{what} {_UNCLEAN_START_EPOCHS}"), integer(epoch, f"{what} {_UNCLEAN_START_EPOCHS}"))
            for broker_id, epoch in epochs.items()
        ),
    )
